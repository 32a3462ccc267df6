"""The numbers that logs have for a variable: how many are out of range, and why that may be.

If most of them are, the log has other units than the model, or the wrong column is read. Counting
the ends of the range would make a model of nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mdpdsl.diagnostics import LogProblem
from mdpdsl.graph.space import SET_TOLERANCE, BoolArray, FloatArray, IntArray, Variable

#: Values that are kept of a batch, to show what they look like.
SAMPLE = 200
#: Share of the values that must be in range for a unit to be suggested.
MOST = 0.9
#: How close the length of a range must be to a multiple of a quarter turn to be an angle.
NEARLY = 0.02


@dataclass(eq=False)
class SeenValues:
    """The numbers of one variable in some logs."""

    variable: str
    is_next: bool = False  # whether these are the values that rows lead to
    n_numbers: int = 0
    n_outside: int = 0
    low: float = math.inf  # this and the next over the batches with many numbers out of range
    high: float = -math.inf
    sample: tuple[float, ...] = ()

    def note(self, values: FloatArray | IntArray, n_outside: int, n_numbers: int) -> None:
        """Count the numbers of a batch; look at them only if many are out of range."""
        self.n_numbers += n_numbers
        self.n_outside += n_outside
        if 2 * n_outside > n_numbers:
            finite = values[np.isfinite(values)]
            self.low = min(self.low, float(finite.min()))
            self.high = max(self.high, float(finite.max()))
            if len(self.sample) < 100 * SAMPLE:
                chosen = finite[:: max(1, len(finite) // SAMPLE)]
                self.sample += tuple(np.asarray(chosen, np.float64).tolist())

    @property
    def is_mostly_outside(self) -> bool:
        """Whether more than half of the numbers are out of range."""
        return 2 * self.n_outside > self.n_numbers


def joined(parts: Iterable[Sequence[SeenValues]]) -> list[SeenValues]:
    """Add up what several logs have, variable by variable."""
    totals: dict[tuple[str, bool], SeenValues] = {}
    for one in (one for part in parts for one in part):
        key = (one.variable, one.is_next)
        total = totals.setdefault(key, SeenValues(*key))
        total.n_numbers += one.n_numbers
        total.n_outside += one.n_outside
        total.low, total.high = min(total.low, one.low), max(total.high, one.high)
        total.sample += one.sample
    return list(totals.values())


def wrong_units(seen: SeenValues, variable: Variable, where: str) -> LogProblem:
    """Return the problem of a variable most of whose numbers are out of range."""
    low, high = _range(variable)
    n, total = seen.n_outside, seen.n_numbers
    middle = float(np.median(seen.sample))
    values = f"next values of `{variable.name}`" if seen.is_next else f"values of `{variable.name}`"
    far = "more than a full turn out of its range" if variable.wraps else "out of its range"
    message = (
        f"{where}: {n:,} of {total:,} {values} are {far} [{low:g}, {high:g}]: "
        f"they are between {seen.low:.4g} and {seen.high:.4g}, with a median of {middle:.4g}"
    )
    anyway = "to read it all the same, set `clip_anyway=`"
    name = f"next_{variable.name}" if seen.is_next else variable.name
    unit = _unit(np.array(seen.sample), variable)
    how = "check the column and the unit of the variable in the `log` block"
    if unit is not None:
        how = f"{unit[0]}: in the `log` block, write {name} = {unit[1].format(name)}"
    if variable.wraps:
        wrapped = f"wrap({name}, {_in_turns(low)}, {_in_turns(high)})"
        how += f"; if they are several turns, write {name} = {wrapped}"
    return LogProblem(message, f"{how}; {anyway}")


def _range(variable: Variable) -> tuple[float, float]:
    if variable.edges is not None:
        return float(variable.edges[0]), float(variable.edges[-1])
    if variable.numbers is not None:
        return float(variable.numbers.min()), float(variable.numbers.max())
    return float(variable.low), float(variable.low + variable.size - 1)


def _are_members(values: FloatArray, variable: Variable) -> BoolArray:
    """Return which numbers a variable can have; any, if it is real."""
    if variable.edges is not None:
        return np.ones(len(values), np.bool_)
    members = np.round(values)
    if variable.numbers is not None:
        members = variable.numbers[np.abs(values[:, None] - variable.numbers).argmin(axis=1)]
    return np.asarray(np.abs(values - members) < SET_TOLERANCE)


def _in_turns(number: float) -> str:
    """Write a number, as a multiple of pi if it is one."""
    n_halves = number / math.pi
    if number == 0 or abs(n_halves - round(n_halves)) > 1e-9:
        return f"{number:g}"
    return {1: "pi", -1: "-pi"}.get(round(n_halves), f"{round(n_halves)}*pi")


def _unit(values: FloatArray, variable: Variable) -> tuple[str, str] | None:
    """Return what the values may be, and how to write the variable; None if nothing fits."""
    low, high = _range(variable)
    turns = (high - low) / (math.pi / 2)
    is_angle = turns >= 1 - NEARLY and abs(turns - round(turns)) < NEARLY
    candidates: list[tuple[bool, Callable[[FloatArray], FloatArray], str, str]] = [
        (is_angle, np.radians, "the values look like degrees", "{}*pi/180"),
        (
            low >= 0 and high <= 1,
            lambda v: v / 100,
            "the values look like percent, not fractions",
            "{}/100",
        ),
        (True, lambda v: v - 273.15, "the values look like kelvin", "{} - 273.15"),
        (True, lambda v: v + 273.15, "the values look like degrees Celsius", "{} + 273.15"),
        (True, lambda v: v / 1000, "the values look like thousandths (milli)", "{}/1000"),
        (True, lambda v: v * 1000, "the values look like thousands (kilo)", "{}*1000"),
        (True, lambda v: v * 100, "the values look like fractions, not percent", "{}*100"),
        (True, lambda v: v / 100, "the values look like hundredths (centi)", "{}/100"),
    ]
    for is_possible, convert, what, how in candidates:
        converted = convert(values)
        is_inside = (converted >= low) & (converted <= high) & _are_members(converted, variable)
        # Numbers so small that they all would be in one corner say nothing about their unit.
        is_spread = float(np.ptp(converted)) > 0.05 * (high - low)
        if is_possible and is_inside.mean() >= MOST and is_spread:
            return what, how
    return None
