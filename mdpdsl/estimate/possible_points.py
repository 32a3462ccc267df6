"""Where data are possible if unknown numbers move the ends of uniform noise.

A number x from the uniform law on [m, m + s] is possible if

    m(theta) - EDGE s(theta) <= x <= m(theta) + (1 + EDGE) s(theta),

and l falls by log s for each. With n steps the possible theta are a region about 1/n wide, which no
search that starts elsewhere finds, and l has no slope that leads there. Where m and s are linear in
theta, it is a polytope. One linear program finds the point farthest inside, in units of s. If s
depends on theta, another finds the point with the least sum of log s (its tangent, repeated), which
has the largest likelihood if nothing else reads the numbers; otherwise all points are as likely,
and the mean of the outermost ones is taken. Where m and s are not linear, the same programs are
solved around the last point, within a trust region (Griffith and Stewart 1961), from some starts.

The ends of {theta : l(theta) >= level} are two more programs for each number. As log s is concave,
l >= level implies that the sum of the secants of log s over a box is small enough. The dual of a
linear program proves a bound whatever its rounding errors (Neumaier and Shcherbina 2004), so that
the ends are proved where m and s are linear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpdsl.compile.enclosures import Box, enclose
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.slopes import Enclosure
from mdpdsl.compile.terms import Term
from mdpdsl.estimate.edge_programs import (
    MARGIN,
    ROUNDING,
    Inequalities,
    farthest_inside,
    is_impossible,
    lowest,
    mean_of_outermost,
    narrowest,
    with_level,
)
from mdpdsl.estimate.likelihood import Peak
from mdpdsl.estimate.raw_bounds import LINEAR, taken, widened_to
from mdpdsl.estimate.raw_densities import EDGE
from mdpdsl.estimate.raw_groups import Component, Group, ObservedFactor
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray

#: Steps of a search that is not linear, its starts besides the centre, and its last trust region.
MOST_STEPS, STARTS, LEAST_RADIUS = 40, 8, 1e-7

#: The ends of a set are computed this often: each time, secants are over a smaller box.
ROUNDS = 4

#: An eigenvalue this much smaller than the largest is numerically zero.
SINGULAR = 1e-12


@dataclass(frozen=True, eq=False)
class _Observations:
    """What was observed of one uniform density that reads unknown numbers."""

    component: Component
    n: int  # rows of the group
    factor: ObservedFactor
    rows: IntArray  # [m]  of the group
    x: FloatArray  # [m]
    has_start: BoolArray  # [m]  whether the law must start at or below x
    has_end: BoolArray  # [m]  whether it must end at or above
    edge: FloatArray  # [m]  by how much of its width x may lie outside


class UniformEdges:
    """The possible values of unknown numbers that move the ends of uniform noise."""

    def __init__(
        self,
        names: tuple[str, ...],
        low: FloatArray,
        high: FloatArray,
        seen: list[_Observations],
        most_of_rest: float | None,
    ) -> None:
        self._names, self._low, self._width = names, low, high - low
        self._seen = seen
        self._rest = most_of_rest  # the most that all else adds to l; None if it has no bound
        self.is_all = most_of_rest is not None and all(np.all(each.edge > 0) for each in seen)
        self._last: tuple[FloatArray, Inequalities] | None = None
        box = Box(names, low, high)
        enclosed = [
            tuple(
                taken(widened_to(enclose(term, _frame(each, names, low), box), each.n), each.rows)
                for term in (each.factor.location, each.factor.scale)
            )
            for each in seen
        ]
        everything = [part for pair in enclosed for part in pair]
        moved = [np.any((e.slope_lower != 0) | (e.slope_upper != 0), axis=1) for e in everything]
        self.is_moving: BoolArray = np.any(moved, axis=0)  # [k]  numbers that move an end
        self._has_widths = any(bool(np.any(s.lower < s.upper)) for _, s in enclosed)
        self.is_linear = all(map(_is_linear, everything)) and all(
            each.factor.seen.period is None or _has_one_turn(m, s, each.factor.seen.period)
            for each, (m, s) in zip(seen, enclosed, strict=True)
        )

    def points(self, fixed: Mapping[int, float] | None = None) -> FloatArray:
        """Return values of the numbers at which the data are possible, [m, k]; the best first.

        Numbers may be fixed. Those that move no end are at the middle of their ranges.
        """
        if not fixed:
            return self._points
        held = ~self.is_moving
        start = self._points[0].copy() if len(self._points) else self._low + self._width / 2
        for j, value in fixed.items():
            start[j], held[j] = value, True
        points = self._reached([(start - self._low) / self._width], held)
        for j, value in fixed.items():
            points[:, j] = value
        return points

    @cached_property
    def _points(self) -> FloatArray:
        k = len(self._low)
        starts = [np.full(k, 0.5)]
        if not self.is_linear:
            starts += list(np.random.default_rng(0).random((STARTS, k)))
        return self._reached(starts, ~self.is_moving)

    def hull(
        self, peak: Peak, level: float, *, is_proved: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the numbers with l >= level, [k] and [k]; NaN if there are none.

        All else in l is taken to be as likely as at the peak. If the ends are to be proved, all
        else takes part with its upper bound, or not at all; ranges stay where nothing is proved.
        """
        k = len(self._low)
        low, high = np.zeros(k), np.ones(k)
        if is_proved and not self.is_linear:
            return self._low.copy(), self._low + self._width
        theta = np.where(np.isfinite(peak.theta), peak.theta, self._low + self._width / 2)
        rows = self._rows_at((theta - self._low) / self._width)
        if is_proved and is_impossible(rows):
            return np.full(k, np.nan), np.full(k, np.nan)
        rest = self._rest
        if not is_proved:
            rest = peak.value - self._narrowness((theta - self._low) / self._width)
        for _ in range(ROUNDS if self._has_widths else 1):
            A, b = with_level(rows, low, high, np.inf if rest is None else rest - level)
            for j in np.flatnonzero(self.is_moving):
                for sign in (1.0, -1.0):
                    c = np.zeros(k)
                    c[j] = sign
                    solved = lowest(c, A, b, low, high)
                    if solved is None:
                        continue
                    y = solved[1]
                    reduced = c + y @ A
                    end = -y @ b + np.minimum(reduced * low, reduced * high).sum() - ROUNDING
                    if sign > 0:
                        low[j] = min(max(low[j], end), high[j])
                    else:
                        high[j] = max(min(high[j], -end), low[j])
        return self._theta(low), np.where(high < 1, self._theta(high), self._low + self._width)

    def middle(self, peak: Peak, level: float) -> FloatArray:
        """Return a typical point with l >= level: the mean of the outermost ones, [k].

        At the peak, the extreme observations are at the very ends of the law.
        """
        u = (peak.theta - self._low) / self._width
        low, high = ((end - self._low) / self._width for end in self.hull(peak, level))
        rows, rest = self._rows_at(u), peak.value - self._narrowness(u)
        return self._theta(
            mean_of_outermost(*with_level(rows, low, high, rest - level), u, ~self.is_moving)
        )

    def weights(self, theta: FloatArray) -> FloatArray:
        """Return sum g g' over the slopes g of all ends, in widths, [k, k].

        It is singular along the directions in which no end moves.
        """
        rows = self._rows_at((theta - self._low) / self._width)
        slopes = rows.A / self._width
        return np.asarray(slopes.T @ slopes)

    # Searches

    def _reached(self, starts: list[FloatArray], held: BoolArray) -> FloatArray:
        """Return the possible points that searches arrive at, [m, k]."""
        found: list[tuple[float, FloatArray]] = []
        for start in starts:
            u = self._improved(start, held, is_centre=True)
            if self._has_widths and self._room(u) >= 0:
                u = self._improved(u, held, is_centre=False)
            if self._room(u) >= 0:
                if self.is_linear and not self._has_widths:
                    rows = self._linear_rows
                    u = mean_of_outermost(rows.A, rows.b, u, held)
                u = self._centred(u, held)
                found.append((self._narrowness(u), u))
        found.sort(key=lambda each: -each[0])
        return np.array([self._theta(u) for _, u in found]).reshape(-1, len(held))

    def _improved(self, u: FloatArray, held: BoolArray, *, is_centre: bool) -> FloatArray:
        """Return a point farther inside, or one with narrower laws."""
        merit = self._room if is_centre else self._narrowness
        value, radius = merit(u), 1.0
        for _ in range(MOST_STEPS):
            rows = self._rows_at(u)
            low = np.where(held, u, np.maximum(u - radius, 0.0))
            high = np.where(held, u, np.minimum(u + radius, 1.0))
            moved = farthest_inside(rows, low, high) if is_centre else narrowest(rows, low, high, u)
            if moved is None:
                break
            found = merit(moved)
            if found > value + MARGIN:
                u, value, radius = moved, found, min(2 * radius, 1.0)
            elif self.is_linear or radius < LEAST_RADIUS:
                break
            else:
                radius /= 8
            if is_centre and self._has_widths and value > MARGIN:
                break
        return u

    def _centred(self, u: FloatArray, held: BoolArray) -> FloatArray:
        """Move a point along directions in which no end moves, towards the middle of the ranges."""
        if not self.is_linear:
            return u
        A = self._linear_rows.A[:, ~held]
        values, vectors = np.linalg.eigh(A.T @ A)
        still = vectors[:, values <= SINGULAR * np.max(values, initial=0.0)]
        moved = u.copy()
        moved[~held] += still @ (still.T @ (0.5 - u[~held]))
        return moved if np.all((moved >= 0) & (moved <= 1)) and self._room(moved) >= 0 else u

    def _room(self, u: FloatArray) -> float:
        """Return how far inside the ends all observations are, in widths."""
        rows = self._rows_at(u)
        return float(np.min(rows.b - rows.A @ u, initial=np.inf))

    def _narrowness(self, u: FloatArray) -> float:
        """Return minus the sum of log s; -inf where the data are impossible."""
        rows = self._rows_at(u)
        s = rows.s + rows.S @ u
        if np.min(rows.b - rows.A @ u, initial=np.inf) < 0 or np.any(s <= 0):
            return -np.inf
        return -float(np.log(s).sum())

    # Inequalities

    def _theta(self, u: FloatArray) -> FloatArray:
        return np.asarray(self._low + self._width * u)

    def _rows_at(self, u: FloatArray) -> Inequalities:
        """Return the inequalities; where they are not linear, those of their tangents at u."""
        if self.is_linear:
            return self._linear_rows
        if self._last is None or not np.array_equal(self._last[0], u):
            self._last = u, self._tangents(u)
        return self._last[1]

    @cached_property
    def _linear_rows(self) -> Inequalities:
        rows = self._tangents(np.full(len(self._low), 0.5))
        different, place = np.unique(rows.A, axis=0, return_inverse=True)
        least = np.full(len(different), np.inf)
        np.minimum.at(least, place.ravel(), rows.b)
        return Inequalities(different, least, rows.s, rows.S)

    def _tangents(self, u: FloatArray) -> Inequalities:
        k, theta = len(u), self._theta(u)
        parts: list[tuple[FloatArray, ...]] = []
        for each in self._seen:
            frame = _frame(each, self._names, theta)
            m, s = (
                _in_rows(term, frame, each) for term in (each.factor.location, each.factor.scale)
            )
            M, S = (
                np.stack(
                    [
                        np.zeros(len(each.rows)) if slope is None else _in_rows(slope, frame, each)
                        for slope in slopes
                    ],
                    axis=1,
                )
                * self._width
                for slopes in (each.factor.location_slopes, each.factor.scale_slopes)
            )
            x, period = each.x, each.factor.seen.period
            if period is not None:
                x = x + period * np.round((m + s / 2 - x) / period)
                x = np.where(np.abs(s) < period, x, np.nan)  # possible wherever the law is
            size = np.maximum(np.abs(s), 1e-300)
            edge, column = each.edge * s, each.edge[:, None]
            parts += [
                (
                    _of(each.has_start, M - column * S, size),
                    _of(each.has_start, x - m + edge, size),
                ),
                (
                    _of(each.has_end, -M - (1 + column) * S, size),
                    _of(each.has_end, m + s + edge - x, size),
                ),
            ]
            is_inside = each.has_start & each.has_end
            parts[-1] = (*parts[-1], s[is_inside], S[is_inside])
        A = np.concatenate([part[0] for part in parts])
        b = np.concatenate([part[1] for part in parts]) + A @ u
        S = np.concatenate([part[3] for part in parts[1::2]]).reshape(-1, k)
        s = np.concatenate([part[2] for part in parts[1::2]]) - S @ u
        is_known = ~np.isnan(b)
        A, b = A[is_known], b[is_known]
        if not np.isfinite(A).all() or not np.isfinite(b).all():
            return Inequalities(np.zeros((1, k)), np.array([-1.0]), s, S)  # possible nowhere
        return Inequalities(A, b, s, S)


