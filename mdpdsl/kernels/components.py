"""Maximal end components by repeated search for strongly connected parts (de Alfaro 1997, 3.3).

The parts are found by Tarjan's search (1972), without recursion. A part that no pair leaves is a
component; from the others, the pairs that may leave are removed, and they are searched again.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.kernels.affine_rows import Rows
from mdpdsl.kernels.compiled import entry
from mdpdsl.kernels.reaching import confine
from mdpdsl.kernels.solving import predecessors

NONE = np.int64(-1)


@entry
def end_components(rows: Rows, is_left: np.ndarray, is_gone: np.ndarray) -> np.ndarray:
    """Return the maximal end component of every state, -1 if it is in none.

    `is_left` has the pairs to search among, and `is_gone` the states that are left out; both are
    changed. The pairs that remain are those inside a component.
    """
    S, n = len(rows.pair_start) - 1, len(is_left)
    pair_state = np.empty(n, np.uint32)
    for state in range(S):
        for pair in range(rows.pair_start[state], rows.pair_start[state + 1]):
            pair_state[pair] = state
    start, arrivals = predecessors(rows)
    nothing = np.zeros(S, np.bool_)
    confine(start, arrivals, rows.pair_start, pair_state, is_left, is_gone, nothing)
    component, is_final = np.full(S, -1, np.int64), np.zeros(S, np.bool_)
    n_parts = 0
    while True:
        first = n_parts
        n_parts = _parts(rows, is_left, is_gone, is_final, component, n_parts)
        if n_parts == first:
            break
        is_whole = np.ones(n_parts - first, np.bool_)
        for pair in range(n):
            state = pair_state[pair]
            if not is_left[pair] or is_final[state]:
                continue
            for k in range(rows.row_start[pair], rows.row_start[pair + 1]):
                if component[rows.target[k]] != component[state]:
                    is_left[pair] = False
                    is_whole[component[state] - first] = False
                    break
        for state in range(S):
            if not is_gone[state] and not is_final[state]:
                is_final[state] = is_whole[component[state] - first]
        confine(start, arrivals, rows.pair_start, pair_state, is_left, is_gone, nothing)
    for state in range(S):
        if is_gone[state]:
            component[state] = -1
    return component


@entry
def strong_parts(rows: Rows) -> np.ndarray:
    """Return the strongly connected part of every state; no pair leads to a later one."""
    S = len(rows.pair_start) - 1
    part, none = np.full(S, -1, np.int64), np.zeros(S, np.bool_)
    _parts(rows, np.ones(len(rows.constant), np.bool_), none, none, part, 0)
    return part


@entry
def _parts(
    rows: Rows,
    is_left: np.ndarray,
    is_gone: np.ndarray,
    is_final: np.ndarray,
    component: np.ndarray,
    n_parts: int,
) -> int:
    """Find the strongly connected parts of the states that are neither gone nor final."""
    S = len(component)
    seen, low = np.zeros(S, np.uint32), np.zeros(S, np.uint32)
    at_pair, at_branch = np.zeros(S, np.uint32), np.zeros(S, np.uint32)
    path, stack = np.empty(S, np.uint32), np.empty(S, np.uint32)
    is_open = np.zeros(S, np.bool_)
    count, height = 0, 0
    for root in range(S):
        if is_gone[root] or is_final[root] or seen[root] > 0:
            continue
        depth = 0
        state = np.int64(root)
        enters = True
        while True:
            if enters:
                count += 1
                seen[state] = low[state] = count
                at_pair[state] = rows.pair_start[state]
                at_branch[state] = rows.row_start[rows.pair_start[state]]
                stack[height], path[depth] = state, state
                height += 1
                depth += 1
                is_open[state] = True
            following = NONE
            while at_pair[state] < rows.pair_start[state + 1]:
                pair = at_pair[state]
                if is_left[pair] and at_branch[state] < rows.row_start[pair + 1]:
                    target = np.int64(rows.target[at_branch[state]])
                    at_branch[state] += 1
                    if seen[target] == 0 and not is_gone[target] and not is_final[target]:
                        following = target
                        break
                    if is_open[target]:
                        low[state] = min(low[state], seen[target])
                else:
                    at_pair[state] += 1
                    at_branch[state] = rows.row_start[pair + 1]
            if following != NONE:
                state, enters = following, True
                continue
            if low[state] == seen[state]:
                while True:
                    height -= 1
                    member = np.int64(stack[height])
                    is_open[member] = False
                    component[member] = n_parts
                    if member == state:
                        break
                n_parts += 1
            depth -= 1
            if depth == 0:
                break
            above = np.int64(path[depth - 1])
            low[above] = min(low[above], low[state])
            state, enters = above, False
    return n_parts
