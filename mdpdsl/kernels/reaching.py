"""Searches on the graph of an MDP: which states can reach a set, and which can avoid one for ever.

Both are backward searches in linear time (Baier and Katoen 2008, section 10.6). `arrival_start` and
`arrival` are the pairs that may lead to each state, as `predecessors` returns them.
"""

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(cache=True)
def attract(
    arrival_start: np.ndarray,
    arrival: np.ndarray,
    pair_state: np.ndarray,
    is_allowed: np.ndarray,
    is_goal: np.ndarray,
    choice: np.ndarray,
    n_steps: int = 2**62,
) -> np.ndarray:
    """Return which states can reach the goal by allowed pairs; goal states count as reached.

    For the others, `choice` receives a pair that may lead one step closer. Only so many steps back
    are looked at.
    """
    is_found = is_goal.copy()
    queue = np.empty(len(is_goal), np.uint32)
    size = 0
    for state in range(len(is_goal)):
        if is_goal[state]:
            queue[size] = state
            size += 1
    seen, wave_end = 0, size
    while seen < size:
        if seen == wave_end:
            n_steps -= 1
            wave_end = size
        if n_steps == 0:
            break
        target = queue[seen]
        seen += 1
        for i in range(arrival_start[target], arrival_start[target + 1]):
            pair = arrival[i]
            state = pair_state[pair]
            if is_allowed[pair] and not is_found[state]:
                is_found[state] = True
                choice[state] = pair
                queue[size] = state
                size += 1
    return is_found


@nb.njit(cache=True)
def confine(
    arrival_start: np.ndarray,
    arrival: np.ndarray,
    pair_start: np.ndarray,
    pair_state: np.ndarray,
    is_left: np.ndarray,
    is_gone: np.ndarray,
    is_kept: np.ndarray,
) -> None:
    """Remove, in place, the pairs of states that are gone and all pairs that may lead there.

    A state left without pairs is gone too, unless it is kept; this repeats until nothing changes.
    """
    S = len(is_gone)
    n_left = np.zeros(S, np.int64)
    queue = np.empty(S, np.uint32)
    size = 0
    for state in range(S):
        for pair in range(pair_start[state], pair_start[state + 1]):
            if is_gone[state]:
                is_left[pair] = False
            elif is_left[pair]:
                n_left[state] += 1
        if n_left[state] == 0 and not is_kept[state]:
            is_gone[state] = True
        if is_gone[state]:
            queue[size] = state
            size += 1
    seen = 0
    while seen < size:
        target = queue[seen]
        seen += 1
        for i in range(arrival_start[target], arrival_start[target + 1]):
            pair = arrival[i]
            if not is_left[pair]:
                continue
            is_left[pair] = False
            state = pair_state[pair]
            n_left[state] -= 1
            if n_left[state] == 0 and not is_kept[state] and not is_gone[state]:
                is_gone[state] = True
                queue[size] = state
                size += 1
