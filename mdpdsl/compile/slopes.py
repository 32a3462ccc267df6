"""Enclosures: intervals of values together with intervals of their slopes along unknown numbers.

The rules are those of forward differentiation (Rall, 1981) in interval arithmetic. At a kink, the
slopes are those of both sides (Clarke, 1983); where a function may jump, they are infinite. So the
mean value theorem holds for every enclosure of a continuous function. Where a function has no
value, its bounds are infinite; nothing here raises an exception or returns NaN. Infinite bounds
make NumPy warn, so callers compute under `np.errstate(all="ignore")`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mdpdsl.compile import interval_arithmetic as intervals
from mdpdsl.compile.interval_arithmetic import ONE, SMALLEST, Interval, reciprocal, square, widened
from mdpdsl.graph.space import BoolArray, FloatArray

#: The relative error of SciPy's normal distribution function, in its tail (Cephes' `erfc`).
NORMAL_ERROR = 1e-13


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Bounds on values and on slopes over a box; Booleans are 0 and 1, both if undecided."""

    lower: FloatArray  # [...]     at least one axis
    upper: FloatArray  # [...]
    slope_lower: FloatArray  # [k, ...]  broadcasts with the values
    slope_upper: FloatArray  # [k, ...]

    @property
    def value(self) -> Interval:
        """The bounds on the values."""
        return self.lower, self.upper

    @property
    def slope(self) -> Interval:
        """The bounds on the slopes."""
        return self.slope_lower, self.slope_upper

    def each(self, change: Callable[[FloatArray], FloatArray]) -> Enclosure:
        """Change the layout of all arrays; the function sees the values' axes last."""
        return Enclosure(*(change(array) for array in (*self.value, *self.slope)))


def exactly(values: FloatArray, n_unknowns: int) -> Enclosure:
    """Return the enclosure of values that do not depend on unknown numbers; NaN is anything."""
    values = np.atleast_1d(np.asarray(values, np.float64))
    flat = np.zeros((n_unknowns,) + (1,) * values.ndim)
    low = high = values
    if np.isnan(values).any():
        low, high = (np.where(np.isnan(values), end, values) for end in (-np.inf, np.inf))
    return Enclosure(low, high, flat, flat)


def add(one: Enclosure, other: Enclosure) -> Enclosure:
    """Add enclosures."""
    return Enclosure(
        *intervals.plus(one.value, other.value), *intervals.plus(one.slope, other.slope)
    )


def subtract(one: Enclosure, other: Enclosure) -> Enclosure:
    """Subtract enclosures."""
    return add(one, negative(other))


def negative(x: Enclosure) -> Enclosure:
    """Change the sign."""
    return Enclosure(-x.upper, -x.lower, -x.slope_upper, -x.slope_lower)


def multiply(one: Enclosure, other: Enclosure) -> Enclosure:
    """Multiply enclosures."""
    times = intervals.times
    slope = intervals.plus(times(one.slope, other.value), times(one.value, other.slope))
    return Enclosure(*times(one.value, other.value), *slope)


def divide(one: Enclosure, other: Enclosure) -> Enclosure:
    """Divide enclosures; the bounds are infinite if the divisor may be 0."""
    inverse = reciprocal(other.value)
    quotient = intervals.times(one.value, inverse)
    change = intervals.minus(one.slope, intervals.times(quotient, other.slope))
    return Enclosure(*quotient, *intervals.times(change, inverse))


def square_root(x: Enclosure) -> Enclosure:
    """Return the square root; of what may be negative, the root of the rest."""
    root = intervals.root(x.value)
    low, high = reciprocal(root)
    return _chain(x, root, (low / 2, high / 2))


def total(x: Enclosure, axis: int) -> Enclosure:
    """Sum over an axis of the values, counted from the end (-1 is the last)."""
    assert axis < 0
    shape = (len(x.slope_lower), *x.lower.shape)
    low, high = (np.broadcast_to(slope, shape) for slope in x.slope)
    return Enclosure(*intervals.sum_over(x.value, axis), *intervals.sum_over((low, high), axis))


