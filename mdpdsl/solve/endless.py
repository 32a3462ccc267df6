"""Where a policy can gain without end before it reaches a goal, if rewards have both signs.

End components of pairs without reward are collapsed first: staying there changes nothing. In each
maximal end component of what remains some pair has a reward, and the sign of its best long-run
average decides whether staying gains or loses without end. (The quotient is conditional on leaving
a group, which changes how long a step takes, but not that sign.)
"""

from __future__ import annotations

import numpy as np

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import restricted
from mdpdsl.solve.arrivals import Arrivals
from mdpdsl.solve.gains import GainBounds, GainProblem, solve_gains
from mdpdsl.solve.quotient import Quotient, components_among, lift_rows, quotient_of
from mdpdsl.solve.solution import Watch

#: The sign of an average is sought with these errors, in units of the largest reward.
TOLERANCES = (1e-3, 1e-6, 1e-9, 1e-12)


def endless_gains(
    graph: TransitionGraph,
    reward: FloatArray,
    is_goal: BoolArray,
    is_sure: BoolArray,
    arrivals: Arrivals,
    choice: IntArray,
    watch: Watch,
) -> BoolArray:
    """Return the states from which a policy may gain without end; write how to `choice`.

    Raise SolveError if an average is 0, up to rounding, where the goal can be reached surely.
    """
    is_open = (np.diff(graph.pair_start) > 0) & ~is_goal
    before_goal = ~is_goal[graph.pair_state]
    idle = components_among(graph, before_goal & (reward == 0), is_open)
    quotient = quotient_of(
        graph, is_open, terminal=np.zeros(graph.n_states), reward=reward, components=idle
    )
    is_gaining = np.zeros(quotient.n_groups, np.bool_)
    is_unclear = np.zeros(quotient.n_groups, np.bool_)
    rows = _best_rows(quotient, is_gaining, is_unclear, watch)
    is_endless = _in_groups(quotient, is_gaining)
    if is_endless.any():
        lift_rows(graph, quotient, arrivals, rows, choice)
        is_endless = arrivals.attracted(before_goal, is_endless, choice)
    unclear = np.flatnonzero(_in_groups(quotient, is_unclear) & is_sure & ~is_endless)
    if len(unclear):
        state = graph.states.label(int(unclear[0]))
        raise SolveError(
            f"rewards of both signs cancel out around the state {state}: a policy can stay there "
            "for ever and earn 0 on average, so the total reward before the goal depends on how "
            "long it stays. Ask for a limited number of steps or a discount instead"
        )
    return is_endless


def _best_rows(
    quotient: Quotient, is_gaining: BoolArray, is_unclear: BoolArray, watch: Watch
) -> IntArray:
    """Mark the groups that gain without end, and those that may; return rows that gain."""
    from mdpdsl.kernels.components import end_components
    from mdpdsl.kernels.solving import reordered

    rows = quotient.rows
    inside = quotient.outside == 0
    component_of = end_components(rows, inside, np.diff(rows.pair_start) == 0)
    group_of = np.repeat(np.arange(quotient.n_groups), np.diff(rows.pair_start))
    with_gain = np.unique(component_of[group_of[inside & (rows.constant > 0)]])
    is_kept = np.isin(component_of, with_gain) & (component_of >= 0)
    if not is_kept.any():
        return np.zeros(0, dtype=np.int64)
    kept_rows = np.flatnonzero(inside & is_kept[group_of])
    part, _ = restricted(quotient.without(~inside).rows, is_kept)
    groups = np.flatnonzero(is_kept)
    order = np.argsort(component_of[groups], kind="stable").astype(np.uint32)
    ordered, old_row = reordered(part, order, True)
    groups = groups[order]
    sizes = np.unique(component_of[groups], return_counts=True)[1]
    bounds = GainBounds(GainProblem(ordered, np.concatenate([[0], np.cumsum(sizes)])))
    scale = float(np.abs(ordered.constant).max())
    for tolerance in TOLERANCES:
        solve_gains(
            bounds, tolerance * scale, "auto", watch=watch, backend="highs", time_limit=None
        )
        if not np.any((bounds.low <= 0) & (bounds.high >= 0)):
            break
    of = bounds.problem.component_of
    is_gaining[groups] = (bounds.low > 0)[of]
    is_unclear[groups] = ((bounds.low <= 0) & (bounds.high >= 0))[of]
    chosen = kept_rows[old_row[bounds.choice]]
    return np.asarray(chosen[is_gaining[groups]], dtype=np.int64)


def _in_groups(quotient: Quotient, is_chosen: BoolArray) -> BoolArray:
    """Return the states of some groups."""
    is_state = quotient.group_of >= 0
    is_state[is_state] = is_chosen[quotient.group_of[is_state]]
    return is_state
