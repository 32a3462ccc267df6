"""Logs as files (Parquet, CSV, JSON lines), written completely or not at all, reproducibly."""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mdpdsl.diagnostics import LogError
from mdpdsl.files import CannotWriteError
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.simulate.columns import ColumnNames, LogColumns
from mdpdsl.simulate.trajectory import Chunk

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz")
#: The key of a Parquet file's metadata under which its origin is recorded.
METADATA_KEY = "mdpdsl"

#: Rows formatted as text at a time: the text of one array must stay below 2 GB.
JSON_ROWS = 1 << 15

#: Receives every chunk that was written.
Progress = Callable[[Chunk], None]


def check_log_path(path: Path) -> None:
    """Raise LogError unless a log can be written there."""
    if not path.name.endswith(SUFFIXES) or path.name in SUFFIXES:
        raise LogError(f"the name of a log must end in {', '.join(SUFFIXES)}, not `{path.name}`")
    if not path.parent.is_dir():
        raise LogError(f"there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise LogError(f"{path} exists and is not a file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise LogError(f"the folder {path.parent} is not writable")


def write_log(
    chunks: Iterable[Chunk],
    graph: TransitionGraph,
    names: ColumnNames,
    path: Path,
    metadata: Mapping[str, Any],
    *,
    is_raw: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write a log in the format of the file's ending; a failure leaves no file behind.

    With `is_raw`, real variables have the values of the chunks, otherwise the centres of cells. The
    origin of the log is stored in the metadata of a Parquet file; the other formats have none.
    """
    check_log_path(path)
    is_text = path.suffix != ".parquet"
    columns = LogColumns(graph, names, is_raw=is_raw, spells_numbers=is_text)
    with _replacing(path) as name:
        sink = _sink(name, path.name, columns, metadata)
        try:
            for chunk in chunks:
                sink.write(columns.batch(chunk))
                if progress is not None:
                    progress(chunk)
        except BaseException:
            with suppress(OSError, ValueError):  # report the first error, not this one
                sink.close()
            raise
        sink.close()


class _Sink(Protocol):
    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def close(self) -> None:
        """Finish the file."""


def _sink(name: str, form: str, columns: LogColumns, metadata: Mapping[str, Any]) -> _Sink:
    import pyarrow as pa

    stream = pa.OSFile(name, "wb")
    if form.endswith(".gz"):
        stream, form = pa.CompressedOutputStream(stream, "gzip"), form.removesuffix(".gz")
    if form.endswith(".parquet"):
        return _ParquetSink(stream, columns, metadata)
    if form.endswith(".csv"):
        return _CsvSink(stream, columns)
    return _JsonSink(stream, columns)


class _ParquetSink:
    """A row group for every chunk."""

    def __init__(self, stream: Any, columns: LogColumns, metadata: Mapping[str, Any]) -> None:
        import pyarrow.parquet as pq

        text = json.dumps(metadata, sort_keys=True, ensure_ascii=False)
        self._schema = columns.schema.with_metadata({METADATA_KEY: text})
        self._stream = stream
        time = columns.names.time
        self._writer = pq.ParquetWriter(
            stream,
            self._schema,
            use_dictionary=list(columns.repetitive),
            column_encoding=None if time is None else {time: "DELTA_BINARY_PACKED"},
        )

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch.replace_schema_metadata(self._schema.metadata))

    def close(self) -> None:
        self._writer.close()
        self._stream.close()


class _CsvSink:
    """A line of names, then a line for each row; missing values are empty."""

    def __init__(self, stream: Any, columns: LogColumns) -> None:
        import pyarrow.csv as pa_csv

        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(columns.names.all)
        stream.write(header.getvalue().encode("utf-8"))
        self._stream = stream
        # Names of members are identifiers, so nothing needs quotes.
        options = pa_csv.WriteOptions(
            include_header=False, quoting_style="none", batch_size=1 << 14
        )
        self._writer = pa_csv.CSVWriter(stream, columns.schema, write_options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()
        self._stream.close()


class _JsonSink:
    """An object for each row; missing values are null."""

    def __init__(self, stream: Any, columns: LogColumns) -> None:
        self._stream = stream
        self._spelled = columns.spelled

    def write(self, batch: pa.RecordBatch) -> None:
        for first in range(0, batch.num_rows, JSON_ROWS):
            self._stream.write(_json_lines(batch.slice(first, JSON_ROWS), self._spelled))

    def close(self) -> None:
        self._stream.close()


def _json_lines(batch: pa.RecordBatch, spelled: frozenset[str]) -> pa.Buffer:
    import pyarrow as pa
    import pyarrow.compute as pc

    pieces: list[Any] = []
    for position, (field, column) in enumerate(zip(batch.schema, batch.columns, strict=True)):
        key = json.dumps(field.name, ensure_ascii=False)
        pieces.append(f"{',' if position else '{'}{key}:")
        if pa.types.is_dictionary(field.type) and field.name not in spelled:
            quoted = [json.dumps(member) for member in column.dictionary.to_pylist()]
            texts = pa.DictionaryArray.from_arrays(column.indices, pa.array(quoted))
            texts = texts.cast(pa.string())
        else:
            texts = pc.cast(column, pa.string())
        pieces.append(texts.fill_null("null"))
    lines = pc.binary_join_element_wise(*pieces, "}\n", "")
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return pc.binary_join(whole, "")[0].as_buffer()


@contextmanager
def _replacing(path: Path) -> Iterator[str]:
    """Yield the name of a temporary file beside a path, which replaces it on success."""
    target = path.resolve()  # if the path is a link, write the file it points to
    name = target.with_name(f".{target.name}-{secrets.token_hex(6)}")
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield str(name)
        os.replace(name, target)
    except OSError as error:
        with suppress(FileNotFoundError):
            os.unlink(name)
        reason = os.strerror(error.errno) if error.errno else str(error)  # without Arrow's words
        raise CannotWriteError(error.errno, reason, str(path)) from None
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
