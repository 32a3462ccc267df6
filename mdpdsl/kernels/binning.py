"""From numbers to the cells of a variable, row by row: `Variable.indices` without temporary arrays.

A row's code is  sum_v stride(v) cell(v)  over its variables v. Each `add_…` function adds the term
of one variable and returns how many rows have no cell. A missing number (NaN, or NO_NUMBER among
whole numbers) makes the code MISSING where missing numbers are allowed.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.compiled import NUMBERS, SHORT_NUMBERS, WHOLE_NUMBERS, entry, inner, reading

#: So far below zero that adding cells never makes it a valid code.
MISSING = -(1 << 62)
#: The smallest 64-bit integer marks a missing whole number.
NO_NUMBER = -(1 << 63)

_CODES = nb.int64[::1]
_TYPES: Any = nb.types
_TWO = _TYPES.UniTuple(nb.int64, 2)


@inner
def _is_missing(value: float) -> bool:
    return value != value or value == float(NO_NUMBER)


@inner
def _real_cell(value: float, edges: FloatArray, wraps: bool, scale: float) -> int:
    """Return the cell of a finite number.

    The cell is guessed as if all were equally wide, and corrected by comparing with the edges;
    where the widths differ too much for that, it is found by binary search.
    """
    n_cells = len(edges) - 1
    low, high = edges[0], edges[n_cells]
    if wraps:
        offset = value - low
        if offset < 0 or offset >= high - low:  # in range there is nothing to wrap
            offset %= high - low
        value = low + offset
    value = min(max(value, low), high)
    guess = (value - low) * scale
    # The scale may be infinite; a guess of NaN is not smaller either.
    cell = int(guess) if guess < n_cells else n_cells - 1
    if edges[cell] > value and cell > 0:
        cell -= 1
    elif edges[cell + 1] <= value and cell < n_cells - 1:
        cell += 1
    if edges[cell] > value or (edges[cell + 1] <= value and cell < n_cells - 1):
        cell = min(n_cells - 1, int(np.searchsorted(edges, value, side="right")) - 1)
    return cell


@entry
def real_cells(values: FloatArray, edges: FloatArray, wraps: bool, cells: IntArray) -> int:
    """Write the cell of each number, -1 where it is not finite; return how many were clipped."""
    low, high = edges[0], edges[-1]
    scale = (len(edges) - 1) / (high - low)
    n_clipped = 0
    for i in range(len(values)):
        value = values[i]
        if not math.isfinite(value):
            cells[i] = -1
            continue
        if not wraps and (value < low or value > high):
            n_clipped += 1
        cells[i] = _real_cell(value, edges, wraps, scale)
    return n_clipped


@reading(
    *(_TWO(values, NUMBERS, nb.boolean, nb.int64, _CODES) for values in (NUMBERS, WHOLE_NUMBERS))
)
def add_real_cells(
    values: FloatArray, edges: FloatArray, wraps: bool, stride: int, code: IntArray
) -> tuple[int, int]:
    """Add the cells of a real variable; return how many numbers are not finite, and clipped."""
    low, high = edges[0], edges[-1]
    scale = (len(edges) - 1) / (high - low)
    n_bad, n_clipped = 0, 0
    for i in range(len(values)):
        value = float(values[i])
        offset = value - low
        if offset >= 0 and value < high:  # the guess is nearly always right
            inside = low + offset if wraps else value
            guess = np.uint64(offset * scale)
            if guess < len(edges) - 1 and edges[guess] <= inside < edges[guess + np.uint64(1)]:
                code[i] += stride * np.int64(guess)
                continue
        if not math.isfinite(value) or _is_missing(value):
            n_bad += 1
            continue
        if not wraps and (value < low or value > high):
            n_clipped += 1
        code[i] += stride * _real_cell(value, edges, wraps, scale)
    return n_bad, n_clipped


@reading(
    *(
        nb.int64(values, nb.float64, nb.int64, nb.int64, nb.boolean, _CODES)
        for values in (NUMBERS, WHOLE_NUMBERS)
    )
)
def add_whole_cells(
    values: FloatArray, low: float, size: int, stride: int, may_miss: bool, code: IntArray
) -> int:
    """Add the cells of a variable that counts from `low`."""
    n_bad = 0
    for i in range(len(values)):
        value = float(values[i])
        offset = value - low
        if offset >= 0 and offset < size and offset == math.floor(offset):
            code[i] += stride * int(offset)
        elif may_miss and _is_missing(value):
            code[i] = MISSING
        else:
            n_bad += 1
    return n_bad


@reading(
    *(
        nb.int64(values, NUMBERS, WHOLE_NUMBERS, nb.float64, nb.int64, nb.boolean, _CODES)
        for values in (NUMBERS, WHOLE_NUMBERS)
    )
)
def add_set_cells(
    values: FloatArray,
    members: FloatArray,
    order: IntArray,
    tolerance: float,
    stride: int,
    may_miss: bool,
    code: IntArray,
) -> int:
    """Add the cells of a variable with listed members: ascending here, `order` has their cells."""
    n_bad = 0
    last = len(members) - 1
    scale = last / (members[last] - members[0]) if last > 0 else 0.0
    for i in range(len(values)):
        value = float(values[i])
        if _is_missing(value):
            if may_miss:
                code[i] = MISSING
            else:
                n_bad += 1
            continue
        # A guess finds equally spaced members; others are found by binary search.
        place = int(min(max((value - members[0]) * scale + 0.5, 0.0), float(last)))
        if not abs(members[place] - value) <= tolerance:
            place = min(int(np.searchsorted(members, value - tolerance)), last)
            if not abs(members[place] - value) <= tolerance:
                n_bad += 1
                continue
        code[i] += stride * order[place]
    return n_bad


@reading(
    nb.int64(
        WHOLE_NUMBERS,
        WHOLE_NUMBERS,
        nb.int64,
        SHORT_NUMBERS,
        nb.int64,
        nb.int32[::1],
        nb.int32[::1],
    )
)
def add_pairs(
    state: IntArray,
    action: IntArray,
    n_actions: int,
    table: StateArray,
    no_action: int,
    states: StateArray,
    pairs: StateArray,
) -> int:
    """Write states and pairs as 32-bit integers; return how many actions are not available.

    `table` has the pair of each state and action, or what is written in its place; -1 where there
    is none. It is empty where every action is available in every state.
    """
    n_bad = 0
    for i in range(len(state)):
        states[i] = state[i]
        if action[i] < 0:
            pairs[i] = no_action
            continue
        pair = state[i] * n_actions + action[i]
        if len(table) > 0:
            pair = np.int64(table[pair])
            if pair == -1:
                n_bad += 1
        pairs[i] = pair
    return n_bad