def uniform_edges(
    names: tuple[str, ...], low: FloatArray, high: FloatArray, groups: tuple[Group, ...]
) -> UniformEdges | None:
    """Return where data are possible; None if no end of uniform noise reads unknown numbers.

    Steps that several branches explain are left out: they only make fewer values possible.
    """
    seen: list[_Observations] = []
    rest: float | None = 0.0
    for group in groups:
        n_active = np.sum([each.is_active for each in group.components], axis=0)
        if len(group.components) > 1 or group.components[0].probability is not None:
            rest = None
        for component in group.components:
            for factor in component.factors:
                if factor.fixed is not None:
                    rest = None if rest is None else rest + float(factor.fixed[0].sum())
                elif factor.family != "uniform":
                    rest = None
                else:
                    kept = component.is_active[factor.rows] & (n_active[factor.rows] == 1)
                    if kept.any():
                        seen.append(_observations(component, len(group.steps), factor, kept))
    if not seen:
        return None
    edges = UniformEdges(names, low, high, seen, rest)
    return edges if edges.is_moving.any() else None


def _observations(
    component: Component, n: int, factor: ObservedFactor, kept: BoolArray
) -> _Observations:
    """Return the observations in some rows; at a bound, the law may go on beyond it."""
    at_low, at_high = np.zeros(len(kept), np.bool_), np.zeros(len(kept), np.bool_)
    at_low[factor.seen.at_low] = True
    at_high[factor.seen.at_high] = True
    edge = np.where(at_low | at_high, 0.0, EDGE)
    return _Observations(
        component,
        n,
        factor,
        factor.rows[kept],
        factor.seen.x[kept],
        ~at_high[kept],
        ~at_low[kept],
        edge[kept],
    )


