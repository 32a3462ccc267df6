"""JSON lines as logs: one object per line, whose keys are the columns."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.logs.readers.log_file import BLOCK_BYTES, LogFile, LogFileError, RawBatch, bytes_of

ENDINGS = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
#: Lines at the beginning of a file whose keys are its columns.
_FIRST_LINES = 100


def open_json(path: Path) -> LogFile:
    """Open a file and find its columns; raise LogFileError where it has no objects."""
    names: dict[str, None] = {}
    with bytes_of(path) as file:
        for _, line in zip(range(_FIRST_LINES), file, strict=False):
            record = _object(line)
            names |= dict.fromkeys(record or ())
    if not names:
        raise LogFileError(
            f"{path}: none of the first lines is a JSON object",
            'JSON lines have one object per line, as in {"x": 0.5, "u": 1}',
        )

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        n_lines = 0
        with bytes_of(path) as file:
            while lines := file.readlines(BLOCK_BYTES):
                for start in range(0, len(lines), batch_rows):
                    piece = lines[start : start + batch_rows]
                    yield _batch(piece, n_lines + start, columns)
                n_lines += len(lines)

    return LogFile(str(path), tuple(names), read)


def value_text(value: object) -> str | None:
    """Write a value as a field of text; None where there is none."""
    return value if isinstance(value, str) or value is None else json.dumps(value)


def _batch(lines: list[bytes], n_before: int, columns: Sequence[str]) -> RawBatch:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    try:
        table = arrow_json.read_json(io.BytesIO(b"".join(lines))).combine_chunks()
        if table.num_rows == len(lines) and set(columns) <= set(table.column_names):
            rows = n_before + 1 + np.arange(len(lines))
            found = {c: pa.concat_arrays(table.column(c).chunks) for c in columns}
            return RawBatch(found, rows)
    except pa.ArrowInvalid:  # a broken line, or a column with both texts and numbers
        pass
    numbers, records, broken = [], [], []
    for number, line in enumerate(lines, n_before + 1):
        record = _object(line)
        if record is not None:
            numbers.append(number)
            records.append(record)
        elif line.strip():
            text = line.decode("utf-8", "replace").strip()
            broken.append((number, f"not a JSON object: {text}"[:100]))
    texts = {c: pa.array([value_text(r.get(c)) for r in records], pa.string()) for c in columns}
    return RawBatch(texts, np.array(numbers, np.int64), tuple(broken))


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
