"""Arrow (Feather) files as logs, in the file form or in the stream form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mdpdsl.logs.readers.log_file import LogFile, RawBatch, numbered

ENDINGS = (".arrow", ".feather", ".ipc", ".arrows")


def open_arrow(path: Path) -> LogFile:
    """Open a file and read the names of its columns."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        names, _ = _batches(file)

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        with pa.memory_map(str(path)) as file:
            _, stored = _batches(file)
            pieces = (
                batch.slice(start, batch_rows)
                for batch in stored
                for start in range(0, batch.num_rows, batch_rows)
            )
            yield from numbered(pieces, columns)

    return LogFile(str(path), names, read)


def _batches(file: Any) -> tuple[tuple[str, ...], Iterator[Any]]:
    """Return the names of the columns, and the record batches."""
    import pyarrow as pa

    try:
        reader = pa.ipc.open_file(file)
        stored = (reader.get_batch(i) for i in range(reader.num_record_batches))
    except pa.ArrowInvalid:
        file.seek(0)
        reader = pa.ipc.open_stream(file)
        stored = iter(reader)
    return tuple(reader.schema.names), stored
