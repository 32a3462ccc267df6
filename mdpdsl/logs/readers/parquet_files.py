"""Parquet files as logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mdpdsl.logs.readers.log_file import (
    DAMAGE_ERRORS,
    LogFile,
    RawBatch,
    damaged,
    first_line,
    numbered,
)
from mdpdsl.logs.reading_options import ReadingOptions

ENDINGS = (".parquet", ".pq")


def open_parquet(path: Path, _options: ReadingOptions) -> LogFile:
    """Open a file and read the names of its columns."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        names = tuple(file.schema_arrow.names)

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        n_read = 0
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            try:
                for batch in numbered(file.iter_batches(batch_rows, columns=[*columns]), columns):
                    n_read += len(batch.rows)
                    yield batch
            except DAMAGE_ERRORS as error:
                raise damaged(str(path), first_line(error)) from None
            expected = file.metadata.num_rows
        if n_read != expected:
            found = f"it has {n_read:,} rows, and says that it has {expected:,}"
            raise damaged(str(path), found)

    return LogFile(str(path), names, read)
