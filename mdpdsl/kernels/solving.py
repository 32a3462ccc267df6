"""Bellman sweeps over affine rows: over all pairs, over those of one policy, and in place.

The operator is  (TV)(s) = max_a [constant + sum_s' weight(s') V(s')],  see `affine_rows`. Improving
by T and evaluating the policy found for many sweeps is modified policy iteration (Puterman and Shin
1978).
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from mdpdsl.kernels.affine_rows import Rows
from mdpdsl.kernels.compiled import seldom


@nb.njit(cache=True)
def improve(
    rows: Rows, values: np.ndarray, new: np.ndarray, choice: np.ndarray
) -> tuple[float, float]:
    """Apply the Bellman operator; return the smallest and the largest change.

    `new` receives the values and `choice` the first best pair of every state.
    """
    low, high = math.inf, -math.inf
    for state in range(len(values)):
        best, chosen = _backup(rows, values, state)
        new[state] = best
        choice[state] = chosen
        change = best - values[state]
        low, high = min(low, change), max(high, change)
    return low, high


@nb.njit(cache=True)
def sweep_in_place(rows: Rows, values: np.ndarray, choice: np.ndarray) -> tuple[float, float]:
    """Back up every state once, in order and in place; return the smallest and largest change."""
    low, high = math.inf, -math.inf
    for state in range(len(values)):
        best, chosen = _backup(rows, values, state)
        change = best - values[state]
        values[state] = best
        choice[state] = chosen
        low, high = min(low, change), max(high, change)
    return low, high


@nb.njit(cache=True)
def fill_policy(rows: Rows, choice: np.ndarray, filled: np.ndarray, chosen: Rows) -> None:
    """Copy the rows of one pair per state into contiguous memory, where sweeps are fast.

    `chosen` comes from `room_for_policy`, or from an earlier call; `filled` has the pairs that it
    holds, and is updated. Rows that are already in place are not copied again.
    """
    to, before = np.int64(0), np.int64(0)
    for state in range(len(choice)):
        pair = choice[state]
        begin, end = rows.row_start[pair], rows.row_start[pair + 1]
        if filled[state] == pair and before == to:
            to += np.int64(end - begin)
        else:
            chosen.constant[state] = rows.constant[pair]
            for k in range(begin, end):
                chosen.target[to] = rows.target[k]
                chosen.weight[to] = rows.weight[k]
                to += 1
            filled[state] = pair
        before = np.int64(chosen.row_start[state + 1])
        chosen.row_start[state + 1] = to


@nb.njit(cache=True)
def evaluate(
    rows: Rows, values: np.ndarray, scratch: np.ndarray, n_sweeps: int, span: float
) -> int:
    """Apply a policy's operator until the span of the change is small; return how often.

    `rows` has one pair per state. Sweeps are done in twos, so that the result is in `values`.
    """
    done = 0
    while done < n_sweeps:
        _apply(rows, values, scratch)
        low, high = _apply(rows, scratch, values)
        done += 2
        if high - low <= span:
            break
    return done


@nb.njit(cache=True)
def evaluate_in_place(rows: Rows, values: np.ndarray, n_sweeps: int, least: float) -> int:
    """Back up every state by its only pair, in place, until no change is large."""
    for done in range(n_sweeps):
        largest = 0.0
        for state in range(len(values)):
            q = _worth(rows, values, state)
            largest = max(largest, abs(q - values[state]))
            values[state] = q
        if largest <= least:
            return done + 1
    return n_sweeps


@nb.njit(cache=True)
def predecessors(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs that may lead to each state, compressed: starts and pairs."""
    S = len(rows.pair_start) - 1
    start = np.zeros(S + 1, np.uint32)
    for k in range(len(rows.target)):
        start[rows.target[k] + 1] += 1
    for state in range(S):
        start[state + 1] += start[state]
    place = start[:-1].copy()
    pairs = np.empty(len(rows.target), np.uint32)
    for pair in range(len(rows.constant)):
        for k in range(rows.row_start[pair], rows.row_start[pair + 1]):
            t = rows.target[k]
            pairs[place[t]] = pair
            place[t] += 1
    return start, pairs


