"""The states that reach a goal with probability 0 or 1, found by graph search, with policies.

Sources: de Alfaro 1997, 3.3; Baier and Katoen 2008, section 10.6. The maximal probability is 0 if
the goal cannot be reached; it is 1 if a policy can avoid all states from which, with the pairs that
it still allows, the goal cannot be reached. The minimal probability is 0 if a policy can avoid the
goal for ever; it is 1 if no state with minimal probability 0 can be reached before the goal.
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
    choice: IntArray  # [n_states]  a pair in every state; it matters only in decided states


def decided_for_most(graph: TransitionGraph, is_goal: BoolArray, arrivals: Arrivals) -> Decided:
    """Find the states whose maximal probability of reaching the goal is 0 or 1."""
    is_left = np.ones(graph.n_pairs, dtype=np.bool_)
    is_zero = ~arrivals.attracted(is_left, is_goal)
    is_gone = is_zero
    while True:
        is_left, is_gone = arrivals.confined(is_left, is_gone, is_goal)
        is_lost = ~arrivals.attracted(is_left, is_goal) & ~is_gone
        if not is_lost.any():
            choice = graph.pair_start[:-1].copy()
            head_for(graph, arrivals, is_left, is_goal, choice)
            return Decided(is_zero, ~is_gone, choice)
        is_gone = is_gone | is_lost


def decided_for_least(graph: TransitionGraph, is_goal: BoolArray, arrivals: Arrivals) -> Decided:
    """Find the states whose minimal probability of reaching the goal is 0 or 1."""
    everything = np.ones(graph.n_pairs, dtype=np.bool_)
    nothing = np.zeros(graph.n_states, dtype=np.bool_)
    is_left, is_gone = arrivals.confined(everything, is_goal, nothing)
    is_zero = ~is_gone
    # In states that can avoid the goal for ever, the first pair that does so; in others, any pair.
    places = np.where(is_left, np.arange(graph.n_pairs), graph.n_pairs)
    first = np.minimum.reduceat(places, graph.pair_start[:-1])
    choice = np.where(is_zero, first, graph.pair_start[:-1])
    before_goal = ~is_goal[graph.pair_state]
    is_one = ~arrivals.attracted(before_goal, is_zero)
    return Decided(is_zero, is_one, np.asarray(choice, dtype=np.int64))
