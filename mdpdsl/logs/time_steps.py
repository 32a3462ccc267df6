"""The usual time between rows as the data have it: 60 s, not 59.

Steps are decided in bins, which are wide (see `kernels/counting.py`). Here a sample of the steps is
kept exactly. Which rows are in it depends on their numbers in their files alone, so the result is
the same however the files are shared between processes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels import counting
from mdpdsl.logs.log_rows import Records, joined

#: All rows below this number are in the sample; of the others, about half as many per octave.
ALL_BELOW = 512
LEAST_STRIDE = 256
#: A step is the usual one if at least this share of the steps near it are equal to it.
COMMON = 0.1
#: Above this many steps, equal ones are put together.
COMPACT_ABOVE = 1_000_000


class StepSample:
    """Keeps some of the time steps of rows that are in order."""

    def __init__(self) -> None:
        self._parts: list[tuple[FloatArray, IntArray]] = []  # steps, and how often each occurs
        self._n_kept = 0
        self._last: Records | None = None
        self.largest_time = 0.0

    def add(self, records: Records) -> None:
        """Look at the next rows."""
        if len(records) == 0:
            return
        places = _sampled(records.row)
        last, self._last = self._last, records.take(slice(-1, None))
        if last is not None and len(places) and places[0] == 0:
            self._add(joined([last, records.take(slice(0, 1))]), np.ones(1, np.int64))
        places = places[places > 0]
        if len(places):
            self._add(records, places)

    def steps(self) -> tuple[FloatArray, IntArray]:
        """Return the different steps, ascending, and how often each occurs."""
        return _compacted(self._parts)

    def _add(self, records: Records, places: IntArray) -> None:
        source, episode, time = records.source, records.episode, records.time
        before = places - 1
        step = time[places] - time[before]
        is_step = (source[places] == source[before]) & (episode[places] == episode[before])
        is_step &= (source[places] >= 0) & (step > 0)
        if not is_step.any():
            return
        found = step[is_step]
        self.largest_time = max(self.largest_time, float(np.abs(time[places[is_step]]).max()))
        self._parts.append((found, np.ones(len(found), np.int64)))
        self._n_kept += len(found)
        if self._n_kept > COMPACT_ABOVE:
            self._parts = [_compacted(self._parts)]
            self._n_kept = 0


def usual_step(
    samples: Iterable[tuple[FloatArray, IntArray]], usual_bin: int, largest_time: float
) -> float | None:
    """Return the most common step of the usual bin; their median if none is common.

    Return None if the sample has no step near the usual one. Times have limited precision: a step
    is given with the fewest digits that this precision allows.
    """
    step, number = _compacted(list(samples))
    for width in (0, counting.NEAR):
        low, high = (
            2 ** ((edge - counting.UNIT_BIN) / counting.BINS)
            for edge in (usual_bin - width, usual_bin + width + 1)
        )
        is_near = (step >= low) & (step < high)
        if is_near.any():
            break
    else:
        return None
    step, number = step[is_near], number[is_near]
    error = 2 * max(float(np.spacing(largest_time)), float(np.spacing(step[-1])))
    # Steps that differ only by rounding are one step.
    group = np.concatenate([[0], np.cumsum(np.diff(step) > error)])
    size = np.bincount(group, number)
    best = int(size.argmax())
    if size[best] >= COMMON * size.sum():
        members = group == best
        middle = float(np.average(step[members], weights=number[members]))
        return _shortest(middle, error)
    half = np.searchsorted(np.cumsum(number), (number.sum() + 1) // 2)
    return float(f"{step[half]:.3g}")


def _shortest(value: float, error: float) -> float:
    """Return the number with the fewest digits within an error of a value."""
    for digits in range(1, 17):
        rounded = float(f"{value:.{digits}g}")
        if abs(rounded - value) <= error:
            return rounded
    return value


def _sampled(row: IntArray) -> IntArray:
    """Return the places of the rows that are in the sample."""
    n = len(row)
    if int(row[-1]) - int(row[0]) == n - 1 and int(row[0]) >= ALL_BELOW and n > 1:
        # Rows of a file one after the other, nearly always: the stride of the first is enough.
        candidates = np.arange(-int(row[0]) % LEAST_STRIDE, n, LEAST_STRIDE)
    else:
        candidates = np.flatnonzero(((row & (LEAST_STRIDE - 1)) == 0) | (row < ALL_BELOW))
    chosen = row[candidates]
    octave = np.floor(np.log2(np.maximum(chosen, 1))).astype(np.int64)
    stride = 1 << np.maximum(octave - round(math.log2(LEAST_STRIDE)), 0)
    stride = np.where(chosen < ALL_BELOW, 1, np.maximum(stride, LEAST_STRIDE))
    return np.asarray(candidates[chosen % stride == 0])


def _compacted(parts: list[tuple[FloatArray, IntArray]]) -> tuple[FloatArray, IntArray]:
    if not parts:
        return np.empty(0), np.empty(0, np.int64)
    step, place = np.unique(np.concatenate([part for part, _ in parts]), return_inverse=True)
    number = np.bincount(place, np.concatenate([n for _, n in parts]), len(step))
    return step, number.astype(np.int64)
