"""Interval arithmetic over arrays, rounded outwards.

For intervals a and b, the result of an operation contains x op y for all real x in a and y in b
(Moore, 1966), and also what floating-point arithmetic computes for them. 0 times infinity is 0: an
infinite bound limits nothing, but every number within it is finite. A sum of two numbers is 0 only
if it is exactly 0, so 0 stays exact.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray

#: Lower and upper bounds.
Interval = tuple[FloatArray, FloatArray]

#: The error of NumPy's elementary functions is a few units in the last place.
RELATIVE_ERROR = 1e-15
SMALLEST = float(np.nextafter(0.0, 1.0))
LARGEST = float(np.finfo(np.float64).max)
EPSILON = float(np.finfo(np.float64).eps)
_LESS, _MORE = 1 - 2 * EPSILON, 1 + 2 * EPSILON
#: How close, in turns, a number may be to an extremum of the sine and count as containing it.
_TURN_ERROR = 1e-12

ONE: Interval = (np.asarray(1.0), np.asarray(1.0))


def down(values: FloatArray) -> FloatArray:
    """Round downwards by at least one place; 0 and infinity stay."""
    return np.minimum(values * _LESS, values * _MORE)


def up(values: FloatArray) -> FloatArray:
    """Round upwards by at least one place; 0 and infinity stay."""
    return np.maximum(values * _LESS, values * _MORE)


def widened(low: FloatArray, high: FloatArray) -> Interval:
    """Move the bounds apart by the error of an elementary function; 0 stays."""
    low = np.clip(low, -np.inf, LARGEST)
    high = np.clip(high, -LARGEST, np.inf)
    return (
        np.where(np.isfinite(low), low - RELATIVE_ERROR * np.abs(low), low),
        np.where(np.isfinite(high), high + RELATIVE_ERROR * np.abs(high), high),
    )


def opposite(a: Interval) -> Interval:
    """Change the sign."""
    return -a[1], -a[0]


def plus(a: Interval, b: Interval) -> Interval:
    """Add intervals."""
    low, high = a[0] + b[0], a[1] + b[1]
    if np.isnan(low).any() or np.isnan(high).any():
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return down(low), up(high)


def minus(a: Interval, b: Interval) -> Interval:
    """Subtract intervals."""
    return plus(a, opposite(b))


def times(a: Interval, b: Interval) -> Interval:
    """Multiply intervals."""
    if not (b[0] >= 0).all() and (a[0] >= 0).all():
        a, b = b, a
    if (b[0] >= 0).all():  # the ends are known without trying all corners
        low = a[0] * np.where(a[0] >= 0, b[0], b[1])
        high = a[1] * np.where(a[1] >= 0, b[1], b[0])
        low, high = _without_gaps(low), _without_gaps(high)
    else:
        corners = _without_gaps(np.stack([x * y for x in a for y in b]))
        low, high = corners.min(axis=0), corners.max(axis=0)
    if not (low.all() and high.all()):
        is_zero = ((a[0] == 0) & (a[1] == 0)) | ((b[0] == 0) & (b[1] == 0))
        same = (a[0] >= 0) & (b[0] >= 0) | (a[1] <= 0) & (b[1] <= 0)
        other = (a[0] >= 0) & (b[1] <= 0) | (a[1] <= 0) & (b[0] >= 0)
        # Where the bound of a product is 0 although its factors are not, it was too small.
        low = np.where((low == 0) & ~(is_zero | same), -SMALLEST, low)
        high = np.where((high == 0) & ~(is_zero | other), SMALLEST, high)
    return down(low), up(high)


def _without_gaps(products: FloatArray) -> FloatArray:
    """Replace the products of 0 and infinity by 0."""
    gaps = np.isnan(products)
    return np.where(gaps, 0.0, products) if gaps.any() else products


def reciprocal(a: Interval) -> Interval:
    """Divide 1 by an interval; the bounds are infinite on the sides on which it comes near 0."""
    low, high = a
    from_below, from_above = 1.0 / high, 1.0 / low
    reaches_up = (low <= 0) & (high >= 0) & ((high > 0) | (low >= 0))
    reaches_down = (low <= 0) & (high >= 0) & ((low < 0) | (high <= 0))
    has_zero = reaches_up | reaches_down
    lower = np.where(reaches_down, -np.inf, np.where(has_zero & (high <= 0), -np.inf, from_below))
    upper = np.where(reaches_up, np.inf, np.where(has_zero & (low >= 0), np.inf, from_above))
    return down(lower), up(upper)


def square(a: Interval) -> Interval:
    """Square an interval."""
    least, most = least_magnitude(a), np.maximum(np.abs(a[0]), np.abs(a[1]))
    return down(least * least), np.where(most > 0, np.maximum(up(most * most), SMALLEST), 0.0)


def root(a: Interval) -> Interval:
    """Return the square root of an interval without its negative part; if all is, anything."""
    low, high = widened(np.sqrt(np.maximum(a[0], 0.0)), np.sqrt(np.maximum(a[1], 0.0)))
    return np.where(a[1] < 0, -np.inf, low), np.where(a[1] < 0, np.inf, high)


def power(x: Interval, y: Interval) -> Interval:
    """Raise x to the power y: monotone in x > 0 and in y; an integer y allows any x."""
    x = x[0] + 0.0, x[1] + 0.0  # -0.0 becomes 0.0
    exponent = y[0]
    is_whole = (y[0] == y[1]) & np.isfinite(exponent) & (exponent == np.floor(exponent))
    corners = np.stack(np.broadcast_arrays(*(np.power(a, b) for a in x for b in y)))
    low, high = widened(np.fmin.reduce(corners), np.fmax.reduce(corners))
    is_zero = (x[0] == 0) & (x[1] == 0)
    high = np.where((high == 0) & ~is_zero, SMALLEST, high)
    low = np.where((low == 0) & (x[0] < 0), -SMALLEST, low)
    has_zero = (x[0] <= 0) & (x[1] >= 0)
    is_even = np.mod(exponent, 2) == 0
    low = np.where(is_whole & is_even & has_zero & (exponent > 0), 0.0, low)
    # A negative power has a pole at 0, and on its other side the other sign if it is odd.
    has_pole = is_whole & has_zero & (exponent < 0)
    high = np.where(has_pole, np.inf, high)
    low = np.where(has_pole & ~is_even & (x[0] < 0), -np.inf, low)
    unknown = ~is_whole & (x[0] < 0) | np.isnan(low)
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def sine(x: Interval, peak: float = 0.25) -> Interval:
    """Return the sine, whose peak is at a quarter of a turn; with its peak at 0, the cosine."""
    first, last = (np.sin(end) if peak else np.cos(end) for end in x)
    low, high = widened(np.fmin(first, last), np.fmax(first, last))
    low = np.where(meets(x, 2 * np.pi, peak + 0.5), -1.0, np.maximum(low, -1.0))
    high = np.where(meets(x, 2 * np.pi, peak), 1.0, np.minimum(high, 1.0))
    return low, high


def meets(x: Interval, period: float, place: float) -> BoolArray:
    """Return whether an interval contains a number that is `place` periods after a whole one."""
    first, last = (end / period - place for end in x)
    error = _TURN_ERROR + 4 * EPSILON * np.maximum(np.abs(first), np.abs(last))
    apart = np.ceil(first - error) > np.floor(last + error)
    return ~(apart & np.isfinite(first) & np.isfinite(last))


def density(z: Interval) -> Interval:
    """Return the density of the standard normal distribution; 0 at infinity."""
    near, far = least_magnitude(z), np.maximum(np.abs(z[0]), np.abs(z[1]))
    least, most = (np.exp(-0.5 * end * end) / np.sqrt(2 * np.pi) for end in (far, near))
    # The error of the exponent is relative, so that of the density grows with it.
    least = least * np.clip(1 - RELATIVE_ERROR * (2 + far * far), 0.0, 1.0)
    most = np.maximum(most * (1 + RELATIVE_ERROR * (2 + near * near)), SMALLEST)
    return np.where(np.isinf(far), 0.0, least), np.where(np.isinf(near), 0.0, most)


def least_magnitude(a: Interval) -> FloatArray:
    """Return the smallest absolute value in an interval."""
    has_zero = (a[0] <= 0) & (a[1] >= 0)
    return np.where(has_zero, 0.0, np.minimum(np.abs(a[0]), np.abs(a[1])))


def sum_over(a: Interval, axis: int) -> Interval:
    """Sum over an axis; the error of a sum of n numbers is below n roundings of their sizes."""
    ends = []
    for values, sign in zip(a, (-1.0, 1.0), strict=True):
        found = values.sum(axis=axis)
        error = values.shape[axis] * EPSILON * np.abs(values).sum(axis=axis)
        moved = found + sign * error
        ends.append(np.where(np.isnan(moved), sign * np.inf, moved))
    return ends[0], ends[1]
