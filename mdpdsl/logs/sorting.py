"""Rows of a log sorted in bounded memory.

Rows are sorted in runs that fit in memory, which are written to a temporary folder. Marks, taken
from a sample of all rows, cut every run into slices. The slices between two marks, one from each
run, are read together and sorted again.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mdpdsl.kernels.radix_sort import real_keys, refine_order, whole_keys
from mdpdsl.logs.log_rows import ARRAYS, Records, records_from

#: Rows of a run; sorting takes about 130 bytes per row.
RUN_ROWS = 250_000
#: One row of a run in this many is in the sample.
SAMPLE_STEP = 1_024
#: Threads that sort; each holds a run in memory.
MOST_THREADS = 4

T = TypeVar("T")

_Packed = npt.NDArray[np.void]
_Mark = tuple[int, int, float]  # source, episode, time
_WIDE = {"episode": np.int64, "time": np.float64, "row": np.int64}
#: The numbers of a row side by side, so that it is moved as one piece.
_ROW = [(name, _WIDE.get(name, np.int32)) for name in ARRAYS]


def sorted_records(
    records: Iterator[Records], batch_rows: int, n_real: int | None = None
) -> Iterator[Records]:
    """Return rows by source, episode and time; rows of the same time keep their order.

    Files that share no episodes follow each other, whatever the sign of their source. `n_real` is
    how many numbers of real variables each row has; None if they are not asked for.
    """
    n_threads = min(MOST_THREADS, os.cpu_count() or 1)
    row = np.dtype(_ROW if n_real is None else [*_ROW, ("real", np.float64, (n_real,))])
    sorters = _Sorters(n_threads, row)
    with (
        tempfile.TemporaryDirectory(prefix="mdpdsl-") as folder,
        ThreadPoolExecutor(n_threads) as threads,
    ):
        here = Path(folder)
        writing = ((sorters, parts, here / f"{n}") for n, parts in enumerate(_pieces(records)))
        runs = list(_in_order(threads, n_threads, _written, writing))
        if not runs:
            return
        is_clean = all(run.is_clean for run in runs)
        merging = ((sorters, runs, cuts, batch_rows, is_clean) for cuts in pairwise(_cuts(runs)))
        for batches in _in_order(threads, n_threads, _merged, merging):
            yield from batches


def _in_order(
    threads: Executor,
    n_ahead: int,
    function: Callable[..., T],
    arguments: Iterator[tuple[Any, ...]],
) -> Iterator[T]:
    """Call a function in threads, a few calls ahead, and return the results in order."""
    waiting: deque[Future[T]] = deque()
    for each in arguments:
        if len(waiting) >= n_ahead:
            yield waiting.popleft().result()
        waiting.append(threads.submit(function, *each))
    while waiting:
        yield waiting.popleft().result()


def _pieces(records: Iterator[Records]) -> Iterator[list[Records]]:
    """Gather batches until they have about the rows of a run."""
    kept: list[Records] = []
    n_rows = 0
    for part in records:
        kept.append(part)
        n_rows += len(part)
        if n_rows >= RUN_ROWS:
            yield kept
            kept, n_rows = [], 0
    if n_rows:
        yield kept


def _written(sorters: _Sorters, parts: Sequence[Records], path: Path) -> _Run:
    """Sort a run and write it."""
    with sorters.one() as sorter:
        rows = sorter.room(sum(len(part) for part in parts))
        start = 0
        for part in parts:
            for name in rows.dtype.names or ():
                rows[name][start : start + len(part)] = getattr(part, name)
            start += len(part)
        ordered = sorter.sorted_rows(start)
        ordered.tofile(path)
        sample = ordered[::SAMPLE_STEP].copy()
    return _Run(path, start, sample, all(part.is_clean for part in parts))


@dataclass(frozen=True, eq=False)
class _Run:
    """Sorted rows in a file."""

    path: Path
    size: int
    sample: _Packed  # one row in SAMPLE_STEP
    is_clean: bool

    def rows(self, begin: int, end: int) -> _Packed:
        """Read some of the rows."""
        row = self.sample.dtype
        return np.fromfile(self.path, row, end - begin, offset=begin * row.itemsize)

    def place(self, mark: _Mark) -> int:
        """Return how many rows are below a mark."""
        block = max(0, bisect_left(self.sample, mark, key=_mark) - 1)
        begin = block * SAMPLE_STEP
        rows = self.rows(begin, min(self.size, begin + SAMPLE_STEP + 1))
        return begin + bisect_left(rows, mark, key=_mark)


def _merged(
    sorters: _Sorters,
    runs: Sequence[_Run],
    cuts: tuple[list[int], list[int]],
    batch_rows: int,
    is_clean: bool,
) -> list[Records]:
    """Read the slices between two cuts, and return their rows in order, in batches."""
    slices = [run.rows(i, j) for run, i, j in zip(runs, *cuts, strict=True)]
    n = sum(len(part) for part in slices)
    with sorters.one() as sorter:
        np.concatenate(slices, out=sorter.room(n))
        rows = sorter.sorted_rows(n)
        return [_unpacked(rows[i : i + batch_rows], is_clean) for i in range(0, n, batch_rows)]


def _unpacked(rows: _Packed, is_clean: bool) -> Records:
    real = rows["real"].copy() if "real" in (rows.dtype.names or ()) else None
    return records_from({name: rows[name].copy() for name in ARRAYS}, is_clean, real)


def _cuts(runs: Sequence[_Run]) -> Iterator[list[int]]:
    """Return where each run is cut, from its beginning to its end."""
    yield [0] * len(runs)
    n_pieces = -(-sum(run.size for run in runs) // RUN_ROWS)
    if n_pieces > 1:
        sample = sorted(_mark(row) for run in runs for row in run.sample)
        marks = {sample[i * len(sample) // n_pieces] for i in range(1, n_pieces)}
        for mark in sorted(marks):
            yield [run.place(mark) for run in runs]
    yield [run.size for run in runs]


def _mark(row: np.void) -> _Mark:
    return abs(int(row["source"])), int(row["episode"]), float(row["time"])


class _Sorter:
    """Sorts rows in memory that it allocates once."""

    def __init__(self, row: np.dtype[np.void]) -> None:
        self._row = row
        self._rows: _Packed = np.empty(0, row)

    def room(self, n: int) -> _Packed:
        """Return memory for n rows, to be filled before they are sorted."""
        if len(self._rows) < n:
            self._rows, self._sorted = np.empty(n, self._row), np.empty(n, self._row)
            self._order, self._other = np.empty(n, np.int64), np.empty(n, np.int64)
            self._here, self._there = np.empty(n, np.uint64), np.empty(n, np.uint64)
        return self._rows[:n]

    def sorted_rows(self, n: int) -> _Packed:
        """Sort the rows written to `room`; the result is valid until `room` is called again."""
        rows, order = self._rows[:n], self._order[:n]
        scratch = (self._here[:n], self._there[:n], self._other[:n])
        order[:] = np.arange(n)
        refine_order(real_keys(rows["time"]), order, *scratch)
        refine_order(whole_keys(rows["episode"]), order, *scratch)
        refine_order(whole_keys(np.abs(rows["source"])), order, *scratch)
        return np.take(rows, order, out=self._sorted[:n], mode="clip")


class _Sorters:
    """A pool of sorters, one for each thread."""

    def __init__(self, n: int, row: np.dtype[np.void]) -> None:
        self._free: SimpleQueue[_Sorter] = SimpleQueue()
        for _ in range(n):
            self._free.put(_Sorter(row))

    @contextmanager
    def one(self) -> Iterator[_Sorter]:
        """Lend a sorter."""
        sorter = self._free.get()
        try:
            yield sorter
        finally:
            self._free.put(sorter)
