"""A policy that reaches a goal with probability 1, and soon.

Any policy that can move closer to the goal from every state reaches it with probability 1, as long
as its pairs stay among such states. If it relies on probabilities of 1e-15, however, that takes too
long to be useful. So the policy maximises E[delta^T], T the time of arrival. In states from which
its approximation does not reach the goal, the pair found by the graph search is used instead.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import room_for_policy
from mdpdsl.kernels.solving import (
    evaluate_in_place,
    fill_policy,
    order_from,
    reordered,
    sweep_in_place,
)
from mdpdsl.solve.arrivals import Arrivals
from mdpdsl.solve.partial import partial_rows

#: The cost of a step, and the accuracy at which E[delta^T] is good enough to choose pairs by.
DELTA = 0.999
IMPROVEMENTS = 60
POLICY_SWEEPS = 10
SETTLED = 1e-7


def head_for(
    graph: TransitionGraph,
    arrivals: Arrivals,
    is_allowed: BoolArray,
    is_goal: BoolArray,
    choice: IntArray,
) -> None:
    """Write to `choice` how to reach the goal from all states from which allowed pairs lead there.

    Allowed pairs must stay within those states and the goal.
    """
    can_arrive = arrivals.attracted(is_allowed, is_goal) & ~is_goal
    states = np.flatnonzero(can_arrive)
    if len(states) == 0:
        return
    group_of = np.full(graph.n_states, -1, dtype=np.int64)
    group_of[states] = np.arange(len(states))
    pairs = np.flatnonzero(is_allowed & can_arrive[graph.pair_state])
    terminal = is_goal.astype(np.float64)
    rows = partial_rows(graph, group_of, pairs, terminal, is_conditional=False).rows
    rows = rows._replace(weight=DELTA * rows.weight, constant=DELTA * rows.constant)
    near = np.unique(group_of[graph.pair_state[pairs[rows.constant > 0]]])
    order = order_from(rows, near.astype(np.uint32))
    ordered, old_pair = reordered(rows, order)
    values, chosen = np.zeros(len(states)), np.zeros(len(states), np.uint32)
    single, filled = room_for_policy(ordered)
    for _ in range(IMPROVEMENTS):
        _, high = sweep_in_place(ordered, values, chosen)
        if high <= SETTLED:
            break
        fill_policy(ordered, chosen, filled, single)
        evaluate_in_place(single, values, POLICY_SWEEPS, SETTLED)
    choice[states[order]] = pairs[old_pair[chosen]]
    is_chosen = np.zeros(graph.n_pairs, dtype=np.bool_)
    is_chosen[choice[states]] = True
    arrives = arrivals.attracted(is_chosen, is_goal)
    arrivals.attracted(is_allowed, arrives, choice)
