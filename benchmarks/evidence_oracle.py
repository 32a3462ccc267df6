"""The yardstick: an explorer that knows P and tracks the best use of the steps left.

Only chance separates it from the optimum. From time to time it solves the allocation of the steps
left again; in between it takes, in each state, the action that is furthest behind the plan.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from mdpdsl.explore.executor import trial_seeds
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.compiled import entry
from mdpdsl.kernels.loop import Simulator, draw_successor, new_simulator
from mdpdsl.programs.allocation import remaining_allocation
from mdpdsl.workers import process_context

#: A plan is used for this fraction of the steps left, and at least for that of the budget.
SHARE, LEAST_SHARE = 0.1, 0.005
TOLERANCE = 1e-3


def run_knowing(
    truth: TransitionGraph, steps: int, power: float, seed: int, trials: int, jobs: int
) -> list[IntArray]:
    """Return the visits of every trial, [n_pairs]."""
    run = partial(_run_one, truth, steps, power, seed)
    with ProcessPoolExecutor(jobs, mp_context=process_context()) as pool:
        return list(pool.map(run, range(trials)))


def _run_one(truth: TransitionGraph, steps: int, power: float, seed: int, index: int) -> IntArray:
    generator = np.random.default_rng(trial_seeds(seed, index))
    c = squared_l2_complexity(truth)
    simulator = new_simulator(truth)
    visits = np.zeros(truth.n_pairs, np.int64)
    state = int(generator.choice(truth.n_states, p=truth.initial))
    start, done = None, 0
    while done < steps:
        left = steps - done
        T = visits.astype(np.float64)
        found = remaining_allocation(
            truth, c, T, float(left), power, start=start, tolerance=TOLERANCE
        )
        start, least = found.center, int(LEAST_SHARE * steps)
        lasts = max(int(SHARE * left), least)
        lasts = left if left - lasts < least else lasts
        promised = left * found.occupancy
        state = follow(truth.pair_start, c, promised, simulator, visits, state, lasts, generator)
        done += lasts
    return visits


@entry  # type: ignore[untyped-decorator]
def follow(
    pair_start: IntArray,
    c: FloatArray,
    promised: FloatArray,
    simulator: Simulator,
    visits: IntArray,
    state: int,
    n_steps: int,
    generator: np.random.Generator,
) -> int:
    """Take so many steps and count them in `visits`; return the state reached.

    Of the actions that have at least one planned visit left, the one with the largest c/T is taken,
    because a run may not return to a state as often as planned. If none has, it is the action that
    exceeds its plan the least.
    """
    for _ in range(n_steps):
        best, most = -1, -np.inf
        furthest, most_left = -1, -np.inf
        for pair in range(pair_start[state], pair_start[state + 1]):
            need = c[pair] / max(float(visits[pair]), 0.3)
            if promised[pair] >= 0.5 and need > most:
                best, most = pair, need
            if promised[pair] > most_left:
                furthest, most_left = pair, promised[pair]
        pair = best if best >= 0 else furthest
        visits[pair] += 1
        promised[pair] -= 1
        state = draw_successor(simulator, pair, generator)
    return state