def _frame(each: _Observations, names: tuple[str, ...], theta: FloatArray) -> Frame:
    numbers = {("unknown", n): np.asarray(x) for n, x in zip(names, theta, strict=True)}
    return Frame(each.n, {**each.component.known, **numbers})


def _in_rows(term: Term, frame: Frame, each: _Observations) -> FloatArray:
    values = np.asarray(evaluate(term, frame).values, np.float64)
    return np.broadcast_to(values, frame.size)[each.rows]


def _of(where: BoolArray, values: FloatArray, size: FloatArray) -> FloatArray:
    size = size[where]
    return np.asarray(values[where] / (size[:, None] if values.ndim > 1 else size))


def _is_linear(x: Enclosure) -> bool:
    spread = x.slope_upper - x.slope_lower
    size = np.maximum(np.abs(x.slope_upper), np.abs(x.slope_lower))
    return bool(np.all(spread <= LINEAR * size))


def _has_one_turn(m: Enclosure, s: Enclosure, period: float) -> bool:
    """Return whether laws stay within half a turn of where they are at the centre."""
    start, end = m.lower - EDGE * s.upper, m.upper + (1 + EDGE) * s.upper
    middle = (m.lower + m.upper) / 2 + (s.lower + s.upper) / 4  # at the centre of the ranges
    return bool(np.all(np.maximum(middle - start, end - middle) < period / 2))
