"""Profile likelihoods: the largest likelihood for each value of one unknown number.

The profile of number j is l_j(x) = max { l(theta) : theta_j = x }. The values of x with
2 (max l - l_j(x)) <= q, the 1 - delta quantile of the chi-squared law with one degree of freedom,
are an interval for theta_j alone (Wilks 1938). It is asymptotic: it holds for much data, at one
look, if theta is not at an end of its range.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from mdpdsl.estimate.likelihood import Likelihood, Peak, climb, edges_of, reach
from mdpdsl.estimate.parameter_fit import Fit
from mdpdsl.graph.space import FloatArray

#: Points of a profile in a report.
GRID = 41

#: The ends of an interval are exact to this share of the distance from the maximum.
SHARPNESS = 1e-4
MOST_STEPS = 60


class Profile:
    """The profile likelihood of one number; every maximum found is the start of the next one."""

    def __init__(self, likelihood: Likelihood, fitted: Fit, j: int) -> None:
        self._likelihood, self._fitted, self._j = likelihood, fitted, j
        self._known: list[tuple[float, tuple[float, ...]]] = []
        self._free = np.ones(len(fitted.theta), np.bool_)
        self._free[j] = False
        edges = edges_of(likelihood)
        self._edges = edges if edges is not None and edges.is_moving[j] else None
        for theta in (fitted.theta, *fitted.others):
            self._remember(theta)

    def at(self, x: float) -> float:
        """Return l_j(x)."""
        if not self._free.any():
            return self._likelihood.value(np.array([x]))
        place = bisect_left(self._known, (x,))
        near = self._known[max(0, place - 1) : place + 1]
        near.sort(key=lambda known: abs(known[0] - x))
        starts = [np.array(values) for _, values in near]
        if self._edges is not None:
            starts = [*self._edges.points({self._j: x}), *starts]
        for start in starts:
            start[self._j] = x
            found = climb(self._likelihood, start, self._free)
            if np.isfinite(found.value):
                self._remember(found.theta)
                return found.value
        return -np.inf

    def point(self, x: float) -> FloatArray:
        """Return the numbers with the likelihood l_j(x); NaN if none is possible."""
        if not np.isfinite(self.at(x)):
            return np.full(len(self._free), np.nan)
        if not self._free.any():
            return np.array([x])
        return np.array(self._known[bisect_left(self._known, (x,))][1])

    def on(self, grid: FloatArray) -> FloatArray:
        """Return l_j on a grid, from the maximum outwards."""
        found = np.empty(len(grid))
        middle = float(self._fitted.theta[self._j])
        for i in np.argsort(np.abs(grid - middle), kind="stable"):
            found[i] = self.at(float(grid[i]))
        return found

    def end(self, sign: int, level: float) -> float:
        """Return where l_j falls below a level for good, on one side, or the range's end.

        Beyond the outermost maximum that is known, l_j is taken to fall.
        """
        j, peak = self._j, self._outermost(sign, level)
        bound = float((self._likelihood.high if sign > 0 else self._likelihood.low)[j])
        inside = first = float(peak.theta[j])
        drop = max(peak.value - level, 1e-12)
        step, _ = reach(self._likelihood, peak, j, sign, drop)
        outside = inside
        while outside != bound:
            outside = inside + sign * step
            if sign * (outside - bound) >= 0 or step <= 0:
                outside = bound
            if self.at(outside) < level:
                return self._root(inside, outside, level, first)
            inside, step = outside, 1.5 * step
        return bound

    def _outermost(self, sign: int, level: float) -> Peak:
        """Return the outermost point known whose likelihood exceeds a level."""
        fitted, value = self._fitted, self._likelihood.value
        best = Peak(fitted.theta, fitted.value, fitted.gradient)
        for theta in fitted.others:
            if sign * (theta[self._j] - best.theta[self._j]) > 0 and value(theta) > level:
                best = Peak(theta, value(theta), np.zeros(len(theta)))
        return best

    def _root(self, inside: float, outside: float, level: float, first: float) -> float:
        """Return the crossing between two points, on the outer side.

        The root of the fall of l_j is almost linear, so that regula falsi (the Illinois variant,
        Dowell and Jarratt 1971) needs a few steps; the new point is moved outwards a little.
        """

        def excess(x: float) -> float:
            fall = min(max(self._fitted.value - self.at(x), 0.0), 1e12)
            return float(np.sqrt(fall) - np.sqrt(max(self._fitted.value - level, 0.0)))

        below, above = excess(inside), excess(outside)
        last = 0
        for _ in range(MOST_STEPS):
            goal = SHARPNESS * abs(outside - first)
            if abs(outside - inside) <= goal:
                break
            share = min(max(below / (below - above), 0.01), 0.99) if below < above else 0.5
            middle = inside + share * (outside - inside)
            middle += (goal / 2 if outside > inside else -goal / 2) if last >= 0 else 0.0
            found = excess(middle)
            if found <= 0:
                inside, below = middle, found
                above = above / 2 if last < 0 else above
                last = -1
            else:
                outside, above = middle, found
                below = below / 2 if last > 0 else below
                last = 1
        return outside

    def _remember(self, theta: FloatArray) -> None:
        entry = (float(theta[self._j]), tuple(theta.tolist()))
        place = bisect_left(self._known, entry)
        if place == len(self._known) or self._known[place][0] != entry[0]:
            self._known.insert(place, entry)


def profile_interval(profile: Profile, fitted: Fit, delta: float) -> tuple[float, float]:
    """Return the asymptotic interval of one number, the others being unknown."""
    from scipy.special import chdtri

    level = fitted.value - float(chdtri(1, delta)) / 2
    return profile.end(-1, level), profile.end(1, level)
