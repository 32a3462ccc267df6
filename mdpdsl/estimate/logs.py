"""Logs to counts: every file, in batches, in order or brought into order.

Consecutive rows of one episode make a transition, unless time jumps between them, or one of the
rows is rejected where it is needed. Files are taken as they come; if a row shows that they are not
ordered by episode and time, all of it is sorted on disk and counted again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.estimate.ahead import ahead
from mdpdsl.estimate.columns import ColumnPlan, column_plan
from mdpdsl.estimate.conversion import Converter
from mdpdsl.estimate.counts import Counts
from mdpdsl.estimate.readers import (
    BATCH_ROWS,
    LogFile,
    LogFileError,
    RawBatch,
    expand_paths,
    open_log,
    read_log,
)
from mdpdsl.estimate.records import Records
from mdpdsl.estimate.rejections import Rejections
from mdpdsl.estimate.sequences import (
    OrderWatch,
    OutOfOrderError,
    Sequencer,
    TransitionTable,
    usual_step_bin,
)
from mdpdsl.estimate.sorting import sorted_records
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels import counting

#: Told after every batch: rows read so far.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class LogProblem:
    """What is wrong with a file as a whole, or with how it was named."""

    message: str
    help: str | None = None


@dataclass(frozen=True)
class FileRead:
    """A file of which rows were read."""

    path: str
    bytes: int
    rows: int


@dataclass(frozen=True, eq=False)
class LogCounts:
    """What logs say."""

    counts: Counts
    rejected: Rejections
    clipped: dict[str, int]  # values beyond the ends of a variable that saturates
    files: tuple[FileRead, ...]
    problems: tuple[LogProblem, ...]
    rows: int
    was_sorted: bool  # whether the rows came in order
    time_step: float | None  # about; None without times
    seconds: float


class LogError(Exception):
    """No log could be read; the problems say why."""

    def __init__(self, problems: Sequence[LogProblem]) -> None:
        super().__init__("; ".join(p.message for p in problems))
        self.problems = tuple(problems)


def count_logs(
    model: CheckedModel,
    graph: TransitionGraph,
    patterns: Sequence[str | Path],
    *,
    are_files_separate: bool = False,
    time_step: float | None = None,
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
) -> LogCounts:
    """Count the transitions of files, folders and globs over the pairs of a graph.

    An episode goes on in another file if both have episodes and times, unless files are separate.
    Raise LogError if there is no row to read.
    """
    began = time.perf_counter()
    inputs, problems = _opened(model, [str(pattern) for pattern in patterns])
    if not inputs:
        raise LogError(problems)
    usual_bin = None if time_step is None else _bin_of(time_step)
    is_ordered = True
    while True:
        attempt = _Attempt(
            model, graph, inputs, are_files_separate, usual_bin, batch_rows, progress
        )
        try:
            attempt.run(is_ordered)
        except OutOfOrderError:
            is_ordered = False
            continue
        found = usual_step_bin(attempt.sequencer.histogram)
        if found is None or usual_bin is not None or attempt.sequencer.usual_bin == found:
            break
        usual_bin = found  # the first rows had another step than most
    problems += attempt.problems
    n_rows = sum(attempt.rows)
    if n_rows == 0:
        empty = [LogProblem(f"{log.path} has no rows") for log, _ in inputs]
        raise LogError(problems or empty)
    return LogCounts(
        counts=attempt.table.counts(),
        rejected=_placed(attempt.rejected, [log for log, _ in inputs]),
        clipped=attempt.clipped,
        files=tuple(
            FileRead(str(log.path), _size(log.path), n)
            for (log, _), n in zip(inputs, attempt.rows, strict=True)
        ),
        problems=tuple(problems),
        rows=n_rows,
        was_sorted=is_ordered,
        time_step=time_step if time_step is not None else attempt.time_step,
        seconds=time.perf_counter() - began,
    )


_Inputs = list[tuple[LogFile, ColumnPlan]]


def _opened(model: CheckedModel, patterns: Sequence[str]) -> tuple[_Inputs, list[LogProblem]]:
    paths, missing = expand_paths(patterns)
    problems = [LogProblem(text) for text in missing]
    inputs: _Inputs = []
    for path in paths:
        try:
            log = open_log(path)
            inputs.append((log, column_plan(model, log)))
        except LogFileError as error:
            problems.append(LogProblem(str(error), error.help))
    return inputs, problems


@dataclass(eq=False)
class _Attempt:
    """One pass over all files."""

    model: CheckedModel
    graph: TransitionGraph
    inputs: _Inputs
    are_files_separate: bool
    usual_bin: int | None
    batch_rows: int
    progress: Progress | None
    rejected: Rejections = field(default_factory=Rejections)
    clipped: dict[str, int] = field(default_factory=dict)
    problems: list[LogProblem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = [0] * len(self.inputs)
        self.table = TransitionTable(self.graph.n_pairs, self.graph.n_states)
        paths = [str(log.path) for log, _ in self.inputs]
        self.sequencer = Sequencer(self.table, self.rejected, paths, self.usual_bin)

    @property
    def time_step(self) -> float | None:
        """The usual step, to a few per cent; whole steps exactly."""
        usual_bin = self.sequencer.usual_bin
        if usual_bin is None:
            return None
        low = 2 ** ((usual_bin - counting.UNIT_BIN) / counting.BINS)
        high = 2 ** ((usual_bin + 1 - counting.UNIT_BIN) / counting.BINS)
        whole = math.ceil(low - 1e-12)
        return float(whole) if whole < high else float(f"{(low + high) / 2:.2g}")

    def run(self, is_ordered: bool) -> None:
        """Count everything; raise OutOfOrderError where order was trusted and is not there."""
        records = self._all_records()
        if is_ordered:
            watch = OrderWatch()
            for part in records:
                watch.check(part)
                self.sequencer.feed(part)
        else:
            for part in sorted_records(records, self.batch_rows):
                self.sequencer.feed(part)
        self.sequencer.finish()

    def _all_records(self) -> Iterator[Records]:
        """Convert file after file; count whole transitions on the way, they need no order."""
        for index, (log, plan) in enumerate(self.inputs):
            converter = Converter(
                self.model,
                self.graph,
                plan,
                str(log.path),
                index,
                self.are_files_separate,
                self.rejected,
                self.clipped,
            )
            try:
                for raw in ahead(read_log(log, plan.columns, self.batch_rows)):
                    if plan.next_states is None:
                        yield converter.records(raw)
                    else:
                        pairs, following = converter.transitions(raw)
                        self.table.add(pairs * self.graph.n_states + following)
                    self._note(index, raw)
                if self.rows[index] == 0:
                    self.problems.append(LogProblem(f"{log.path} has no rows"))
            except LogFileError as error:
                self.problems.append(LogProblem(str(error), error.help))

    def _note(self, index: int, raw: RawBatch) -> None:
        self.rows[index] += len(raw.rows) + len(raw.broken)
        if self.progress is not None:
            self.progress(sum(self.rows))


def _placed(rejected: Rejections, logs: Sequence[LogFile]) -> Rejections:
    """Say of examples where they are, in logs whose rows have better names than their numbers."""
    places = {str(log.path): log.place for log in logs if log.place is not None}
    for kept in rejected.examples.values():
        for i, example in enumerate(kept):
            if example.file in places:
                place = places[example.file](example.row)
                kept[i] = replace(example, found=f"{place}: {example.found}")
    return rejected


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def _bin_of(step: float) -> int:
    return int(np.floor(counting.BINS * np.log2(step))) + counting.UNIT_BIN
