"""Arrow (Feather) files as logs, in the file form or in the stream form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.diagnostics import LogProblem
from mdpdsl.logs.readers.log_file import (
    DAMAGE_ERRORS,
    LogFile,
    RawBatch,
    damaged,
    first_line,
    numbered,
)
from mdpdsl.logs.reading_options import ReadingOptions

ENDINGS = (".arrow", ".feather", ".ipc", ".arrows")
_FILE_MARK = b"ARROW1"
_STREAM_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def open_arrow(path: Path, _options: ReadingOptions) -> LogFile:
    """Open a file and read the names of its columns."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        names, _, _ = _batches(path, file)

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        with pa.memory_map(str(path)) as file:
            _, stored, is_ended = _batches(path, file)
            valid = (_validated(path, batch, columns) for batch in stored)
            pieces = (
                batch.slice(start, batch_rows)
                for batch in valid
                for start in range(0, batch.num_rows, batch_rows)
            )
            yield from numbered(pieces, columns)
        if not is_ended:
            note = LogProblem(
                f"{path} has no mark at its end, as an Arrow stream should have",
                "if it was cut off, rows are missing",
                loses_rows=True,
            )
            nothing = {name: pa.nulls(0) for name in columns}
            yield RawBatch(nothing, np.empty(0, np.int64), notes=(note,))

    return LogFile(str(path), names, read)


def _batches(path: Path, file: Any) -> tuple[tuple[str, ...], Iterator[Any], bool]:
    """Return the names of the columns, the record batches, and whether the file is whole.

    A stream may end without a mark, so that one that is cut off between two batches seems whole.
    """
    import pyarrow as pa

    is_stream = file.read(len(_FILE_MARK)) != _FILE_MARK
    file.seek(0)
    if not is_stream:
        try:
            stored = pa.ipc.open_file(file)
        except pa.ArrowInvalid as error:
            raise ValueError(f"its end is missing or damaged ({first_line(error)})") from None
        found = (stored.get_batch(i) for i in range(stored.num_record_batches))
        return tuple(stored.schema.names), _of_whole_file(path, found), True
    file.seek(max(0, file.size() - len(_STREAM_END)))
    is_ended = file.read() == _STREAM_END
    file.seek(0)
    stream = pa.ipc.open_stream(file)
    batches = _of_whole_file(path, iter(stream)) if is_ended else iter(stream)
    return tuple(stream.schema.names), batches, is_ended


def _of_whole_file(path: Path, batches: Iterator[Any]) -> Iterator[Any]:
    """Return the batches of a file that is not cut off; raise LogFileError if it is damaged."""
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except DAMAGE_ERRORS as error:
            raise damaged(str(path), first_line(error)) from None
        yield batch


def _validated(path: Path, batch: Any, columns: Sequence[str]) -> Any:
    """Return some columns; raise LogFileError if following their offsets would leave the file."""
    try:
        chosen = batch.select(list(dict.fromkeys(columns)))
        chosen.validate(full=True)
    except DAMAGE_ERRORS as error:
        raise damaged(str(path), first_line(error)) from None
    return chosen
