"""Tables in memory with awkward columns, each with the texts that a CSV file has for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from mdpdsl.logs.reading_options import USUAL, ReadingOptions
from tests.logs.awkward_cases import FRACTION, STEPS, WHOLE, N, Space

_TIMES = [t for _, t, _, _ in STEPS]
_X = [x for _, _, x, _ in STEPS]
_STAMPS = pd.Series([pd.Timestamp(2026, 3, 4, 5, t) for t in _TIMES])
_ISO = [f"2026-03-04T05:0{t}:00" for t in _TIMES]


@dataclass(frozen=True)
class AwkwardFrame:
    """Columns of a pandas frame, and the same as texts; the others are those of all logs."""

    name: str
    columns: Mapping[str, Any]
    texts: Mapping[str, Sequence[object]]
    options: ReadingOptions = USUAL
    space: Space = WHOLE
    is_mixed: bool = False  # whether only pandas can have such a column

    def __str__(self) -> str:
        return self.name

    @property
    def frame(self) -> pd.DataFrame:
        """The table."""
        return pd.DataFrame({**_columns(), **self.columns})

    @property
    def text(self) -> str:
        """The same as CSV."""
        return str(pd.DataFrame({**_columns(), **self.texts}).to_csv(index=False))


def _columns() -> dict[str, Any]:
    names = ("episode", "time", "x", "action")
    return {name: [step[i] for step in STEPS] for i, name in enumerate(names)}


def _but(values: Sequence[Any], changes: Mapping[int, Any]) -> list[Any]:
    """Return values with some of them changed."""
    return [changes.get(i, value) for i, value in enumerate(values)]


_ODD = {2: "1", 3: 4.0, 4: None, 5: "four", 6: True, 7: Decimal("2"), 8: np.int64(3), 9: 10**30}
_ODD_TEXTS = {2: "1", 3: "4.0", 4: "", 5: "four", 6: "True", 7: "2", 8: "3", 9: str(10**30)}
_SHARES = [f"{0.2 * x:.1f}" for x in _X]

FRAMES = [
    AwkwardFrame("as it should be", {}, {}),
    AwkwardFrame("times", {"time": _STAMPS}, {"time": _ISO}),
    AwkwardFrame(
        "times in a zone",
        {"time": _STAMPS.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")},
        {"time": [f"2026-03-04T06:0{t}:00+01:00" for t in _TIMES]},
    ),
    AwkwardFrame(
        "times that are missing",
        {"time": _STAMPS.where(pd.Series(range(N)) != 3)},
        {"time": _but(_ISO, {3: ""})},
    ),
    AwkwardFrame(
        "times to the tenth of a second",
        {"time": pd.Series([pd.Timestamp(2026, 3, 4, 5, 6, 7, 100_000 * t) for t in _TIMES])},
        {"time": [f"2026-03-04 05:06:07.{t}" for t in _TIMES]},
    ),
    AwkwardFrame(
        "durations",
        {"time": pd.to_timedelta(pd.Series(_TIMES), unit="min")},
        {"time": [60 * t for t in _TIMES]},
    ),
    AwkwardFrame(
        "dates as texts, day first",
        {"time": [f"0{t + 1}.04.2026" for t in _TIMES]},
        {"time": [f"0{t + 1}.04.2026" for t in _TIMES]},
        ReadingOptions(dayfirst=True),
    ),
    AwkwardFrame(
        "dates as texts that are unclear",
        {"time": [f"0{t + 1}/04/2026" for t in _TIMES]},
        {"time": [f"0{t + 1}/04/2026" for t in _TIMES]},
    ),
    AwkwardFrame(
        "dates as numbers, with a format",
        {"time": [20260401 + t for t in _TIMES]},
        {"time": [20260401 + t for t in _TIMES]},
        ReadingOptions(time_format="%Y%m%d"),
    ),
    AwkwardFrame(
        "categories",
        {"action": pd.Categorical(_but(["a"] * N, {4: None, 9: "c"}))},
        {"action": _but(["a"] * N, {4: "", 9: "c"})},
    ),
    AwkwardFrame(
        "whole numbers of which some are missing",
        {"x": pd.array(_but(_X, {3: None, 12: 9}), dtype="Int64")},
        {"x": _but(_X, {3: "", 12: 9})},
    ),
    AwkwardFrame(
        "numbers that are not finite",
        {"x": _but([float(x) for x in _X], {3: np.nan, 12: np.inf, 13: -np.inf, 14: 1.5})},
        {"x": _but(_X, {3: "nan", 12: "inf", 13: "-inf", 14: 1.5})},
    ),
    AwkwardFrame(
        "single precision", {"x": np.array(_SHARES, "f4")}, {"x": _SHARES}, space=FRACTION
    ),
    AwkwardFrame(
        "decimals",
        {"x": pd.Series([Decimal(text) for text in _SHARES], dtype=object)},
        {"x": _SHARES},
        space=FRACTION,
    ),
    AwkwardFrame(
        "objects of all kinds",
        {"x": pd.Series(_but(_X, _ODD), dtype=object)},
        {"x": _but(_X, _ODD_TEXTS)},
        is_mixed=True,
    ),
    AwkwardFrame(
        "decimal commas",
        {"x": [text.replace(".", ",") for text in _SHARES]},
        {"x": [text.replace(".", ",") for text in _SHARES]},
        ReadingOptions(decimal=","),
        FRACTION,
    ),
    AwkwardFrame(
        "decimal commas without the option",
        {"x": [text.replace(".", ",") for text in _SHARES]},
        {"x": [text.replace(".", ",") for text in _SHARES]},
        space=FRACTION,
    ),
    AwkwardFrame(
        "percent signs of some numbers",
        {"x": _but([str(x) for x in _X], {3: "1 %"})},
        {"x": _but(_X, {3: "1 %"})},
    ),
    AwkwardFrame(
        "episodes with long numbers",
        {"episode": np.array([2**63 + e for e, _, _, _ in STEPS], "u8")},
        {"episode": [2**63 + e for e, _, _, _ in STEPS]},
    ),
    AwkwardFrame(
        "episodes that are missing",
        {"episode": pd.array(_but([2**60 + e for e, _, _, _ in STEPS], {5: None}), dtype="Int64")},
        {"episode": _but([2**60 + e for e, _, _, _ in STEPS], {5: ""})},
    ),
    AwkwardFrame(
        "truth values",
        {"x": [x % 2 == 0 for x in _X]},
        {"x": [x % 2 == 0 for x in _X]},
    ),
    AwkwardFrame("another unit", {"x": [100 * x for x in _X]}, {"x": [100 * x for x in _X]}),
]
