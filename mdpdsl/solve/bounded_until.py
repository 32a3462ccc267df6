"""The probability of reaching a goal through allowed states within some steps."""

from __future__ import annotations

import time

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.discounted import check_dynamics, check_options
from mdpdsl.solve.horizon import Horizon, check_steps, solve_horizon
from mdpdsl.solve.solution import SolveOutcome, Watch, keep_going


def solve_bounded_until(
    graph: TransitionGraph,
    goal: BoolArray,
    steps: int,
    *,
    allowed: BoolArray | None = None,
    is_minimised: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    watch: Watch = keep_going,
) -> SolveOutcome:
    """Find the maximal (or minimal) probability of reaching a goal [n_states] in so many steps.

    The policy depends on the steps left. All methods are the same here: one backup for each step.
    """
    from mdpdsl.solve.arrivals import arrivals_of
    from mdpdsl.solve.qualitative import lost_states

    began = time.perf_counter()
    check_dynamics(graph)
    check_options(method, tolerance)
    check_steps(steps)
    is_goal = np.asarray(goal, dtype=np.bool_)
    is_lost = lost_states(graph, is_goal, allowed)
    before_lost = ~is_lost[graph.pair_state]
    can_arrive = arrivals_of(graph).attracted(before_lost, is_goal, within=steps)

    def extend(lower: FloatArray, upper: FloatArray, _: int) -> tuple[FloatArray, FloatArray]:
        """With more steps, no probability is lower, and where the goal is out of reach it is 0."""
        return lower, np.where(can_arrive, 1.0, 0.0)

    horizon = Horizon(
        graph,
        is_open=can_arrive & ~is_goal,
        terminal=is_goal.astype(np.float64),
        reward=None,
        steps=steps,
        is_minimised=is_minimised,
        most=1.0,
        extend=extend,
    )
    return solve_horizon(horizon, tolerance=tolerance, watch=watch, began=began)
