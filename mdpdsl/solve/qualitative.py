"""The states that reach a goal with probability 0 or 1, found by graph search, with policies.

Sources: de Alfaro 1997, 3.3; Baier and Katoen 2008, section 10.6. The maximal probability is 0 if
the goal cannot be reached; it is 1 if a policy can avoid all states from which, with the pairs that
it still allows, the goal cannot be reached. The minimal probability is 0 if a policy can avoid the
goal for ever; it is 1 if no state with minimal probability 0 can be reached before the goal.

From a *lost* state the goal does not count any more: it lies outside the states that are allowed,
or is an end without pairs. Its probability is 0, and what follows it does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.arrivals import Arrivals
from mdpdsl.solve.heading import head_for


@dataclass(frozen=True, eq=False)
class Decided:
    """The states whose probability is 0 or 1, and a policy that attains it there."""

    is_zero: BoolArray  # [n_states]
    is_one: BoolArray  # [n_states]
    choice: IntArray  # [n_states]  -1 in ends; it matters only in decided states


def lost_states(
    graph: TransitionGraph, is_goal: BoolArray, allowed: BoolArray | None = None
) -> BoolArray:
    """Return the states from which the goal does not count any more."""
    is_lost = np.zeros(graph.n_states, np.bool_) if allowed is None else ~allowed
    if graph.ends is not None:
        is_lost = is_lost | graph.ends
    return np.asarray(is_lost & ~is_goal, dtype=np.bool_)


def decided_for_most(
    graph: TransitionGraph, is_goal: BoolArray, is_lost: BoolArray, arrivals: Arrivals
) -> Decided:
    """Find the states whose maximal probability of reaching the goal is 0 or 1."""
    is_zero, is_one, is_left = surely_reaching(graph, is_goal, is_lost, arrivals)
    choice = first_pairs(graph)
    head_for(graph, arrivals, is_left, is_goal, choice)
    return Decided(is_zero, is_one, choice)


def surely_reaching(
    graph: TransitionGraph,
    is_goal: BoolArray,
    is_lost: BoolArray,
    arrivals: Arrivals,
    is_allowed: BoolArray | None = None,
) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Return where the goal can be reached with probability 0 at most, where with 1, and how.

    `is_allowed` [n_pairs] are the pairs that may be taken, by default all. The last result are
    the pairs [n_pairs] that stay where the goal can be reached with probability 1.
    """
    is_left = ~is_lost[graph.pair_state]
    if is_allowed is not None:
        is_left &= is_allowed
    is_zero = ~arrivals.attracted(is_left, is_goal)
    is_gone = is_zero
    while True:
        is_left, is_gone = arrivals.confined(is_left, is_gone, is_goal)
        is_late = ~arrivals.attracted(is_left, is_goal) & ~is_gone
        if not is_late.any():
            return is_zero, ~is_gone, is_left
        is_gone = is_gone | is_late


def decided_for_least(
    graph: TransitionGraph, is_goal: BoolArray, is_lost: BoolArray, arrivals: Arrivals
) -> Decided:
    """Find the states whose minimal probability of reaching the goal is 0 or 1."""
    everything = np.ones(graph.n_pairs, dtype=np.bool_)
    is_left, is_gone = arrivals.confined(everything, is_goal, is_lost)
    is_zero = ~is_gone
    before_goal = ~(is_goal | is_lost)[graph.pair_state]
    is_one = ~arrivals.attracted(before_goal, is_zero)
    # In states that can avoid the goal for ever, the first pair that does so; in others, any pair.
    choice = first_pairs(graph)
    avoiding = np.flatnonzero(is_left & is_zero[graph.pair_state])[::-1]
    choice[graph.pair_state[avoiding]] = avoiding
    return Decided(is_zero, is_one, choice)


def first_pairs(graph: TransitionGraph) -> IntArray:
    """Return the first pair of each state, -1 in ends."""
    has_pairs = np.diff(graph.pair_start) > 0
    return np.where(has_pairs, graph.pair_start[:-1], -1)
