"""Logs that are awkward as files: damaged, cut off, or something else than their name says."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from tests.logs.awkward_cases import (
    HEADER,
    STEPS,
    Awkward,
    N,
    Reading,
    by_pandas,
    log_text,
    parsed,
    seconds,
    writing,
)

_COPY = "copy it again from where it came"
_TEXT = log_text().encode()
_PACKED = gzip.compress(_TEXT)
_TURNED = b"\n".join([HEADER.encode(), *reversed(_TEXT.split(b"\n")[1:-1])]) + b"\n"
#: Rows that cannot be compressed to nothing, so that damage is somewhere among them.
_LONG = "x,action\n" + "".join(f"{zlib.crc32(b'%d' % i) % 5},a\n" for i in range(20_000))
_LONG_PACKED = gzip.compress(_LONG.encode(), 1)


def _with_bad_sum(packed: bytes) -> bytes:
    return packed[:-8] + bytes(byte ^ 1 for byte in packed[-8:-4]) + packed[-4:]


def _unpacked(content: bytes) -> bytes:
    """Unpack as much as there is, up to the last whole line."""
    text = zlib.decompressobj(wbits=31).decompress(content)
    return text[: text.rindex(b"\n") + 1]


def _with_damage(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


_N_WHOLE = _unpacked(_LONG_PACKED[: len(_LONG_PACKED) // 2]).count(b"\n") - 1

GZIP = [
    Awkward("packed", writing(_PACKED, "log.csv.gz"), by_pandas(change=gzip.decompress)),
    Awkward(
        "packed in two pieces",
        writing(gzip.compress(_TEXT[:100]) + gzip.compress(_TEXT[100:]), "log.csv.gz"),
        by_pandas(change=gzip.decompress),
    ),
    Awkward(
        "packed with a bad checksum",
        writing(_with_bad_sum(_PACKED), "log.csv.gz"),
        refused=("is damaged, so none of its rows are counted: CRC check failed", _COPY),
    ),
    Awkward(
        "packed with a bad checksum, and out of order",
        writing(_with_bad_sum(gzip.compress(_TURNED)), "log.csv.gz"),
        refused=("is damaged, so none of its rows are counted: CRC check failed", _COPY),
    ),
    Awkward(
        "packed and damaged",
        writing(_with_damage(_LONG_PACKED, len(_LONG_PACKED) // 2), "log.csv.gz"),
        refused=("is damaged, so none of its rows are counted", _COPY),
    ),
    Awkward(
        "packed and cut off",
        writing(_LONG_PACKED[: len(_LONG_PACKED) // 2], "log.csv.gz"),
        by_pandas(change=_unpacked),
        problems=(f"breaks off after row {_N_WHOLE:,}: Compressed file ended",),
        step=None,
    ),
    Awkward(
        "packed and cut off in the header",
        writing(_LONG_PACKED[:14], "log.csv.gz"),
        refused=("cannot read", _COPY),
    ),
    Awkward(
        "packed, with something behind",
        writing(_PACKED + b"something", "log.csv.gz"),
        by_pandas(change=_unpacked),
        problems=("breaks off after row 24: Not a gzipped file",),
    ),
    Awkward(
        "not packed",
        writing(_TEXT, "log.csv.gz"),
        refused=("it is not compressed", "rename it, without .gz"),
    ),
    Awkward(
        "packed without saying so",
        writing(_PACKED),
        refused=("it is a gzip file", "its name ends in .gz"),
    ),
]


def _table() -> pa.Table:
    names = ("episode", "time", "x", "action")
    return pa.table({name: [step[i] for step in STEPS] for i, name in enumerate(names)})


def _parquet(**options: Any) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(_table(), sink, **options)
    return sink.getvalue()


def arrow(is_stream: bool, *, has_end: bool = True) -> bytes:
    """Return the steps as an Arrow file or stream of three batches."""
    sink, table = io.BytesIO(), _table()
    new = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=8)
        content = sink.getvalue()
    return sink.getvalue() if has_end else content


def _with_rows_hidden() -> bytes:
    """Return a Parquet file of 200 rows whose only row group says that it has 72 of them."""
    sink = io.BytesIO()
    parquet.write_table(pa.table({"x": [1] * 200, "action": ["a"] * 200}), sink)
    content = sink.getvalue()
    place = content.rindex(b"\x90\x03")  # 200, as a Thrift number
    return content[:place] + b"\x90\x01" + content[place + 2 :]


_PARQUET = _parquet()
_SUMMED = _parquet(write_page_checksum=True, compression="none")


def _read_parquet(path: Path) -> pd.DataFrame:
    return parsed(pd.read_parquet(path))


def _table_rows(n: int) -> Reading:
    return lambda path: parsed(_table().to_pandas().head(n))


BINARY = [
    Awkward("parquet", writing(_PARQUET, "log.parquet"), _read_parquet),
    Awkward(
        "parquet that is cut off",
        writing(_PARQUET[:-9], "log.parquet"),
        refused=("cannot read", _COPY),
    ),
    Awkward(
        "parquet without a footer",
        writing(_PARQUET[: len(_PARQUET) // 2], "log.parquet"),
        refused=("cannot read", _COPY),
    ),
    Awkward(
        "parquet with a bad checksum",
        writing(_with_damage(_SUMMED, _SUMMED.index(b"\x03" + bytes(7))), "log.parquet"),
        refused=("none of its rows are counted: could not verify page integrity, CRC", _COPY),
    ),
    Awkward(
        "parquet with rows that cannot be reached",
        writing(_with_rows_hidden(), "log.parquet"),
        refused=("none of its rows are counted: it has 72 rows, and says that it has 200", _COPY),
    ),
    Awkward(
        "parquet that is text",
        writing(_TEXT, "log.parquet"),
        refused=("it is a text file", "rename it"),
    ),
    Awkward(
        "text that is parquet",
        writing(_PARQUET),
        refused=("it is a Parquet file", "ends in .parquet"),
    ),
    Awkward(
        "a spreadsheet",
        writing(b"PK\x03\x04" + bytes(100)),
        refused=("it is a zip or Excel file", "export it as CSV or Parquet"),
    ),
    Awkward("arrow", writing(arrow(False), "log.arrow"), _table_rows(N)),
    Awkward(
        "arrow that is cut off",
        writing(arrow(False)[:-9], "log.arrow"),
        refused=("its end is missing or damaged", _COPY),
    ),
    Awkward("arrow stream", writing(arrow(True), "log.arrow"), _table_rows(N)),
    Awkward(
        "arrow stream that is cut off in a batch",
        writing(arrow(True)[:-200], "log.arrow"),
        _table_rows(16),
        problems=("breaks off after row 16",),
    ),
    Awkward(
        "arrow stream that is cut off between batches",
        writing(arrow(True, has_end=False), "log.arrow"),
        _table_rows(N),
        problems=("has no mark at its end",),
    ),
    Awkward("arrow that is text", writing(_TEXT, "log.arrow"), refused=("it is a text file",)),
    Awkward(
        "another format",
        writing(_TEXT, "log.xlsx"),
        refused=("the ending is that of no format that can be read", "use one of"),
    ),
]

_OBJECTS = [{"episode": e, "time": t, "x": x, "action": action} for e, t, x, action in STEPS]


def _json(change: Callable[[dict[str, Any]], dict[str, Any]] = lambda row: row) -> str:
    return "".join(json.dumps(change(dict(row))) + "\n" for row in _OBJECTS)


def _replaced(row: int, line: str) -> str:
    lines = _json().splitlines()
    lines[row - 1] = line
    return "\n".join(lines) + "\n"


def _at(row: int, **values: Any) -> str:
    return _replaced(row, json.dumps({**_OBJECTS[row - 1], **values}))


def by_json(time: Callable[[pd.Series], pd.Series] | None = None) -> Reading:
    """Return a reading of the lines that Python can read."""

    def read(path: Path) -> pd.DataFrame:
        found = []
        for line in path.read_bytes().decode("utf-8-sig").splitlines():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                continue
        frame = pd.DataFrame([row for row in found if isinstance(row, dict)])
        return parsed(frame, time) if time is not None else parsed(frame)

    return read


_DEEP = "[" * 100_000 + "]" * 100_000
_LOST = {"broken line": 1, "gap in time": 1}

JSON = [
    Awkward(
        "json with a broken line",
        writing(_replaced(3, '{"episode": 0, "ti'), "log.jsonl"),
        by_json(),
        _LOST,
        n_lost=1,
    ),
    Awkward(
        "json with nan",
        writing(_at(3, x=float("nan")), "log.jsonl"),
        by_json(),
        {"missing value": 1},
    ),
    Awkward(
        "json with infinity",
        writing(_at(3, x=float("inf")), "log.jsonl"),
        by_json(),
        {"not a finite number": 1},
    ),
    Awkward(
        "json with null", writing(_at(3, x=None), "log.jsonl"), by_json(), {"missing value": 1}
    ),
    Awkward("json with a number as a text", writing(_at(3, x="4"), "log.jsonl"), by_json()),
    Awkward(
        "json with all numbers as texts",
        writing(_json(lambda r: {**r, "x": str(r["x"])}), "log.jsonl"),
        by_json(),
    ),
    Awkward(
        "json with a list in a row",
        writing(_at(3, x=[1]), "log.jsonl"),
        by_json(),
        {"text in a number column": 1},
    ),
    Awkward(
        "json with lists",
        writing(_json(lambda r: {**r, "x": [r["x"]]}), "log.jsonl"),
        refused=("the column `x` is of type list",),
    ),
    Awkward(
        "json with timestamps",
        writing(_json(lambda r: {**r, "time": f"2026-03-04T05:0{r['time']}:00"}), "log.jsonl"),
        by_json(seconds(format="ISO8601")),
        step=60.0,
    ),
    Awkward(
        "json with a date in place of a value",
        writing(_json(lambda r: {**r, "x": "2026-03-04"}), "log.jsonl"),
        by_json(),
        {"text in a number column": N},
        ("most rows are rejected, 24 of 24: text in a number column (24)",),
    ),
    Awkward(
        "json with a key in a few rows",
        writing(
            _json(lambda r: r if r["time"] % 4 else {k: r[k] for k in r if k != "x"}), "log.jsonl"
        ),
        by_json(),
        {"missing value": 6},
    ),
    Awkward(
        "json nested deeply",
        writing(_replaced(3, '{"x": ' + _DEEP + "}"), "log.jsonl"),
        by_json(),
        _LOST,
        n_lost=1,
    ),
    Awkward(
        "json nested deeply and left open",
        writing(_replaced(3, "[" * 100_000), "log.jsonl"),
        by_json(),
        _LOST,
        n_lost=1,
    ),
    Awkward(
        "json in an array",
        writing(json.dumps(_OBJECTS), "log.json"),
        refused=("it is a JSON array", "on a line of its own"),
    ),
    Awkward(
        "json in an array of many lines",
        writing(json.dumps(_OBJECTS, indent=1), "log.json"),
        refused=("it is a JSON array",),
    ),
    Awkward(
        "json with all rows on one line",
        writing(_json().replace("\n", " "), "log.jsonl"),
        refused=("none of the first lines is a JSON object",),
    ),
    Awkward(
        "json with a mark and line ends of Windows",
        writing(("\ufeff" + _json()).replace("\n", "\r\n"), "log.jsonl"),
        by_json(),
    ),
    Awkward(
        "json that is csv",
        writing(_TEXT, "log.jsonl"),
        refused=("none of the first lines is a JSON object",),
    ),
]

FILES = [*GZIP, *BINARY, *JSON]
