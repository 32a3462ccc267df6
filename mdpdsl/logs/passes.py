"""One pass over files of a log: rows to counts, in order or brought into order.

Consecutive rows of one episode make a transition, unless time jumps between them, or one of the
rows is rejected where it is needed. Files are taken as they come; if a row shows that they are not
ordered by episode and time, all of it is sorted and counted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.diagnostics import LogProblem
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.ahead import ahead
from mdpdsl.logs.conversion import Converter
from mdpdsl.logs.log_rows import Records
from mdpdsl.logs.order import TransitionOrder
from mdpdsl.logs.readers.files import LogFile, LogFileError, RawBatch, open_log, read_log
from mdpdsl.logs.rejections import Rejections
from mdpdsl.logs.sequences import OrderWatch, OutOfOrderError, Sequencer, TransitionTable
from mdpdsl.logs.sorting import sorted_records
from mdpdsl.logs.sources import ColumnPlan, column_plan

#: Told after every batch: rows read so far.
Progress = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class LogReading:
    """How a log is read; all that a pass needs beside the files."""

    model: CheckedModel
    graph: TransitionGraph
    are_files_separate: bool
    batch_rows: int
    order: TransitionOrder | None = None  # keeps transitions as they come, too


@dataclass(frozen=True, eq=False)
class Part:
    """What some files of a log say; parts of different episodes add up."""

    files: tuple[int, ...]
    counts: Counts
    rejected: Rejections
    clipped: dict[str, int]  # values beyond the ends of a variable that saturates
    problems: tuple[LogProblem, ...]
    rows: tuple[int, ...]  # of each file
    was_sorted: bool  # whether the rows came in order
    histogram: IntArray  # of steps of time, by bins
    usual_bin: int | None  # the bin of steps that were taken for usual; None where all were
    episodes: IntArray  # keys of episodes that may go on in other files


def open_logs(model: CheckedModel, paths: Sequence[Path]) -> tuple[list[Path], list[LogProblem]]:
    """Return the files that can be read and have the columns of the model."""
    good, problems = [], []
    for path in paths:
        try:
            column_plan(model, open_log(path))
            good.append(path)
        except LogFileError as error:
            problems.append(LogProblem(str(error), error.help))
    return good, problems


def count_part(
    reading: LogReading,
    files: Sequence[tuple[int, Path]],
    usual_bin: int | None,
    progress: Progress | None = None,
) -> Part:
    """Count the transitions of some files, each with its number among all."""
    for is_ordered in (True, False):
        attempt = _Attempt(reading, files, usual_bin, progress)
        try:
            attempt.run(is_ordered)
            break
        except OutOfOrderError:
            continue
    return Part(
        files=tuple(index for index, _ in files),
        counts=attempt.table.counts(),
        rejected=attempt.placed_rejections(),
        clipped=attempt.clipped,
        problems=tuple(attempt.problems),
        rows=tuple(attempt.rows),
        was_sorted=is_ordered,
        histogram=attempt.sequencer.histogram,
        usual_bin=attempt.sequencer.usual_bin,
        episodes=attempt.episodes,
    )


@dataclass(eq=False)
class _Attempt:
    """One pass over files."""

    reading: LogReading
    files: Sequence[tuple[int, Path]]
    usual_bin: int | None
    progress: Progress | None
    rejected: Rejections = field(default_factory=Rejections)
    clipped: dict[str, int] = field(default_factory=dict)
    problems: list[LogProblem] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph = self.reading.graph
        self.rows = [0] * len(self.files)
        self.episodes = np.empty(0, np.int64)
        self.table = TransitionTable(graph.n_pairs, graph.n_states)
        paths = {index: str(path) for index, path in self.files}
        order = self.reading.order
        if order is not None:
            order.clear()
        self.sequencer = Sequencer(self.table, self.rejected, paths, self.usual_bin, order)
        self._logs: list[LogFile] = []

    def run(self, is_ordered: bool) -> None:
        """Count everything; raise OutOfOrderError where order was trusted and is not there."""
        records = self._all_records()
        watch = OrderWatch()
        if not is_ordered:
            records = sorted_records(records, self.reading.batch_rows)
        for part in records:
            watch.check(part)
            self.sequencer.feed(part)
        self.sequencer.finish()
        self.episodes = watch.shared_episodes()

    def placed_rejections(self) -> Rejections:
        """Say of examples where they are, in logs whose rows have better names than numbers."""
        places = {str(log.path): log.place for log in self._logs if log.place is not None}
        for kept in self.rejected.examples.values():
            for i, example in enumerate(kept):
                if example.file in places:
                    place = places[example.file](example.row)
                    kept[i] = replace(example, found=f"{place}: {example.found}")
        return self.rejected

    def _all_records(self) -> Iterator[Records]:
        """Convert file after file; count whole transitions on the way, they need no order."""
        reading = self.reading
        for place, (index, path) in enumerate(self.files):
            try:
                log = open_log(path)
                plan = column_plan(reading.model, log)
                self._logs.append(log)
                converter = Converter(
                    reading.model,
                    reading.graph,
                    plan,
                    str(path),
                    index,
                    reading.are_files_separate,
                    self.rejected,
                    self.clipped,
                )
                for raw in ahead(read_log(log, plan.columns, reading.batch_rows)):
                    yield from self._converted(converter, plan, raw)
                    self._note(place, raw)
                if self.rows[place] == 0:
                    self.problems.append(LogProblem(f"{path} has no rows"))
            except LogFileError as error:
                self.problems.append(LogProblem(str(error), error.help))

    def _converted(
        self, converter: Converter, plan: ColumnPlan, raw: RawBatch
    ) -> Iterator[Records]:
        if plan.next_states is None:
            yield converter.records(raw)
        else:
            pairs, following = converter.transitions(raw)
            codes = pairs * self.reading.graph.n_states + following
            self.table.add(codes)
            if self.reading.order is not None:
                self.reading.order.add_whole(codes)

    def _note(self, place: int, raw: RawBatch) -> None:
        self.rows[place] += len(raw.rows) + len(raw.broken)
        if self.progress is not None:
            self.progress(sum(self.rows))
