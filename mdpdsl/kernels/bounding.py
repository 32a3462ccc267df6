"""Sweeps in place over affine rows that approach the values, and sweeps that prove bounds of them.

If  T u <= u  the values u are *inductive* from above, if  T l >= l  from below. A sweep in place
that lowers (or raises) every entry leaves inductive values, since T is monotone: every entry was
computed from entries that have only fallen (risen) since.
"""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.kernels.affine_rows import Rows
from mdpdsl.kernels.compiled import entry
from mdpdsl.kernels.solving import _backup, _worth


@entry
def approach(rows: Rows, values: np.ndarray, choice: np.ndarray, floor: float) -> float:
    """Back up every state once, in order and in place; return the largest relative change.

    It is relative to the value, or to `floor` if that is larger.
    """
    largest = 0.0
    for state in range(len(values)):
        best, chosen = _backup(rows, values, state)
        change = abs(best - values[state]) / max(floor, abs(best))
        values[state] = best
        choice[state] = chosen
        largest = max(largest, change)
    return largest


@entry
def approach_policy(
    rows: Rows, values: np.ndarray, n_sweeps: int, least: float, floor: float
) -> int:
    """Back up every state by its only pair until no relative change is large; count sweeps."""
    for done in range(n_sweeps):
        largest = 0.0
        for state in range(len(values)):
            q = _worth(rows, values, state)
            largest = max(largest, abs(q - values[state]) / max(floor, abs(q)))
            values[state] = q
        if largest <= least:
            return done + 1
    return n_sweeps


@entry
def prove(
    rows: Rows,
    above: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    choice: np.ndarray,
    least: float,
    most: float,
    relative: float,
    absolute: float,
) -> tuple[bool, bool]:
    """Raise one side and lower the other, in place; return whether each is inductive now.

    The upper side has the constants `above`. Results are rounded outwards. Entries at `least` and
    `most`, which are known to be bounds, need no proof. `choice` receives the pairs that prove the
    lower side.
    """
    is_lower, is_upper = True, True
    for state in range(len(lower)):
        first = rows.pair_start[state]
        best_lower, best_upper, chosen = -math.inf, -math.inf, first
        for pair in range(first, rows.pair_start[state + 1]):
            q, q_above = rows.constant[pair], above[pair]
            for k in range(rows.row_start[pair], rows.row_start[pair + 1]):
                q += rows.weight[k] * lower[rows.target[k]]
                q_above += rows.weight[k] * upper[rows.target[k]]
            if q > best_lower:
                best_lower, chosen = q, pair
            best_upper = max(best_upper, q_above)
        best_lower -= relative * abs(best_lower) + absolute
        best_upper += relative * abs(best_upper) + absolute
        if best_lower >= lower[state]:
            lower[state], choice[state] = best_lower, chosen
        elif lower[state] <= least:
            choice[state] = chosen
        else:
            is_lower = False
        if best_upper <= upper[state]:
            upper[state] = best_upper
        elif upper[state] < most:
            is_upper = False
    return is_lower, is_upper
