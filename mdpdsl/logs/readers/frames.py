"""Frames in memory as logs: pandas, polars, Arrow, DuckDB, and anything else that exports Arrow.

The rules are those of files: the same columns, the same rejections, rows numbered from 1. A frame
is converted to an Arrow table at once, since some streams can be read only once and a log may need
a second pass. The index of a pandas frame is not read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdpdsl.graph.space import IntArray
from mdpdsl.logs.readers.log_file import LogFile, LogFileError, RawBatch, first_line


@dataclass(frozen=True, eq=False)
class Frame:
    """A table in memory that is a log."""

    name: str  # in messages: `frame 1`
    table: Any  # pyarrow.Table
    own_episodes: str | None = None  # this and the next as in LogFile
    has_model_values: bool = False
    starts: IntArray | None = None  # [n_episodes]  place of each one's first row; None for a frame

    def __str__(self) -> str:
        return self.name


def is_frame(given: object) -> bool:
    """Return whether something is a table, or a stream of one."""
    return _is_pandas(given) or any(
        hasattr(given, name) for name in ("__arrow_c_stream__", "__arrow_c_array__")
    )


def frame_of(given: Any, name: str) -> Frame:
    """Read a table or a stream into memory; raise LogFileError where that fails."""
    import pyarrow as pa

    try:
        if not _is_pandas(given):
            return Frame(name, pa.table(given))
        arrays = [column_of(given.iloc[:, i]) for i in range(given.shape[1])]
        names = [str(column) for column in given.columns]
        return Frame(name, pa.Table.from_arrays(arrays, names=names))
    # Any kind, from the library that made the frame: a query may run only now.
    except Exception as error:
        raise LogFileError(
            f"cannot read {name}, which is a {type(given).__name__}: {first_line(error)}",
            "a table has named columns" if isinstance(error, pa.ArrowInvalid) else None,
        ) from None


def open_frame(frame: Frame) -> LogFile:
    """Return a frame as a log."""

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        chosen = frame.table.select(list(columns))
        for start in range(0, frame.table.num_rows, batch_rows):
            part = chosen.slice(start, batch_rows)
            arrays = {name: _array(part.column(name)) for name in columns}
            yield RawBatch(arrays, start + 1 + np.arange(part.num_rows))

    def place(row: int) -> str:
        assert frame.starts is not None
        episode = int(np.searchsorted(frame.starts, row - 1, "right")) - 1
        return f"[{episode}][{row - 1 - int(frame.starts[episode])}]"

    return LogFile(
        frame.name,
        tuple(frame.table.column_names),
        read,
        own_episodes=frame.own_episodes,
        has_model_values=frame.has_model_values,
        place=None if frame.starts is None else place,
    )


def column_of(values: Any) -> Any:
    """Return a list, or a column of pandas, as an Arrow array; as texts if types are mixed."""
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        missing = values.isna() if hasattr(values, "isna") else [v is None for v in values]
        found = zip(values, missing, strict=True)
        return pa.array([None if is_none else _text(v) for v, is_none in found], pa.string())


def _is_pandas(given: object) -> bool:
    pandas = sys.modules.get("pandas")  # without it nothing is a frame of pandas
    return pandas is not None and isinstance(given, pandas.DataFrame)


def _text(value: Any) -> str:
    """Write a value as a field of a CSV file would have it."""
    value = value.item() if isinstance(value, np.generic) else value
    return str(value).encode("utf-8", "replace").decode()


def _array(column: Any) -> Any:
    """Return a column in one piece."""
    import pyarrow as pa

    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):  # each piece may have a dictionary of its own
        column = column.cast(column.type.value_type)
    return column.combine_chunks()
