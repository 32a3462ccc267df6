"""Logs whose values are awkward: decimal commas, percent signs, units, missing values, names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from mdpdsl.logs.reading_options import USUAL, ReadingOptions
from tests.logs.awkward_cases import (
    ANGLE,
    CIRCLE,
    FRACTION,
    HUNDRED,
    SKY,
    STEPS,
    THOUSANDS,
    TRUTH,
    WHOLE,
    Awkward,
    N,
    Numbers,
    Space,
    by_pandas,
    lines_with,
    log_text,
    numbers,
    writing,
)

_COMMA = ReadingOptions(decimal=",")
_CLIP = ReadingOptions(clip_anyway=True)


def _nothing(column: pd.Series) -> pd.Series:
    return pd.Series(float("nan"), column.index)


def _without(*marks: str) -> Numbers:
    """Return a function that reads numbers once some marks are removed."""

    def read(column: pd.Series) -> pd.Series:
        for mark in marks:
            column = column.str.replace(mark, "", regex=False)
        return numbers(column.str.strip())

    return read


def _share(x: int) -> str:
    """Return a number between 0 and 1."""
    return f"{0.05 + 0.22 * x:.2f}"


def _values(
    name: str,
    text: Callable[[int], object],
    reading: Numbers,
    space: Space = FRACTION,
    options: ReadingOptions = USUAL,
    **case: Any,
) -> Awkward:
    return Awkward(
        name,
        writing(log_text(x=text)),
        by_pandas(x=reading),
        space=space,
        options=options,
        **case,
    )


#: What to do about numbers that have the wrong mark.
_MARKS = {
    "number with a comma": ("set `decimal=` to a comma", "if they separate thousands"),
    "number with a point": ("leave out `decimal=`", "if they separate thousands"),
}


def _all_rejected(name: str, text: Callable[[int], object], reason: str) -> Awkward:
    return Awkward(
        name,
        writing(log_text(x=text)),
        by_pandas(x=_nothing),
        {reason: N},
        (f"most rows are rejected, 24 of 24: {reason} (24); first in",),
        _MARKS.get(reason, ()),
        options=_COMMA if reason == "number with a point" else USUAL,
        space=THOUSANDS,
    )


def _semicolons(text: str) -> str:
    return text.replace(",", ";").replace(".", ",")


DECIMALS = [
    Awkward(
        "decimal commas",
        writing(_semicolons(log_text(x=_share))),
        by_pandas(x=lambda c: numbers(c.str.replace(",", ".")), sep=";"),
        options=_COMMA,
        space=FRACTION,
    ),
    Awkward(
        "decimal commas without the option",
        writing(_semicolons(log_text(x=_share))),
        by_pandas(x=_nothing, sep=";"),
        {"number with a comma": N},
        ("most rows are rejected, 24 of 24: number with a comma (24); first in",),
        ("set `decimal=` to a comma",),
        space=FRACTION,
    ),
    Awkward(
        "decimal commas between commas",
        writing(log_text(x=lambda x: _share(x).replace(".", ","))),
        lambda path: by_pandas()(path).iloc[:0],
        {"broken line": N},
        ("most rows are rejected, 24 of 24: broken line (24); first in",),
        n_lost=N,
        step=None,
    ),
    _values(
        "decimal commas in quotes",
        lambda x: '"' + _share(x).replace(".", ",") + '"',
        lambda c: numbers(c.str.replace(",", ".")),
        options=_COMMA,
    ),
    _all_rejected("decimal points with the option", _share, "number with a point"),
    _all_rejected("commas after thousands", lambda x: f'"{x + 1},000"', "number with a comma"),
    _all_rejected(
        "commas after thousands and points", lambda x: f'"{x + 1},000.5"', "number with a comma"
    ),
    _all_rejected("points after thousands", lambda x: f'"{x + 1}.000,5"', "number with a point"),
    _all_rejected("blanks after thousands", lambda x: f"{x + 1} 000", "text in a number column"),
    _all_rejected("units", lambda x: f"{x} mm", "text in a number column"),
]

PERCENT = [
    _values("percent signs", lambda x: f"{10 + 20 * x} %", _without("%"), HUNDRED),
    Awkward(
        "percent signs of some numbers",
        writing(lines_with({4: "0,3,50%,a"}, log_text(x=lambda x: 10 + 20 * x))),
        by_pandas(x=_without("%")),
        problems=("some numbers in the column `x` have a percent sign, and others have none",),
        space=HUNDRED,
    ),
]

#: The rows of one episode whose values are written in all the ways there are for the number 1.
_ONES = ["1", "1.0", "1e0", "+1", " 1 ", '"1"', "01", "1."]


def _column(name: str, texts: Sequence[str], reading: Numbers = numbers, **case: Any) -> Awkward:
    """Return a log of one episode with some texts, after and before good rows."""
    lines = [f"{t},{x},a" for t, x in enumerate(["0", "1", *texts, "1", "0"])]
    text = "\n".join(["time,x,action", *lines]) + "\n"
    return Awkward(name, writing(text), by_pandas(x=reading), **case)


def _truths(column: pd.Series) -> pd.Series:
    words = {"true": 1.0, "false": 0.0}
    return column.str.lower().map(words).fillna(numbers(column))


def _names(column: pd.Series) -> pd.Series:
    return column.str.strip().map({"sun": 0.0, "rain": 1.0}).fillna(numbers(column))


VALUES = [
    _column("ones in all forms", _ONES),
    _column(
        "missing values",
        ["", "nan", "NaN", "NULL", "N/A", "None", "<NA>", " "],
        rejected={"missing value": 8},
        problems=("most rows are rejected, 8 of 12: missing value (8)",),
    ),
    _column("infinite values", ["inf", "-Infinity", "1e999"], rejected={"not a finite number": 3}),
    _column(
        "texts",
        ["-", "?", "1_000", "0x1", "#REF!"],
        rejected={"text in a number column": 5},
        problems=("most rows are rejected, 5 of 9",),
    ),
    _column(
        "numbers between cells",
        ["1.5", "7", "-1", "9007199254740993"],
        rejected={"state out of range": 4},
    ),
    _column("truth values", ["True", "FALSE", "true", "1", "0", "1.0"], _truths, space=TRUTH),
    _column("yes and no", ["yes", "no"], space=TRUTH, rejected={"text in a number column": 2}),
    _column("names", ["sun", " rain ", "1.0", "rain"], _names, space=SKY),
    _column(
        "names in other letters",
        ["Sun", "RAIN"],
        _names,
        space=SKY,
        rejected={"state out of range": 2},
    ),
    Awkward(
        "actions in other letters, with blanks and as numbers",
        writing(lines_with({2: "0,1,1, a ", 4: "0,3,4,A", 6: "0,5,0,0", 8: "0,7,4,go"})),
        lambda path: by_pandas()(path).replace({"action": {"0": "a"}}),
        {"unknown action": 2},
    ),
    Awkward(
        "actions missing",
        writing(lines_with({2: "0,1,1,", 8: "0,7,4,", 16: "1,7,2,NA"})),
        by_pandas(),
        {"missing action": 1},
    ),
    Awkward(
        "episodes missing",
        writing(lines_with({4: ",3,4,a", 24: "NaN,7,0,a"})),
        by_pandas(),
        {"missing episode": 2, "gap in time": 1},
    ),
    Awkward(
        "episodes with names", writing(log_text(episode=lambda e: f'"run {e}, again"')), by_pandas()
    ),
    Awkward(
        "episodes with long numbers", writing(log_text(episode=lambda e: 2**60 + e)), by_pandas()
    ),
    Awkward(
        "episodes that are dates",
        writing(log_text(episode=lambda e: f"2026-03-0{e + 1}")),
        by_pandas(),
    ),
]


def _unit(name: str, space: Space, factor: float, *say: str) -> Awkward:
    """Return a log in another unit, which is refused."""
    text = log_text(x=lambda x: f"{factor * (x - 2) / 2.5:.4f}")
    return Awkward(name, writing(text), space=space, refused=say)


def _spread(low: float, high: float) -> Callable[[int], str]:
    return lambda x: f"{low + (high - low) * (x + 0.5) / 5:.3f}"


_ANYWAY = "set `clip_anyway=`"
_OUT = sum(x >= 3 for _, _, x, _ in STEPS)

UNITS = [
    _unit(
        "degrees",
        ANGLE,
        180.0,
        "are out of its range [-3.14159, 3.14159]",
        "the values look like degrees",
        "x = x*pi/180",
        _ANYWAY,
    ),
    _unit(
        "degrees on a circle",
        CIRCLE,
        180.0,
        "more than a full turn out of its range",
        "the values look like degrees",
        "wrap(x, -pi, pi)",
        _ANYWAY,
    ),
    Awkward(
        "percent for fractions",
        writing(log_text(x=_spread(0, 100))),
        space=FRACTION,
        refused=("the values look like percent, not fractions", "x = x/100", _ANYWAY),
    ),
    Awkward(
        "millimetres for metres",
        writing(log_text(x=_spread(0, 3000))),
        space=ANGLE,
        refused=("the values look like thousandths (milli)", "x = x/1000", _ANYWAY),
    ),
    Awkward(
        "numbers of another column",
        writing(log_text(x=lambda x: 10 + x)),
        space=WHOLE,
        refused=("24 of 24 values of `x` are out of its range [0, 4]", "check the column", _ANYWAY),
    ),
    Awkward(
        "next values in another unit",
        writing("x,next_x,action\n" + "0.5,50,a\n0.25,10,b\n" * 10),
        space=FRACTION,
        refused=("20 of 20 next values of `x` are out of its range", _ANYWAY),
    ),
    _values(
        "degrees all the same",
        lambda x: 90 * (x - 2),
        numbers,
        ANGLE,
        _CLIP,
        n_clipped=sum(x != 2 for _, _, x, _ in STEPS),
    ),
    _values("some values out of range", lambda x: x / 2.5, numbers, FRACTION, n_clipped=_OUT),
    _values("angles from 0 to 2 pi", _spread(0, 6.28), numbers, CIRCLE),
    _column("a value for nothing", ["-999", "0.5", "0.2", "0.7"], space=FRACTION, n_clipped=1),
]

ALL_VALUES = [*DECIMALS, *PERCENT, *VALUES, *UNITS]
