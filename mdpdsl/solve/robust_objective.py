"""Solve a model whose rows are only known to lie in sets, for any objective.

*Guaranteed* is the best value of a policy whatever rows nature chooses from their sets; *possible*
is the best value if nature helps: no policy can do better in any model of the sets. The sets are
rectangular, so nature's best rows need not remember anything, and for a limited number of steps
nature chooses anew at every step (Iyengar 2005; Nilim and El Ghaoui 2005).
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Next, Objective, Total, Until
from mdpdsl.graph.row_sets import RowSets
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.set_rows import INTERVALS, L1, SHAPES, SetRows
from mdpdsl.solve.discounted import check_options
from mdpdsl.solve.solution import (
    SolveOutcome,
    SolveStatus,
    Watch,
    keep_going,
    largest_error,
    middle,
    until_late,
    value_at_start,
)

if TYPE_CHECKING:
    from mdpdsl.solve.robust_ending import Ending

#: The tolerance if none is given, and the least value at the start that it is relative to.
TOLERANCE, SMALLEST = 1e-6, 1e-10


def solve_robust_objective(
    graph: TransitionGraph,
    sets: RowSets,
    objective: Objective,
    *,
    is_minimised: bool = False,
    is_optimistic: bool = False,
    shape: str = "intervals",
    entry_reward: FloatArray | None = None,
    tolerance: float | None = None,
    time_limit: float | None = None,
    watch: Watch = keep_going,
) -> SolveOutcome:
    """Find the guaranteed (or the possible) value of every state, with bounds, and a policy.

    The rows of the graph are not used, only its states, pairs and ends. The shape of the sets is
    intervals, l1 or kl. `entry_reward` [n_entries] are rewards of the transitions that the sets
    list, instead of those of pairs. The tolerance is in units of a value's size, but at least 1; it
    is 1e-6 if none is given, and then the value at the start is precise to six digits.
    """
    began = time.perf_counter()
    check_options("auto", tolerance)
    sign = -1.0 if is_minimised else 1.0
    rows = set_rows(graph, sets, shape, objective, entry_reward, sign)
    sense = 1.0 if is_optimistic else -1.0
    late = until_late(watch, time_limit)
    limit = TOLERANCE if tolerance is None else tolerance
    task: Any = (graph, objective, rows, sign, sense, limit, late, began)
    match objective:
        case Discounted():
            from mdpdsl.solve.robust_discounted import solve_robust_discounted

            return solve_robust_discounted(*task)
        case Next() | Cumulative() | Until(steps=int()):
            from mdpdsl.solve.robust_horizon import solve_robust_horizon

            return solve_robust_horizon(*task)
        case Average():
            from mdpdsl.solve.robust_average import solve_robust_average

            return solve_robust_average(*task)
    return _up_to_goal(*task, is_relative=tolerance is None)


def set_rows(
    graph: TransitionGraph,
    sets: RowSets,
    shape: str,
    objective: Objective,
    entry_reward: FloatArray | None,
    sign: float,
) -> SetRows:
    """Return sets in the form of the kernels, with signed rewards."""
    n, number = graph.n_pairs, SHAPES[shape]
    reward = getattr(objective, "reward", None)
    constant, gain = np.zeros(n), np.zeros(len(sets.successor))
    if reward is not None and entry_reward is not None:
        gain = sign * entry_reward
    elif reward is not None:
        constant = sign * reward
    is_interval = number == INTERVALS
    return SetRows(
        pair_start=graph.pair_start.astype(np.int64),
        row_start=sets.successor_start.astype(np.int64),
        target=np.ascontiguousarray(sets.successor, dtype=np.int32),
        low=np.ascontiguousarray(sets.lower if is_interval else sets.estimate, dtype=np.float64),
        high=np.ascontiguousarray(sets.upper if is_interval else np.ones(len(gain))),
        is_other=np.zeros(len(gain), np.bool_) if sets.is_other is None else sets.is_other,
        gain=np.ascontiguousarray(gain, dtype=np.float64),
        constant=np.ascontiguousarray(constant, dtype=np.float64),
        each=np.ascontiguousarray(sets.other_upper, dtype=np.float64),
        rest=np.ascontiguousarray(sets.others_upper, dtype=np.float64),
        radius=np.ascontiguousarray(sets.l1 if number == L1 else sets.kl, dtype=np.float64),
        shape=number,
    )


def ending_of(
    graph: TransitionGraph, objective: Until | Total, rows: SetRows, sign: float
) -> Ending:
    """Return what both sides want of a question up to a goal."""
    from mdpdsl.solve.qualitative import lost_states
    from mdpdsl.solve.robust_ending import Ending

    goal = np.asarray(objective.goal, dtype=np.bool_)
    is_until = isinstance(objective, Until)
    lost = lost_states(graph, goal, objective.allowed if isinstance(objective, Until) else None)
    return Ending(
        graph,
        objective,
        rows,
        sign,
        goal,
        lost,
        goal_value=sign if is_until else 0.0,
        is_miss_bad=sign > 0 if is_until else _is_miss_bad(rows, graph, goal | lost, sign),
    )


def outcome_of(
    graph: TransitionGraph,
    lower: FloatArray,
    upper: FloatArray,
    sign: float,
    tolerance: float,
    goes_on: bool,
    **details: Any,
) -> SolveOutcome:
    """Return signed bounds as the outcome of a question."""
    if sign < 0:
        lower, upper = -upper, -lower
    values = middle(lower, upper, np.where(np.isfinite(lower), lower, upper)) + 0.0
    with np.errstate(invalid="ignore"):
        size = np.maximum(1.0, np.minimum(np.abs(lower), np.abs(upper)))
        is_close = (lower == upper) | ((upper - lower) / 2 <= tolerance * size)
    status = SolveStatus.OPTIMAL if np.all(is_close) else SolveStatus.PRECISION
    return SolveOutcome(
        status=status if goes_on else SolveStatus.STOPPED,
        method="robust",
        values=values,
        lower=lower + 0.0,
        upper=upper + 0.0,
        value=value_at_start(graph, values),
        bound=largest_error(values, lower, upper),
        residual=0.0,
        **details,
    )


def _up_to_goal(
    graph: TransitionGraph,
    objective: Until | Total,
    rows: SetRows,
    sign: float,
    sense: float,
    tolerance: float,
    watch: Watch,
    began: float,
    *,
    is_relative: bool,
) -> SolveOutcome:
    """Solve reachability or total rewards; if asked to, again with a precise value at the start."""
    from mdpdsl.solve.robust_ending import Budget, require_losses
    from mdpdsl.solve.robust_game import solve_helped, solve_opposed

    ending = ending_of(graph, objective, rows, sign)
    if ending.is_total and ending.limits == (-math.inf, math.inf):
        require_losses(ending, watch)
    solve = solve_helped if sense > 0 else solve_opposed
    found = solve(ending, Budget(tolerance, 1.0, watch))
    low, high = (value_at_start(graph, side) for side in (found.lower, found.upper))
    size = min(abs(low), abs(high)) or max(abs(low), abs(high)) / 4
    is_rough = math.isfinite(high - low) and high - low > 2 * tolerance * size
    if is_relative and found.goes_on and is_rough and size > SMALLEST:
        again = solve(ending, Budget(tolerance, min(1.0, size), watch))
        low_again, high_again = (value_at_start(graph, s) for s in (again.lower, again.upper))
        if high_again - low_again < high - low:
            found = again
    return outcome_of(
        graph,
        found.lower,
        found.upper,
        sign,
        tolerance,
        found.goes_on,
        choice=found.choice,
        variant="policies against sets of rows" if sense < 0 else "policies with the best rows",
        iterations=found.iterations,
        seconds=time.perf_counter() - began,
    )


def _is_miss_bad(rows: SetRows, graph: TransitionGraph, is_closed: Any, sign: float) -> bool:
    """Return whether never reaching the goal is bad for the agent, by the signs of the rewards."""
    before = ~is_closed[graph.pair_state]
    entry = np.repeat(before, np.diff(rows.row_start))
    worth = np.repeat(rows.constant, np.diff(rows.row_start))[entry] + rows.gain[entry]
    worth = np.append(worth, rows.constant[before])
    has_gains, has_losses = bool(np.any(worth > 0)), bool(np.any(worth < 0))
    # Without any rewards, these count as >= 0.
    return has_losses or (not has_gains and sign < 0)
