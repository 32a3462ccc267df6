"""Log-densities of observed numbers: normal and uniform, clipped to bounds or wrapped to a circle.

With location m and scale s (mean and deviation, or lower end and width), each function gives the
log-density and its derivatives along m and s. A number at a bound of a clipped variable has the
probability of the tail in place of a density, log Phi((low - m)/s) or log Phi((m - high)/s). On a
circle of circumference P, densities are summed over x + kP.

The expected information of a clipped normal observation, with a and b the bounds in units of s
from m and M_j the moments of the normal density between them, is

    s^2 I_mm = M_2 + phi(a)^2/Phi(a) + phi(b)^2/Phi(-b),  and alike for I_ms and I_ss

(Gupta, 1952). Without bounds it is 1, 0 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray

HALF_LOG_2_PI = 0.5 * float(np.log(2 * np.pi))
#: Densities this many deviations away, and bounds this far, do not matter.
FAR = 9.0
#: A uniform number may lie outside its ends by this share of the width: logs are rounded.
EDGE = 1e-6
#: Beyond this deviation in turns, a wrapped normal density is uniform to machine precision.
MOST_TURNS = 2.0
#: Points of a turn at which the information of a wrapped normal density is computed.
TURN_POINTS = 128


@dataclass(frozen=True, eq=False)
class Observed:
    """Numbers that were observed; those at a bound are there because larger ones are clipped."""

    x: FloatArray  # [n]  at a bound: the bound itself
    at_low: IntArray  # places of the numbers at their lower bound
    at_high: IntArray
    low: FloatArray  # [n]  bounds; infinite without one
    high: FloatArray  # [n]
    period: float | None  # of a variable that wraps


#: The log-density, and its derivatives along the location and the scale; [n] each.
Slopes = tuple[FloatArray, FloatArray, FloatArray]


def log_density(family: str, seen: Observed, location: FloatArray, scale: FloatArray) -> Slopes:
    """Return log-densities with their derivatives; -inf where a number is impossible."""
    shape = seen.x.shape
    m, s = np.broadcast_to(location, shape), np.broadcast_to(scale, shape)
    with np.errstate(all="ignore"):
        if family == "uniform":
            return _uniform(seen, m, s)
        if seen.period is not None:
            return _wrapped_normal(seen.x, m, s, seen.period)
        return _clipped_normal(seen, m, s)


def expected_information(
    family: str, seen: Observed, location: FloatArray, scale: FloatArray
) -> Slopes:
    """Return the expected information I_mm, I_ms and I_ss of each observation."""
    shape = seen.x.shape
    m, s = np.broadcast_to(location, shape), np.broadcast_to(scale, shape)
    with np.errstate(all="ignore"):
        if family == "uniform":  # its ends are no smooth numbers; the width is
            return np.zeros(shape), np.zeros(shape), 1 / s**2
        ones, zeros, twos = np.ones(shape), np.zeros(shape), np.full(shape, 2.0)
        units = ones, zeros, twos
        if seen.period is not None:
            if np.any(s * FAR > seen.period / 2):
                units = _wrapped_information(s / seen.period)
        elif np.any((seen.low > m - FAR * s) | (seen.high < m + FAR * s)):
            units = _clipped_information((seen.low - m) / s, (seen.high - m) / s)
        return units[0] / s**2, units[1] / s**2, units[2] / s**2


def tail_information(seen: Observed, location: FloatArray, scale: FloatArray) -> Slopes:
    """Return the observed information of normal numbers that are all at a bound.

    With z the bound in deviations from m, towards the inside, and the hazard h = phi(z)/Phi(z), it
    is that of log Phi(z).
    """
    from scipy.special import log_ndtr

    m, s = np.broadcast_to(location, seen.x.shape), np.broadcast_to(scale, seen.x.shape)
    side = np.ones(len(seen.x))
    side[seen.at_high] = -1.0
    with np.errstate(all="ignore"):
        z = side * (seen.x - m) / s
        h = np.exp(-0.5 * z * z - HALF_LOG_2_PI - log_ndtr(z))
        bend = h * (h + z)
        return bend / s**2, side * (z * bend - h) / s**2, z * (z * bend - 2 * h) / s**2


def distribution(
    family: str, seen: Observed, location: FloatArray, scale: FloatArray, cut: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the probability of less than each number, and of at most as much.

    On a circle, both count from where it is `cut`.
    """
    from scipy.special import ndtr

    shape = seen.x.shape
    m, s = np.broadcast_to(location, shape), np.broadcast_to(scale, shape)

    def below(x: FloatArray) -> FloatArray:
        z = (x - m) / s
        return np.asarray(ndtr(z) if family == "normal" else np.clip(z, 0.0, 1.0))

    if seen.period is not None:
        x = cut + np.mod(seen.x - cut, seen.period)
        total = np.zeros(shape)
        reach = FAR * s if family == "normal" else s
        n_turns = int(np.ceil(np.max(reach / seen.period, initial=0))) + 1
        first = np.floor((m - cut) / seen.period)
        for turn in range(-n_turns, n_turns + 1):
            shift = (first + turn) * seen.period
            total += below(x + shift) - below(cut + shift)
        return np.clip(total, 0.0, 1.0), np.clip(total, 0.0, 1.0)
    found = below(seen.x)
    least, most = found.copy(), found.copy()
    least[seen.at_low] = 0.0
    most[seen.at_high] = 1.0
    return least, most


