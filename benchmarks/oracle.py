"""The planning oracle: compact against full form, re-solving, and the convergence of kappa-lp.

    python benchmarks/oracle.py [--model pendulum] [--steps 50000] [--run 3000000] [--json]

- formulations: from the estimate to the decoded policy through Pyomo, both in the same run;
- resolve: HiGHS directly on a sequence of estimates 500 steps apart, cold and from the last basis;
- evi: the same estimates, at eta = 0;
- rate: the slope of log(U* - U) against log t over the episodes of kappa-lp, kappa = 2, with the
  bonus of the paper and with Bernstein's. Clarabel computes U* as a second-order cone program over
  the true occupancies.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import mdpdsl
from mdpdsl.estimate.balls import confidence_balls
from mdpdsl.estimate.confidence import l1_radius
from mdpdsl.explore.executor import trial_seeds
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.trial import Trial, continue_trial, new_trial
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.interior import AUTO_FRACTION
from mdpdsl.programs.optimistic import compact_program, compact_size
from mdpdsl.programs.optimistic_full import full_size
from mdpdsl.programs.oracle import LinearOracle, load_oracle
from mdpdsl.programs.program import Basis, load_backend
from mdpdsl.programs.uncertain import UncertainModel

N_RESOLVES = 40
APART = 500
#: Steps of the short run, and where the fits of its slope start: while pairs are still being found,
#: and after that. The fits of long runs start ten times as late, when all pairs have been found.
SHORT_RUN = 100_000
SHORT_FROM, LONG_FROM = 1_000, 10_000


def estimate_of(
    trial: Trial, graph: TransitionGraph, kappa: float
) -> tuple[UncertainModel, FloatArray]:
    """Return the question to an oracle at this point: the balls and the weights."""
    visits = trial.explorer.memory.visits
    radius = l1_radius(visits, graph.n_states, trial.done + 1, 0.1)
    log_weights = -kappa * np.log(np.maximum(visits, 0.1))
    return (
        confidence_balls(trial.counts, graph, radius),
        np.exp(log_weights - log_weights.max()),
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def measure_formulations(graph: TransitionGraph, steps: int) -> dict[str, Any]:
    """Time the oracle through Pyomo in both forms, on one estimate."""
    model, weights = mid_run(graph, steps)
    pyomo = load_backend("pyomo-highs")
    eta = AUTO_FRACTION / 2 / graph.n_pairs
    compact, full = LinearOracle(pyomo, "compact"), LinearOracle(pyomo, "full")
    compact.answer(model, weights, eta)  # imports and caches
    small = [timed(lambda: compact.answer(model, weights, eta)) for _ in range(5)]
    seconds = statistics.median(s for s, _ in small)
    full_seconds, plan = timed(lambda: full.answer(model, weights, eta))
    value, full_value = small[0][1].value, plan.value
    return {
        "compact_size": str(compact_size(model)),
        "full_size": str(full_size(model)),
        "compact_seconds": seconds,
        "full_seconds": full_seconds,
        "ratio": full_seconds / seconds,
        "difference": abs(value - full_value),
    }


def mid_run(graph: TransitionGraph, steps: int) -> tuple[UncertainModel, FloatArray]:
    settings = ExploreSettings(kappa=2, gamma=0.95, steps=steps)
    trial = new_trial(graph, settings, trial_seeds(0, 0))
    continue_trial(trial, graph, lambda _: True, None)
    return estimate_of(trial, graph, 2)


def measure_resolves(graph: TransitionGraph, steps: int) -> dict[str, Any]:
    """Time HiGHS and evi on a sequence of estimates."""
    estimates = [mid_run(graph, steps + APART * i) for i in range(N_RESOLVES)]
    eta = AUTO_FRACTION / 2 / graph.n_pairs
    programs = [compact_program(model, weights, eta)[0] for model, weights in estimates]
    cold_backend, warm_backend, evi = (
        load_backend("highs"),
        load_backend("highs"),
        load_oracle("evi"),
    )
    evi.answer(*estimates[0], 0.0, None)  # compiled, or loaded
    cold, warm, extended = [], [], []
    basis: Basis | None = None
    for program, (model, weights) in zip(programs, estimates, strict=True):
        seconds, _ = timed(lambda p=program: cold_backend.solve(p))  # type: ignore[misc]
        cold.append(seconds)
        seconds, solution = timed(lambda p=program, b=basis: warm_backend.solve(p, b))  # type: ignore[misc]
        warm.append(seconds)
        basis = solution.basis
        seconds, _ = timed(lambda m=model, w=weights: evi.answer(m, w, 0.0, None))  # type: ignore[misc]
        extended.append(seconds)
    return {
        "cold": statistics.median(cold),
        "warm": statistics.median(warm[1:]),
        "warm_worst": max(warm[1:]),
        "evi": statistics.median(extended),
    }


def best_utility(graph: TransitionGraph) -> float:
    """Return U_2* = max -sum c^2/d over the occupancies; y d >= 1 is a second-order cone."""
    import clarabel

    c, n, S = squared_l2_complexity(graph), graph.n_pairs, graph.n_states
    balance = graph.pair_incidence() - graph.transition_matrix().T
    flow = sparse.vstack([balance, sparse.csr_array(np.ones((1, n)))])
    equalities = sparse.hstack([flow, sparse.csr_array((S + 1, n))])
    identity = sparse.eye_array(n)
    # (y + d, y - d, 2) in the cone, pair by pair.
    rows: Any = sparse.vstack(
        [
            sparse.hstack([-identity, -identity]),
            sparse.hstack([identity, -identity]),
            sparse.csr_array((n, 2 * n)),
        ],
        format="csr",
    )
    order = np.arange(3 * n).reshape(3, n).T.ravel()
    offsets = np.concatenate([np.zeros(2 * n), np.full(n, 2.0)])[order]
    A = sparse.csc_matrix(sparse.vstack([equalities, rows[order]]))
    b = np.concatenate([np.zeros(S), [float(n)], offsets])
    cones = [clarabel.ZeroConeT(S + 1), *(clarabel.SecondOrderConeT(3) for _ in range(n))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    quadratic = sparse.csc_matrix((2 * n, 2 * n))
    costs = np.concatenate([np.zeros(n), c**2])
    found = clarabel.DefaultSolver(quadratic, costs, A, b, cones, settings).solve()
    assert str(found.status) == "Solved", found.status
    return -float(found.obj_val) * n  # solved in n d, so U is n times as large


def measure_rate(graph: TransitionGraph, steps: int, bonus: str, start: int) -> dict[str, Any]:
    """Fit the slope of log(U* - U) against log t."""
    best = best_utility(graph)
    settings = ExploreSettings(
        algorithm="kappa-lp", kappa=2, backend="highs", steps=steps, bonus=bonus
    )
    trial = new_trial(graph, settings, trial_seeds(0, 0))
    seconds, _ = timed(lambda: continue_trial(trial, graph, lambda _: True, None))
    assert trial.explorer.episodes is not None
    points = [
        (record.step, best - record.utility)
        for record in trial.explorer.episodes.records
        if record.utility is not None and record.step >= start
    ]
    t, gap = np.array(points).T
    slope = float(np.polyfit(np.log(t), np.log(gap), 1)[0])
    return {
        "bonus": bonus,
        "from": start,
        "best": best,
        "steps": steps,
        "episodes": len(trial.explorer.episodes.records),
        "first_gap": float(gap[0]),
        "last_gap": float(gap[-1]),
        "slope": slope,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="pendulum")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--run", type=int, default=10_000_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    graph = mdpdsl.load(arguments.model).graph
    record: dict[str, Any] = {
        "model": arguments.model,
        "resolve": measure_resolves(graph, arguments.steps),
        "rates": [
            measure_rate(graph, SHORT_RUN, "paper", SHORT_FROM),
            measure_rate(graph, arguments.run, "paper", LONG_FROM),
            measure_rate(graph, arguments.run, "bernstein", LONG_FROM),
        ],
        "formulations": measure_formulations(graph, arguments.steps),
    }
    if arguments.json:
        print(json.dumps(record))
        return
    forms, again = record["formulations"], record["resolve"]
    print(
        f"{arguments.model} after {arguments.steps:,} steps\n"
        f"compact: {forms['compact_size']}: {forms['compact_seconds']:.3f} s through Pyomo\n"
        f"full:    {forms['full_size']}: {forms['full_seconds']:.1f} s, "
        f"{forms['ratio']:.0f} times; values differ by {forms['difference']:.1e}\n"
        f"highs:   cold {1e3 * again['cold']:.1f} ms, warm {1e3 * again['warm']:.1f} ms "
        f"(worst {1e3 * again['warm_worst']:.1f} ms); evi {1e3 * again['evi']:.1f} ms"
    )
    for rate in record["rates"]:
        print(
            f"rate:    bonus {rate['bonus']}: U* = {rate['best']:.1f}, U* - U from "
            f"{rate['first_gap']:.0f} (t = {rate['from']:,}) to {rate['last_gap']:.0f} "
            f"(t = {rate['steps']:,}) in {rate['episodes']} episodes, "
            f"slope {rate['slope']:.3f}, {rate['seconds']:.0f} s"
        )


if __name__ == "__main__":
    main()
