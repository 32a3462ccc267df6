"""Logs whose times are awkward: timestamps in all forms, gaps, duplicates, other orders."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pandas as pd

from mdpdsl.logs.reading_options import USUAL, ReadingOptions
from tests.logs.awkward_cases import (
    HEADER,
    STEPS,
    Awkward,
    N,
    Numbers,
    by_pandas,
    lines_with,
    log_text,
    seconds,
    writing,
)

_START = datetime(2026, 3, 4, 5, 6, 7)
_DAY = 86_400.0
_DAY_FIRST = ReadingOptions(dayfirst=True)


def _minute(form: str) -> Callable[[int], str]:
    return lambda t: (_START + timedelta(minutes=t)).strftime(form)


def _day(form: str) -> Callable[[int], str]:
    return lambda t: (_START + timedelta(days=t)).strftime(form)


def _stamps(
    name: str,
    text: Callable[[int], str],
    reading: Numbers,
    step: float = 60.0,
    options: ReadingOptions = USUAL,
) -> Awkward:
    return Awkward(name, writing(log_text(text)), by_pandas(reading), options=options, step=step)


def _zone(hours: int) -> Callable[[int], str]:
    """Return the same minutes as the clocks of a zone show them."""

    def text(t: int) -> str:
        time = (_START + timedelta(minutes=t)).replace(tzinfo=UTC)
        return time.astimezone(timezone(timedelta(hours=hours))).isoformat()

    return text


def _summer_ends(t: int) -> str:
    """Return minutes around 3 o'clock on a night on which clocks are set back from 3 to 2."""
    time = datetime(2026, 10, 25, 0, 56, tzinfo=UTC) + timedelta(minutes=t)
    offset = 2 if time < datetime(2026, 10, 25, 1, tzinfo=UTC) else 1
    return time.astimezone(timezone(timedelta(hours=offset))).isoformat()


_ISO = seconds(format="ISO8601")

STAMPS = [
    _stamps("iso", _minute("%Y-%m-%dT%H:%M:%S"), _ISO),
    _stamps("iso with blanks", _minute("%Y-%m-%d  %H:%M:%S"), seconds(format="%Y-%m-%d  %H:%M:%S")),
    _stamps("iso without seconds", _minute("%Y-%m-%d %H:%M"), _ISO),
    _stamps("iso with slashes", _minute("%Y/%m/%d %H:%M:%S"), seconds(format="%Y/%m/%d %H:%M:%S")),
    _stamps("iso without separators", _minute("%Y%m%dT%H%M%S"), _ISO),
    _stamps("iso in zulu time", _minute("%Y-%m-%dT%H:%M:%SZ"), _ISO),
    _stamps("iso with a zone", _minute("%Y-%m-%dT%H:%M:%S+02:00"), _ISO),
    _stamps("iso with a short zone", _minute("%Y-%m-%dT%H:%M:%S-03"), _ISO),
    _stamps("iso in several zones", lambda t: _zone(t % 3)(t), _ISO),
    _stamps("iso where clocks are set back", _summer_ends, _ISO),
    _stamps("iso quoted", lambda t: f'"{_minute("%Y-%m-%dT%H:%M:%S")(t)}"', _ISO),
    _stamps("iso with tenths", lambda t: f"2026-03-04T05:06:07.{t}", _ISO, 0.1),
    _stamps("iso with nanoseconds", lambda t: f"2026-03-04T05:06:07.00000{t}123", _ISO, 1e-6),
    _stamps(
        "iso with and without tenths",
        lambda t: f"2026-03-04T05:06:0{t}" + ".0" * (t % 2),
        _ISO,
        1.0,
    ),
    _stamps("dates alone", _day("%Y-%m-%d"), _ISO, _DAY),
    *(
        _stamps(
            f"day first with {mark}",
            _day(f"%d{mark}%m{mark}%Y 10:00"),
            seconds(format=f"%d{mark}%m{mark}%Y %H:%M"),
            _DAY,
            _DAY_FIRST,
        )
        for mark in "/.-"
    ),
    _stamps(
        "day first, one digit",
        lambda t: f"{t + 1}.4.2026",
        seconds(format="%d.%m.%Y"),
        _DAY,
        _DAY_FIRST,
    ),
    *(
        _stamps(
            f"format {form}",
            _minute(form),
            seconds(format=form),
            60.0,
            ReadingOptions(time_format=form),
        )
        for form in ("%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M %p", "%Y%m%d%H%M", "%d-%b-%y %H.%M")
    ),
]


