"""CSV files as logs, separated by commas, tabs or semicolons.

Fields stay texts here. Each row shows for itself what is a number, so that a bad field costs one
row and not the whole file. The same is true of a quote that is never closed: the line that it is in
is broken, and the next line is a row again.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.diagnostics import LogProblem
from mdpdsl.kernels.quotes import (
    END,
    HAS_ROWS,
    IS_OPEN,
    MOST_LINES,
    N_BROKEN,
    N_FOUND,
    N_ROWS,
    ROWS_BEFORE,
    ROWS_BEFORE_THESE,
    scan_rows,
)
from mdpdsl.logs.readers.log_file import BLOCK_BYTES, LogFile, LogFileError, RawBatch, shown
from mdpdsl.logs.readers.text_blocks import (
    MOST_LINE_BYTES,
    LongLine,
    TextStream,
    as_utf8,
    whole_lines,
)
from mdpdsl.logs.reading_options import ReadingOptions

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
DELIMITERS = (",", "\t", ";")
#: A quoted field with more lines than this is read, and mentioned: a quote may be missing.
MOST_QUOTED_LINES = 100
#: A quote that is still open after this many bytes, and several lines, is taken to be never closed.
MOST_QUOTED_BYTES = 16_000_000
#: Broken lines found in one block; the rest of it is looked at again.
_MOST_BROKEN = 10_000
_HEADER_BYTES = 1 << 16
_LINE_END = re.compile(r"\r\n?|\n")
_FIRST_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n)")
#: Takes the place of a broken line, so that Arrow counts it.
_MARK = b"\x00broken "
_MARKED = re.compile(r"\x00broken (\d{1,9})\W")


@dataclass(frozen=True)
class _Header:
    """The first line of a file, and what it shows about the others."""

    names: tuple[str, ...]
    delimiter: str
    newline: bytes
    n_bytes: int


def open_csv(path: Path, options: ReadingOptions) -> LogFile:
    """Open a file and read its header; raise LogFileError where there is none."""
    with TextStream(path, options.encoding) as stream:
        header = _header(path, stream)

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        with TextStream(path, options.encoding) as stream:
            stream.read(header.n_bytes)
            yield from _Reader(str(path), stream, header, columns).batches(batch_rows)
            if stream.error is not None:
                raise stream.error

    if not any(header.names):
        raise LogFileError(f"{path} has no header", "name the columns in the first line")
    return LogFile(str(path), header.names, read)


def _header(path: Path, stream: TextStream) -> _Header:
    text, size = b"", _HEADER_BYTES
    while True:
        new = stream.read(size)
        is_whole = len(new) < size and stream.error is None
        text, size = text + new, 2 * size
        # A byte is a character here, whatever it means: the structure is in ASCII.
        found = _first_row(path, text.decode("latin-1"), is_whole)
        if found is not None:
            break
        if stream.error is not None:
            raise stream.error
        if len(text) > MOST_LINE_BYTES:
            raise LogFileError(f"{path}: the first line is too long for a header")
    start, end, delimiter = found
    header = as_utf8(text[start:end])[0].decode("utf-8", "replace")
    if "\x00" in header:
        raise LogFileError(f"{path}: its header contains null bytes", _about_null_bytes(text))
    lines = csv.reader(io.StringIO(header, newline=""), delimiter=delimiter, skipinitialspace=True)
    names = tuple(name.strip() for name in next(lines, []))
    is_old = text[end - 1 : end] == b"\r" and text[end : end + 1] != b"\n"
    return _Header(names, delimiter, b"\r" if is_old else b"\n", end)


def _first_row(path: Path, text: str, is_whole: bool) -> tuple[int, int, str] | None:
    """Return start, end and delimiter of the header; None if more of the file is needed."""
    lines = io.StringIO(text, newline="")
    first = lines.readline()
    start = 0
    said = re.fullmatch(r'"?sep=([,;|:\t])"?\r?\n?', first)  # as spreadsheets write it
    if said:
        start, first = len(first), lines.readline()
    delimiter = said[1] if said else max(DELIMITERS, key=lambda d: len(_fields(first, d)))
    used = start

    def counted() -> Iterator[str]:
        nonlocal used
        for line in (first, *lines):
            used += len(line)
            yield line

    try:
        next(csv.reader(counted(), delimiter=delimiter), None)
        is_closed = used < len(text) or len(_LINE_END.split(text[start:].rstrip("\r\n"))) == 1
    except csv.Error:  # a name that is too long, or seems to be
        if first.count('"') % 2 == 0:
            most = f"{csv.field_size_limit():,}"
            raise LogFileError(
                f"{path}: a name in the header has more than {most} characters",
                "name the columns in the first line",
            ) from None
        is_closed, is_whole = False, True
    if not is_whole and used == len(text):
        return None
    if not is_closed:
        raise LogFileError(f"{path}: a quote in the header is never closed", "close the quote")
    return start, used, delimiter


def _about_null_bytes(text: bytes) -> str:
    """Return what to do about null bytes, which are every other byte of a text in UTF-16."""
    half = len(text) // 4
    for encoding, zeros in (("utf-16-le", text[1::2]), ("utf-16-be", text[::2])):
        if zeros.count(0) > half:
            return f"it looks like UTF-16: set `encoding=` to {encoding}"
    return "a text has none: remove them, or export the file again"


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)


class _Reader:
    """Reads the rows below a header."""

    def __init__(
        self, path: str, stream: TextStream, header: _Header, columns: Sequence[str]
    ) -> None:
        self._path, self._stream, self._header = path, stream, header
        self._delimiter = header.delimiter.encode()
        self._places = {name: str(header.names.index(name)) for name in columns}
        # The header that Arrow sees: Arrow needs the number of columns, and is quick with numbers.
        names = self._delimiter.join(str(i).encode() for i in range(len(header.names)))
        self._first_line = names + b"\n"
        self._n_rows = 0  # rows and broken lines so far
        self._notes: list[LogProblem] = []
        self._is_noted = False
        self._found = np.zeros(N_FOUND, np.int64)
        self._lines_broken = np.empty((_MOST_BROKEN, 2), np.int64)

    def batches(self, batch_rows: int) -> Iterator[RawBatch]:
        """Return all rows."""
        least = max(BLOCK_BYTES, 8 * len(self._first_line))
        for block in whole_lines(self._stream, self._end, self._header.newline, least):
            if isinstance(block, LongLine):
                self._n_rows += 1
                yield self._nothing(((self._n_rows, block.text),))
            else:
                yield from self._parsed(block, batch_rows)

    def _end(self, text: bytes, is_at_end: bool) -> int:
        """Return where the last whole row ends."""
        if b'"' not in text:
            return len(text) if is_at_end else self._last_line_end(text)
        self._scan(text, is_at_end)
        end = int(self._found[END])
        if self._found[IS_OPEN] and end == 0 and len(text) > MOST_QUOTED_BYTES:
            first = _FIRST_LINE.match(text)
            return 0 if first is None else first.end()  # by itself, it is a broken line
        return end

    def _last_line_end(self, text: bytes) -> int:
        """Return where the last line ends; a file may have other line ends than its header."""
        newline = self._header.newline
        return text.rfind(newline) + 1 or text.rfind(b"\r" if newline == b"\n" else b"\n") + 1

    def _scan(self, text: bytes, is_at_end: bool) -> None:
        codes = np.frombuffer(text, np.uint8)
        n_delimiters = len(self._header.names) - 1
        mark = ord(self._delimiter)
        scan_rows(codes, mark, n_delimiters, is_at_end, self._lines_broken, self._found)

    def _parsed(self, block: bytes, batch_rows: int) -> Iterator[RawBatch]:
        unclosed: list[bytes] = []
        if b'"' in block and self._has_odd_quotes(block):
            block, unclosed = self._without_open_quotes(block)
        if not self._stream.has_known_encoding:
            block, place = as_utf8(block)
            if place is not None:
                self._note_encoding(self._n_rows + 1 + place)
        yield from self._rows(block, unclosed, batch_rows)

    def _has_odd_quotes(self, block: bytes) -> bool:
        """Return whether a quote may never be closed, or is closed suspiciously late."""
        is_scanned = int(self._found[END]) == len(block)
        self._found[END] = -1  # so that another block of this length is not taken for this one
        is_odd = self._found[N_BROKEN] or self._found[MOST_LINES] > MOST_QUOTED_LINES
        return bool(is_odd or self._found[HAS_ROWS]) or not is_scanned

    def _without_open_quotes(self, block: bytes) -> tuple[bytes, list[bytes]]:
        """Mark the lines in which a quote is never closed; return these lines, too."""
        pieces: list[bytes] = []
        unclosed: list[bytes] = []
        n_before = self._n_rows
        while block:
            self._scan(block, True)
            end, last = int(self._found[END]), 0
            for start, stop in self._lines_broken[: int(self._found[N_BROKEN])].tolist():
                pieces.append(block[last:start])
                pieces.append(_MARK + b"%d" % len(unclosed))
                pieces.append(self._delimiter * len(self._header.names) + b"\n")
                unclosed.append(block[start:stop])
                last = stop
            self._note_long_quote(n_before)
            n_before += int(self._found[N_ROWS])
            pieces.append(block[last:end])
            block = block[end:]
        return b"".join(pieces), unclosed

    def _note_long_quote(self, n_before: int) -> None:
        """Mention a quoted field that may have swallowed rows."""
        n_lines, row = int(self._found[MOST_LINES]) + 1, n_before + 1
        if self._found[HAS_ROWS]:
            row += int(self._found[ROWS_BEFORE_THESE])
            found = "contains lines that look like rows"
        elif n_lines > MOST_QUOTED_LINES:
            row += int(self._found[ROWS_BEFORE])
            found = f"has {n_lines:,} lines"
        else:
            return
        self._notes.append(
            LogProblem(
                f"{self._path}: a quoted field of row {row:,} {found}",
                "if a quote is missing there, these lines are rows that are not read",
            )
        )

    def _note_encoding(self, row: int) -> None:
        if self._is_noted:
            return
        self._is_noted = True
        self._notes.append(
            LogProblem(
                f"{self._path}: row {row:,} is not UTF-8; such rows are read as Windows-1252 "
                "(Latin-1)",
                "set `encoding=` to what the file has, such as cp1252",
            )
        )

    def _rows(self, block: bytes, unclosed: list[bytes], batch_rows: int) -> Iterator[RawBatch]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        broken: list[tuple[int, str]] = []  # numbers, from 0, and texts of broken lines

        def note(line: Any) -> str:
            n, expected = line.actual_columns, line.expected_columns
            found = f"{n} field{'s' if n > 1 else ''} instead of {expected}: {line.text}"
            marked = _MARKED.match(line.text)
            if marked is not None and int(marked[1]) < len(unclosed):
                text = unclosed[int(marked[1])].decode("utf-8", "replace").rstrip("\r\n")
                found = f"a quote that is never closed: {text}"
            broken.append((line.number - 2, shown(found)))  # Arrow counts the header as line 1
            return "skip"

        table = arrow_csv.read_csv(
            io.BytesIO(self._first_line + block),
            read_options=arrow_csv.ReadOptions(
                use_threads=False,  # or broken lines come without their numbers
                block_size=len(self._first_line) + len(block) + 1,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._header.delimiter, invalid_row_handler=note
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(self._places.values()),
                column_types={place: pa.string() for place in self._places.values()},
                check_utf8=False,
            ),
        )
        n = table.num_rows + len(broken)
        is_row = np.ones(n, np.bool_)
        is_row[[number for number, _ in broken]] = False
        rows = self._n_rows + 1 + np.flatnonzero(is_row)
        lost = [(self._n_rows + 1 + number, text) for number, text in broken]
        self._n_rows += n
        if table.num_rows == 0 and lost:
            yield self._nothing(tuple(lost))
        for start in range(0, table.num_rows, batch_rows):
            part = rows[start : start + batch_rows]
            is_last = start + batch_rows >= table.num_rows
            n_here = len(lost) if is_last else sum(number < part[-1] for number, _ in lost)
            columns = {
                name: _piece(table.column(place).slice(start, batch_rows))
                for name, place in self._places.items()
            }
            yield RawBatch(columns, part, tuple(lost[:n_here]), self._taken_notes())
            lost = lost[n_here:]

    def _nothing(self, broken: tuple[tuple[int, str], ...]) -> RawBatch:
        import pyarrow as pa

        columns = {name: pa.array([], pa.string()) for name in self._places}
        return RawBatch(columns, np.empty(0, np.int64), broken, self._taken_notes())

    def _taken_notes(self) -> tuple[LogProblem, ...]:
        notes = tuple(self._notes)
        self._notes.clear()
        return notes


def _piece(column: Any) -> Any:
    """Return a column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
