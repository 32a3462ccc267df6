"""Logs to counts: all files at once, or in parts that processes and machines count by themselves.

Each part is some of the files. Files that turn out to share an episode are counted again together,
and so is a part that took another step of time for the usual one than all of the log shows: what
comes out does not depend on how the files were dealt out.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.diagnostics import LogError, LogProblem
from mdpdsl.graph.counts import Counts, merge
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels import counting
from mdpdsl.logs.order import TransitionOrder
from mdpdsl.logs.passes import (
    LogReading,
    Part,
    Progress,
    count_part,
    open_logs,
)
from mdpdsl.logs.readers.files import BATCH_ROWS, expand_paths
from mdpdsl.logs.rejections import Rejections
from mdpdsl.logs.sequences import usual_step_bin

#: Parts for each worker: files differ in size.
PARTS_PER_WORKER = 4

_Group = tuple[tuple[int, Path], ...]  # files, each with its number
_CountAll = Callable[[Sequence[_Group], int | None], list[Part]]


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


def count_logs(
    model: CheckedModel,
    graph: TransitionGraph,
    patterns: Sequence[str | Path],
    *,
    are_files_separate: bool = False,
    time_step: float | None = None,
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
    executor: Executor | None = None,
    n_workers: int = 1,
    order: TransitionOrder | None = None,
) -> LogCounts:
    """Count the transitions of files, folders and globs over the pairs of a graph.

    An episode goes on in another file if both have episodes and times, unless files are separate.
    With an executor files are dealt out to its workers; with `order`, transitions are kept there as
    they come, too, which is for one process. Raise LogError if there is no row to read.
    """
    began = time.perf_counter()
    paths, missing = expand_paths([str(pattern) for pattern in patterns])
    paths, problems = open_logs(model, paths)
    problems = [*map(LogProblem, missing), *problems]
    if not paths:
        raise LogError(problems)
    assert order is None or executor is None
    reading = LogReading(model, graph, are_files_separate, batch_rows, order)
    usual_bin = None if time_step is None else _bin_of(time_step)
    count_all = _counter(reading, executor, progress)
    n_groups = 1 if executor is None else min(len(paths), PARTS_PER_WORKER * n_workers)
    parts = count_all(_dealt(paths, n_groups), usual_bin)
    parts = _with_shared_episodes_together(parts, paths, usual_bin, count_all)
    usual_bin = usual_bin if usual_bin is not None else _usual_bin(parts)
    parts = _with_one_step(parts, paths, usual_bin, count_all)
    problems += [problem for part in parts for problem in part.problems]
    rows = dict(pair for part in parts for pair in zip(part.files, part.rows, strict=True))
    if sum(rows.values()) == 0:
        raise LogError(problems)
    return LogCounts(
        counts=reduce(merge, (part.counts for part in parts)),
        rejected=Rejections.joined(part.rejected for part in parts),
        clipped=_summed(part.clipped for part in parts),
        files=tuple(FileRead(str(p), _size(p), rows[i]) for i, p in enumerate(paths)),
        problems=tuple(problems),
        rows=sum(rows.values()),
        was_sorted=all(part.was_sorted for part in parts),
        time_step=time_step if time_step is not None else _step_of(usual_bin),
        seconds=time.perf_counter() - began,
    )


def _counter(
    reading: LogReading, executor: Executor | None, progress: Progress | None
) -> _CountAll:
    """Return what counts groups of files, here or by an executor."""

    def count_here(groups: Sequence[_Group], usual_bin: int | None) -> list[Part]:
        return [count_part(reading, group, usual_bin, progress) for group in groups]

    def count_there(groups: Sequence[_Group], usual_bin: int | None) -> list[Part]:
        assert executor is not None
        futures = [executor.submit(count_part, reading, group, usual_bin) for group in groups]
        pending: set[Future[Part]] = set(futures)
        try:
            while pending:
                _, pending = wait(pending, return_when=FIRST_COMPLETED)
                if progress is not None:
                    finished = [future.result() for future in futures if future.done()]
                    progress(sum(sum(part.rows) for part in finished))
            return [future.result() for future in futures]
        except BaseException:
            for future in pending:
                future.cancel()
            raise

    return count_here if executor is None else count_there


def _dealt(paths: Sequence[Path], n_groups: int) -> list[_Group]:
    """Deal files out in groups of neighbours: where files follow each other, so do their rows."""
    ends = [len(paths) * i // n_groups for i in range(n_groups + 1)]
    numbered = list(enumerate(paths))
    return [tuple(numbered[i:j]) for i, j in pairwise(ends)]


def _with_shared_episodes_together(
    parts: list[Part], paths: Sequence[Path], usual_bin: int | None, count_all: _CountAll
) -> list[Part]:
    """Count parts that have an episode in common again, as one."""
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
        tuple((i, paths[i]) for i in sorted(i for part in several for i in part.files))
        for several in members
        if len(several) > 1
    ]
    return [several[0] for several in members if len(several) == 1] + count_all(groups, usual_bin)


def _with_one_step(
    parts: list[Part], paths: Sequence[Path], usual_bin: int | None, count_all: _CountAll
) -> list[Part]:
    """Count parts again that took another step for the usual one."""
    is_good = [part.usual_bin in (None, usual_bin) for part in parts]
    others = [part for part, good in zip(parts, is_good, strict=True) if not good]
    groups = [tuple((i, paths[i]) for i in part.files) for part in others]
    kept = [part for part, good in zip(parts, is_good, strict=True) if good]
    return sorted(kept + count_all(groups, usual_bin), key=lambda part: part.files)


def _usual_bin(parts: Sequence[Part]) -> int | None:
    return usual_step_bin(np.sum([part.histogram for part in parts], axis=0))


def _step_of(usual_bin: int | None) -> float | None:
    """Return the usual step, to a few per cent; whole steps exactly."""
    if usual_bin is None:
        return None
    low = 2 ** ((usual_bin - counting.UNIT_BIN) / counting.BINS)
    high = 2 ** ((usual_bin + 1 - counting.UNIT_BIN) / counting.BINS)
    whole = math.ceil(low - 1e-12)
    return float(whole) if whole < high else float(f"{(low + high) / 2:.2g}")


def _bin_of(step: float) -> int:
    return int(np.floor(counting.BINS * np.log2(step))) + counting.UNIT_BIN


def _summed(numbers: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum((Counter(part) for part in numbers), Counter()))


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)
