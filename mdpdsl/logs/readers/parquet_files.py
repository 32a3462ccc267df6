"""Parquet files as logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mdpdsl.logs.readers.log_file import LogFile, RawBatch, numbered

ENDINGS = (".parquet", ".pq")


def open_parquet(path: Path) -> LogFile:
    """Open a file and read the names of its columns."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        names = tuple(file.schema_arrow.names)

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        with pq.ParquetFile(path) as file:
            yield from numbered(file.iter_batches(batch_rows, columns=list(columns)), columns)

    return LogFile(str(path), names, read)
