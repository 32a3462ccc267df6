"""Raw steps whose log-densities add up to a function of a few sums, as in linear regression.

If the noise is normal, m linear in theta, and its deviation s the same in n steps, whatever theta
is, these steps have the log-likelihood

    -n log(s sqrt(2 pi)) - Q(theta)/(2 s^2),     Q = q - 2 h'd + d'G d,     d = theta - c,

with the sum of squares q at some centre c, h = X'r and G = X'X there. Known deviations that differ
go into X and r. So a look at the likelihood takes as long for a million steps as for ten. Around
the least-squares estimate, h is close to 0 and nothing cancels.

Steps of lines with several branches, next values at a bound, and those that may be any of several
turns of a circle do not take part (`pooled` returns what is left of a group).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.compile import interval_arithmetic as intervals
from mdpdsl.compile.enclosures import Box, Key, enclose
from mdpdsl.compile.expressions import Array, Frame, evaluate
from mdpdsl.compile.interval_arithmetic import reciprocal, square
from mdpdsl.compile.slopes import Enclosure
from mdpdsl.compile.terms import Term, reads
from mdpdsl.estimate.raw_bounds import LINEAR, BoundSum, highest, taken, widened_to
from mdpdsl.estimate.raw_densities import HALF_LOG_2_PI
from mdpdsl.estimate.raw_groups import Component, Group, ObservedFactor
from mdpdsl.graph.space import BoolArray, FloatArray

#: The second nearest turn of a circle must be smaller by this factor, as an exponent.
NEGLIGIBLE_TURN = 45.0
#: With a larger share of next values at a bound, steps of unknown deviation are not pooled: their
#: expected information and what was observed would not match.
FEW_AT_BOUND = 0.02
#: The error of a sum over many steps, relative to the sum of sizes.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Pool:
    """The sums over some steps."""

    n: int
    constant: float  # the log-likelihood is less than this by n log s and Q/(2 s^2)
    centre: FloatArray  # [k]  c
    squares: float  # q
    pull: FloatArray  # [k]  h
    curvature: FloatArray  # [k, k]  G
    noise: ObservedFactor | None  # whose deviation s is unknown; None if it is 1
    known: Mapping[Key, Array]  # what s reads beside unknown numbers
    names: tuple[str, ...]

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood and its derivatives, [k]."""
        d = theta - self.centre
        G_d = self.curvature @ d
        Q = self.squares - 2 * self.pull @ d + d @ G_d
        s, rises = self._scale_at(theta)
        if not s * s > 0:
            return -np.inf, np.zeros(len(theta))
        value = self.constant - self.n * float(np.log(s)) - Q / (2 * s * s)
        return float(value), (self.pull - G_d) / s**2 + (Q / s**3 - self.n / s) * rises

    def information(self, theta: FloatArray) -> FloatArray:
        """Return the expected information, [k, k]."""
        s, rises = self._scale_at(theta)
        return np.asarray(self.curvature / s**2 + 2 * self.n / s**2 * np.outer(rises, rises))

    def add_bounds(self, found: BoundSum, box: Box) -> None:
        """Add the bounds over a box."""
        middle = box.low / 2 + box.high / 2
        half = np.maximum(box.high - middle, middle - box.low)
        d = middle - self.centre
        G_d = self.curvature @ d
        Q = float(self.squares - 2 * self.pull @ d + d @ G_d)
        slope = self.pull - G_d  # of -Q/2
        size = self.squares + 2 * np.abs(self.pull) @ np.abs(d) + np.abs(d) @ np.abs(G_d)
        error = ROUNDING * (1 + float(size) + abs(self.constant))
        reach = float(np.abs(slope) @ half + half @ np.abs(self.curvature) @ half / 2)
        ends = -2 * highest(slope, self.curvature, half), 2 * reach
        least, most = max(0.0, Q + ends[0] - 2 * error), Q + ends[1] + 2 * error
        if self.noise is None:
            blur = ROUNDING * (np.abs(self.pull) + np.abs(self.curvature) @ np.abs(d))
            own = self.constant - most / 2, self.constant - least / 2
            at_centre = self.constant - Q / 2
            found.add_parabola(own, at_centre, (slope - blur, slope + blur), self.curvature, error)
            return
        found.add(*self._enclosed(box, (least, most), middle, half, slope, Q, error))

    def _enclosed(
        self,
        box: Box,
        squares: tuple[float, float],
        middle: FloatArray,
        half: FloatArray,
        slope: FloatArray,
        Q: float,
        error: float,
    ) -> tuple[Enclosure, FloatArray]:
        """Return the enclosure of the log-likelihood, and its value at the centre, [1] each."""
        assert self.noise is not None
        n, k, (least, most) = self.n, len(middle), squares
        s = widened_to(enclose(self.noise.scale, Frame(1, self.known), box), 1)
        low, high = np.maximum(s.lower[0], 0.0), np.maximum(s.upper[0], 0.0)
        with np.errstate(all="ignore"):
            # -n log s - Q/(2 s^2) is largest where s^2 = Q/n, and falls on both sides.
            best = np.clip(np.sqrt(least / n), low, high)
            value_high = self.constant - n * np.log(best) - least / (2 * best * best)
            ends = [self.constant - n * np.log(x) - most / (2 * x * x) for x in (low, high)]
            value_low = np.nanmin(ends) if low > 0 else -np.inf
            turned = np.abs(self.curvature) @ half
            inverse = reciprocal((np.array([low]), np.array([high])))
            pull = slope - turned, slope + turned
            sums = np.array([least]), np.array([most])
            steps = np.array([float(n)]), np.array([float(n)])
            bent = intervals.minus(intervals.times(sums, square(inverse)), steps)
            along_s = intervals.times(bent, inverse)
            rises = intervals.plus(
                intervals.times((pull[0][:, None], pull[1][:, None]), square(inverse)),
                intervals.times(s.slope, along_s),
            )
            here = self.value_and_gradient(middle)[0]
        upper = np.inf if np.isnan(value_high) else value_high + error
        lower = -np.inf if np.isnan(value_low) else value_low - error
        slopes = (np.broadcast_to(end, (k, 1)) for end in rises)
        return Enclosure(np.array([lower]), np.array([upper]), *slopes), np.array([here])

    def _scale_at(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return s and its derivatives, [k]."""
        rises = np.zeros(len(theta))
        if self.noise is None:
            return 1.0, rises
        values = {("unknown", n): np.asarray(x) for n, x in zip(self.names, theta, strict=True)}
        frame = Frame(1, {**self.known, **values})
        for j, slope in enumerate(self.noise.scale_slopes):
            if slope is not None:
                rises[j] = _number(slope, frame)
        return _number(self.noise.scale, frame), rises


def pooled(groups: tuple[Group, ...], ranges: Box) -> tuple[tuple[Pool, ...], tuple[Group, ...]]:
    """Return the sums of all steps that can be pooled, and what is left of the groups."""
    pools: list[Pool] = []
    regressions: list[_Regression] = []
    rest: list[Group] = []
    certain: list[float] = []  # what reads no unknown number
    for group in groups:
        component = group.components[0]
        if len(group.components) > 1 or component.probability is not None:
            rest.append(group)
            continue
        left = []
        for factor in component.factors:
            if factor.fixed is not None and np.isfinite(factor.fixed[0]).all():
                certain.append(float(factor.fixed[0].sum()))
                continue
            is_pooled = np.zeros(len(factor.rows), np.bool_)
            found = _regression(factor, component, len(group.steps), ranges)
            if found is not None:
                is_pooled = found.is_used
                if found.noise is None:
                    regressions.append(found)
                else:
                    pools.append(_summed([found], ranges))
            if not is_pooled.all():
                left.append(_without(factor, is_pooled))
        if left:
            rest.append(_shortened(group, left))
    if regressions or certain:
        pools.append(_summed(regressions, ranges, sum(certain)))
    return tuple(pools), tuple(rest)


@dataclass(frozen=True, eq=False)
class _Regression:
    """Steps in units of their deviation: what they exceed m by at the middle of the ranges."""

    is_used: BoolArray  # [rows of the factor]
    residual: FloatArray  # [m]
    slope: FloatArray  # [k, m]  of m along each unknown number
    constant: float
    noise: ObservedFactor | None  # whose deviation is unknown; None if it is 1
    known: Mapping[Key, Array]  # what that reads beside unknown numbers


def _regression(
    factor: ObservedFactor, component: Component, n: int, ranges: Box
) -> _Regression | None:
    """Return the steps of a factor that can be pooled; None if there are none."""
    seen, is_known = factor.seen, not _reads_unknown(factor.scale)
    terms = [factor.scale, *(slope for slope in factor.scale_slopes if slope is not None)]
    read = {key for term in terms for key in reads(term) if key[0] != "unknown"}
    is_same = all(np.ndim(component.known[key]) == 0 for key in read)
    if factor.family != "normal" or factor.fixed is not None or not (is_known or is_same):
        return None
    n_bounds = len(seen.at_low) + len(seen.at_high)
    if not is_known and n_bounds > FEW_AT_BOUND * len(seen.x):
        return None
    frame = Frame(n, component.known)
    middle = ranges.low / 2 + ranges.high / 2
    at_middle = frame.extended(
        {("unknown", name): np.asarray(x) for name, x in zip(ranges.names, middle, strict=True)}
    )
    m = taken(widened_to(enclose(factor.location, frame, ranges), n), factor.rows)
    s = taken(widened_to(enclose(factor.scale, frame, ranges), n), factor.rows)
    location = at_middle.full(evaluate(factor.location, at_middle).values)[factor.rows]
    with np.errstate(all="ignore"):
        slope, radius = (m.slope_lower + m.slope_upper) / 2, (m.slope_upper - m.slope_lower) / 2
        is_used = np.all(radius <= LINEAR * np.abs(slope), axis=0) & np.isfinite(location)
        is_used &= (s.upper > 0) & np.isfinite(s.upper)
        is_used[seen.at_low] = is_used[seen.at_high] = False
        residual = seen.x - location
        if seen.period is not None:
            period, reach = seen.period, (m.upper - m.lower) / 2
            residual = np.mod(residual + period / 2, period) - period / 2
            gap = period * (period - 2 * (np.abs(residual) + reach)) / (2 * s.upper**2)
            is_used &= gap > NEGLIGIBLE_TURN
    if not is_used.any():
        return None
    residual, slope = residual[is_used], slope[:, is_used]
    constant = -len(residual) * HALF_LOG_2_PI
    if not is_known:
        known = {key: component.known[key] for key in read}
        return _Regression(is_used, residual, slope, constant, factor, known)
    deviation = frame.full(evaluate(factor.scale, frame).values)[factor.rows][is_used]
    constant -= float(np.log(deviation).sum())
    return _Regression(is_used, residual / deviation, slope / deviation, constant, None, {})


def _summed(parts: list[_Regression], ranges: Box, certain: float = 0.0) -> Pool:
    """Return the sums of some steps, around their least-squares estimate, and of certain terms."""
    k = len(ranges.names)
    width = ranges.high - ranges.low
    middle = ranges.low / 2 + ranges.high / 2
    G, h = np.zeros((k, k)), np.zeros(k)
    for part in parts:
        G += part.slope @ part.slope.T
        h += part.slope @ part.residual
    scaled = G * np.outer(width, width)
    d = width * (np.linalg.pinv(scaled, rcond=1e-12, hermitian=True) @ (width * h))
    squares, pull = 0.0, np.zeros(k)
    for part in parts:
        r = part.residual - d @ part.slope
        squares += float(r @ r)
        pull += part.slope @ r
    return Pool(
        n=sum(len(part.residual) for part in parts),
        constant=certain + sum(part.constant for part in parts),
        centre=middle + d,
        squares=squares,
        pull=pull,
        curvature=G,
        noise=parts[0].noise if parts else None,
        known=parts[0].known if parts else {},
        names=ranges.names,
    )


def _without(factor: ObservedFactor, is_pooled: BoolArray) -> ObservedFactor:
    """Return a factor without some of its rows."""
    if not is_pooled.any():
        return factor
    kept = np.flatnonzero(~is_pooled)
    seen = factor.seen
    place = np.full(len(seen.x), -1)
    place[kept] = np.arange(len(kept))
    low, high = place[seen.at_low], place[seen.at_high]
    return replace(
        factor,
        rows=factor.rows[kept],
        seen=replace(
            seen,
            x=seen.x[kept],
            at_low=low[low >= 0],
            at_high=high[high >= 0],
            low=seen.low[kept],
            high=seen.high[kept],
        ),
    )


def _shortened(group: Group, factors: list[ObservedFactor]) -> Group:
    """Return the steps of a group that some factors need."""
    component = group.components[0]
    kept = np.unique(np.concatenate([factor.rows for factor in factors]))
    known = {key: v[kept] if np.ndim(v) else v for key, v in component.known.items()}
    moved = tuple(replace(each, rows=np.searchsorted(kept, each.rows)) for each in factors)
    is_active = component.is_active[kept]
    shorter = replace(component, known=known, factors=moved, certain=(), is_active=is_active)
    return Group(group.steps[kept], group.after[kept], (shorter,))


def _number(term: Term, frame: Frame) -> float:
    return float(np.ravel(evaluate(term, frame).values)[0])


def _reads_unknown(term: Term) -> bool:
    return any(kind == "unknown" for kind, _ in reads(term))
