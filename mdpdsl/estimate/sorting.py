"""Rows of a log brought into order, in bounded memory.

Rows are sorted in runs that fit in memory, and these go to a temporary folder. Marks between them,
taken from a sample of all rows, cut the runs into slices; the slices between two marks, one from
each run, are read together, sorted again, and handed on.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mdpdsl.estimate.ahead import ahead
from mdpdsl.estimate.records import ARRAYS, Records, records_from
from mdpdsl.kernels.ordering import real_keys, refine_order, whole_keys

#: Rows of a run; sorting takes some 130 bytes for each.
RUN_ROWS = 750_000
#: One row of a run in so many is in the sample.
SAMPLE_STEP = 256

_Packed = npt.NDArray[np.void]
_Mark = tuple[int, int, float]  # source, episode, time
_WIDE = {"episode": np.int64, "time": np.float64, "row": np.int64}
#: The numbers of a row side by side: it is then moved at one go.
_ROW = np.dtype([(name, _WIDE.get(name, np.int32)) for name in ARRAYS])


def sorted_records(records: Iterator[Records], batch_rows: int) -> Iterator[Records]:
    """Return rows by source, episode and time; rows of one time in the order they come.

    Files whose episodes are their own come one after the other, whatever the sign of their source.
    """
    with tempfile.TemporaryDirectory(prefix="mdpdsl-") as folder:
        runs, is_clean = _sorted_runs(records, Path(folder))
        yield from ahead(_merged(runs, batch_rows, is_clean))


def _sorted_runs(records: Iterator[Records], folder: Path) -> tuple[list[_Run], bool]:
    """Write runs while the next rows are read; return them, and whether all rows are clean."""
    sorter = _Sorter()
    runs: list[_Run] = []
    is_clean = True
    waiting: Future[_Run] | None = None
    with ThreadPoolExecutor(1) as thread:
        for n, parts in enumerate(_pieces(records)):
            is_clean &= all(part.is_clean for part in parts)
            if waiting is not None:
                runs.append(waiting.result())
            waiting = thread.submit(_written, sorter, parts, folder / f"{n}")
        if waiting is not None:
            runs.append(waiting.result())
    return runs, is_clean


def _pieces(records: Iterator[Records]) -> Iterator[list[Records]]:
    """Gather batches to about as many rows as a run has."""
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


def _written(sorter: _Sorter, parts: Sequence[Records], path: Path) -> _Run:
    """Sort a run and write it."""
    rows = sorter.room(sum(len(part) for part in parts))
    start = 0
    for part in parts:
        for name in ARRAYS:
            rows[name][start : start + len(part)] = getattr(part, name)
        start += len(part)
    ordered = sorter.sorted_rows(start)
    ordered.tofile(path)
    return _Run(path, start, ordered[::SAMPLE_STEP].copy())


@dataclass(frozen=True, eq=False)
class _Run:
    """Sorted rows in a file."""

    path: Path
    size: int
    sample: _Packed  # one row in SAMPLE_STEP

    def rows(self, begin: int, end: int) -> _Packed:
        """Read some of the rows."""
        return np.fromfile(self.path, _ROW, end - begin, offset=begin * _ROW.itemsize)

    def place(self, mark: _Mark) -> int:
        """Return how many rows are below a mark."""
        block = max(0, bisect_left(self.sample, mark, key=_mark) - 1)
        begin = block * SAMPLE_STEP
        rows = self.rows(begin, min(self.size, begin + SAMPLE_STEP + 1))
        return begin + bisect_left(rows, mark, key=_mark)


def _merged(runs: Sequence[_Run], batch_rows: int, is_clean: bool) -> Iterator[Records]:
    sorter = _Sorter()
    for begins, ends in pairwise(_cuts(runs)):
        slices = [run.rows(i, j) for run, i, j in zip(runs, begins, ends, strict=True)]
        n = sum(len(part) for part in slices)
        np.concatenate(slices, out=sorter.room(n))
        rows = sorter.sorted_rows(n)
        for start in range(0, n, batch_rows):
            batch = rows[start : start + batch_rows]
            yield records_from({name: batch[name].copy() for name in ARRAYS}, is_clean)


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
    """Sorts rows in memory that is taken once."""

    def __init__(self) -> None:
        self._rows: _Packed = np.empty(0, _ROW)

    def room(self, n: int) -> _Packed:
        """Return room for n rows, to be written to before they are sorted."""
        if len(self._rows) < n:
            self._rows, self._sorted = np.empty(n, _ROW), np.empty(n, _ROW)
            self._order, self._other = np.empty(n, np.int64), np.empty(n, np.int64)
            self._here, self._there = np.empty(n, np.uint64), np.empty(n, np.uint64)
        return self._rows[:n]

    def sorted_rows(self, n: int) -> _Packed:
        """Sort what was written; rows of one time keep their order. Good until the next room."""
        rows, order = self._rows[:n], self._order[:n]
        scratch = (self._here[:n], self._there[:n], self._other[:n])
        order[:] = np.arange(n)
        refine_order(real_keys(rows["time"]), order, *scratch)
        refine_order(whole_keys(rows["episode"]), order, *scratch)
        refine_order(whole_keys(np.abs(rows["source"])), order, *scratch)
        return np.take(rows, order, out=self._sorted[:n], mode="clip")
