"""What every reader returns: a log that is open, with its columns, and its rows in batches."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from mdpdsl.graph.space import IntArray

#: Rows of a batch.
BATCH_ROWS = 131_072
#: Text files are read in blocks of this many bytes.
BLOCK_BYTES = 8_000_000
#: What reading raises; Arrow's own errors are ValueErrors and OSErrors.
READ_ERRORS = (OSError, EOFError, ValueError, zlib.error)


class LogFileError(Exception):
    """A log that cannot be read, or not to its end; the message says why, `help` what to do."""

    def __init__(self, message: str, help_text: str | None = None) -> None:
        super().__init__(message)
        self.help = help_text


@dataclass(frozen=True, eq=False)
class RawBatch:
    """Some rows of a log, unconverted, and the broken lines between them."""

    columns: dict[str, Any]  # name -> Arrow array [n]
    rows: IntArray  # [n]  number of each row, from 1, ascending
    broken: tuple[tuple[int, str], ...] = ()  # number and text of each broken line


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


def bytes_of(path: Path) -> IO[bytes]:
    """Open a file that may be compressed."""
    if path.name.lower().endswith(".gz"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    text = getattr(error, "strerror", None) or str(error)
    return text.splitlines()[0] if text else type(error).__name__
