"""Logs to counts: all at once, or in parts that several processes and machines count.

Each part is some of the files; tables in memory are counted in this process. Parts that turn out to
share an episode are counted again together, and so is a part whose usual time step is not that of
the whole log: the result does not depend on how the files were split into parts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, pairwise

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.diagnostics import LogError, LogProblem
from mdpdsl.graph.counts import Counts, merge
from mdpdsl.graph.space import IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels import counting
from mdpdsl.logs.inputs import LogInput, LogSource, expand_logs, size_of
from mdpdsl.logs.order import TransitionOrder
from mdpdsl.logs.passes import (
    LogReading,
    Part,
    Progress,
    count_part,
    open_logs,
)
from mdpdsl.logs.raw_steps import RawSteps
from mdpdsl.logs.readers.frames import Frame
from mdpdsl.logs.readers.log_file import BATCH_ROWS
from mdpdsl.logs.reading_options import USUAL, ReadingOptions
from mdpdsl.logs.rejections import HINTS, Rejections
from mdpdsl.logs.seen_values import joined, wrong_units
from mdpdsl.logs.sequences import usual_step_bin
from mdpdsl.logs.time_steps import usual_step

#: Parts for each worker; several, as files differ in size.
PARTS_PER_WORKER = 4

_Group = tuple[tuple[int, LogSource], ...]  # logs, each with its number
_CountAll = Callable[[Sequence[_Group], int | None], list[Part]]


@dataclass(frozen=True)
class FileRead:
    """A file, or a table in memory, of which rows were read."""

    path: str  # or `frame 1`
    bytes: int
    rows: int


@dataclass(frozen=True, eq=False)
class LogCounts:
    """The transitions of logs, and what could not be counted."""

    counts: Counts  # in open form (`graph.ends`)
    starts: IntArray  # [n_states]  episodes that start in each state
    has_stops: bool  # whether rows can say that their episode ended or was cut
    rejected: Rejections
    clipped: dict[str, int]  # values beyond the ends of a variable that saturates
    files: tuple[FileRead, ...]
    problems: tuple[LogProblem, ...]
    rows: int
    was_sorted: bool  # whether the rows were already in order
    time_step: float | None  # the usual one; None without times
    seconds: float


def count_logs(
    model: CheckedModel,
    graph: TransitionGraph,
    patterns: LogInput | Sequence[LogInput],
    *,
    are_files_separate: bool = False,
    time_step: float | None = None,
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
    executor: Executor | None = None,
    n_workers: int = 1,
    order: TransitionOrder | None = None,
    options: ReadingOptions = USUAL,
    steps: RawSteps | None = None,
) -> LogCounts:
    """Count the transitions of logs over the pairs of a graph.

    A log is a path, a folder or a glob; a table (pandas, polars, pyarrow, a DuckDB relation); or a
    list of episodes, each a list of rows. An episode may continue in another log if both have
    episodes and times, unless `are_files_separate`. With an executor, its workers share the files;
    `order` also keeps the transitions, in order, and needs a single process; `steps` keeps the
    numbers behind the first ones. Raise LogError if something is no log, if there is no row to
    read, or if most values of a variable are out of its range, unless the `options` allow it.
    """
    began = time.perf_counter()
    given, unread = expand_logs(patterns, model)
    found = open_logs(model, given, options)
    logs, problems = found.logs, [*unread, *found.problems]
    if not logs:
        raise LogError(problems)
    assert order is None or executor is None
    reading = LogReading(
        model,
        graph,
        are_files_separate,
        batch_rows,
        found.has_stops,
        order,
        options,
        None if steps is None else steps.another(),
    )
    usual_bin = None if time_step is None else _bin_of(time_step)
    count_all = _counter(reading, executor, progress)
    n_groups = 1 if executor is None else PARTS_PER_WORKER * n_workers
    parts = count_all(_split(logs, n_groups), usual_bin)
    parts = _with_shared_episodes_together(parts, logs, usual_bin, count_all)
    usual_bin = usual_bin if usual_bin is not None else _usual_bin(parts)
    parts = _with_one_step(parts, logs, usual_bin, count_all)
    problems += [problem for part in parts for problem in part.problems]
    rows = dict(pair for part in parts for pair in zip(part.files, part.rows, strict=True))
    if sum(rows.values()) == 0:
        raise LogError(problems)
    if not options.clip_anyway:
        where = str(logs[0]) if len(logs) == 1 else f"{len(logs):,} logs"
        _require_most_in_range(graph, parts, where)
    if steps is not None:
        steps.gather([part.raw for part in parts if part.raw is not None])
    rejected = Rejections.joined(part.rejected for part in parts)
    problems += _mostly_rejected(rejected, sum(rows.values()))
    return LogCounts(
        counts=reduce(merge, (part.counts for part in parts)),
        starts=np.sum([part.starts for part in parts], axis=0),
        has_stops=found.has_stops,
        rejected=rejected,
        clipped=_summed(part.clipped for part in parts),
        files=tuple(FileRead(str(log), size_of(log), rows[i]) for i, log in enumerate(logs)),
        problems=tuple(problems),
        rows=sum(rows.values()),
        was_sorted=all(part.was_sorted for part in parts),
        time_step=time_step if time_step is not None else _step_of(usual_bin, parts),
        seconds=time.perf_counter() - began,
    )


def _counter(
    reading: LogReading, executor: Executor | None, progress: Progress | None
) -> _CountAll:
    """Return a function that counts groups of logs, in this process or by an executor."""

    def count_here(groups: Sequence[_Group], usual_bin: int | None) -> list[Part]:
        return [count_part(reading, group, usual_bin, progress) for group in groups]

    def count_there(groups: Sequence[_Group], usual_bin: int | None) -> list[Part]:
        assert executor is not None
        here = [group for group in groups if any(isinstance(log, Frame) for _, log in group)]
        there = [group for group in groups if group not in here]
        futures = [executor.submit(count_part, reading, group, usual_bin) for group in there]
        pending: set[Future[Part]] = set(futures)
        try:
            parts = [count_part(reading, group, usual_bin) for group in here]
            n_here = sum(sum(part.rows) for part in parts)
            while pending:
                _, pending = wait(pending, return_when=FIRST_COMPLETED)
                if progress is not None:
                    finished = [future.result() for future in futures if future.done()]
                    progress(n_here + sum(sum(part.rows) for part in finished))
            parts += [future.result() for future in futures]
            return sorted(parts, key=lambda part: part.files)
        except BaseException:
            for future in pending:
                future.cancel()
            raise

    return count_here if executor is None else count_there


def _split(logs: Sequence[LogSource], n_groups: int) -> list[_Group]:
    """Split logs into groups of neighbours: where files follow each other, so do their rows.

    Of several groups, none has both files and tables, as workers have no tables.
    """
    numbered = list(enumerate(logs))
    if n_groups == 1:
        return [tuple(numbered)]
    groups: list[_Group] = []
    for is_table, run in groupby(numbered, lambda each: isinstance(each[1], Frame)):
        members = list(run)
        n = 1 if is_table else min(len(members), n_groups)
        ends = [len(members) * i // n for i in range(n + 1)]
        groups += [tuple(members[i:j]) for i, j in pairwise(ends)]
    return groups


def _with_shared_episodes_together(
    parts: list[Part], logs: Sequence[LogSource], usual_bin: int | None, count_all: _CountAll
) -> list[Part]:
    """Count parts that share an episode again, as one part."""
    if len(parts) == 1:
        return parts
    keys = np.concatenate([part.episodes for part in parts])
    owner = np.repeat(np.arange(len(parts)), [len(part.episodes) for part in parts])
    order = np.argsort(keys, kind="stable")
    is_same = keys[order][1:] == keys[order][:-1]
    links = (
        np.ones(np.count_nonzero(is_same)),
        (owner[order][:-1][is_same], owner[order][1:][is_same]),
    )
    n_families, family = connected_components(
        coo_array(links, shape=(len(parts),) * 2), directed=False
    )
    members = [[parts[i] for i in np.flatnonzero(family == k)] for k in range(n_families)]
    groups = [
        tuple((i, logs[i]) for i in sorted(i for part in several for i in part.files))
        for several in members
        if len(several) > 1
    ]
    return [several[0] for several in members if len(several) == 1] + count_all(groups, usual_bin)


def _with_one_step(
    parts: list[Part], logs: Sequence[LogSource], usual_bin: int | None, count_all: _CountAll
) -> list[Part]:
    """Count parts again whose usual time step is not that of the whole log."""
    is_good = [part.usual_bin in (None, usual_bin) for part in parts]
    others = [part for part, good in zip(parts, is_good, strict=True) if not good]
    groups = [tuple((i, logs[i]) for i in part.files) for part in others]
    kept = [part for part, good in zip(parts, is_good, strict=True) if good]
    return sorted(kept + count_all(groups, usual_bin), key=lambda part: part.files)


def _usual_bin(parts: Sequence[Part]) -> int | None:
    return usual_step_bin(np.sum([part.histogram for part in parts], axis=0))


def _step_of(usual_bin: int | None, parts: Sequence[Part]) -> float | None:
    """Return the usual step; to a few per cent if no row of the sample has it."""
    if usual_bin is None:
        return None
    largest = max(part.largest_time for part in parts)
    found = usual_step([part.steps for part in parts], usual_bin, largest)
    return found or float(f"{2 ** ((usual_bin + 0.5 - counting.UNIT_BIN) / counting.BINS):.2g}")


def _require_most_in_range(graph: TransitionGraph, parts: Sequence[Part], where: str) -> None:
    """Raise LogError if most values of a variable are out of range: its unit must be wrong."""
    variables = {variable.name: variable for variable in graph.states.variables}
    found = [
        wrong_units(seen, variables[seen.variable], where)
        for seen in joined(part.seen for part in parts)
        if seen.is_mostly_outside
    ]
    if found:
        raise LogError(found)


def _mostly_rejected(rejected: Rejections, n_rows: int) -> list[LogProblem]:
    """Return a problem if most rows are rejected."""
    if 2 * rejected.total <= n_rows:
        return []
    reasons = sorted(rejected.counts.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{reason} ({number:,})" for reason, number in reasons)
    first = rejected.examples[reasons[0][0]][0]
    where = f"first in {first.file}, row {first.row:,}: {first.found}"
    return [
        LogProblem(
            f"most rows are rejected, {rejected.total:,} of {n_rows:,}: {listed}; {where}",
            HINTS.get(reasons[0][0]),
        )
    ]


def _bin_of(step: float) -> int:
    return int(np.floor(counting.BINS * np.log2(step))) + counting.UNIT_BIN


def _summed(numbers: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum((Counter(part) for part in numbers), Counter()))
