"""Files of logs: Parquet, CSV, JSON lines and Arrow, read in batches of bounded memory.

Texts of a CSV file stay texts here: what is a number is for each row to show, so that one bad field
costs one row and not the file.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from mdpdsl.graph.space import IntArray
from mdpdsl.logs.readers import minari_paths

#: Rows of a batch.
BATCH_ROWS = 131_072
#: Bytes that a text file is read by.
BLOCK_BYTES = 8_000_000
_PIECE_BYTES = 1 << 16
#: What reading raises; Arrow's own errors are ValueErrors and OSErrors.
_READ_ERRORS = (OSError, EOFError, ValueError, zlib.error)

_KINDS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "json": (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz"),
    "arrow": (".arrow", ".feather", ".ipc", ".arrows"),
}
ENDINGS = tuple(ending for endings in _KINDS.values() for ending in endings)


class LogFileError(Exception):
    """A file that cannot be read, or not to its end; the message says why, `help` what to do."""

    def __init__(self, message: str, help_text: str | None = None) -> None:
        super().__init__(message)
        self.help = help_text


@dataclass(frozen=True, eq=False)
class RawBatch:
    """Some rows of a file, as they stand there; `broken` are lines in between that are no rows."""

    columns: dict[str, Any]  # name -> Arrow array [n]
    rows: IntArray  # [n]  number of each row, from 1, ascending
    broken: tuple[tuple[int, str], ...] = ()  # number of each broken line, and what stands there


@dataclass(frozen=True)
class LogFile:
    """A file that could be opened: the names of its columns, and how to read some of them."""

    path: Path
    columns: tuple[str, ...]
    read: Callable[[Sequence[str], int], Iterator[RawBatch]]
    #: Whether it has whole episodes in order of time, told apart by its own column `episode`.
    is_in_order: bool = False
    place: Callable[[int], str] | None = None  # says where a row is, if its number tells little


def expand_paths(patterns: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the files that paths, folders and globs name, each once, and what names none."""
    found: dict[Path, Path] = {}
    problems = []
    for pattern in patterns:
        here = Path(pattern)
        if minari_paths.is_id(pattern):
            paths = [str(minari_paths.dataset_of_id(pattern))]
        elif here.is_dir() and not minari_paths.is_data_folder(here):
            inside = [p for p in here.iterdir() if p.name.lower().endswith(ENDINGS) or p.is_dir()]
            paths = _logs_among(inside)
        elif here.exists():
            paths = [str(minari_paths.dataset_at(here) or here)]
        else:
            paths = _logs_among([Path(p) for p in glob.glob(pattern, recursive=True)])
        if not paths:
            problems.append(f"there is no file {pattern}")
        for path in sorted(paths, key=_natural):
            found.setdefault(Path(path).resolve(), Path(path))
    return list(found.values()), problems


def _logs_among(paths: Sequence[Path]) -> list[str]:
    """Return files, and the data folders of datasets."""
    found = [(path, minari_paths.dataset_at(path)) for path in paths]
    return [
        str(dataset or path)
        for path, dataset in found
        if dataset or (path.is_file() and path.name != minari_paths.NAMESPACE_NAME)
    ]


def open_log(path: Path) -> LogFile:
    """Open a file by its ending and see which columns it has; raise LogFileError."""
    if path.is_dir() or minari_paths.is_id(str(path)):
        from mdpdsl.logs.readers.minari import open_dataset  # it makes a LogFile, too

        return open_dataset(path)
    name = path.name.lower()
    kind = next((k for k, endings in _KINDS.items() if name.endswith(endings)), None)
    if kind is None:
        raise LogFileError(
            f"{path}: the ending says no format that can be read",
            f"use one of {', '.join(ENDINGS)}",
        )
    try:
        if path.stat().st_size == 0:
            raise LogFileError(f"{path} is empty")
        log = _OPENERS[kind](path)
    except (
        OSError,
        EOFError,
        ValueError,
        zlib.error,
    ) as error:  # Arrow's errors are ValueErrors or OSErrors
        raise LogFileError(f"cannot read {path}: {_first_line(error)}") from None
    twice = sorted({c for c in log.columns if log.columns.count(c) > 1})
    if twice:
        raise LogFileError(f"{path} has two columns named `{twice[0]}`", "rename one of them")
    return log