def _unclear(name: str, text: Callable[[int], str], *options: ReadingOptions) -> Awkward:
    return Awkward(
        name,
        writing(log_text(text)),
        by_pandas(lambda column: pd.Series(float("nan"), column.index)),
        {"unclear date": N},
        ("most rows are rejected, 24 of 24: unclear date (24); first in",),
        ("set `dayfirst=`", "write the format as `time_format=`"),
        options=options[0] if options else USUAL,
        step=None,
    )


UNCLEAR = [
    _unclear("day or month first", _day("%d/%m/%Y")),
    _unclear("day or month first with points", _day("%d.%m.%Y %H:%M")),
    _unclear("year of two digits", _day("%d.%m.%y"), _DAY_FIRST),
    _unclear(
        "another format than the one given",
        _minute("%Y-%m-%d %H:%M"),
        ReadingOptions(time_format="%d.%m.%Y"),
    ),
    _unclear("zone by its name", _minute("%Y-%m-%d %H:%M:%S CET")),
    _unclear("clock without a date", _minute("%H:%M:%S")),
    _unclear("month by its name", _minute("%d-%b-%Y %H:%M")),
]

_NUMBERED = log_text()


def _row(row: int, time: object) -> str:
    e, _, x, action = STEPS[row - 1]
    return f"{e},{time},{x},{action}"


def _times(name: str, times: dict[int, object], **case: Any) -> Awkward:
    text = lines_with({row: _row(row, time) for row, time in times.items()})
    return Awkward(name, writing(text), by_pandas(), **case)


def _in_order(rows: list[int]) -> str:
    lines = _NUMBERED.splitlines()
    return "\n".join([HEADER, *(lines[1 + i] for i in rows)]) + "\n"


ORDER = [
    Awkward(
        "30 February",
        writing(lines_with({3: _row(3, "2026-02-30")}, log_text(_day("%Y-%m-%d")))),
        by_pandas(_ISO),
        {"no such date or time": 1, "gap in time": 1},
        step=_DAY,
    ),
    Awkward(
        "13th month, day first",
        writing(lines_with({3: _row(3, "05.13.2026")}, log_text(_day("%d.%m.%Y")))),
        by_pandas(seconds(format="%d.%m.%Y")),
        {"no such date or time": 1, "gap in time": 1},
        options=_DAY_FIRST,
        step=_DAY,
    ),
    Awkward(
        "some times are empty",
        writing(lines_with({3: _row(3, ""), 8: _row(8, " ")}, log_text(_minute("%Y-%m-%dT%H:%M")))),
        by_pandas(_ISO),
        {"missing time": 2, "gap in time": 1},
        step=60.0,
    ),
    Awkward(
        "milliseconds since 1970",
        writing(log_text(lambda t: 1_772_600_000_000 + 60_000 * t)),
        by_pandas(),
        step=60_000.0,
    ),
    Awkward("step of 0.1", writing(log_text(lambda t: f"{0.1 * t:.1f}")), by_pandas(), step=0.1),
    Awkward("step of 0.1, inexact", writing(log_text(lambda t: 0.1 * t)), by_pandas(), step=0.1),
    Awkward(
        "step of 59.99", writing(log_text(lambda t: f"{59.99 * t:.2f}")), by_pandas(), step=59.99
    ),
    Awkward("times below 0", writing(log_text(lambda t: t - 4)), by_pandas()),
    _times("times in other forms", {2: "1.0", 3: "2e0", 4: "+3", 5: " 4 ", 6: '"5"', 7: "06"}),
    _times("duplicate times", {3: 1, 12: 2}, rejected={"duplicate time": 4}),
    _times("a gap in time", {8: 20}, rejected={"gap in time": 1}),
    _times("text in place of a time", {3: "soon"}, rejected={"missing time": 1, "gap in time": 1}),
    Awkward(
        "rows out of order",
        writing(_in_order(sorted(range(N), key=lambda i: i * 7 % N))),
        by_pandas(),
    ),
    Awkward(
        "episodes interleaved",
        writing(_in_order(sorted(range(N), key=lambda i: i % 8))),
        by_pandas(),
    ),
    Awkward(
        "every row twice",
        writing(_in_order([i for i in range(N) for _ in range(2)])),
        by_pandas(),
        {"duplicate time": 2 * N},
        ("most rows are rejected, 48 of 48: duplicate time (48)",),
        step=1.0,
    ),
]

TIMES = [*STAMPS, *UNCLEAR, *ORDER]
