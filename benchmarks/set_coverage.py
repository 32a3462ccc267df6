"""Coverage of confidence sets by simulation, and the width of intervals.

    python benchmarks/set_coverage.py [--runs 500] [--steps 20000] [--delta 0.1] [--json]

- models: kappa-dp (horizon 2) explores a random model with 2 or with 60 successors a row, and its
  counts are looked at 40 times, at growing intervals. A run is missed if any row lies outside of
  its set at any look: of the intervals of its entries, or of its ball. The paper's radius and
  Clopper and Pearson's intervals, which promise less, show what the same test finds in sets that do
  not hold.
- one entry: p = 0.3, looked at after each of 2,000 visits, without any division of the risk.
- width: time-uniform intervals over Clopper and Pearson's at 1,000 visits, the largest ratio.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

import mdpdsl
from mdpdsl.estimate.confidence import l1_radius
from mdpdsl.estimate.confidence_sets import SUPPORTS, confidence_sets
from mdpdsl.estimate.intervals import SETS, clopper_pearson, interval, time_uniform
from mdpdsl.explore.executor import trial_seeds
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.trial import continue_trial, new_trial
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.transition_graph import TransitionGraph

N_LOOKS = 40
#: The sets that hold at every look.
ALWAYS = ("time-uniform", "weissman")
SINGLE_LOOKS, SINGLE_P = 2_000, 0.3
RISKS = (1e-3, 1e-4, 1e-6, 1e-9)


def random_model(n_states: int, n_successors: int, seed: int) -> TransitionGraph:
    """Return a model with two actions and rows of uneven probabilities."""
    rng = np.random.default_rng(seed)
    P = np.zeros((2, n_states, n_states))
    for row in P.reshape(-1, n_states):
        chosen = rng.choice(n_states, n_successors, replace=False)
        row[chosen] = rng.dirichlet(np.ones(n_successors))
    return mdpdsl.from_arrays(P).graph


def looks_at(graph: TransitionGraph, steps: int, run: int) -> list[Counts]:
    """Return the counts of one run at all looks."""
    settings = ExploreSettings(algorithm="kappa-dp", steps=steps, kappa=2, horizon=2)
    trial = new_trial(graph, settings, trial_seeds(2024, run))
    found = []
    for stop in np.unique(np.geomspace(5, steps, N_LOOKS).astype(np.int64)).tolist():
        continue_trial(trial, graph, lambda state, stop=stop: state.steps < stop, None)  # type: ignore[misc]
        found.append(trial.counts)
    return found


def paper_misses(counts: Counts, graph: TransitionGraph, delta: float) -> bool:
    """Return whether a row is outside of the ball with the paper's radius."""
    radius = l1_radius(counts.visits, graph.n_states, counts.n_transitions, delta)
    P, P_hat = graph.transition_matrix().toarray(), np.zeros((graph.n_pairs, graph.n_states))
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(counts.successor_start))
    P_hat[pair, counts.successor] = counts.count / counts.visits[pair]
    return bool((np.abs(P_hat - P).sum(axis=1) > radius)[counts.visits > 0].any())


def measure_model(graph: TransitionGraph, runs: int, steps: int, delta: float) -> dict[str, Any]:
    """Count the runs in which some row was outside at some look, for every kind and support."""
    cases = [(kind, support) for kind in ALWAYS for support in SUPPORTS]
    if graph.n_branches < 1_000:  # slow: quantiles of beta distributions
        cases.append(("clopper-pearson", "model"))
    missed = {f"{kind}, {support}": [0, 0] for kind, support in cases}
    missed_paper, began = 0, time.perf_counter()
    for run in range(runs):
        counts = looks_at(graph, steps, run)
        missed_paper += any(paper_misses(each, graph, delta) for each in counts)
        for kind, support in cases:
            sets = [confidence_sets(each, graph, delta, kind, support).rows for each in counts]
            found = missed[f"{kind}, {support}"]
            found[0] += any(each.outside_intervals(graph).any() for each in sets)
            found[1] += any(each.outside_balls(graph).any() for each in sets)
    return {
        "covered": {
            name: {"entries": 1 - entries / runs, "rows": 1 - rows / runs}
            for name, (entries, rows) in missed.items()
        },
        "paper_rows": 1 - missed_paper / runs,
        "seconds": time.perf_counter() - began,
    }


def measure_entry(runs: int, delta: float) -> dict[str, float]:
    """Return the share of runs in which one interval holds at every look."""
    hits = np.random.default_rng(0).random((runs, SINGLE_LOOKS)) < SINGLE_P
    n = np.arange(1, SINGLE_LOOKS + 1)
    found = {}
    for kind in SETS:
        lower, upper = interval(kind, hits.cumsum(axis=1), n, -np.log(delta))
        found[kind] = float(((lower <= SINGLE_P) & (upper >= SINGLE_P)).all(axis=1).mean())
    return found


def measure_width() -> dict[str, float]:
    """Return the largest ratio of widths at 1,000 visits, for each risk of an interval."""
    n = np.full(1_001, 1_000)
    k = np.arange(1_001)
    found = {}
    for risk in RISKS:
        (a, b), (c, d) = time_uniform(k, n, risk), clopper_pearson(k, n, risk)
        found[f"{risk:g}"] = float(((b - a) / (d - c)).max())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--delta", type=float, default=0.1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    models = {"2": random_model(8, 2, 1), "60": random_model(60, 60, 2)}
    found: dict[str, Any] = {
        "delta": options.delta,
        "runs": options.runs,
        "looks": N_LOOKS,
        "successors": {
            name: measure_model(graph, options.runs, options.steps, options.delta)
            for name, graph in models.items()
        },
        "one_entry": measure_entry(options.runs, options.delta),
        "width": measure_width(),
    }
    if options.json:
        print(json.dumps(found))
        return
    for name, model in found["successors"].items():
        print(f"{name} successors a row, {options.runs} runs, {model['seconds']:.0f} s")
        for kind, covered in model["covered"].items():
            print(f"  {kind:24} entries {covered['entries']:.3f}  rows {covered['rows']:.3f}")
        print(f"  {'paper':24} {'':13}  rows {model['paper_rows']:.3f}")
    print("one entry, looked at 2,000 times")
    for kind, share in found["one_entry"].items():
        print(f"  {kind:24} {share:.3f}")
    print("largest width at 1,000 visits, time-uniform over clopper-pearson")
    for risk, ratio in found["width"].items():
        print(f"  risk {risk:19} {ratio:.2f}")


if __name__ == "__main__":
    main()
