"""Texts as times, in seconds since 1970.

A date with its year first can be read in one way only: ISO 8601, with `T` or blanks before the
time, and slashes in place of hyphens. A time without a zone is taken to be in UTC. Of other dates,
the user has to say what comes first: they are not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from typing import Any

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.logs.reading_options import ReadingOptions

_ZONE = r"(?P<z>Z|z|UTC|[+-]\d{2}(?::?\d{2})?)"
_CLOCK = (
    r"(?:[Tt]|\s+)(?P<H>\d{1,2})(?::(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,12}))?)?)?"
    rf"(?:\s*{_ZONE})?"
)
_ISO = re.compile(rf"(?P<Y>\d{{4}})([-/])(?P<m>\d{{1,2}})\2(?P<d>\d{{1,2}})(?:{_CLOCK})?")
#: ISO 8601 without separators; without the `T`, it would be a number.
_BASIC = re.compile(
    r"(?P<Y>\d{4})(?P<m>\d{2})(?P<d>\d{2})T(?P<H>\d{2})(?P<M>\d{2})"
    rf"(?:(?P<S>\d{{2}})(?:[.,](?P<f>\d{{1,12}}))?)?{_ZONE}?"
)
_DAY_FIRST = re.compile(rf"(?P<d>\d{{1,2}})([-/.])(?P<m>\d{{1,2}})\2(?P<Y>\d{{4}})(?:{_CLOCK})?")
_LIKE_A_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?!\d|[-/.])")
#: A clock, or the name of a month, next to digits.
_LIKE_A_TIME = re.compile(
    r"\d{1,2}:\d{2}|\d{8}T\d|"
    r"(?=.*\d).*\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b",
    re.IGNORECASE,
)
#: Directives of a format, as long as a regular expression can read them; others are left to Python.
_DIRECTIVES = {
    "Y": r"(?P<Y>\d{4})",
    "m": r"(?P<m>\d{1,2})",
    "d": r"(?P<d>\d{1,2})",
    "H": r"(?P<H>\d{1,2})",
    "M": r"(?P<M>\d{1,2})",
    "S": r"(?P<S>\d{1,2})",
    "f": r"(?P<f>\d{1,12})",
    "z": r"(?P<z>Z|[+-]\d{2}:?\d{2})",
}
#: The parts of an ISO timestamp, in order, and what precedes each.
_ISO_PARTS = (("Y", ""), ("m", "-"), ("d", "-"), ("H", "T"), ("M", ":"), ("S", ":"), ("f", "."))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)

#: Returns the seconds of a text; None if it is not a time.
ReadTime = Callable[[str], float | None]


def looks_like_a_date(text: str) -> bool:
    """Return whether a text begins with three numbers, as dates do."""
    return _LIKE_A_DATE.match(text.strip()) is not None


def looks_like_a_time(text: str) -> bool:
    """Return whether a text is a date or a time, in whatever form."""
    return looks_like_a_date(text) or _LIKE_A_TIME.match(text.strip()) is not None


def is_no_time(text: str, options: ReadingOptions) -> bool:
    """Return whether a text has the form of a time but there is no such one, as 30 February."""
    return any(form.fullmatch(text) for form in _forms(options)) and (
        time_reader(options)(text) is None
    )


@cache
def time_reader(options: ReadingOptions) -> ReadTime:
    """Return what reads texts as times."""
    forms = _forms(options)
    if not forms:
        return lambda text: _parsed(text, options.time_format or "")

    def read(text: str) -> float | None:
        matches = (form.fullmatch(text) for form in forms)
        found = next((match for match in matches if match is not None), None)
        return None if found is None else _seconds(found)

    return read


def seconds_of_texts(column: Any, options: ReadingOptions) -> FloatArray | None:
    """Read a whole column of times, NaN where missing; None if that takes a look at each text."""
    import pyarrow as pa
    from pyarrow import compute

    first = next((text for text in column[:100].to_pylist() if text), "")
    if time_reader(options)(first) is None:
        return None
    texts = _as_iso(without_blanks(column), first, options)
    if texts is None:
        return None
    has_zone = re.search(rf"\d\s*{_ZONE}$", first) is not None and ":" in first
    for zone in ("UTC", None) if has_zone else (None, "UTC"):  # not some of each
        for unit, n_per_second in (("us", 10**6), ("ns", 10**9)):
            try:
                found = compute.cast(texts, pa.timestamp(unit, zone)).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            return seconds_of_ticks(found, n_per_second)
    return None


def without_blanks(column: Any) -> Any:
    """Return texts with the empty ones missing."""
    from pyarrow import compute

    is_blank = compute.equal(column, "")
    return compute.if_else(is_blank, None, column) if compute.any(is_blank).as_py() else column


def seconds_of_ticks(ticks: Any, n_per_second: int) -> FloatArray:
    """Return whole numbers of ticks as seconds, NaN where missing.

    The same time gives the same number, whatever the unit and however it was written.
    """
    is_missing = ticks.is_null().to_numpy(zero_copy_only=False) if ticks.null_count else None
    whole: IntArray = ticks.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    second = whole // n_per_second
    values: FloatArray = second + (whole - second * n_per_second) / n_per_second
    if is_missing is not None:
        values[is_missing] = np.nan
    return values


def _as_iso(column: Any, first: str, options: ReadingOptions) -> Any:
    """Return texts as ISO timestamps if they are like the first; None if they cannot be."""
    from pyarrow import compute

    if options.time_format is None:
        day_first = _DAY_FIRST.fullmatch(first) if options.dayfirst else None
        if day_first is None:
            return column
        mark = re.escape(day_first[2])
        pattern = rf"^(\d{{2}}){mark}(\d{{2}}){mark}(\d{{4}})"
        return compute.replace_substring_regex(column, pattern, r"\3-\2-\1")
    names, literals = _pieces(options.time_format)
    order = [(name, before) for name, before in _ISO_PARTS if name in names]
    if [name for name, _ in order] != [name for name, _ in _ISO_PARTS][: len(order)]:
        return None
    groups = {"Y": r"(\d{4})", "f": r"(\d{1,9})", "z": r"(Z|[+-]\d{2}:?\d{2})"}
    pieces = [re.escape(literals[0])]
    for name, literal in zip(names, literals[1:], strict=True):
        pieces += ["%" if name == "%" else groups.get(name, r"(\d{2})"), re.escape(literal)]
    pattern = f"^{''.join(pieces)}$"
    if not compute.all(compute.match_substring_regex(column, pattern), min_count=0).as_py():
        return None
    place = {name: i for i, name in enumerate((n for n in names if n != "%"), 1)}
    iso = "".join(f"{before}\\{place[name]}" for name, before in order)
    iso += f"\\{place['z']}" if "z" in place else ""
    return compute.replace_substring_regex(column, pattern, iso)


@cache
def _forms(options: ReadingOptions) -> tuple[re.Pattern[str], ...]:
    """Return the forms that times may have; none if only Python can read them."""
    if options.time_format is None:
        return (_ISO, _BASIC, _DAY_FIRST) if options.dayfirst else (_ISO, _BASIC)
    names, literals = _pieces(options.time_format)
    is_simple = set(names) <= {*_DIRECTIVES, "%"} and len(set(names)) == len(names)
    if not is_simple or not {"Y", "m", "d"} <= set(names):
        return ()
    pieces = [re.escape(literals[0])]
    for name, literal in zip(names, literals[1:], strict=True):
        pieces += [_DIRECTIVES.get(name, "%"), re.escape(literal)]
    return (re.compile("".join(pieces)),)


def _pieces(form: str) -> tuple[list[str], list[str]]:
    """Return the directives of a format, and the texts around them."""
    pieces = re.split(r"%(.)", form)
    return pieces[1::2], pieces[::2]


def _parsed(text: str, form: str) -> float | None:
    try:
        time = datetime.strptime(text, form)
    except ValueError:
        return None
    return _since_epoch(time.replace(microsecond=0)) + time.microsecond / 10**6


def _seconds(found: re.Match[str]) -> float | None:
    part = {"H": None, "M": None, "S": None, "f": None, "z": None} | found.groupdict()
    try:
        time = datetime(
            int(part["Y"] or 0),
            int(part["m"] or 0),
            int(part["d"] or 0),
            int(part["H"] or 0),
            int(part["M"] or 0),
            int(part["S"] or 0),
            tzinfo=_zone(part["z"]),
        )
    except ValueError:  # 30 February
        return None
    return _since_epoch(time) + (float(f"0.{part['f']}") if part["f"] else 0.0)


def _since_epoch(time: datetime) -> float:
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) / _SECOND


def _zone(text: str | None) -> timezone | None:
    if text is None or text in ("Z", "z", "UTC"):
        return None
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)
