"""Logs that are awkward as texts: encodings, line ends, headers, delimiters, quotes."""

from __future__ import annotations

import codecs
import csv
import io
from pathlib import Path
from typing import Any

import pandas as pd

from mdpdsl.logs.reading_options import ReadingOptions
from tests.logs.awkward_cases import (
    HEADER,
    Awkward,
    N,
    Reading,
    by_pandas,
    lines_with,
    log_text,
    parsed,
    writing,
)

_TEXT = log_text()
_NOT_UTF8 = "is not UTF-8; such rows are read as Windows-1252"


def _encoding(name: str) -> ReadingOptions:
    return ReadingOptions(encoding=name)


def _noted(note: str) -> str:
    """Return a log with a column of notes in front."""
    lines = [f"{note},{line}" for line in _TEXT.splitlines()]
    return "\n".join(["note," + HEADER, *lines[1:]]) + "\n"


def _by_lines(path: Path) -> pd.DataFrame:
    """Read line by line the rows that have as many fields as the header, in whatever encoding."""
    lines = path.read_bytes().decode("latin-1").splitlines()
    rows = [row for row in csv.reader(lines) if row]
    good = [row for row in rows[1:] if len(row) == len(rows[0])]
    return parsed(pd.DataFrame(good, columns=rows[0]))


_MIXED = _noted("Müller").encode().splitlines(keepends=True)
_MIXED[5] = _MIXED[5].decode().encode("latin-1")
_MIXED[7] = _MIXED[7].decode().encode("latin-1")

ENCODINGS = [
    Awkward(
        "utf-8 with a mark",
        writing(codecs.BOM_UTF8 + _TEXT.encode()),
        by_pandas(encoding="utf-8-sig"),
    ),
    Awkward(
        "utf-16, low byte first", writing(_TEXT.encode("utf-16")), by_pandas(encoding="utf-16")
    ),
    Awkward(
        "utf-16, high byte first",
        writing(codecs.BOM_UTF16_BE + _TEXT.encode("utf-16-be")),
        by_pandas(encoding="utf-16"),
    ),
    Awkward("utf-32", writing(_TEXT.encode("utf-32")), by_pandas(encoding="utf-32")),
    Awkward(
        "utf-16 without a mark",
        writing(_TEXT.encode("utf-16-le")),
        refused=("its header contains null bytes", "set `encoding=` to utf-16-le"),
    ),
    Awkward(
        "utf-16 without a mark, high byte first",
        writing(_TEXT.encode("utf-16-be")),
        refused=("its header contains null bytes", "set `encoding=` to utf-16-be"),
    ),
    Awkward(
        "utf-16 without a mark, with the option",
        writing(_TEXT.encode("utf-16-le")),
        by_pandas(encoding="utf-16-le"),
        options=_encoding("utf-16-le"),
    ),
    Awkward(
        "latin-1",
        writing(_noted("Müller").encode("latin-1")),
        by_pandas(encoding="latin-1"),
        problems=("row 1 " + _NOT_UTF8,),
    ),
    Awkward(
        "latin-1 with the option",
        writing(_noted("Müller").encode("latin-1")),
        by_pandas(encoding="latin-1"),
        options=_encoding("latin-1"),
    ),
    Awkward(
        "windows-1252",
        writing(_noted("5 €").encode("cp1252")),
        by_pandas(encoding="cp1252"),
        problems=("row 1 " + _NOT_UTF8,),
    ),
    Awkward(
        "latin-1 in two lines of utf-8",
        writing(b"".join(_MIXED)),
        _by_lines,
        problems=("row 5 " + _NOT_UTF8,),
    ),
    Awkward(
        "latin-1 read as utf-8",
        writing(_noted("Müller").encode("latin-1")),
        options=_encoding("utf-8"),
        refused=("breaks off after row 0: it is not utf-8", "set `encoding=`"),
    ),
    Awkward(
        "utf-16 that is cut off",
        writing(_TEXT.encode("utf-16")[:-1]),
        by_pandas(change=lambda b: b[: b.rindex(b"\n\x00", 0, -2) + 2], encoding="utf-16"),
        problems=("breaks off after row 23: it is not utf-16-le",),
    ),
    Awkward(
        "null bytes in a row",
        writing(_TEXT.encode().replace(b"0,3,4", b"0,\x003,4")),
        by_pandas(lambda c: pd.to_numeric(c.where(~c.str.contains("\0")), errors="coerce")),
        {"missing time": 1, "gap in time": 1},
    ),
    Awkward(
        "null bytes at the end",
        writing(_TEXT.encode() + bytes(5000)),
        by_pandas(change=lambda b: b.rstrip(b"\0")),
        {"broken line": 1},
        n_lost=1,
    ),
    Awkward(
        "null bytes in the header",
        writing(_TEXT.encode().replace(b"x,", b"x\0,", 1)),
        refused=("its header contains null bytes", "remove them"),
    ),
]