def normal_probability(z: Enclosure) -> Enclosure:
    """Return the distribution function of the standard normal distribution."""
    from scipy.special import ndtr

    ends = []
    for values, sign in zip(z.value, (-1.0, 1.0), strict=True):
        tail = ndtr(-np.abs(values))
        error = np.where(np.isinf(values), 0.0, NORMAL_ERROR * tail + SMALLEST)
        rest = np.where(np.isinf(values), 1.0, 1.0 - tail + sign * intervals.EPSILON)
        ends.append(np.where(values > 0, rest, tail) + sign * error)
    value = np.maximum(ends[0], 0.0), np.minimum(ends[1], 1.0)
    return _chain(z, value, intervals.density(z.value))


def uniform_probability(z: Enclosure) -> Enclosure:
    """Return the distribution function of the uniform distribution on [0, 1]."""
    inside = (z.lower >= 0) & (z.upper <= 1)
    outside = (z.upper <= 0) | (z.lower >= 1)
    rises = np.where(inside & ~outside, 1.0, 0.0), np.where(outside & ~inside, 0.0, 1.0)
    return _chain(z, (np.clip(z.lower, 0.0, 1.0), np.clip(z.upper, 0.0, 1.0)), rises)


def either(condition: Enclosure, one: Enclosure, other: Enclosure) -> Enclosure:
    """Return one enclosure where a condition holds, the other where it fails, else their hull."""
    holds, fails = condition.lower > 0, condition.upper <= 0
    ends: list[tuple[FloatArray, FloatArray, FloatArray]] = [
        (one.lower, other.lower, np.minimum(one.lower, other.lower)),
        (one.upper, other.upper, np.maximum(one.upper, other.upper)),
        (one.slope_lower, other.slope_lower, np.asarray(-np.inf)),
        (one.slope_upper, other.slope_upper, np.asarray(np.inf)),
    ]
    return Enclosure(*(np.where(holds, a, np.where(fails, b, hull)) for a, b, hull in ends))


def truth(certainly: BoolArray, possibly: BoolArray, like: Enclosure) -> Enclosure:
    """Return the enclosure of a condition that certainly holds, or possibly."""
    jump = np.where(certainly == possibly, 0.0, np.inf) + np.zeros_like(like.slope_lower)
    return Enclosure(certainly.astype(np.float64), possibly.astype(np.float64), -jump, jump)


def _not(x: Enclosure) -> Enclosure:
    return truth(x.upper <= 0, x.lower <= 0, x)


def _equal(one: Enclosure, other: Enclosure) -> Enclosure:
    is_point = (one.lower == one.upper) & (other.lower == other.upper)
    meet = (one.lower <= other.upper) & (other.lower <= one.upper)
    return truth(is_point & (one.lower == other.lower), meet, one)


def _less(one: Enclosure, other: Enclosure) -> Enclosure:
    return truth(one.upper < other.lower, one.lower < other.upper, one)


def _not_more(one: Enclosure, other: Enclosure) -> Enclosure:
    return truth(one.upper <= other.lower, one.lower <= other.upper, one)


# Functions with jumps and kinks


def _steps(x: Enclosure, function: Callable[[FloatArray], FloatArray]) -> Enclosure:
    """Enclose a function that is constant between its jumps, and ascends."""
    low, high = function(x.lower), function(x.upper)
    jump = np.where(low == high, 0.0, np.inf) + np.zeros_like(x.slope_lower)
    return Enclosure(low, high, -jump, jump)


def _absolute(x: Enclosure) -> Enclosure:
    rising = (x.lower > 0) | (x.lower == 0) & (x.upper > 0)
    falling = (x.upper < 0) | (x.upper == 0) & (x.lower < 0)
    value = intervals.least_magnitude(x.value), np.maximum(np.abs(x.lower), np.abs(x.upper))
    return _chain(x, value, (np.where(rising, 1.0, -1.0), np.where(falling, -1.0, 1.0)))


