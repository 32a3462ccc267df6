"""Log-densities over boxes of unknown numbers: bounds on their values, slopes and sums.

The functions are those of `raw_densities`, for enclosures of the location m and the scale s. For
fixed r = x - m, the normal log-density -log s - r^2/(2 s^2) rises in s up to |r| and falls
afterwards, so its extrema over a box of r and s are known. Its slope along an unknown number t is
(m_t z + s_t (z^2 - 1))/s with z = r/s. The slope of the logarithm of a sum is an average of the
slopes of its terms, with their shares of the sum as weights.

A sum over many steps has close bounds only if their slopes are added before they are bounded. With
the centre c of the box, its half widths h, and d = theta - c within them, the sum of log-densities
with slopes in G is l(c) + G d (the centred form). If only m depends on theta, by the mean value
theorem m(theta) = m(c) + M d with M in the slopes of m over the box, so that with r = x - m(c)

    l(theta) = l(c) + sum (r/s^2) M d - (M d)^2/(2 s^2),

which is exact in d where m is linear: then M is one number, and l has the curvature of regression.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdpdsl.compile import interval_arithmetic as intervals
from mdpdsl.compile.interval_arithmetic import ONE, Interval, least_magnitude, reciprocal, square
from mdpdsl.compile.slopes import ENCLOSED_FUNCTIONS, Enclosure, add, divide, exactly, subtract
from mdpdsl.estimate.raw_densities import EDGE, FAR, HALF_LOG_2_PI, Observed, uniform_turns
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray

#: Relative error of a log-density: a few operations, each exact to one unit in the last place.
ERROR = 1e-14
#: That of the logarithm of a tail, as SciPy computes it, with room to spare.
TAIL_ERROR = 1e-12
#: With more turns of a circle than this, the density has a coarse bound.
MOST_TURNS = 20
#: A turn smaller by this factor, as an exponent, is below the error.
NEGLIGIBLE = 80.0
#: A location with slopes this close to each other, relative to their size, is linear.
LINEAR = 1e-12
#: The error of a sum of log-densities, relative to the sum of their sizes.
ROUNDING = 1e-13
#: Passes over the numbers when the highest point of a parabola in a box is sought.
SWEEPS = 20


def enclosed_log_density(
    family: str, seen: Observed, location: Enclosure, scale: Enclosure
) -> Enclosure:
    """Enclose log-densities; slopes are infinite where a number may become impossible."""
    n = len(seen.x)
    m, s = widened_to(location, n), widened_to(scale, n)
    with np.errstate(all="ignore"):
        if family == "uniform":
            found = _uniform(seen, m, s)
        elif seen.period is not None:
            found = _wrapped_normal(seen.x, m, s, seen.period)
        else:
            found = _normal(seen.x, m, s)
        for places, side in ((seen.at_low, 1.0), (seen.at_high, -1.0)):
            if len(places):
                tail = _tail(family, seen.x[places], side, taken(m, places), taken(s, places))
                found = scattered(found, places, tail)
    return found


class BoundSum:
    """Adds up bounds of log-densities over a box: those of each step, and those around its centre.

    Steps that may become impossible within the box have no slopes, and take part with their own
    bounds.
    """

    def __init__(self, half_widths: FloatArray) -> None:
        k = len(half_widths)
        self._half = half_widths
        self._own = np.zeros(2)  # the sums of each step's own bounds
        self._rest = np.zeros(2)  # the same, over the steps without slopes
        self._centre = self._size = 0.0  # l(c), and the sum of the sizes of its terms
        self._slope = np.zeros(k), np.zeros(k)
        self._curvature = np.zeros((k, k))  # of the steps in which the location is linear
        self._bend = 0.0  # the most that the curvature of all others takes off

    def add(self, found: Enclosure, at_centre: FloatArray) -> None:
        """Add steps with their enclosures, and their values at the centre."""
        is_smooth = np.isfinite(found.slope_lower).all(axis=0) & np.isfinite(at_centre)
        is_smooth &= np.isfinite(found.slope_upper).all(axis=0)
        self._note(found.value, at_centre, is_smooth)
        for end, slopes in zip(self._slope, found.slope, strict=True):
            end += slopes[:, is_smooth].sum(axis=1)

    def add_normal(self, x: FloatArray, m: Enclosure, at_centre: FloatArray, s: FloatArray) -> None:
        """Add normal steps with known deviations, given their means at the centre."""
        with np.errstate(all="ignore"):
            offset = intervals.minus((x, x), m.value)
            near, far = least_magnitude(offset), np.maximum(np.abs(offset[0]), np.abs(offset[1]))
            value = _loosened(_log_normal(far, s), _log_normal(near, s))
            r = x - at_centre
            logs = _log_normal(np.abs(r), s)
            is_smooth = np.isfinite(m.slope_lower).all(axis=0) & np.isfinite(logs)
            is_smooth &= np.isfinite(m.slope_upper).all(axis=0)
            self._note(value, logs, is_smooth)
            falls, rises = (slope[:, is_smooth] for slope in m.slope)
            r, s = r[is_smooth], np.broadcast_to(s, r.shape)[is_smooth]
            pull = r / (s * s)
            middle, radius = (falls + rises) / 2, (rises - falls) / 2
            drawn, spread = middle @ pull, radius @ np.abs(pull)
            self._slope[0][:] += drawn - spread
            self._slope[1][:] += drawn + spread
            is_linear = np.all(radius <= LINEAR * np.abs(middle), axis=0)
            steep = middle[:, is_linear] / s[is_linear]
            self._curvature += steep @ steep.T
            bent = np.maximum(np.abs(falls), np.abs(rises))[:, ~is_linear] / s[~is_linear]
            self._bend += 0.5 * float(np.sum((self._half @ bent) ** 2))

    def add_parabola(
        self,
        own: tuple[float, float],
        at_centre: float,
        slope: Interval,
        curvature: FloatArray,
        error: float,
    ) -> None:
        """Add a sum of steps that is a parabola: its own bounds, and what it is at the centre."""
        self._own += own
        self._centre += at_centre
        self._size += error / ROUNDING
        for end, slopes in zip(self._slope, slope, strict=True):
            end += slopes
        self._curvature += curvature

    def bounds(self) -> tuple[float, float]:
        """Return the bounds of the sum."""
        error = ROUNDING * (1 + self._size)
        slack = np.where(np.isfinite(self._own), ROUNDING * (1 + np.abs(self._own)), 0.0)
        own = self._own + np.array([-1, 1]) * slack
        middle = (self._slope[0] + self._slope[1]) / 2
        spread = float(((self._slope[1] - self._slope[0]) / 2 + 1e-9 * np.abs(middle)) @ self._half)
        bend = self._bend + 0.5 * float(self._half @ np.abs(self._curvature) @ self._half)
        low = self._centre - float(np.abs(middle) @ self._half) - spread - bend * (1 + 1e-9) - error
        high = self._centre + highest(middle, self._curvature, self._half) + spread + error
        with np.errstate(invalid="ignore"):
            low, high = low + self._rest[0], high + self._rest[1]
        least = own[0] if np.isnan(low) else max(own[0], low)
        most = own[1] if np.isnan(high) else min(own[1], high)
        return _or(least, -np.inf), _or(most, np.inf)

    def _note(self, value: Interval, at_centre: FloatArray, is_smooth: BoolArray) -> None:
        low, high = value
        with np.errstate(invalid="ignore"):
            self._own += low.sum(), high.sum()
            self._rest += low[~is_smooth].sum(), high[~is_smooth].sum()
        self._centre += float(at_centre[is_smooth].sum())
        self._size += float(np.abs(at_centre[is_smooth]).sum())


def highest(slope: FloatArray, curvature: FloatArray, half: FloatArray) -> float:
    """Bound slope·d - d·curvature·d/2 over the box |d| <= half.

    The function is concave, so its tangent plane at any point is above it; the closer the point is
    to the maximum, the closer is the bound.
    """
    Q = curvature * (1 - 1e-9)
    d = np.zeros(len(half))
    for _ in range(SWEEPS):
        for j in range(len(d)):
            rest = slope[j] - Q[j] @ d + Q[j, j] * d[j]
            best = rest / Q[j, j] if Q[j, j] > 0 else np.sign(rest) * half[j]
            d[j] = np.clip(best, -half[j], half[j])
    tangent = slope - Q @ d
    here = slope @ d - 0.5 * d @ Q @ d
    return float(here + np.abs(tangent) @ half - tangent @ d)


def _or(value: float, otherwise: float) -> float:
    return otherwise if np.isnan(value) else float(value)


def nearest_turn(x: FloatArray, m: Enclosure, s: FloatArray, period: float) -> FloatArray | None:
    """Return x turned to where it is nearest to its mean; None if other turns matter as well."""
    middle, reach = (m.lower + m.upper) / 2, (m.upper - m.lower) / 2
    offset = np.mod(x - middle + period / 2, period) - period / 2
    with np.errstate(all="ignore"):
        gap = period * (period - 2 * (np.abs(offset) + reach)) / (2 * s * s)
    return middle + offset if np.all(gap > NEGLIGIBLE) else None


def mixed(parts: Sequence[Enclosure]) -> Enclosure:
    """Enclose the logarithm of a sum, given the logarithms of its terms."""
    if len(parts) == 1:
        return parts[0]
    lower = np.stack([part.lower for part in parts])
    upper = np.stack([part.upper for part in parts])
    shape = (len(parts), *np.broadcast_shapes(*(part.slope_lower.shape for part in parts)))
    falls, rises = np.zeros(shape), np.zeros(shape)
    for i, part in enumerate(parts):
        falls[i], rises[i] = part.slope
    with np.errstate(all="ignore"):
        low, high = _log_sum(lower), _log_sum(upper)
        others_low = _log_sum_of_others(lower)
        others_high = _log_sum_of_others(upper)
        # The share of a term is largest where it is large and the others are small.
        least, most = _share(lower, others_high), _share(upper, others_low)
        is_there = (most > 0)[:, None]
        falls, rises = np.where(is_there, falls, np.inf), np.where(is_there, rises, -np.inf)
        hull = falls.min(axis=0), rises.max(axis=0)
        shares = least[:, None], most[:, None]
        products = intervals.times(
            shares, (np.where(is_there, falls, 0.0), np.where(is_there, rises, 0.0))
        )
        average = intervals.sum_over(products, 0)
    slope = np.maximum(hull[0], average[0]), np.minimum(hull[1], average[1])
    is_empty = ~is_there.any(axis=0)
    return Enclosure(low, high, *(np.where(is_empty, 0.0, end) for end in slope))


def widened_to(x: Enclosure, n: int) -> Enclosure:
    """Return an enclosure with one entry for each of n rows."""
    k = len(x.slope_lower)
    return Enclosure(
        *(np.broadcast_to(end, (n,)) for end in x.value),
        *(np.broadcast_to(end, (k, n)) for end in x.slope),
    )


def taken(x: Enclosure, places: IntArray | BoolArray) -> Enclosure:
    """Return some rows."""
    return x.each(lambda array: array[..., places])


def scattered(x: Enclosure, places: IntArray, values: Enclosure) -> Enclosure:
    """Return an enclosure in which some rows are replaced."""
    ends = []
    for whole, part in zip((*x.value, *x.slope), (*values.value, *values.slope), strict=True):
        changed = np.array(whole)
        changed[..., places] = part
        ends.append(changed)
    return Enclosure(*ends)


def _normal(x: FloatArray, m: Enclosure, s: Enclosure) -> Enclosure:
    offset = intervals.minus((x, x), m.value)
    near, far = least_magnitude(offset), np.maximum(np.abs(offset[0]), np.abs(offset[1]))
    least, most = np.maximum(s.lower, 0.0), np.maximum(s.upper, 0.0)
    high = _log_normal(near, np.clip(near, least, most))
    low = np.minimum(_log_normal(far, least), _log_normal(far, most))
    inverse = reciprocal((least, most))
    z = intervals.times(offset, inverse)
    change = intervals.plus(
        intervals.times(m.slope, z), intervals.times(s.slope, intervals.minus(square(z), ONE))
    )
    falls, rises = intervals.times(change, inverse)
    is_lost = ~(most > 0)  # no deviation at all
    low, high = np.where(least > 0, low, -np.inf), np.where(is_lost, -np.inf, high)
    return Enclosure(*_loosened(low, high), falls, rises)


def _loosened(low: FloatArray, high: FloatArray, error: float = ERROR) -> Interval:
    return (
        np.where(np.isfinite(low), low - error * (1 + np.abs(low)), low),
        np.where(np.isfinite(high), high + error * (1 + np.abs(high)), high),
    )


def _log_normal(offset: FloatArray, s: FloatArray) -> FloatArray:
    z = np.where(s > 0, offset / s, np.where(offset > 0, np.inf, 0.0))
    return np.asarray(-np.log(s) - 0.5 * z * z - HALF_LOG_2_PI)


def _wrapped_normal(x: FloatArray, m: Enclosure, s: Enclosure, period: float) -> Enclosure:
    near = nearest_turn(x, m, s.upper, period)
    if near is not None:
        return _normal(near, m, s)
    middle, reach = (m.lower + m.upper) / 2, (m.upper - m.lower) / 2
    offset = np.mod(x - middle + period / 2, period) - period / 2
    n_turns = np.max(np.ceil(0.5 + (FAR * s.upper + reach) / period), initial=0)
    if not n_turns <= MOST_TURNS:
        # No more than the highest point of one turn, and the average over all.
        high = np.log(1 / np.maximum(s.lower, 0.0) / np.sqrt(2 * np.pi) + 1 / period) + ERROR
        endless = np.full(m.slope_lower.shape, np.inf)
        return Enclosure(np.full(len(x), -np.inf), high, -endless, endless)
    turns = range(-int(n_turns), int(n_turns) + 1)
    return mixed([_normal(middle + offset + turn * period, m, s) for turn in turns])


def _tail(family: str, bound: FloatArray, side: float, m: Enclosure, s: Enclosure) -> Enclosure:
    """Enclose the logarithm of the probability of a tail: below the bound for side 1."""
    from scipy.special import log_ndtr

    k = len(m.slope_lower)
    sign = exactly(np.array([side]), k)
    if family == "uniform":
        end = m if side > 0 else add(m, s)
        share = divide(ENCLOSED_FUNCTIONS["*"](sign, subtract(exactly(bound, k), end)), s)
        zero, one = exactly(np.zeros(1), k), exactly(np.ones(1), k)
        logs = ENCLOSED_FUNCTIONS["log"](ENCLOSED_FUNCTIONS["clip"](share, zero, one))
        high = np.where(share.upper <= 0, -np.inf, np.minimum(logs.upper, ERROR))
        return Enclosure(np.where(share.lower <= 0, -np.inf, logs.lower), high, *logs.slope)
    z = divide(ENCLOSED_FUNCTIONS["*"](sign, subtract(exactly(bound, k), m)), s)
    low, high = log_ndtr(z.lower), log_ndtr(z.upper)
    hazard = tuple(
        np.exp(-0.5 * end * end - HALF_LOG_2_PI - log_ndtr(end)) for end in (z.upper, z.lower)
    )
    steep = hazard[0] * (1 - 1e-9), np.where(np.isfinite(z.lower), hazard[1] * (1 + 1e-9), np.inf)
    return Enclosure(*_loosened(low, high, TAIL_ERROR), *intervals.times(steep, z.slope))


def _uniform(seen: Observed, m: Enclosure, s: Enclosure) -> Enclosure:
    start = intervals.minus(m.value, (EDGE * s.lower, EDGE * s.upper))
    end = intervals.plus(intervals.plus(m.value, s.value), (EDGE * s.lower, EDGE * s.upper))
    if seen.period is None:
        certain = ((seen.x >= start[1]) & (seen.x <= end[0])).astype(np.float64)
        possible = ((seen.x >= start[0]) & (seen.x <= end[1])).astype(np.float64)
    else:
        certain = uniform_turns(seen.x, start[1], end[0], seen.period)
        possible = uniform_turns(seen.x, start[0], end[1], seen.period)
    width: Interval = np.maximum(s.lower, 0.0), np.maximum(s.upper, 0.0)
    low, high = np.log(certain) - np.log(width[1]), np.log(possible) - np.log(width[0])
    slope = intervals.opposite(intervals.times(s.slope, reciprocal(width)))
    is_smooth = certain == possible
    return Enclosure(
        *_loosened(low, high),
        np.where(is_smooth, slope[0], -np.inf),
        np.where(is_smooth, slope[1], np.inf),
    )


def _log_sum(logs: FloatArray) -> FloatArray:
    """Return the logarithm of a sum over the first axis."""
    top = logs.max(axis=0)
    finite = np.where(np.isfinite(top), top, 0.0)
    found = finite + np.log(np.exp(logs - finite).sum(axis=0))
    return np.where(np.isposinf(top), np.inf, found)


def _log_sum_of_others(logs: FloatArray) -> FloatArray:
    """Return, for each term, the logarithm of the sum of all others."""
    return np.stack([_log_sum(np.delete(logs, i, axis=0)) for i in range(len(logs))])


def _share(one: FloatArray, others: FloatArray) -> FloatArray:
    """Return exp(one) / (exp(one) + exp(others)); 0 if the one is impossible."""
    share = 1 / (1 + np.exp(others - one))
    return np.where(np.isneginf(one), 0.0, np.where(np.isnan(share), 1.0, share))