def read_log(log: LogFile, columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
    """Read some columns of a file; raise LogFileError where the file breaks off."""
    last = 0
    try:
        for batch in log.read(columns, batch_rows):
            yield batch
            last = int(batch.rows[-1]) if len(batch.rows) else last
    except (*_READ_ERRORS, LogFileError) as error:
        raise LogFileError(
            f"{log.path} breaks off after row {last:,}: {_first_line(error)}"
        ) from None


def _open_parquet(path: Path) -> LogFile:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        names = tuple(file.schema_arrow.names)

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        with pq.ParquetFile(path) as file:
            yield from _numbered(file.iter_batches(batch_rows, columns=list(columns)), columns)

    return LogFile(path, names, read)


def _open_arrow(path: Path) -> LogFile:
    import pyarrow as pa

    def batches(file: Any) -> tuple[tuple[str, ...], Iterator[Any]]:
        try:
            reader = pa.ipc.open_file(file)
            stored = (reader.get_batch(i) for i in range(reader.num_record_batches))
        except pa.ArrowInvalid:
            file.seek(0)
            reader = pa.ipc.open_stream(file)
            stored = iter(reader)
        return tuple(reader.schema.names), stored

    with pa.memory_map(str(path)) as file:
        names, _ = batches(file)

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        with pa.memory_map(str(path)) as file:
            _, stored = batches(file)
            pieces = (
                batch.slice(start, batch_rows)
                for batch in stored
                for start in range(0, batch.num_rows, batch_rows)
            )
            yield from _numbered(pieces, columns)

    return LogFile(path, names, read)


def _numbered(batches: Iterator[Any], columns: Sequence[str]) -> Iterator[RawBatch]:
    n_read = 0
    for batch in batches:
        rows = n_read + 1 + np.arange(batch.num_rows)
        n_read += batch.num_rows
        yield RawBatch({name: batch.column(name) for name in columns}, rows)


def _open_csv(path: Path) -> LogFile:
    with _bytes_of(path) as file:
        header = file.readline().decode("utf-8-sig", "replace").rstrip("\r\n")
    delimiter = max(",", "\t", ";", key=header.count)
    names = tuple(next(csv.reader([header], delimiter=delimiter), []))
    if not names:
        raise LogFileError(f"{path} has no header", "the first line names the columns")

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        yield from _csv_batches(path, delimiter, names, columns, batch_rows)

    return LogFile(path, names, read)


def _csv_batches(
    path: Path, delimiter: str, names: Sequence[str], columns: Sequence[str], batch_rows: int
) -> Iterator[RawBatch]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    broken: list[tuple[int, str]] = []  # lines that Arrow has come across and no batch has told

    def note(line: Any) -> str:
        found = f"{line.actual_columns} fields instead of {line.expected_columns}: {line.text}"
        broken.append((line.number - 1, found[:100]))  # Arrow counts the header as the first line
        return "skip"

    n_lines = 0
    with _bytes_of(path) as file:
        file.readline()
        lines = _Lines(file, names, delimiter)
        reader = arrow_csv.open_csv(
            lines,
            # One thread, or broken lines come without their numbers.
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=note),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(columns),
                column_types={name: pa.string() for name in columns},
                check_utf8=False,
            ),
        )
        for block in reader:
            for start in range(0, block.num_rows, batch_rows):
                batch = block.slice(start, batch_rows)
                candidates = n_lines + 1 + np.arange(batch.num_rows + len(broken))
                is_row = ~np.isin(candidates, [number for number, _ in broken])
                rows = candidates[is_row][: batch.num_rows]
                n_lines = int(rows[-1])
                told = [line for line in broken if line[0] < n_lines]
                broken[:] = broken[len(told) :]
                yield RawBatch({c: batch.column(c) for c in columns}, rows, tuple(told))
    if broken:
        nothing = {name: pa.array([], pa.string()) for name in columns}
        yield RawBatch(nothing, np.empty(0, np.int64), tuple(broken))
    if lines.error is not None:
        raise LogFileError(str(lines.error))


