"""JSON lines as logs: one object per line, whose keys are the columns."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.diagnostics import LogProblem
from mdpdsl.logs.readers.log_file import MOST_SHOWN, LogFile, LogFileError, RawBatch, shown
from mdpdsl.logs.readers.text_blocks import LongLine, TextStream, as_utf8, whole_lines
from mdpdsl.logs.reading_options import ReadingOptions

ENDINGS = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
#: Lines at the beginning of a file whose keys are its columns, if Arrow cannot read them all.
_FIRST_LINES = 1_000
#: Arrow reads nested values by recursion, and crashes if they are nested too deeply.
_MOST_BRACKETS = 500
#: Arrow is slow if objects have very many keys.
_LARGE_OBJECT = 100_000


def open_json(path: Path, options: ReadingOptions) -> LogFile:
    """Open a file and find its columns; raise LogFileError where it has no objects."""
    state = path.stat()
    names = _columns(path, options.encoding, state.st_size, state.st_mtime_ns)

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        n_lines = 0
        is_noted = False
        texts: set[str] = set()
        with TextStream(path, options.encoding) as stream:
            for block in whole_lines(stream, _last_line_end):
                if isinstance(block, LongLine):
                    n_lines += 1
                    yield _slow_batch([], n_lines, columns, ((n_lines, block.text),))
                    continue
                notes: tuple[LogProblem, ...] = ()
                if not stream.has_known_encoding:
                    block, place = as_utf8(block)
                    if place is not None and not is_noted:
                        notes, is_noted = (_encoding_note(path, n_lines + place + 1),), True
                lines = _lines(block)
                for start in range(0, len(lines), batch_rows):
                    piece = lines[start : start + batch_rows]
                    batch = _batch(piece, n_lines + start, columns, texts)
                    yield replace(batch, notes=notes)
                    notes = ()
                n_lines += len(lines)
            if stream.error is not None:
                raise stream.error

    return LogFile(str(path), names, read)


@lru_cache(maxsize=64)
def _columns(path: Path, encoding: str | None, _size: int, _changed: int) -> tuple[str, ...]:
    """Return the keys of the first lines of a file, which is opened more than once."""
    with TextStream(path, encoding) as stream:
        lines = _first_lines(stream)
        names = _names(lines)
        if not names and stream.error is not None:
            raise stream.error
    if not names:
        is_array = bool(lines) and lines[0].lstrip().startswith(b"[")
        found = "it is a JSON array" if is_array else "none of the first lines is a JSON object"
        raise LogFileError(
            f"{path}: {found}; a log needs one JSON object on each line",
            'write each row on a line of its own, as in {"x": 0.5, "u": 1}',
        )
    return names


def _first_lines(stream: TextStream) -> list[bytes]:
    """Return lines at the beginning: fewer if they are long, but at least one."""
    block = next(whole_lines(stream, _last_line_end), b"")
    return [] if isinstance(block, LongLine) else _lines(as_utf8(block)[0])


def _names(lines: list[bytes]) -> tuple[str, ...]:
    """Return the keys of lines: some, such as the one of an end, are only in a few of them."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    text = b"".join(lines)
    if _is_simple(text, lines):
        with suppress(pa.ArrowException):
            table = arrow_json.read_json(io.BytesIO(text))
            if table.num_rows == sum(bool(line.strip()) for line in lines):
                return tuple(table.column_names)
    names: dict[str, None] = {}
    for line in lines[:_FIRST_LINES]:
        names |= dict.fromkeys(_object(line)[0] or ())
    return tuple(names)


def _last_line_end(text: bytes, is_at_end: bool) -> int:
    return len(text) if is_at_end else text.rfind(b"\n") + 1


def _lines(block: bytes) -> list[bytes]:
    return io.BytesIO(block).readlines()


def _encoding_note(path: Path, row: int) -> LogProblem:
    return LogProblem(
        f"{path}: row {row:,} is not UTF-8; such rows are read as Windows-1252 (Latin-1)",
        "set `encoding=` to what the file has, such as cp1252",
    )


def value_text(value: object) -> str | None:
    """Write a value as a field of text; None where there is none."""
    return value if isinstance(value, str) or value is None else json.dumps(value)


def _batch(lines: list[bytes], n_before: int, columns: Sequence[str], texts: set[str]) -> RawBatch:
    """Read lines; `texts` has the columns that would become times if they were not kept as texts.

    Whether a text is a time is not for Arrow to decide: it would do so in one batch, and not in
    another in which some text is different.
    """
    import pyarrow as pa

    text = b"".join(lines)
    if not _is_simple(text, lines):
        return _slow_batch(lines, n_before, columns)
    try:
        table = _table(text, texts)
        times = {c for c in columns if c in table.column_names and _is_time(table.column(c))}
        if times:
            texts |= times
            table = _table(text, texts)
        if table.num_rows == len(lines):
            rows = n_before + 1 + np.arange(len(lines))
            nothing = pa.nulls(len(lines))
            found = {
                c: pa.concat_arrays(table.column(c).chunks) if c in table.column_names else nothing
                for c in columns
            }
            return RawBatch(found, rows)
    except pa.ArrowException:  # a broken line, or a column with both texts and numbers
        pass
    return _slow_batch(lines, n_before, columns)


def _table(text: bytes, texts: set[str]) -> Any:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    schema = pa.schema([(name, pa.string()) for name in sorted(texts)])
    options = arrow_json.ParseOptions(explicit_schema=schema)
    return arrow_json.read_json(io.BytesIO(text), parse_options=options).combine_chunks()


def _is_time(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_temporal(column.type))


def _is_simple(text: bytes, lines: list[bytes]) -> bool:
    """Return whether Arrow can read some lines: few keys, and no deep nesting."""
    if len(text) > _LARGE_OBJECT * max(1, len(lines)):
        return False
    n_brackets = text.count(b"{") + text.count(b"[")
    if n_brackets <= len(lines) + _MOST_BRACKETS:  # usually one to a line
        return True
    return max(line.count(b"{") + line.count(b"[") for line in lines) <= _MOST_BRACKETS


def _slow_batch(
    lines: list[bytes],
    n_before: int,
    columns: Sequence[str],
    broken: tuple[tuple[int, str], ...] = (),
) -> RawBatch:
    """Read line by line."""
    import pyarrow as pa

    numbers, records, lost = [], [], list(broken)
    for number, line in enumerate(lines, n_before + 1):
        record, reason = _object(line)
        if record is not None:
            numbers.append(number)
            records.append({name: value_text(record.get(name)) for name in columns})
        elif line.strip():
            text = line[:MOST_SHOWN].decode("utf-8", "replace").strip()
            lost.append((number, shown(f"{reason}: {text}")))
    texts = {c: pa.array([r[c] for r in records], pa.string()) for c in columns}
    return RawBatch(texts, np.array(numbers, np.int64), tuple(lost))


def _object(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return the object of a line; None if there is none, and why."""
    try:
        record = json.loads(line)
        for value in record.values() if isinstance(record, dict) else ():
            if isinstance(value, list | dict):
                json.dumps(value)  # which allows less nesting than reading does
    except RecursionError:
        return None, "nested too deeply"
    except ValueError:
        return None, "not a JSON object"
    return (record, "") if isinstance(record, dict) else (None, "not a JSON object")
