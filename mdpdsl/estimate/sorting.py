"""Rows of a log brought into order: in memory while they are few, on disk from there on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from typing import Any

import numpy as np

from mdpdsl.estimate.records import Records, joined

#: Rows that are sorted in memory, where they take some 100 bytes each.
MOST_IN_MEMORY = 10_000_000
#: Memory that sorting may take before it goes to disk.
MEMORY = "1GB"


def sorted_records(records: Iterator[Records], batch_rows: int) -> Iterator[Records]:
    """Return rows by episode and time; rows of one time in the order of files and rows."""
    kept: list[Records] = []
    n_rows = 0
    for part in records:
        kept.append(part)
        n_rows += len(part)
        if n_rows > MOST_IN_MEMORY:
            yield from _sorted_on_disk(chain(kept, records), batch_rows)
            return
    if n_rows == 0:
        return
    rows = joined(kept)
    kept.clear()
    # Stable, and rows come by file and row.
    order = np.lexsort((rows.time, rows.episode, rows.source))
    for start in range(0, n_rows, batch_rows):
        yield rows.take(order[start : start + batch_rows])


def _sorted_on_disk(records: Iterator[Records], batch_rows: int) -> Iterator[Records]:
    import duckdb
    import pyarrow as pa

    kinds = {"time": pa.float64(), "episode": pa.int64(), "row": pa.int64()}
    schema = pa.schema([(f.name, kinds.get(f.name, pa.int32())) for f in fields(Records)])
    batches = (
        pa.record_batch([pa.array(getattr(part, n)) for n in schema.names], schema=schema)
        for part in records
    )
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    with tempfile.TemporaryDirectory(prefix="mdpdsl-") as folder, duckdb.connect() as connection:
        connection.execute(f"SET memory_limit = '{MEMORY}'")
        connection.execute("SET temp_directory = $folder", {"folder": folder})
        connection.register("records", reader)
        result = connection.sql("SELECT * FROM records ORDER BY source, episode, time, file, row")
        for batch in _batches(result, batch_rows):
            yield Records(
                *(np.asarray(batch.column(n).to_numpy(zero_copy_only=False)) for n in schema.names)
            )


def _batches(result: Any, batch_rows: int) -> Iterator[Any]:
    """Stream a result; the method's name depends on DuckDB's version."""
    stream = getattr(result, "to_arrow_reader", None) or result.fetch_arrow_reader
    return iter(stream(batch_rows))