class _Lines(io.RawIOBase):
    """A file below its header, with the header as it was understood in front.

    Where a compressed file is cut short, the last whole line ends it, and `error` says what is
    wrong: the rows before are good.
    """

    def __init__(self, file: IO[bytes], names: Sequence[str], delimiter: str) -> None:
        self.error: Exception | None = None
        self._file = file
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(names)
        self._rest = text.getvalue().encode()  # read, and not yet passed on

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return whole lines, up to a size."""
        if self.error is not None:
            return b""
        pieces, n = [self._rest], len(self._rest)
        is_at_end = False
        while n < size and not is_at_end:
            try:
                piece = self._file.read(min(size - n, _PIECE_BYTES))
            except _READ_ERRORS as error:
                self.error = error
                break
            is_at_end = not piece
            pieces.append(piece)
            n += len(piece)
        found = b"".join(pieces)
        end = len(found)
        if not is_at_end:
            end = found.rfind(b"\n") + 1
            if end == 0 and self.error is None:  # a line longer than a block
                end = len(found)
        end = min(end, size)
        self._rest = found[end:]
        return found[:end]


def _open_json(path: Path) -> LogFile:
    names: dict[str, None] = {}
    with _bytes_of(path) as file:
        for _, line in zip(range(100), file, strict=False):
            record = _json_object(line)
            names |= dict.fromkeys(record or ())
    if not names:
        raise LogFileError(
            f"{path}: none of the first lines is a JSON object",
            'JSON lines have one object per line, as in {"x": 0.5, "u": 1}',
        )

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        n_lines = 0
        with _bytes_of(path) as file:
            while lines := file.readlines(BLOCK_BYTES):
                for start in range(0, len(lines), batch_rows):
                    piece = lines[start : start + batch_rows]
                    yield _json_batch(piece, n_lines + start, columns)
                n_lines += len(lines)

    return LogFile(path, tuple(names), read)


def _json_batch(lines: list[bytes], n_before: int, columns: Sequence[str]) -> RawBatch:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    try:
        table = arrow_json.read_json(io.BytesIO(b"".join(lines))).combine_chunks()
        if table.num_rows == len(lines) and set(columns) <= set(table.column_names):
            rows = n_before + 1 + np.arange(len(lines))
            found = {c: pa.concat_arrays(table.column(c).chunks) for c in columns}
            return RawBatch(found, rows)
    except pa.ArrowInvalid:  # a broken line, or a column with texts and numbers
        pass
    numbers, records, broken = [], [], []
    for number, line in enumerate(lines, n_before + 1):
        record = _json_object(line)
        if record is not None:
            numbers.append(number)
            records.append(record)
        elif line.strip():
            text = line.decode("utf-8", "replace").strip()
            broken.append((number, f"not a JSON object: {text}"[:100]))
    texts = {c: pa.array([_as_text(r.get(c)) for r in records], pa.string()) for c in columns}
    return RawBatch(texts, np.array(numbers, np.int64), tuple(broken))


def _json_object(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _as_text(value: object) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value)


def _bytes_of(path: Path) -> IO[bytes]:
    if path.name.lower().endswith(".gz"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def _natural(path: str) -> list[tuple[int, int | str]]:
    """Order `part-2` before `part-10`."""
    return [(0, int(p)) if p.isdigit() else (1, p) for p in re.split(r"(\d+)", path) if p]


def _first_line(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.splitlines()[0] if text else type(error).__name__


_OPENERS: dict[str, Callable[[Path], LogFile]] = {
    "parquet": _open_parquet,
    "csv": _open_csv,
    "json": _open_json,
    "arrow": _open_arrow,
}
