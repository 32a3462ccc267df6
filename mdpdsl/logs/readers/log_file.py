"""What every reader returns: a log that is open, with its columns, and its rows in batches."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.diagnostics import LogProblem
from mdpdsl.graph.space import IntArray
from mdpdsl.logs.reading_options import USUAL, ReadingOptions

#: Rows of a batch.
BATCH_ROWS = 131_072
#: Text files are read in blocks of this many bytes.
BLOCK_BYTES = 8_000_000
#: Characters of a broken line that are shown.
MOST_SHOWN = 100
#: What to do about a file that is damaged or cut off.
COPY_AGAIN = "copy it again from where it came"
#: What reading raises. Arrow's own errors are of many types, one for each kind of damage.
READ_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    NotImplementedError,
    MemoryError,
    zlib.error,
)

#: Of these, what Arrow raises if the bytes of a file make no sense.
DAMAGE_ERRORS = (OSError, ValueError, LookupError, TypeError)


class LogFileError(Exception):
    """A log that cannot be read, or not to its end; the message says why, `help` what to do."""

    def __init__(self, message: str, help_text: str | None = None) -> None:
        super().__init__(message)
        self.help = help_text

    @property
    def problem(self) -> LogProblem:
        """The error as a problem of a log that is read all the same, with others or in part."""
        return LogProblem(str(self), self.help, loses_rows=True)


class DamagedFileError(LogFileError):
    """A file of which no row can be trusted, found when some may have been read already."""


@dataclass(frozen=True, eq=False)
class RawBatch:
    """Some rows of a log, unconverted, and the broken lines between them."""

    columns: dict[str, Any]  # name -> Arrow array [n]
    rows: IntArray  # [n]  number of each row, from 1, ascending
    broken: tuple[tuple[int, str], ...] = ()  # number and text of each broken line
    notes: tuple[LogProblem, ...] = ()  # on how these rows were read
    options: ReadingOptions = USUAL  # how texts are read
    times: frozenset[str] = frozenset()  # columns of times, where texts may be timestamps


@dataclass(frozen=True)
class LogFile:
    """An open log: its name, the names of its columns, and how to read some of them."""

    name: str  # its path, or `frame 1`
    columns: tuple[str, ...]
    read: Callable[[Sequence[str], int], Iterator[RawBatch]]
    #: The reader's own column of episodes, used in place of the one that the `log` block names. No
    #: other log shares these episodes.
    own_episodes: str | None = None
    #: Whether the rows of an episode are in order of time, so that times are not read.
    is_in_order: bool = False
    #: Whether the columns are the model's own variables, so that the `log` block does not apply.
    has_model_values: bool = False
    #: Says where a row is, in logs in which its number alone does not help.
    place: Callable[[int], str] | None = None


def numbered(batches: Iterable[Any], columns: Sequence[str]) -> Iterator[RawBatch]:
    """Return Arrow record batches with their rows numbered."""
    n_read = 0
    for batch in batches:
        rows = n_read + 1 + np.arange(batch.num_rows)
        n_read += batch.num_rows
        yield RawBatch({name: batch.column(name) for name in columns}, rows)


def bytes_of(path: Path) -> BufferedReader | gzip.GzipFile:
    """Open a file that may be compressed."""
    return gzip.GzipFile(path, "rb") if is_compressed(path) else path.open("rb")


def is_compressed(path: Path) -> bool:
    """Return whether a file is compressed, by its name."""
    return path.name.lower().endswith(".gz")


def is_damage(error: BaseException) -> bool:
    """Return whether an error shows that what was unpacked before it may be wrong."""
    has_wrong_sum = isinstance(error, gzip.BadGzipFile) and "Not a gzipped" not in str(error)
    return has_wrong_sum or isinstance(error, zlib.error)


def damaged(name: str, found: str) -> DamagedFileError:
    """Return the error for a file of which no row can be trusted."""
    return DamagedFileError(
        f"{name} is damaged, so none of its rows are counted: {found}", COPY_AGAIN
    )


def not_in_encoding(what: str, error: UnicodeError) -> LogFileError:
    """Return the error for a file that is not in the encoding that the user or the file says."""
    encoding = getattr(error, "encoding", None)
    return LogFileError(
        f"{what}: {error if encoding is None else f'it is not {encoding}'}",
        "set `encoding=` to what the file has, such as utf-8, utf-16, latin-1 or cp1252",
    )


def shown(text: str) -> str:
    """Return the beginning of a text from a file, safe to print."""
    start = text[:MOST_SHOWN]
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in start)[:MOST_SHOWN]


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    text = getattr(error, "strerror", None) or str(error)
    return text.splitlines()[0] if text else type(error).__name__