def _smaller(one: Enclosure, other: Enclosure) -> Enclosure:
    first, second = one.upper <= other.lower, other.upper <= one.lower
    tie = first & second  # two equal numbers
    first, second = first & ~tie, second & ~tie
    slopes = [
        np.where(first, a, np.where(second, b, choose(a, b)))
        for a, b, choose in (
            (one.slope_lower, other.slope_lower, np.minimum),
            (one.slope_upper, other.slope_upper, np.maximum),
        )
    ]
    low, high = np.minimum(one.lower, other.lower), np.minimum(one.upper, other.upper)
    return Enclosure(low, high, *slopes)


def minimum(first: Enclosure, *rest: Enclosure) -> Enclosure:
    """Return the smallest of some enclosures."""
    for other in rest:
        first = _smaller(first, other)
    return first


def maximum(first: Enclosure, *rest: Enclosure) -> Enclosure:
    """Return the largest of some enclosures."""
    for other in rest:
        first = negative(_smaller(negative(first), negative(other)))
    return first


def _remainder(x: Enclosure, y: Enclosure) -> Enclosure:
    """Enclose x - floor(x/y)*y, which lies between 0 and y."""
    quotient = intervals.times(x.value, reciprocal(y.value))
    turns, last = np.floor(quotient[0]), np.floor(quotient[1])
    whole = np.where(np.isfinite(turns), turns, 0.0)
    low, high = np.minimum(y.lower, 0.0), np.maximum(y.upper, 0.0)
    shifted = subtract(x, multiply(exactly(whole, len(x.slope_lower)), y))
    smooth = np.isfinite(turns + y.lower + y.upper) & (turns == last)
    inner = np.maximum(shifted.lower, low), np.minimum(shifted.upper, high)
    fits = smooth & (inner[0] <= inner[1])
    slopes = (
        np.where(smooth, s, end) for s, end in zip(shifted.slope, (-np.inf, np.inf), strict=True)
    )
    return Enclosure(np.where(fits, inner[0], low), np.where(fits, inner[1], high), *slopes)


# Smooth functions


def _power(x: Enclosure, y: Enclosure) -> Enclosure:
    value = intervals.power(x.value, y.value)
    is_whole = (y.lower == y.upper) & (y.lower == np.floor(y.lower))
    low, high = intervals.minus(y.value, ONE)
    one_less = np.where(is_whole, y.lower - 1, low), np.where(is_whole, y.upper - 1, high)
    along_x = intervals.times(y.value, intervals.power(x.value, one_less))
    has_pole = (x.lower < 0) & (x.upper > 0) & (y.lower < 0)
    along_x = np.where(has_pole, -np.inf, along_x[0]), np.where(has_pole, np.inf, along_x[1])
    along_y = intervals.times(value, _logarithm(x).value)
    slope = intervals.plus(intervals.times(along_x, x.slope), intervals.times(along_y, y.slope))
    return Enclosure(*value, *slope)


def _exponential(x: Enclosure) -> Enclosure:
    low, high = widened(np.exp(x.lower), np.exp(x.upper))
    value = low, np.maximum(high, SMALLEST)
    return _chain(x, value, value)


def _logarithm(x: Enclosure) -> Enclosure:
    positive = np.maximum(x.lower, 0.0), np.maximum(x.upper, 0.0)
    low, high = widened(np.log(positive[0]), np.log(positive[1]))
    return _chain(x, (low, np.where(x.upper <= 0, np.inf, high)), reciprocal(positive))


def _sine(x: Enclosure) -> Enclosure:
    return _chain(x, intervals.sine(x.value), intervals.sine(x.value, peak=0.0))


def _cosine(x: Enclosure) -> Enclosure:
    falls = intervals.opposite(intervals.sine(x.value))
    return _chain(x, intervals.sine(x.value, peak=0.0), falls)


def _tangent(x: Enclosure) -> Enclosure:
    low, high = widened(np.tan(x.lower), np.tan(x.upper))
    has_pole = intervals.meets(x.value, np.pi, 0.5)
    value = np.where(has_pole, -np.inf, low), np.where(has_pole, np.inf, high)
    gentle, steep = intervals.plus(ONE, square(value))
    return _chain(x, value, (np.where(has_pole, -np.inf, gentle), steep))


def _arc_sine(x: Enclosure) -> Enclosure:
    low, high = _within_unit(x)
    value = widened(np.arcsin(low), np.arcsin(high))
    return _chain(x, _unless_outside(x, value), _arc_slope((low, high)))


