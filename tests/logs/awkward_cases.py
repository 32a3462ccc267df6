"""What a case of an awkward log is, and an independent reading of logs by pandas.

Nothing here is taken from `mdpdsl.logs` but the options that a case sets.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mdpdsl.logs.reading_options import USUAL, ReadingOptions

#: Reads the bytes of a log with pandas: episode and time where there are any, value and action.
Reading = Callable[[Path], pd.DataFrame]
#: Turns texts of a column into numbers, NaN where there is none.
Numbers = Callable[[pd.Series], pd.Series]

#: Steps that differ less than this from the usual one are no gap.
SAME_STEP = 0.2


@dataclass(frozen=True)
class Space:
    """A model of one variable, and how its values become cells."""

    text: str
    column: str
    cells: Callable[[pd.Series], pd.Series]  # -1 where there is none


def _whole(values: pd.Series) -> pd.Series:
    return values.where(values.isin(range(5)), -1).astype(int)


def _real(low: float, high: float, n: int) -> Callable[[pd.Series], pd.Series]:
    def cells(values: pd.Series) -> pd.Series:
        finite = values.replace([np.inf, -np.inf], np.nan)
        place = np.floor((finite - low) / (high - low) * n).clip(0, n - 1)
        return place.fillna(-1).astype(int)

    return cells


def _circle(values: pd.Series) -> pd.Series:
    return _real(0, 2 * np.pi, 4)((values + np.pi) % (2 * np.pi))


def _model(variable: str) -> str:
    return f"mdp awkward\nstate {variable}\naction a, b\n"


WHOLE = Space(_model("x in 0..4"), "x", _whole)
FRACTION = Space(_model("x in [0, 1] clip bins 4"), "x", _real(0, 1, 4))
HUNDRED = Space(_model("x in [0, 100] clip bins 4"), "x", _real(0, 100, 4))
THOUSANDS = Space(_model("x in [0, 10000] clip bins 4"), "x", _real(0, 10_000, 4))
ANGLE = Space(_model("x in [-pi, pi] clip bins 4"), "x", _real(-np.pi, np.pi, 4))
CIRCLE = Space(_model("x in [-pi, pi] wrap bins 4"), "x", _circle)
TRUTH = Space(_model("x in bool"), "x", lambda v: v.where(v.isin([0, 1]), -1).astype(int))
SKY = Space(_model("x in {sun, rain}"), "x", _whole)


@dataclass(frozen=True)
class Awkward:
    """A log, and either what an independent reading counts or why it is refused."""

    name: str
    write: Callable[[Path], Path]  # into a folder; returns the log
    reading: Reading | None = None  # None for a log that is refused
    rejected: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # what each problem of a log that is counted says
    helps: tuple[str, ...] = ()  # what is said about what to do
    refused: tuple[str, ...] = ()  # what the error says, besides the name of the log
    options: ReadingOptions = USUAL
    space: Space = WHOLE
    n_lost: int = 0  # rows in broken lines, which the independent reading leaves out
    n_clipped: int = 0
    step: float | None = 1.0

    def __str__(self) -> str:
        return self.name


#: Three episodes, whose times are one apart.
STEPS = [(e, t, (3 * e + t * t) % 5, "ab"[(e + t // 2) % 2]) for e in range(3) for t in range(8)]
N = len(STEPS)
HEADER = "episode,time,x,action"


def as_text(value: object) -> str:
    return str(value)


def log_text(
    time: Callable[[int], object] = as_text,
    x: Callable[[int], object] = as_text,
    *,
    action: Callable[[str], str] = as_text,
    episode: Callable[[int], object] = as_text,
    header: str = HEADER,
) -> str:
    """Return the steps as CSV, with each value written by a function."""
    lines = [f"{episode(e)},{time(t)},{x(v)},{action(a)}" for e, t, v, a in STEPS]
    return "\n".join([header, *lines]) + "\n"


def lines_with(changes: Mapping[int, str], text: str | None = None) -> str:
    """Return a log with some of its rows, numbered from 1, written otherwise."""
    lines = (text or log_text()).splitlines()
    for row, line in changes.items():
        lines[row] = line
    return "\n".join(lines) + "\n"


def writing(content: str | bytes, name: str = "log.csv") -> Callable[[Path], Path]:
    """Return a function that writes a file."""

    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def numbers(column: pd.Series) -> pd.Series:
    """Read what pandas takes for numbers."""
    return pd.to_numeric(column, errors="coerce").astype(float)


def seconds(**options: Any) -> Numbers:
    """Return a function that reads timestamps as pandas does."""

    def read(column: pd.Series) -> pd.Series:
        times = pd.to_datetime(column, utc=True, errors="coerce", **options)
        return (times - pd.Timestamp(0, tz="UTC")).dt.total_seconds()

    return read


def by_pandas(
    time: Numbers | None = numbers,
    x: Numbers = numbers,
    *,
    change: Callable[[bytes], bytes] = lambda content: content,
    **options: Any,
) -> Reading:
    """Return a reading with `pandas.read_csv`, in which all columns are texts at first."""

    def read(path: Path) -> pd.DataFrame:
        options_used = {"dtype": str, "keep_default_na": False, "skipinitialspace": True, **options}
        content = io.BytesIO(change(path.read_bytes()))
        return parsed(pd.read_csv(content, **options_used), time, x)

    return read


def parsed(
    texts: pd.DataFrame, time: Numbers | None = numbers, x: Numbers = numbers
) -> pd.DataFrame:
    """Return texts, or values, as episode, time, value and action."""
    frame = pd.DataFrame(index=texts.index)
    if "episode" in texts:
        names = texts["episode"].astype(str).str.strip()
        frame["episode"] = names.where(~names.str.lower().isin(["", "nan", "none", "<na>"]))
    if "time" in texts and time is not None:
        frame["time"] = time(texts["time"])
    frame["value"] = x(texts["x"])
    frame["action"] = texts["action"].astype(str).str.strip()
    return frame


def transitions(frame: pd.DataFrame, space: Space) -> dict[tuple[int, str, int], int]:
    """Count the transitions between consecutive rows of an episode."""
    state = space.cells(frame["value"])
    rows = frame.assign(state=state, episode=frame.get("episode", pd.Series("", frame.index)))
    rows = rows.dropna(subset=["episode"])
    if "time" in frame:
        rows = rows[np.isfinite(rows["time"])].sort_values(["episode", "time"], kind="stable")
        rows.loc[rows.duplicated(["episode", "time"], keep=False), "state"] = -1
    after = rows.groupby("episode", sort=False).shift(-1)
    is_step = (rows["state"] >= 0) & (after["state"] >= 0) & rows["action"].isin(["a", "b"])
    if "time" in frame:
        step = after["time"] - rows["time"]
        usual = step[step > 0].round(6).mode()
        is_step &= (step - usual.iloc[0]).abs() < SAME_STEP * usual.iloc[0] if len(usual) else False
    found = rows[is_step].assign(following=after["state"][is_step].astype(int))
    sizes = found.groupby(["state", "action", "following"]).size()
    return {(int(s), str(a), int(n)): int(number) for (s, a, n), number in sizes.items()}
