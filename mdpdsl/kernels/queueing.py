"""Transitions in the order of a log: which ones begin an episode, and a queue for each pair."""

from __future__ import annotations

from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.compiled import entry
from mdpdsl.kernels.counting import OTHER_EPISODE, SAME


@entry
def mark_first(
    kind: StateArray, pair: StateArray, state: StateArray, is_begun: bool, is_first: BoolArray
) -> bool:
    """Mark each transition that is the first of its episode, one entry per transition.

    Transitions are those of `counting.transitions`. `is_begun` says whether the episode of row 0
    has already had one; return the same for the last row.
    """
    n = 0
    for i in range(1, len(kind)):
        if kind[i] == OTHER_EPISODE:
            is_begun = False
        if kind[i] == SAME and pair[i - 1] >= 0 and state[i] >= 0:
            is_first[n] = not is_begun
            is_begun = True
            n += 1
    return is_begun


@entry
def append(pair: StateArray, successor: StateArray, end: IntArray, queue: StateArray) -> None:
    """Append successors to their pairs' queues, which end at `end` [n_pairs], and advance `end`."""
    for i in range(len(pair)):
        queue[end[pair[i]]] = successor[i]
        end[pair[i]] += 1
