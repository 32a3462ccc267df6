"""Axes of charts: from values to positions, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mdpdsl.report.markup import tick_texts


@dataclass(frozen=True)
class Scale:
    """A map from a range of values to a range of positions in a picture."""

    low: float
    high: float
    start: float  # the position of `low`
    end: float
    is_log: bool

    def at(self, value: float) -> float:
        """Return the position of a value."""
        low, high, x = self.low, self.high, value
        if self.is_log:
            low, high, x = math.log10(low), math.log10(high), math.log10(max(value, self.low))
        share = (x - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Return round values with their texts."""
        values = _log_ticks(self.low, self.high, most) if self.is_log else []
        if len(values) < 2:
            values = _even_ticks(self.low, self.high, most)
        return list(zip(values, tick_texts(values, is_log=self.is_log), strict=True))


def scale(
    values: Sequence[float], start: float, end: float, *, is_log: bool, margin: float = 0.04
) -> Scale:
    """Return a scale with a margin around the values; logarithmic only if all are positive."""
    known = [v for v in values if math.isfinite(v) and (v > 0 or not is_log)]
    if not known:
        return Scale(1.0 if is_log else 0.0, 10.0 if is_log else 1.0, start, end, is_log)
    low, high = min(known), max(known)
    if is_log:
        if high / low < 1.5:
            low, high = low / 1.25, high * 1.25
        room = (high / low) ** margin
        return Scale(low / room, high * room, start, end, True)
    if high == low:
        low, high = low - (abs(low) / 2 or 0.5), high + (abs(high) / 2 or 0.5)
    room_even = (high - low) * margin
    return Scale(low - room_even, high + room_even, start, end, False)


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for digits in ((1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        found = [
            d * 10.0**e
            for e in range(first, last + 1)
            for d in digits
            if low * 0.9999 <= d * 10.0**e <= high * 1.0001
        ]
        if len(found) <= most:
            return found
    step = -(-len(found) // most)
    return [v for v in found if round(math.log10(v)) % step == 0]


def _even_ticks(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(d * size for d in (1, 2, 2.5, 5, 10) if d * size >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    # Drop rounding errors in the last digits: 0.3, not 0.30000000000000004.
    return sorted({float(f"{i * step:.15g}") + 0.0 for i in range(first, last + 1)})
