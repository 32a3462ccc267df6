"""One pass over logs: rows to counts, in the order they come or sorted.

Consecutive rows of one episode make a transition, unless time jumps between them or one of the
rows is rejected. Logs are first read as if their rows were in order; if a row shows that they are
not sorted by episode and time, everything is sorted and counted again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.terms import reads
from mdpdsl.diagnostics import LogProblem
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.conversion import Converter
from mdpdsl.logs.inputs import LogSource, open_log, read_log
from mdpdsl.logs.log_rows import Records
from mdpdsl.logs.order import TransitionOrder
from mdpdsl.logs.raw_steps import RawSteps, RawTransitions
from mdpdsl.logs.readers.log_file import DamagedFileError, LogFile, LogFileError, RawBatch
from mdpdsl.logs.reading_options import USUAL, ReadingOptions
from mdpdsl.logs.rejections import Rejections
from mdpdsl.logs.seen_values import SeenValues
from mdpdsl.logs.seen_values import joined as joined_values
from mdpdsl.logs.sequences import OrderWatch, OutOfOrderError, Sequencer, TransitionTable
from mdpdsl.logs.sorting import sorted_records
from mdpdsl.logs.sources import column_sources
from mdpdsl.logs.time_steps import StepSample

#: Called after every batch with the number of rows read so far.
Progress = Callable[[int], None]
#: Batches read ahead of the one in use.
MOST_WAITING = 2

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class LogReading:
    """How a log is read: all that a pass needs besides the logs themselves."""

    model: CheckedModel
    graph: TransitionGraph
    are_files_separate: bool
    batch_rows: int
    has_stops: bool  # whether rows can say that their episode ended or was cut
    order: TransitionOrder | None = None  # also keeps the transitions, in order
    options: ReadingOptions = USUAL
    raw: RawSteps | None = None  # asks for the numbers behind transitions; stays empty

    @property
    def n_arrivals(self) -> int:
        """How many outcomes of a step are told apart: an end is another one than its state."""
        return self.graph.n_states * (2 if self.has_stops else 1)


@dataclass(frozen=True, eq=False)
class Part:
    """What was counted in some of the logs; parts that share no episode add up."""

    files: tuple[int, ...]
    counts: Counts  # in open form
    starts: IntArray  # [n_states]  episodes that start in each state
    rejected: Rejections
    clipped: dict[str, int]  # values beyond the ends of a variable that saturates
    problems: tuple[LogProblem, ...]
    rows: tuple[int, ...]  # of each file
    was_sorted: bool  # whether the rows were already in order
    histogram: IntArray  # of time steps, by bins
    usual_bin: int | None  # the bin of the usual time step; None if there was no step
    episodes: IntArray  # keys of episodes that may continue in other files
    seen: tuple[SeenValues, ...]  # the numbers of each state variable
    steps: tuple[FloatArray, IntArray]  # a sample of time steps, and how often each occurs
    largest_time: float  # in that sample
    raw: RawTransitions | None = None  # the numbers behind the first transitions


@dataclass(frozen=True, eq=False)
class OpenLogs:
    """Logs that can be read and have the columns of the model, and why others do not."""

    logs: list[LogSource]
    problems: list[LogProblem]
    has_stops: bool  # whether rows of any of them can say that their episode ended or was cut


def open_logs(model: CheckedModel, given: Sequence[LogSource], options: ReadingOptions) -> OpenLogs:
    """Find the logs that can be read and have the columns of the model."""
    good, problems, has_stops = [], [], False
    for source in given:
        try:
            has_stops |= column_sources(model, open_log(source, options)).has_stops
            good.append(source)
        except LogFileError as error:
            problems.append(error.problem)
    return OpenLogs(good, problems, has_stops)


def count_part(
    reading: LogReading,
    files: Sequence[tuple[int, LogSource]],
    usual_bin: int | None,
    progress: Progress | None = None,
) -> Part:
    """Count the transitions of some logs, each with its number among all."""
    is_ordered = True
    damaged: dict[int, LogProblem] = {}
    while True:
        attempt = _Attempt(reading, files, usual_bin, progress, damaged)
        try:
            attempt.run(is_ordered)
            break
        except OutOfOrderError:
            is_ordered = False
        except _DamagedLogError as error:  # whose rows may be among those counted
            damaged[error.index] = error.problem
    return Part(
        files=tuple(index for index, _ in files),
        counts=attempt.table.counts(),
        starts=attempt.sequencer.starts,
        rejected=attempt.placed_rejections(),
        clipped=attempt.clipped,
        problems=tuple(attempt.problems),
        rows=tuple(attempt.rows),
        was_sorted=is_ordered,
        histogram=attempt.sequencer.histogram,
        usual_bin=attempt.sequencer.usual_bin,
        episodes=attempt.episodes,
        seen=tuple(joined_values(attempt.seen)),
        steps=attempt.steps.steps(),
        largest_time=attempt.steps.largest_time,
        raw=None if attempt.raw is None else attempt.raw.transitions(),
    )


class _DamagedLogError(Exception):
    """A log of which no row may be counted; others of the same pass may."""

    def __init__(self, index: int, problem: LogProblem) -> None:
        super().__init__(problem.message)
        self.index, self.problem = index, problem


@dataclass(eq=False)
class _Attempt:
    """One pass over some logs."""

    reading: LogReading
    files: Sequence[tuple[int, LogSource]]
    usual_bin: int | None
    progress: Progress | None
    damaged: Mapping[int, LogProblem]  # logs to leave out
    rejected: Rejections = field(default_factory=Rejections)
    clipped: dict[str, int] = field(default_factory=dict)
    problems: list[LogProblem] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph = self.reading.graph
        self.rows = [0] * len(self.files)
        self.episodes = np.empty(0, np.int64)
        self.table = TransitionTable(graph.n_pairs, self.reading.n_arrivals)
        names = {index: str(source) for index, source in self.files}
        order = self.reading.order
        if order is not None:
            order.clear(self.reading.n_arrivals)
        self.raw = None if self.reading.raw is None else self.reading.raw.another()
        if self.raw is not None:
            self.raw.clear(self.reading.n_arrivals)
        self.sequencer = Sequencer(
            self.table, self.rejected, names, graph.n_states, self.usual_bin, order, self.raw
        )
        self.steps = StepSample()
        self.seen: list[list[SeenValues]] = []
        self._logs: list[LogFile] = []

    def run(self, is_ordered: bool) -> None:
        """Count everything; raise OutOfOrderError if rows taken to be in order are not."""
        records = self._all_records()
        watch = OrderWatch()
        if not is_ordered:
            n_real = None if self.raw is None else len(self.raw.real)
            records = sorted_records(records, self.reading.batch_rows, n_real)
        for part in records:
            watch.check(part)
            self.steps.add(part)
            self.sequencer.feed(part)
        self.sequencer.finish()
        self.episodes = watch.shared_episodes()

    def placed_rejections(self) -> Rejections:
        """Add to examples where they are, for logs whose row numbers alone do not help."""
        places = {log.name: log.place for log in self._logs if log.place is not None}
        for kept in self.rejected.examples.values():
            for i, example in enumerate(kept):
                if example.file in places:
                    place = places[example.file](example.row)
                    kept[i] = replace(example, found=f"{place}: {example.found}")
        return self.rejected

    def _all_records(self) -> Iterator[Records]:
        """Convert log after log; whole transitions need no order and are counted at once."""
        for place, (index, source) in enumerate(self.files):
            if index in self.damaged:
                self.problems.append(self.damaged[index])
                continue
            try:
                yield from self._records_of(place, index, source)
            except DamagedFileError as error:
                raise _DamagedLogError(index, error.problem) from None
            except LogFileError as error:
                self.problems.append(error.problem)

    def _records_of(self, place: int, index: int, source: LogSource) -> Iterator[Records]:
        log = open_log(source, self.reading.options)
        self._logs.append(log)
        converter = self._converter(log, index)
        sources = converter.sources
        time = sources.time
        times = frozenset(() if time is None else (name for _, name in reads(time)))
        batches = read_log(
            log, sources.columns, self.reading.batch_rows, self.reading.options, times
        )
        try:
            for raw in _read_ahead(batches):
                yield from self._converted(converter, raw)
                self._note(place, raw)
        finally:
            self.seen.append(converter.seen)
            self.problems += converter.percent_signs.problems(log.name)
        if self.rows[place] == 0:
            self.problems.append(LogProblem(f"{log.name} has no rows"))

    def _converter(self, log: LogFile, index: int) -> Converter:
        reading = self.reading
        return Converter(
            reading.model,
            reading.graph,
            column_sources(reading.model, log),
            log.name,
            index,
            reading.are_files_separate or log.own_episodes is not None,
            self.rejected,
            self.clipped,
            self.raw,
        )

    def _converted(self, converter: Converter, raw: RawBatch) -> Iterator[Records]:
        if converter.sources.next_states is None:
            yield converter.records(raw)
        else:
            graph = self.reading.graph
            self.sequencer.feed_whole(converter.transitions(raw), graph.pair_state)

    def _note(self, place: int, raw: RawBatch) -> None:
        self.rows[place] += len(raw.rows) + len(raw.broken)
        self.problems += raw.notes
        if self.progress is not None:
            self.progress(sum(self.rows))


def _read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Return the same items, which a thread makes while earlier ones are used."""
    reader = _Reader(items)
    reader.thread.start()
    try:
        while True:
            item = reader.waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        reader.stop()


@dataclass(frozen=True, eq=False)
class _End:
    """Follows the last item; `error` is what ended them early."""

    error: BaseException | None


class _Reader(Generic[T]):
    """Runs an iterator in a thread."""

    def __init__(self, items: Iterator[T]) -> None:
        self.waiting: queue.Queue[T | _End] = queue.Queue(MOST_WAITING)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self._items = items
        self._is_stopped = False

    def stop(self) -> None:
        """End the thread, even if it waits with items that nobody takes."""
        self._is_stopped = True
        while self.thread.is_alive():
            try:
                self.waiting.get(timeout=0.05)
            except queue.Empty:
                continue

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._items:
                self.waiting.put(item)
                if self._is_stopped:
                    break
        except BaseException as raised:
            error = raised
        self.waiting.put(_End(error))
