"""Extended value iteration: the best policy and the best model within l1 balls, undiscounted.

u <- u + LAZINESS (max_a [w + max_p <p, u>] - u), where the inner maximum over ||p - p_hat||_1 <= b
moves a mass of min(b/2, 1 - p_hat(s*)) to the best state s* from the successors with the lowest
values (Jaksch, Ortner and Auer 2010, figure 2). The optimal gain lies between the smallest and the
largest change of a sweep (Puterman 1994, theorem 8.5.5). A LAZINESS below 1 keeps periodic models
from cycling. The value of an end is the mean over the starts, as the next episode starts without a
step; it is never the best state, since no mean exceeds the largest value.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.compiled import seldom

#: The share of its change by which a sweep moves a value.
LAZINESS = 0.9


class Balls(NamedTuple):
    """Estimated rows with their radii; the entries of a row are kept sorted by value."""

    pair_start: IntArray  # [S + 1]
    entry_start: IntArray  # [n_pairs + 1]
    successor: StateArray  # [n_entries]
    probability: FloatArray  # [n_entries]
    radius: FloatArray  # [n_pairs]
    starts: FloatArray  # [S]  where episodes start after an end, which is a state without pairs


@nb.njit(cache=True)
def iterate_extended(
    balls: Balls,
    weights: FloatArray,
    values: FloatArray,
    tolerance: float,
    most_sweeps: int,
) -> tuple[float, float, int, int]:
    """Sweep until the gain is known to a relative tolerance.

    Return its lower and upper bound, the best state and the number of sweeps. Values change in
    place, and the entries of every row of `balls` are left sorted by value.
    """
    S = len(values)
    best_state = 0
    low, high = -math.inf, math.inf
    for sweep in range(most_sweeps):
        best_state = _best_state(balls, values)
        _fill_ends(balls, values)
        low, high = math.inf, -math.inf
        changes = np.empty(S)
        for state in range(S):
            if balls.pair_start[state] == balls.pair_start[state + 1]:
                changes[state] = 0.0
                continue
            best = -math.inf
            for pair in range(balls.pair_start[state], balls.pair_start[state + 1]):
                q = weights[pair] + _best_expectation(balls, values, pair, best_state)
                best = max(best, q)
            changes[state] = best - values[state]
            low, high = min(low, changes[state]), max(high, changes[state])
        if high - low <= tolerance * abs(high):
            return low, high, best_state, sweep + 1
        base = values[best_state]
        for state in range(S):
            values[state] += LAZINESS * changes[state] - base
    return low, high, best_state, most_sweeps


@nb.njit(cache=True)
def best_pairs(
    balls: Balls, weights: FloatArray, values: FloatArray, best_state: int
) -> np.ndarray:
    """Return the best pair of every state, the first if several are equally good; -1 for ends."""
    chosen = np.full(len(values), -1)
    for state in range(len(values)):
        best = -math.inf
        for pair in range(balls.pair_start[state], balls.pair_start[state + 1]):
            q = weights[pair] + _best_expectation(balls, values, pair, best_state)
            if q > best:
                best, chosen[state] = q, pair
    return chosen


@nb.njit(cache=True)
def believed_rows(
    balls: Balls, values: FloatArray, best_state: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the inner maximum: what entries keep, and what the best state gains."""
    kept = balls.probability.copy()
    moved = np.ones(len(balls.radius))
    for pair in range(len(balls.radius)):
        start, end = balls.entry_start[pair], balls.entry_start[pair + 1]
        if balls.radius[pair] >= 2.0:
            kept[start:end] = 0.0
            continue
        _sort_row(balls, values, start, end)
        moved[pair] = _movable(balls, start, end, pair, best_state)
        left = moved[pair]
        for entry in range(start, end):
            p = balls.probability[entry]
            taken = 0.0
            if balls.successor[entry] != best_state:
                taken = min(left, p)
                left -= taken
            kept[entry] = p - taken
        moved[pair] -= left
    return kept, moved


@nb.njit(cache=True)
def visits_before_end(
    entry_start: IntArray,
    successor: StateArray,
    staying: FloatArray,
    start: FloatArray,
    tolerance: float,
    most_sweeps: int,
) -> tuple[np.ndarray, bool]:
    """Return the expected visits of the states of a transient chain, and whether they converged.

    m = sum_k (Q^T)^k start for the rows Q = `staying` [n_entries] (Kemeny and Snell 1960, the
    fundamental matrix), summed until the mass left is small beside the sum.
    """
    S = len(start)
    total, wave = start.copy(), start.copy()
    mass = start.sum()
    for _ in range(most_sweeps):
        following = np.zeros(S)
        for state in range(S):
            if wave[state] > 0.0:
                for entry in range(entry_start[state], entry_start[state + 1]):
                    following[successor[entry]] += wave[state] * staying[entry]
        left = following.sum()
        total += following
        mass += left
        wave = following
        if left <= tolerance * mass:
            return total, True
    return total, False


@seldom
def _best_state(balls: Balls, values: FloatArray) -> int:
    """Return the state with the largest value that is no end."""
    best, found = -math.inf, 0
    for state in range(len(values)):
        if values[state] > best and balls.pair_start[state] < balls.pair_start[state + 1]:
            best, found = values[state], state
    return found


@seldom
def _fill_ends(balls: Balls, values: FloatArray) -> None:
    mean = 0.0
    for state in range(len(values)):
        mean += balls.starts[state] * values[state]
    for state in range(len(values)):
        if balls.pair_start[state] == balls.pair_start[state + 1]:
            values[state] = mean


@seldom
def _best_expectation(balls: Balls, values: FloatArray, pair: int, best_state: int) -> float:
    """Return the largest expectation of the values within the ball of a pair."""
    top = values[best_state]
    if balls.radius[pair] >= 2.0:
        return top
    start, end = balls.entry_start[pair], balls.entry_start[pair + 1]
    _sort_row(balls, values, start, end)
    moved = _movable(balls, start, end, pair, best_state)
    total = 0.0
    left = moved
    for entry in range(start, end):
        p = balls.probability[entry]
        taken = min(left, p) if balls.successor[entry] != best_state else 0.0
        left -= taken
        total += (p - taken) * values[balls.successor[entry]]
    return total + (moved - left) * top


@seldom
def _movable(balls: Balls, start: int, end: int, pair: int, best_state: int) -> float:
    """Return how much mass of a row may move to the best state."""
    here = 0.0
    for entry in range(start, end):
        if balls.successor[entry] == best_state:
            here = balls.probability[entry]
    return min(balls.radius[pair] / 2.0, max(0.0, 1.0 - here))


@seldom
def _sort_row(balls: Balls, values: FloatArray, start: int, end: int) -> None:
    """Sort a row's entries by value, ascending; by insertion, as they are nearly sorted already."""
    for i in range(start + 1, end):
        state, p = balls.successor[i], balls.probability[i]
        j = i - 1
        while j >= start and values[balls.successor[j]] > values[state]:
            balls.successor[j + 1], balls.probability[j + 1] = (
                balls.successor[j],
                balls.probability[j],
            )
            j -= 1
        balls.successor[j + 1], balls.probability[j + 1] = state, p