@nb.njit(cache=True)
def order_from(rows: Rows, sources: np.ndarray) -> np.ndarray:
    """Return all states, ordered by the number of steps that they need to a source."""
    S = len(rows.pair_start) - 1
    state_of = np.empty(len(rows.constant), np.uint32)
    for state in range(S):
        for pair in range(rows.pair_start[state], rows.pair_start[state + 1]):
            state_of[pair] = state
    start, pairs = predecessors(rows)
    order = np.empty(S, np.uint32)
    is_found = np.zeros(S, np.bool_)
    size = 0
    for source in sources:
        order[size] = source
        is_found[source] = True
        size += 1
    seen, lowest = 0, 0
    while seen < S:
        if seen == size:  # the rest lead to no source: continue with the first of them
            while is_found[lowest]:
                lowest += 1
            order[size] = lowest
            is_found[lowest] = True
            size += 1
        target = order[seen]
        seen += 1
        for i in range(start[target], start[target + 1]):
            state = state_of[pairs[i]]
            if not is_found[state]:
                order[size] = state
                is_found[state] = True
                size += 1
    return order


@nb.njit(cache=True)
def reordered(rows: Rows, order: np.ndarray, keeps_loops: bool = False) -> tuple[Rows, np.ndarray]:
    """Return equal rows with the states in another order and no state in its own rows.

    V(s) >= c + p V(s) + rest  is  V(s) >= (c + rest)/(1 - p),  so the fixed point is the same; but
    loops can be kept. The second result is the old pair of each new one.
    """
    S, n = len(order), len(rows.constant)
    place = np.empty(S, np.uint32)
    for i in range(S):
        place[order[i]] = i
    pair_start = np.zeros(S + 1, np.uint32)
    row_start = np.zeros(n + 1, np.uint32)
    target = np.empty(len(rows.target), np.uint32)
    weight = np.empty(len(rows.target))
    constant = np.empty(n)
    old_pair = np.empty(n, np.uint32)
    new, to = 0, 0
    for i in range(S):
        state = order[i]
        for pair in range(rows.pair_start[state], rows.pair_start[state + 1]):
            loop = 0.0
            begin = to
            for k in range(rows.row_start[pair], rows.row_start[pair + 1]):
                if rows.target[k] == state and not keeps_loops:
                    loop += rows.weight[k]
                else:
                    target[to] = place[rows.target[k]]
                    weight[to] = rows.weight[k]
                    to += 1
            scale = 1.0 / (1.0 - loop)
            for k in range(begin, to):
                weight[k] *= scale
            constant[new] = rows.constant[pair] * scale
            old_pair[new] = pair
            new += 1
            row_start[new] = to
        pair_start[i + 1] = new
    return Rows(pair_start, row_start, target[:to].copy(), weight[:to].copy(), constant), old_pair


@nb.njit(cache=True, inline="always")
def _worth(rows: Rows, values: np.ndarray, pair: int) -> float:
    """Return Q(s,a)."""
    q = rows.constant[pair]
    for k in range(rows.row_start[pair], rows.row_start[pair + 1]):
        q += rows.weight[k] * values[rows.target[k]]
    return q


@nb.njit(cache=True, inline="always")
def _backup(rows: Rows, values: np.ndarray, state: int) -> tuple[float, int]:
    """Return max_a Q(s,a) and the first pair that has it."""
    first = rows.pair_start[state]
    best, chosen = -math.inf, first
    for pair in range(first, rows.pair_start[state + 1]):
        q = _worth(rows, values, pair)
        if q > best:
            best, chosen = q, pair
    return best, chosen


@seldom
def _apply(rows: Rows, values: np.ndarray, new: np.ndarray) -> tuple[float, float]:
    low, high = math.inf, -math.inf
    for state in range(len(values)):
        q = _worth(rows, values, state)
        new[state] = q
        change = q - values[state]
        low, high = min(low, change), max(high, change)
    return low, high