def _clipped_normal(seen: Observed, m: FloatArray, s: FloatArray) -> Slopes:
    z = (seen.x - m) / s
    value = -0.5 * z * z - np.log(s) - HALF_LOG_2_PI
    along_m, along_s = z / s, (z * z - 1) / s
    for places, side in ((seen.at_low, 1.0), (seen.at_high, -1.0)):
        if len(places):
            from scipy.special import log_ndtr

            tail = side * z[places]
            value[places] = log_ndtr(tail)
            hazard = np.exp(-0.5 * tail * tail - HALF_LOG_2_PI - value[places])
            along_m[places] = -side * hazard / s[places]
            along_s[places] = -hazard * tail / s[places]
    return np.where(s > 0, value, -np.inf), along_m, along_s


def _wrapped_normal(x: FloatArray, m: FloatArray, s: FloatArray, period: float) -> Slopes:
    offset = np.mod(x - m + period / 2, period) - period / 2
    # The second nearest turn is smaller by this exponent.
    gap = period * (period - 2 * np.abs(offset)) / (2 * s * s)
    if np.all(gap > FAR * FAR / 2):
        z = offset / s
        value = -0.5 * z * z - np.log(s) - HALF_LOG_2_PI
        return np.where(s > 0, value, -np.inf), z / s, (z * z - 1) / s
    widest = min(float(np.max(s)) / period, MOST_TURNS)
    n_turns = int(np.ceil(0.5 + FAR * widest))
    turns = np.arange(-n_turns, n_turns + 1).reshape(-1, *(1,) * x.ndim)
    z = (offset + turns * period) / s
    exponents = -0.5 * z * z
    top = exponents.max(axis=0)
    weights = np.exp(exponents - top)
    total = weights.sum(axis=0)
    value = top + np.log(total) - np.log(s) - HALF_LOG_2_PI
    weights /= total
    along_m, along_s = (weights * z).sum(axis=0) / s, ((weights * z * z).sum(axis=0) - 1) / s
    is_even = s > MOST_TURNS * period
    value = np.where(is_even, -np.log(period), np.where(s > 0, value, -np.inf))
    return value, np.where(is_even, 0.0, along_m), np.where(is_even, 0.0, along_s)


def _uniform(seen: Observed, m: FloatArray, s: FloatArray) -> Slopes:
    edge = EDGE * s
    if seen.period is not None:
        turns = uniform_turns(seen.x, m - edge, m + s + edge, seen.period)
        value = np.where(turns > 0, np.log(turns) - np.log(s), -np.inf)
        return value, np.zeros_like(value), -1 / s
    is_inside = (seen.x >= m - edge) & (seen.x <= m + s + edge)
    value = np.where(is_inside, -np.log(s), -np.inf)
    along_m, along_s = np.zeros_like(value), -1 / s
    for places, side in ((seen.at_low, 1.0), (seen.at_high, -1.0)):
        if len(places):
            width, start = s[places], m[places]
            end = start if side > 0 else start + width
            tail = side * (seen.x[places] - end)  # of the width
            is_part = (tail > 0) & (tail < width)
            value[places] = np.where(tail >= width, 0.0, np.log(np.maximum(tail, 0.0) / width))
            along_m[places] = np.where(is_part, -side / tail, 0.0)
            slope = 1 / tail if side < 0 else 0.0
            along_s[places] = np.where(is_part, slope - 1 / width, 0.0)
    return value, along_m, along_s


def uniform_turns(x: FloatArray, start: FloatArray, end: FloatArray, period: float) -> FloatArray:
    """Return how many of the numbers x + k * period lie in an interval."""
    n_turns = np.floor((end - x) / period) - np.ceil((start - x) / period) + 1
    return np.asarray(np.maximum(n_turns, 0.0))


def _clipped_information(a: FloatArray, b: FloatArray) -> Slopes:
    """Return the information of clipped normal observations with deviation 1."""
    from scipy.special import log_ndtr, ndtr

    a, b = np.clip(a, -4 * FAR, 4 * FAR), np.clip(b, -4 * FAR, 4 * FAR)
    at_a, at_b = (np.exp(-0.5 * end * end - HALF_LOG_2_PI) for end in (a, b))
    m0 = ndtr(b) - ndtr(a)
    m1 = at_a - at_b
    m2 = m0 + a * at_a - b * at_b
    m3 = 2 * m1 + a**2 * at_a - b**2 * at_b
    m4 = 3 * m2 + a**3 * at_a - b**3 * at_b
    low = np.exp(-(a**2) - 2 * HALF_LOG_2_PI - log_ndtr(a))  # phi^2/Phi of each tail
    high = np.exp(-(b**2) - 2 * HALF_LOG_2_PI - log_ndtr(-b))
    return (
        m2 + low + high,
        m3 - m1 + a * low + b * high,
        m4 - 2 * m2 + m0 + a**2 * low + b**2 * high,
    )


def _wrapped_information(s: FloatArray) -> Slopes:
    """Return the information of wrapped normal observations in units of s^-2; s is in turns.

    The mean over equal steps of a turn is exact for smooth functions of an angle.
    """
    different, place = np.unique(s, return_inverse=True)
    # The density must not be narrow between two points; if it is, nothing wraps.
    is_wide = different * FAR > 0.5
    points = (np.arange(TURN_POINTS) / TURN_POINTS)[:, None] - 0.5
    wide = np.where(is_wide, different, 1.0)
    x = np.broadcast_to(points, (TURN_POINTS, len(wide)))
    value, along_m, along_s = _wrapped_normal(
        x, np.zeros_like(x), np.broadcast_to(wide, x.shape), 1.0
    )
    weights = np.exp(value) / TURN_POINTS
    found = [
        (weights * one * other).sum(axis=0) * wide**2
        for one, other in ((along_m, along_m), (along_m, along_s), (along_s, along_s))
    ]
    usual = (1.0, 0.0, 2.0)
    one, two, three = (
        np.where(is_wide, each, number)[place] for each, number in zip(found, usual, strict=True)
    )
    return one, two, three
