"""Backups over a limited number of steps: values with more and more steps left."""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.kernels.affine_rows import Rows
from mdpdsl.kernels.compiled import entry
from mdpdsl.kernels.solving import _backup, _worth, predecessors


@entry
def waves_from(rows: Rows, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the states that can reach a source, nearest first, and where each distance ends.

    Those with a distance of at most d are the first `ends[d]`.
    """
    S = len(rows.pair_start) - 1
    state_of = np.empty(len(rows.constant), np.uint32)
    for state in range(S):
        for pair in range(rows.pair_start[state], rows.pair_start[state + 1]):
            state_of[pair] = state
    start, pairs = predecessors(rows)
    order, ends = np.empty(S, np.uint32), np.empty(S + 1, np.int64)
    is_found = np.zeros(S, np.bool_)
    size, seen, n_waves = 0, 0, 0
    for source in sources:
        order[size] = source
        is_found[source] = True
        size += 1
    while seen < size:
        ends[n_waves] = size
        n_waves += 1
        end = size
        while seen < end:
            target = order[seen]
            seen += 1
            for i in range(start[target], start[target + 1]):
                state = state_of[pairs[i]]
                if not is_found[state]:
                    order[size] = state
                    is_found[state] = True
                    size += 1
    return order[:size].copy(), ends[:n_waves].copy()


@entry
def step_back(
    rows: Rows, values: np.ndarray, new: np.ndarray, done: int, n_steps: int, ends: np.ndarray
) -> tuple[int, float]:
    """Back up values with `done` steps left by some more, as long as they change.

    Values that are more steps away from the sources than there are left are 0, and left out. Return
    how many backups were made, and the sum of the largest values after each. After an even number
    the result is in `values`, after an odd one in `new`.
    """
    total = 0.0
    for i in range(n_steps):
        has_changed, size = False, 0.0
        for state in range(ends[min(done + i, len(ends) - 1)]):
            best = -math.inf
            for pair in range(rows.pair_start[state], rows.pair_start[state + 1]):
                best = max(best, _worth(rows, values, pair))
            has_changed |= best != values[state]
            size = max(size, abs(best))
            new[state] = best
        total += size
        if not has_changed:
            return i + 1, total
        values, new = new, values
    return n_steps, total


@entry
def step_back_with_plan(
    rows: Rows,
    values: np.ndarray,
    new: np.ndarray,
    done: int,
    n_steps: int,
    ends: np.ndarray,
    plan: np.ndarray,
    state_of: np.ndarray,
    pair_of: np.ndarray,
) -> tuple[int, float]:
    """Do the same, and write the pairs taken to the rows of a plan from `done` on."""
    total = 0.0
    for i in range(n_steps):
        has_changed, size = False, 0.0
        for state in range(ends[min(done + i, len(ends) - 1)]):
            best, chosen = _backup(rows, values, state)
            has_changed |= best != values[state]
            size = max(size, abs(best))
            new[state] = best
            plan[done + i, state_of[state]] = pair_of[chosen]
        total += size
        if not has_changed:
            return i + 1, total
        values, new = new, values
    return n_steps, total
