"""The expected sum of the rewards of the next steps."""

from __future__ import annotations

import math
import time

import numpy as np

from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.discounted import check_options, checked_reward
from mdpdsl.solve.horizon import Horizon, check_steps, solve_horizon
from mdpdsl.solve.solution import SolveOutcome, Watch, keep_going


def solve_cumulative(
    graph: TransitionGraph,
    reward: FloatArray | None,
    steps: int,
    *,
    is_minimised: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    watch: Watch = keep_going,
) -> SolveOutcome:
    """Find the largest (or least) expected sum of rewards [n_pairs] over so many steps.

    Nothing is earned after an end. The policy depends on the steps left. All methods are the same
    here: one backup for each step.
    """
    from mdpdsl.solve.arrivals import arrivals_of

    began = time.perf_counter()
    earned = checked_reward(graph, reward)
    check_options(method, tolerance)
    check_steps(steps)
    earns = np.zeros(graph.n_states, np.bool_)
    earns[graph.pair_state[earned != 0]] = True
    everything = np.ones(graph.n_pairs, np.bool_)
    least, most = min(0.0, float(earned.min())), max(0.0, float(earned.max()))

    def extend(lower: FloatArray, upper: FloatArray, left: int) -> tuple[FloatArray, FloatArray]:
        """First come the steps that are left, with any rewards, and then any of the states."""
        low, high = float(lower.min()) + left * least, float(upper.max()) + left * most
        return np.full_like(lower, low), np.full_like(upper, high)

    horizon = Horizon(
        graph,
        is_open=arrivals_of(graph).attracted(everything, earns, within=max(0, steps - 1)),
        terminal=np.zeros(graph.n_states),
        reward=earned,
        steps=steps,
        is_minimised=is_minimised,
        most=math.inf,
        extend=extend,
    )
    return solve_horizon(horizon, tolerance=tolerance, watch=watch, began=began)