def _arc_cosine(x: Enclosure) -> Enclosure:
    low, high = _within_unit(x)
    value = widened(np.arccos(high), np.arccos(low))
    return _chain(x, _unless_outside(x, value), intervals.opposite(_arc_slope((low, high))))


def _within_unit(x: Enclosure) -> Interval:
    return np.clip(x.lower, -1.0, 1.0), np.clip(x.upper, -1.0, 1.0)


def _unless_outside(x: Enclosure, value: Interval) -> Interval:
    outside = (x.lower > 1) | (x.upper < -1)
    return np.where(outside, -np.inf, value[0]), np.where(outside, np.inf, value[1])


def _arc_slope(inside: Interval) -> Interval:
    low, high = intervals.minus(ONE, square(inside))
    return reciprocal(intervals.root((np.maximum(low, 0.0), np.maximum(high, 0.0))))


def _arc_tangent(x: Enclosure) -> Enclosure:
    value = widened(np.arctan(x.lower), np.arctan(x.upper))
    return _chain(x, value, reciprocal(intervals.plus(ONE, square(x.value))))


def _direction(y: Enclosure, x: Enclosure) -> Enclosure:
    """Enclose the angle of (x, y), whose extrema over a rectangle are at its corners."""
    corners = np.stack([np.arctan2(a, b) for a in y.value for b in x.value])
    low, high = widened(corners.min(axis=0), corners.max(axis=0))
    # It jumps where y changes its sign to the left of the origin.
    jumps = (y.lower <= 0) & (y.upper >= 0) & (x.lower <= 0) | np.isnan(low)
    half_turn = float(np.nextafter(np.pi, 4.0))
    turning = intervals.minus(intervals.times(x.value, y.slope), intervals.times(y.value, x.slope))
    inverse = reciprocal(intervals.plus(square(x.value), square(y.value)))
    falls, rises = intervals.times(turning, inverse)
    return Enclosure(
        np.where(jumps, -half_turn, low),
        np.where(jumps, half_turn, high),
        np.where(jumps, -np.inf, falls),
        np.where(jumps, np.inf, rises),
    )


def _hyperbolic_tangent(x: Enclosure) -> Enclosure:
    low, high = widened(np.tanh(x.lower), np.tanh(x.upper))
    value = np.maximum(low, -1.0), np.minimum(high, 1.0)
    gentle, steep = intervals.minus(ONE, square(value))
    return _chain(x, value, (np.maximum(gentle, 0.0), np.clip(steep, SMALLEST, 1.0)))


def _chain(x: Enclosure, value: Interval, derivative: Interval) -> Enclosure:
    return Enclosure(*value, *intervals.times(derivative, x.slope))


#: What each function and operator of the language encloses; as `FUNCTIONS` of expressions.
ENCLOSED_FUNCTIONS: dict[str, Callable[..., Enclosure]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": _remainder,
    "^": _power,
    "negative": negative,
    "not": _not,
    "==": _equal,
    "!=": lambda one, other: _not(_equal(one, other)),
    "<": _less,
    "<=": _not_more,
    ">": lambda one, other: _less(other, one),
    ">=": lambda one, other: _not_more(other, one),
    "abs": _absolute,
    "sign": lambda x: _steps(x, np.sign),
    "min": minimum,
    "max": maximum,
    "floor": lambda x: _steps(x, np.floor),
    "ceil": lambda x: _steps(x, np.ceil),
    "round": lambda x: _steps(x, np.rint),
    "sqrt": square_root,
    "exp": _exponential,
    "log": _logarithm,
    "sin": _sine,
    "cos": _cosine,
    "tan": _tangent,
    "asin": _arc_sine,
    "acos": _arc_cosine,
    "atan": _arc_tangent,
    "atan2": _direction,
    "tanh": _hyperbolic_tangent,
    "clip": lambda x, low, high: minimum(maximum(x, low), high),
    "wrap": lambda x, low, high: add(low, _remainder(subtract(x, low), subtract(high, low))),
    "mod": _remainder,
}