def _ends(name: str, end: str) -> Awkward:
    return Awkward(name, writing(_TEXT.replace("\n", end)), by_pandas(change=_with_newlines))


def _with_newlines(content: bytes) -> bytes:
    return b"\n".join(line for line in content.splitlines() if line) + b"\n"


_LINES = _TEXT.splitlines()

LINES = [
    _ends("line ends of old Macs", "\r"),
    _ends("line ends of Windows", "\r\n"),
    _ends("line ends of Windows, doubled", "\r\r\n"),
    _ends("empty lines", "\n\n\n"),
    Awkward(
        "all kinds of line ends",
        writing("".join(line + ("\n", "\r", "\r\n")[i % 3] for i, line in enumerate(_LINES))),
        by_pandas(change=_with_newlines),
    ),
    Awkward("no line end at the end", writing(_TEXT[:-1]), by_pandas()),
    Awkward(
        "blank lines",
        writing(lines_with({5: _LINES[5] + "\n   "})),
        _by_lines,
        {"broken line": 1},
        n_lost=1,
    ),
    Awkward("a delimiter after each row", writing(_TEXT.replace("\n", ",\n")), by_pandas()),
    Awkward("delimiters after each row", writing(_TEXT.replace("\n", ",,,\n")), by_pandas()),
    Awkward(
        "a delimiter after each row but the header",
        writing(HEADER + "\n" + ",\n".join(_LINES[1:]) + ",\n"),
        _by_lines,
        {"broken line": N},
        ("most rows are rejected, 24 of 24: broken line (24)",),
        n_lost=N,
        step=None,
    ),
    Awkward(
        "too few fields",
        writing(lines_with({3: "0,2,4"})),
        _by_lines,
        {"broken line": 1, "gap in time": 1},
        n_lost=1,
    ),
    Awkward(
        "too many fields",
        writing(lines_with({3: "0,2,4,a,a"})),
        _by_lines,
        {"broken line": 1, "gap in time": 1},
        n_lost=1,
    ),
    Awkward(
        "the last row is cut off", writing(_TEXT[:-3]), _by_lines, {"broken line": 1}, n_lost=1
    ),
    Awkward(
        "the header again",
        writing(lines_with({8: _LINES[8] + "\n" + HEADER})),
        by_pandas(),
        {"missing time": 1},
    ),
    Awkward("separated by tabs", writing(_TEXT.replace(",", "\t"), "log.tsv"), by_pandas(sep="\t")),
    Awkward("separated by semicolons", writing(_TEXT.replace(",", ";")), by_pandas(sep=";")),
    Awkward(
        "a line that says what separates",
        writing("sep=;\r\n" + _TEXT.replace(",", ";")),
        by_pandas(sep=";", skiprows=1),
    ),
    Awkward(
        "separated by bars, as a line says",
        writing('"sep=|"\n' + _TEXT.replace(",", "|")),
        by_pandas(sep="|", skiprows=1),
    ),
    Awkward("blanks after commas", writing(_TEXT.replace(",", ", ")), by_pandas()),
    Awkward(
        "blanks before commas",
        writing(_TEXT.replace(",", " ,")),
        by_pandas(header=0, names=HEADER.split(",")),
    ),
]

HEADERS = [
    Awkward("empty", writing(""), refused=("is empty",)),
    Awkward(
        "only line ends",
        writing("\n\n\n"),
        refused=("has no header", "name the columns in the first line"),
    ),
    Awkward("blank header", writing("  ,  \n1,2\n"), refused=("has no header",)),
    Awkward("only a header", writing(HEADER + "\n"), refused=("has no rows",)),
    Awkward("only a header, without a line end", writing(HEADER), refused=("has no rows",)),
    Awkward("only a mark", writing(codecs.BOM_UTF8), refused=("has no header",)),
    Awkward(
        "no header",
        writing("\n".join(_LINES[1:])),
        refused=("has two columns named `0`", "name the columns in the first line"),
    ),
    Awkward(
        "a column is missing",
        writing(_TEXT.replace("x", "xx", 1)),
        refused=(
            "has no column `x` (for x); its columns are episode, time, xx, action",
            "did you mean `xx`?",
        ),
    ),
    Awkward(
        "two columns of one name",
        writing("x,x,action\n1,1,a\n"),
        refused=("has two columns named `x`", "rename one of them"),
    ),
    Awkward(
        "separated by blanks",
        writing(_TEXT.replace(",", " ")),
        refused=("its columns are episode time x action",),
    ),
    Awkward(
        "a quote in the header is open",
        writing('"' + _TEXT),
        refused=("a quote in the header is never closed", "close the quote"),
    ),
    Awkward(
        "a name that is too long",
        writing("y" * 200_000 + "," + _TEXT),
        refused=("a name in the header has more than 131,072 characters",),
    ),
    Awkward(
        "header with quotes and a line end",
        writing(_noted("n").replace("note", '"my\nnote"', 1)),
        by_pandas(),
    ),
]


