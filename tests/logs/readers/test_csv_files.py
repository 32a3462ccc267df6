from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdpdsl.logs.readers import csv_files
from mdpdsl.logs.reading_options import USUAL

COLUMNS = ["x", "y", "z"]
#: What random files are made of, and more often than not of quotes.
PIECES = ['"', '""', '"""', ",", ",,", "\n", "\r", "\r\n", "a", " ", '"b\nc"', '\n"d",2,3\n']

Row = list[str] | None  # None for a broken line


def _line_end(text: str, i: int) -> int:
    """Return how many characters end a line here."""
    return 2 if text.startswith("\r\n", i) else int(text[i : i + 1] in ("\r", "\n"))


def _plainly_read(text: str) -> Iterator[Row]:
    """Read rows character by character, as the docstring of `kernels.quotes` says."""
    i = 0
    while i < len(text):
        if _line_end(text, i):
            i += _line_end(text, i)
            continue
        fields, i = _plain_row(text, i)
        yield fields if fields is not None and len(fields) == len(COLUMNS) else None


def _plain_row(text: str, i: int) -> tuple[Row, int]:
    """Return a row, None if its quote is never closed, and where the next one starts."""
    fields = []
    while True:
        field = ""
        if text[i : i + 1] == '"':
            inside, j = _quoted(text, i + 1)
            ends = [k for k in range(i, min(j, len(text))) if _line_end(text, k)]
            is_clean = text[j + 1 : j + 2] in ("", ",", "\r", "\n")
            if j >= len(text) or (ends and not is_clean):
                return None, ends[0] + _line_end(text, ends[0]) if ends else len(text)
            field, i = inside, j + 1
        while i < len(text) and text[i] != "," and not _line_end(text, i):
            field, i = field + text[i], i + 1
        fields.append(field)
        if text[i : i + 1] != ",":
            return fields, i + (_line_end(text, i) if i < len(text) else 0)
        i += 1


def _quoted(text: str, i: int) -> tuple[str, int]:
    """Return what is in quotes, and where the closing one is."""
    inside = ""
    while i < len(text) and (text[i] != '"' or text[i + 1 : i + 2] == '"'):
        inside += text[i]
        i += 2 if text[i] == '"' else 1
    return inside, i


def _read(path: Path, batch_rows: int) -> list[Row]:
    found: dict[int, Row] = {}
    for batch in csv_files.open_csv(path, USUAL).read(COLUMNS, batch_rows):
        columns = [batch.columns[name].to_pylist() for name in COLUMNS]
        rows = dict(zip(batch.rows.tolist(), map(list, zip(*columns, strict=True)), strict=True))
        lost = dict.fromkeys(number for number, _ in batch.broken)
        assert not found.keys() & (rows.keys() | lost.keys()), "a row is read twice"
        found |= rows | lost
    assert sorted(found) == list(range(1, len(found) + 1)), "rows are numbered without holes"
    return [found[row] for row in sorted(found)]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(PIECES), max_size=60).map("".join),
    st.integers(1, 60),
    st.integers(1, 4),
)
def test_rows_are_those_of_a_plain_reading_whatever_the_size_of_blocks(
    tmp_path: Path, text: str, block_bytes: int, batch_rows: int
) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"x,y,z\n" + text.encode())
    expected = list(_plainly_read(text))
    assert _read(path, 1000) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "BLOCK_BYTES", block_bytes)
        assert _read(path, batch_rows) == expected
