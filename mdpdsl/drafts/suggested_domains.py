"""The domain of a variable from the values of its column: names, ranges, or bins between limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.compile.scope import allowed_name
from mdpdsl.drafts.column_profile import LogTable, Profile, starts_of
from mdpdsl.drafts.column_words import is_numbered, is_truth
from mdpdsl.graph.space import FloatArray

#: Whole numbers are listed as they are up to this many; other numbers up to this many.
FEW_WHOLE, FEW_REAL = 12, 8
#: The most states of a column that numbers states.
MOST_NUMBERED = 10_000
#: Real variables have from 2 to this many bins.
LEAST_BINS, MOST_BINS = 2, 20
#: Actions that are real numbers become at most this many levels.
MOST_LEVELS = 5
#: The share of rows that may lie outside of the limits, on each side, if these lie far out.
TAIL = 0.005
#: Limits cover all values, unless these spread over more than this multiple of all but the tails.
WIDE = 1.5

#: Circles on which angles are measured: limits as text, and as numbers.
_CIRCLES = (
    ("[-pi, pi]", -math.pi, math.pi),
    ("[0, 2*pi]", 0.0, 2 * math.pi),
    ("[-180, 180]", -180.0, 180.0),
    ("[0, 360]", 0.0, 360.0),
)
#: The relative error of numbers that were computed.
NOISE = 1e-12


@dataclass(frozen=True)
class Domain:
    """A domain as text; one that has limits gets its bins later."""

    text: str
    size: int  # 0 if it has limits
    says: str  # what the column holds
    members: tuple[str, ...] = ()
    whole: str | None = None  # whole numbers as a range, if that is not too large
    n_whole: int = 0
    #: How to read the column, `{}`, where its values are not those of the domain.
    expression: str = "{}"

    def with_bins(self, bins: int) -> Domain:
        """Divide the limits into bins, or use whole numbers as they are if there are few."""
        if self.size:
            return self
        if self.whole is not None and self.n_whole <= bins:
            return replace(self, text=self.whole, size=self.n_whole)
        return replace(self, text=f"{self.text} bins {bins}", size=bins)


def state_domain(table: LogTable, profiles: Sequence[Profile], episode: Profile | None) -> Domain:
    """Return the domain of a state variable from its column, and that of its next value."""
    first = profiles[0]
    finite = Domain("bool", 2, "truth values")
    if first.kind == "truth":
        return finite
    if first.kind == "text":
        return enumeration(profiles)
    values = np.concatenate([p.values[np.isfinite(p.values)] for p in profiles])
    distinct = np.unique(values)
    if all(p.is_whole for p in profiles):
        return _whole_domain(first.name, values, distinct)
    if 1 < len(distinct) <= FEW_REAL and len(values) >= 5 * len(distinct):
        return _listed(distinct)
    circle = _circle(table, first, values, episode)
    if circle is not None:
        return Domain(f"{circle} wrap", 0, "an angle that wraps around")
    return real_domain(values)


def action_domain(profile: Profile, most_levels: int = MOST_LEVELS) -> Domain:
    """Return the domain of an action; real numbers become a few levels."""
    if profile.kind == "truth":
        return Domain("bool", 2, "truth values")
    if profile.kind == "text":
        return enumeration([profile])
    distinct = profile.distinct
    if set(distinct.tolist()) == {0.0, 1.0} and is_truth(profile.name):
        return Domain("bool", 2, "0 and 1, read as false and true")
    if len(distinct) <= FEW_WHOLE:
        return _listed(distinct)
    low, high, _ = limits_of(profile.values[np.isfinite(profile.values)])
    return levels(low, high, most_levels)


def enumeration(profiles: Sequence[Profile]) -> Domain:
    """Return an enumeration of texts; texts that give the same name are one member."""
    texts = sorted({text for p in profiles for text in p.texts})
    members = tuple(dict.fromkeys(allowed_name(text) for text in texts))
    says = f"{len(texts)} different texts" if len(texts) > 1 else "one text"
    changed = [text for text in texts if allowed_name(text) != text]
    if changed:
        shown = [f"{printed(text)} is {allowed_name(text)}" for text in changed[:3]]
        says += f", read as names: {', '.join(shown)}" + (" …" if len(changed) > 3 else "")
    if len(members) < len(texts):
        says += f"; {len(texts)} texts share {len(members)} names"
    return Domain(f"{{{', '.join(members)}}}", len(members), says, members)


def real_domain(values: FloatArray) -> Domain:
    """Return round limits around values, without far outliers."""
    low, high, n_outside = limits_of(values)
    says = f"numbers from {values.min():.4g} to {values.max():.4g}"
    if n_outside:
        rows = "row lies" if n_outside == 1 else "rows lie"
        says += f"; {n_outside:,} {rows} outside of the limits, and count as the end cells"
    return Domain(f"[{low}, {high}]", 0, says)


def levels(low: str, high: str, most: int = MOST_LEVELS) -> Domain:
    """Return evenly spaced numbers between limits, to which other numbers are rounded."""
    first, last = float(low), float(high)
    step = _round_step((last - first) / (most - 1))
    low_level, high_level = math.floor(first / step + 1e-9), math.ceil(last / step - 1e-9)
    numbers = [number_text(i * step, step) for i in range(low_level, high_level + 1)]
    unit = number_text(step, step)
    scaled = "round({})" if unit == "1" else f"round({{}}/{unit})*{unit}"
    return Domain(
        f"{{{', '.join(numbers)}}}",
        len(numbers),
        f"numbers from {first:.4g} to {last:.4g}, rounded to the nearest of these",
        expression=f"clip({scaled}, {numbers[0]}, {numbers[-1]})",
    )


def limits_of(values: FloatArray) -> tuple[str, str, int]:
    """Return round limits around values as texts, and how many values lie outside."""
    least, most = float(values.min()), float(values.max())
    low, high = (float(q) for q in np.quantile(values, [TAIL, 1 - TAIL]))
    if len(values) < 1 / TAIL or most - least <= WIDE * (high - low):
        low, high = least, most
    if high <= low:
        margin = max(abs(low) * 0.1, 0.5)
        low, high = low - margin, high + margin
    step = _round_step((high - low) / 20)
    first, last = _multiple(low, step, math.floor), _multiple(high, step, math.ceil)
    is_outside = (values < first - NOISE * abs(first)) | (values > last + NOISE * abs(last))
    n_outside = int(np.count_nonzero(is_outside))
    return number_text(first, step), number_text(last, step), n_outside


def number_text(value: float, step: float) -> str:
    """Write a multiple of a step without the noise of its last digits."""
    digits = max(0, -math.floor(math.log10(step)) + 1)
    text = (
        f"{value:.12g}" if digits > 12 or abs(value) >= 1e12 else repr(round(value, digits) + 0.0)
    )
    return text.removesuffix(".0")


def printed(text: str) -> str:
    """Return a text in quotes for a comment, shortened."""
    line = " ".join(text.split())
    return f"`{line if len(line) <= 30 else line[:29] + '…'}`"


def _whole_domain(name: str, values: FloatArray, distinct: FloatArray) -> Domain:
    low, high = int(distinct[0]), int(distinct[-1])
    span = high - low + 1
    if (low, high) == (0, 1) and is_truth(name):
        return Domain("bool", 2, "0 and 1, read as false and true")
    if is_numbered(name) and 0 <= 2 * low <= high < MOST_NUMBERED:
        says = f"whole numbers from {low:,} to {high:,}, taken as the number of the state"
        return Domain(f"0..{high}", high + 1, says)
    if len(distinct) <= FEW_WHOLE:
        return _listed(distinct)
    found = real_domain(values)
    says = found.says.replace("numbers", "whole numbers", 1)
    return replace(found, whole=f"{low}..{high}", n_whole=span, says=says)


def _listed(distinct: FloatArray) -> Domain:
    numbers = distinct.tolist()
    n = len(numbers)
    is_whole = all(number.is_integer() for number in numbers)
    if is_whole and numbers[-1] - numbers[0] + 1 <= 2 * n:
        low, high = int(numbers[0]), int(numbers[-1])
        says = f"whole numbers from {low:,} to {high:,}" if n > 1 else f"always {low:,}"
        return Domain(f"{low}..{high}", high - low + 1, says)
    # To the precision that logs have: the noise of a sum such as 0.1 + 0.2 is not a value.
    digits = 12 - math.ceil(math.log10(max(abs(numbers[0]), abs(numbers[-1]), 1e-300)))
    rounded = [round(number, digits) + 0.0 for number in numbers]
    noise = 10.0**-digits
    if any(noise / 100 < gap < 8 * noise for gap in np.diff(distinct).tolist()):
        rounded = numbers  # of very different sizes: rounding would hide what makes them differ
    rounded = list(dict.fromkeys(rounded))
    n = len(rounded)
    texts = [str(int(x)) if x.is_integer() and abs(x) < 1e15 else repr(x) for x in rounded]
    return Domain(f"{{{', '.join(texts)}}}", n, f"{n} different numbers" if n > 1 else "one number")


def _circle(
    table: LogTable, profile: Profile, values: FloatArray, episode: Profile | None
) -> str | None:
    """Return the circle of an angle: small steps, and now and then a jump by the whole circle."""
    steps = np.abs(np.diff(profile.values))[~starts_of(table, episode)[1:]]
    steps = steps[np.isfinite(steps)]
    for text, low, high in _CIRCLES:
        around = high - low
        margin = 0.02 * around
        if values.min() < low - margin or values.max() > high + margin:
            continue
        if np.ptp(values) < 0.9 * around or len(steps) == 0:
            continue
        if np.median(steps) < 0.2 * around and steps.max() > 0.8 * around:
            return text
    return None


def _multiple(value: float, step: float, rounded: Callable[[float], int]) -> float:
    """Return the next multiple of a step, unless the value is one but for noise."""
    ratio = value / step
    is_one = abs(ratio - round(ratio)) <= NOISE * abs(ratio)
    return (round(ratio) if is_one else rounded(ratio)) * step


def _round_step(step: float) -> float:
    """Return the next larger step of the form 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * (1 - 1e-9))