def _notes(
    name: str, notes: dict[int, str], reading: Reading | None = None, **case: Any
) -> Awkward:
    """Return a log with a column of notes in front, of which some are given by row."""
    lines = [f"{notes.get(i, 'n')},{line}" for i, line in enumerate(_LINES)]
    text = "\n".join(["note," + HEADER, *lines[1:]]) + "\n"
    return Awkward(name, writing(text), reading or by_pandas(), **case)


def _without_lines(*rows: int) -> Reading:
    """Return a reading of a file without some rows, each of which is a line."""

    def change(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        return b"".join(line for i, line in enumerate(lines) if i not in rows)

    return by_pandas(change=change)


def _swallowed(path: Path) -> pd.DataFrame:
    """Read a file whose quotes are all closed with Python's reader."""
    rows = list(csv.reader(io.StringIO(path.read_text(), newline="")))
    return parsed(pd.DataFrame(rows[1:], columns=rows[0]))


_LOST = {"broken line": 1, "gap in time": 1}
_LIKE_ROWS = "contains lines that look like rows"

QUOTES = [
    _notes("quoted line ends", {3: '"one\ntwo"', 6: '"one\r\ntwo"', 9: '"one\rtwo\n"'}),
    _notes("quoted delimiters and quotes", {3: '"say ""so"", ok"', 6: '""', 9: '""""'}),
    _notes("quoted lines with delimiters", {3: '"one, two\n3, 4, 5"'}),
    _notes(
        "stray quotes", {3: '5"', 6: '5" pipe', 9: 'a "b" c'}, by_pandas(quoting=csv.QUOTE_NONE)
    ),
    _notes(
        "an open quote in the first row",
        {1: '"oops'},
        _without_lines(1),
        rejected={"broken line": 1},
        n_lost=1,
    ),
    _notes("an open quote", {5: '"oops'}, _without_lines(5), rejected=_LOST, n_lost=1),
    _notes(
        "an open quote in the last row",
        {N: '"oops'},
        _without_lines(N),
        rejected={"broken line": 1},
        n_lost=1,
    ),
    _notes(
        "open quotes",
        {3: '"oops', 6: '"oops'},
        _without_lines(3, 6),
        rejected={"broken line": 2, "gap in time": 2},
        n_lost=2,
    ),
    _notes(
        "an open quote before good ones",
        {3: '"oops', **dict.fromkeys(range(5, 20), '"fine"')},
        _without_lines(3),
        rejected=_LOST,
        n_lost=1,
    ),
    Awkward(
        "an open quote at the end of a line",
        writing(lines_with({3: '0,2,4,"a'})),
        _without_lines(3),
        _LOST,
        n_lost=1,
    ),
    Awkward(
        "an open quote, between line ends of old Macs",
        writing(lines_with({3: '0,2,4,"a'}).replace("\n", "\r")),
        _without_lines(3),
        _LOST,
        n_lost=1,
    ),
    _notes(
        "a quote that is closed rows later",
        {3: '"start', 6: 'end"'},
        _swallowed,
        rejected={"gap in time": 1},
        problems=("a quoted field of row 3 " + _LIKE_ROWS,),
    ),
    _notes(
        "a quoted field of very many lines",
        {3: '"' + "lorem\n" * 3000 + '"'},
        problems=("a quoted field of row 3 has 3,001 lines",),
    ),
    Awkward(
        "a line that looks like a mark of ours",
        writing(_TEXT + "\0broken 0,1,2,3,4\n"),
        by_pandas(nrows=N),
        {"broken line": 1},
        n_lost=1,
    ),
]

TEXTS = [*ENCODINGS, *LINES, *HEADERS, *QUOTES]
