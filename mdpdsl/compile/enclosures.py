"""Terms over a box of unknown numbers: bounds on their values and on their derivatives.

An *enclosure* of f over a box B holds [lower, upper] that contains f(B), and for every unknown
number i an interval that contains the slopes of f along i anywhere in B (Moore, 1966; forward
differentiation after Rall, 1981). At a kink, the slopes are those of both sides (Clarke, 1983); if
f may jump, they are infinite. So for the centre c of the box and its half widths h, the mean value
theorem gives the centred form

    f(B)  is contained in  f(c) + sum_i slope_i * [-h_i, h_i],

which is tight to second order where f is smooth. Bounds are rounded outwards. A part of a term that
reads no unknown number has the value that expressions compute for it. Where a function has no
value, its bounds are infinite; nothing here raises an exception or returns NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mdpdsl.compile import interval_arithmetic as intervals
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.slopes import ENCLOSED_FUNCTIONS, Enclosure, either, exactly, truth
from mdpdsl.compile.terms import Apply, Choose, Logic, Named, Read, Term, parts
from mdpdsl.graph.space import FloatArray

__all__ = ["Box", "Enclosure", "Key", "enclose", "tightened"]

#: What a term reads: (kind, name).
Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Box:
    """Ranges of the unknown numbers; if low equals high, it is one point."""

    names: tuple[str, ...]
    low: FloatArray  # [k]
    high: FloatArray  # [k]


def enclose(
    term: Term, frame: Frame, box: Box, extra: Mapping[Key, Enclosure] | None = None
) -> Enclosure:
    """Enclose a term in every row of a frame, over a box of unknown numbers.

    `extra` holds enclosures of what the term reads, such as next values, instead of the frame.
    """
    with np.errstate(all="ignore"):
        return _Walk(frame, box, extra or {}).enclosure(term)


def tightened(over_box: Enclosure, at_centre: Enclosure, half_widths: FloatArray) -> Enclosure:
    """Intersect bounds over a box with the centred form; the slopes stay those over the box."""
    steepest = np.maximum(np.abs(over_box.slope_lower), np.abs(over_box.slope_upper))
    reach = np.zeros(steepest.shape[1:])
    with np.errstate(invalid="ignore", over="ignore"):
        for slope, half_width in zip(steepest, half_widths, strict=True):
            if half_width > 0:
                further = intervals.up(reach + intervals.up(slope * half_width))
                reach = np.where(slope > 0, further, reach)
        lower = np.maximum(over_box.lower, intervals.down(at_centre.lower - reach))
        upper = np.minimum(over_box.upper, intervals.up(at_centre.upper + reach))
    return Enclosure(lower, upper, over_box.slope_lower, over_box.slope_upper)


class _Walk:
    """Encloses terms of one frame over one box."""

    def __init__(self, frame: Frame, box: Box, extra: Mapping[Key, Enclosure]) -> None:
        self.frame = frame
        self.box = box
        self.extra = extra
        self._memo: dict[int, Enclosure] = {}
        self._is_exact: dict[int, bool] = {}

    def enclosure(self, term: Term) -> Enclosure:
        """Enclose a term; one without unknown numbers is evaluated."""
        while isinstance(term, Named):
            term = term.definition
        key = id(term)
        if key not in self._memo:
            self._memo[key] = self._exact(term) if self.is_exact(term) else self._enclosed(term)
        return self._memo[key]

    def is_exact(self, term: Term) -> bool:
        """Return whether a term reads neither unknown numbers nor enclosures."""
        if isinstance(term, Read):
            return term.kind != "unknown" and (term.kind, term.name) not in self.extra
        key = id(term)
        if key not in self._is_exact:
            self._is_exact[key] = all(self.is_exact(part) for part in parts(term))
        return self._is_exact[key]

    def _exact(self, term: Term) -> Enclosure:
        return exactly(evaluate(term, self.frame).values, len(self.box.names))

    def _enclosed(self, term: Term) -> Enclosure:
        match term:
            case Read(kind="unknown") if ("unknown", term.name) not in self.extra:
                place = self.box.names.index(term.name)
                slope = np.zeros((len(self.box.names), 1))
                slope[place] = 1.0
                return Enclosure(self.box.low[[place]], self.box.high[[place]], slope, slope)
            case Read():
                return self.extra[term.kind, term.name]
            case Apply():
                arguments = [self.enclosure(argument) for argument in term.arguments]
                return ENCLOSED_FUNCTIONS[term.function](*arguments)
            case Logic():
                combine = np.minimum if term.operator == "and" else np.maximum
                found = self.enclosure(term.operands[0])
                for operand in term.operands[1:]:
                    other = self.enclosure(operand)
                    lower = combine(found.lower, other.lower)
                    upper = combine(found.upper, other.upper)
                    found = truth(lower > 0, upper > 0, found)
                return found
            case Choose():
                found = self.enclosure(term.otherwise)
                for condition, value in reversed(term.cases):
                    found = either(self.enclosure(condition), self.enclosure(value), found)
                return found
        raise AssertionError(term)
