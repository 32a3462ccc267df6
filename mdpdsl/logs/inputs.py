"""What may be given as a log: paths and globs, frames in memory, lists of episodes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.diagnostics import LogError, LogProblem
from mdpdsl.logs.readers import episodes, frames
from mdpdsl.logs.readers.endings import expand_paths, open_file
from mdpdsl.logs.readers.frames import Frame
from mdpdsl.logs.readers.log_file import (
    COPY_AGAIN,
    READ_ERRORS,
    DamagedFileError,
    LogFile,
    LogFileError,
    RawBatch,
    damaged,
    first_line,
    is_damage,
    not_in_encoding,
)
from mdpdsl.logs.reading_options import USUAL, ReadingOptions
from mdpdsl.logs.values import readable


class ArrowStream(Protocol):
    """A table or a stream that exports Arrow: pandas, polars, pyarrow, a DuckDB relation."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with an Arrow stream."""
        ...


#: What a user may give: a path, folder or glob; a table; a list of episodes.
LogInput: TypeAlias = (
    str | os.PathLike[str] | ArrowStream | Sequence[Sequence[Mapping[str, Any] | tuple[Any, ...]]]
)
#: One log: a file, the folder of a dataset, or a table in memory.
LogSource: TypeAlias = Path | Frame

ACCEPTED = (
    "give a path, a folder or a glob; a table (pandas, polars, pyarrow, a DuckDB relation); a list "
    "of episodes, each a list of rows; or a list of several of these"
)


def expand_logs(
    given: LogInput | Sequence[LogInput], model: CheckedModel
) -> tuple[list[LogSource], list[LogProblem]]:
    """Return every file and table that is given, each once, and what could not be read.

    Raise LogError if something is of no type that can be a log.
    """
    found: dict[object, LogSource] = {}  # by file, or by the table's identity
    problems = []
    n_frames = n_lists = 0
    for one in _several(given):
        if isinstance(one, str | os.PathLike):
            paths, missing = expand_paths([os.fspath(one)])
            found |= {path.resolve(): path for path in paths if path.resolve() not in found}
            problems += [LogProblem(message, loses_rows=True) for message in missing]
            continue
        if id(one) in found:
            continue
        try:
            if frames.is_frame(one):
                n_frames += 1
                found[id(one)] = frames.frame_of(one, f"frame {n_frames}")
            elif episodes.is_list_of_episodes(one) or episodes.is_episode(one):
                n_lists += 1
                inside = [one] if episodes.is_episode(one) else one
                found[id(one)] = episodes.frame_of_episodes(inside, f"list {n_lists}", model)
            else:
                raise _not_a_log(one)
        except LogFileError as error:
            problems.append(error.problem)
    return list(found.values()), problems


def open_log(source: LogSource, options: ReadingOptions = USUAL) -> LogFile:
    """Open a file or a table and see which columns it has; raise LogFileError."""
    if isinstance(source, Frame):
        log = frames.open_frame(source)
    else:
        log = open_file(source, options)
    if len(set(log.columns)) < len(log.columns):
        # Columns without a name cannot be read: spreadsheets add them.
        twice = [name for name, n in Counter(log.columns).items() if n > 1 and name]
        if twice:
            is_value = min(twice).replace(".", "").isdigit()
            raise LogFileError(
                f"{log.name} has two columns named `{min(twice)}`",
                "name the columns in the first line" if is_value else "rename one of them",
            )
    return log


def read_log(
    log: LogFile,
    columns: Sequence[str],
    batch_rows: int,
    options: ReadingOptions = USUAL,
    times: frozenset[str] = frozenset(),
) -> Iterator[RawBatch]:
    """Read some columns of a log; raise LogFileError where it breaks off.

    Texts in the columns `times` may be timestamps. Raise DamagedFileError if the rows that were
    read before cannot be trusted either.
    """
    last = 0
    try:
        for batch in log.read(columns, batch_rows):
            columns_read = {name: readable(column) for name, column in batch.columns.items()}
            yield replace(batch, columns=columns_read, options=options, times=times)
            last = int(batch.rows[-1]) if len(batch.rows) else last
    except DamagedFileError:
        raise
    except LogFileError as error:
        raise LogFileError(f"{_breaks_off(log, last)}: {error}", error.help) from None
    except UnicodeDecodeError as error:
        raise not_in_encoding(_breaks_off(log, last), error) from None
    except READ_ERRORS as error:
        if is_damage(error):
            raise damaged(log.name, first_line(error)) from None
        raise LogFileError(f"{_breaks_off(log, last)}: {first_line(error)}", COPY_AGAIN) from None


def _breaks_off(log: LogFile, last: int) -> str:
    return f"{log.name} breaks off after row {last:,}"


def size_of(source: LogSource) -> int:
    """Return the bytes of a table, of a file, or of all files in a folder."""
    if isinstance(source, Frame):
        return int(source.table.nbytes)
    files = [p for p in source.rglob("*") if p.is_file()] if source.is_dir() else [source]
    return sum(file.stat().st_size for file in files)


def _several(given: object) -> list[Any]:
    """Return the logs of a list, not yet checked; a log by itself is the only one."""
    is_one = isinstance(given, str | os.PathLike) or frames.is_frame(given)
    if is_one or episodes.is_list_of_episodes(given):
        return [given]
    if not isinstance(given, list | tuple):
        raise _not_a_log(given)
    if not given:
        raise LogError([LogProblem("no log is given", ACCEPTED)])
    return list(given)


def _not_a_log(given: object) -> LogError:
    help_text = ACCEPTED
    if isinstance(given, dict):
        help_text = (
            "put the rows of each episode in a list of their own, or give a table, as in "
            "pyarrow.Table.from_pylist(rows) or pyarrow.table(columns)"
        )
    elif callable(getattr(given, "collect", None)):  # a lazy frame
        help_text = "call its collect() first"
    return LogError([LogProblem(f"a log cannot be of the type {type(given).__name__}", help_text)])
