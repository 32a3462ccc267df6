"""Steps per second of the explore loop, against a plain NumPy version in the same run.

    python benchmarks/explore.py [--rounds 3] [--json]

The NumPy version does what a hand-written script does: a dense estimate of P, value iteration with
whole matrices from the last values, the same rewards and the same stopping rule. The two alternate.
Then a slippery grid of 10^5 states is explored by prioritized sweeping, with its Bellman residual:
half a million steps, most of them to unvisited pairs, and the half million after that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

import mdpdsl
from mdpdsl.explore.executor import trial_seeds
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.trial import continue_trial, new_trial
from mdpdsl.graph.space import IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

NAIVE_STEPS = 3_000
#: Steps of the compiled loop before timing, so that both work on an estimate of some size.
COMPILED_STEPS = 60_000
GRID_SIDE = 316
GRID_STEPS = 500_000


def naive_visits(
    graph: TransitionGraph, settings: ExploreSettings, n_steps: int, counts: np.ndarray
) -> IntArray:
    """Run kappa-Explorer with dense NumPy arrays, starting from given counts [n_pairs, S]."""
    rng = np.random.default_rng(0)
    P = graph.transition_matrix().toarray()
    S, gamma, kappa = graph.n_states, settings.gamma, settings.kappa
    T = counts.sum(axis=1)
    P_hat = np.where(T[:, None] > 0, counts / np.maximum(T, 1)[:, None], 1 / S)
    start = graph.pair_start
    V = np.zeros(S)
    state = 0
    for _ in range(n_steps):
        x = 1.0 / np.maximum(T, settings.epsilon)
        r = (x / x.max()) ** kappa
        while True:
            new = np.maximum.reduceat(r + gamma * (P_hat @ V), start[:-1])
            change, V = new - V, new
            if change.max() - change.min() <= settings.tolerance * (V.max() - V.min()):
                break
        q = (r + gamma * (P_hat @ V))[start[state] : start[state + 1]]
        pair = int(start[state] + np.argmax(q))
        state = int(rng.choice(S, p=P[pair]))
        counts[pair, state] += 1
        T[pair] += 1
        P_hat[pair] = counts[pair] / T[pair]
    return np.asarray(T, np.int64)


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Time both versions on a model, alternating, from the same estimate."""
    graph = mdpdsl.load(name).graph
    settings = ExploreSettings(kappa=2, gamma=0.95, steps=4 * COMPILED_STEPS)
    ours, naive = [], []
    for index in range(rounds):
        trial = new_trial(graph, settings, trial_seeds(0, index))
        continue_trial(trial, graph, lambda found: found.steps < COMPILED_STEPS, None)
        counts = np.zeros((graph.n_pairs, graph.n_states))
        seen = trial.counts
        pairs = np.repeat(np.arange(graph.n_pairs), np.diff(seen.successor_start))
        counts[pairs, seen.successor] = seen.count
        before, seconds = trial.done, trial.seconds
        continue_trial(trial, graph, lambda _: True, None)
        ours.append((trial.done - before) / (trial.seconds - seconds))
        begin = time.perf_counter()
        naive_visits(graph, settings, NAIVE_STEPS, counts)
        naive.append(NAIVE_STEPS / (time.perf_counter() - begin))
    fast, slow = statistics.median(ours), statistics.median(naive)
    return {"model": name, "steps_per_second": fast, "naive": slow, "ratio": fast / slow}


def measure_grid() -> list[dict[str, Any]]:
    """Explore a grid of 10^5 states in two parts."""
    graph = mdpdsl.load("gridworld", n=GRID_SIDE).graph
    settings = ExploreSettings(kappa=2, gamma=0.95, steps=2 * GRID_STEPS)
    trial = new_trial(graph, settings, trial_seeds(0, 0))
    stretches = []
    for end in (GRID_STEPS, 2 * GRID_STEPS):
        before, seconds = trial.done, trial.seconds
        continue_trial(trial, graph, lambda s, end=end: s.steps < end, None)  # type: ignore[misc]
        stretches.append(
            {
                "states": graph.n_states,
                "steps": trial.done,
                "steps_per_second": (trial.done - before) / (trial.seconds - seconds),
                "residual": trial.explorer.residual(),
                "unvisited": int(np.count_nonzero(trial.counts.visits == 0)),
            }
        )
    return stretches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    models = [measure(name, arguments.rounds) for name in ("pendulum", "mountain_car")]
    grid = measure_grid()
    if arguments.json:
        print(json.dumps({"models": models, "grid": grid}))
        return
    for row in models:
        print(
            "{model:14} {steps_per_second:>10,.0f} steps/s, NumPy {naive:,.0f}: "
            "{ratio:.0f} times".format(**row)
        )
    for row in grid:
        print(
            "grid of {states:,} states, up to step {steps:,}: {steps_per_second:,.0f} steps/s, "
            "residual {residual:.1e}, {unvisited:,} pairs unvisited".format(**row)
        )


if __name__ == "__main__":
    main()
