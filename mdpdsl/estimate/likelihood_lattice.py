"""Integrals of likelihoods over the ranges of unknown numbers, by the trapezoidal rule.

With theta = low + (high - low) sigma(t) and the logistic function sigma, the integral of exp(l)
over the uniform law on the ranges is that of exp(f(t)) over all t, f(t) = l(theta(t)) + sum_j log
sigma'(t_j). This is smooth and falls off on all sides, even if l is largest at an end of a range;
for such functions the trapezoidal rule converges faster than any power of its step (Trefethen and
Weideman 2014). Its lattice is aligned with the Hessian of f at the maximum. A flood fill visits the
points with f > max f - CUT. The rule on a second lattice, moved by half a step, tells how exact
both are: the step is halved until they agree.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from mdpdsl.estimate.likelihood import Likelihood, scaled_information
from mdpdsl.graph.space import FloatArray

#: The lattice omits what is less likely than exp(-CUT), relative to the maximum.
CUT = 12.0

#: In deviations. Two lattices of an exact normal law differ by 4 k exp(-2 pi^2/STEP^2) < 1e-4.
STEP = 1.25

#: The two lattices must agree to this, in logs.
AGREEMENT = 5e-4

#: Curvatures below this belong to ridges; the logistic law has 1/2.
LEAST_CURVATURE = 0.2

#: t beyond this is indistinguishable from an end of the range.
FARTHEST = 35.0


class Surface:
    """f(t) of a likelihood."""

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood = likelihood

    def theta(self, t: FloatArray) -> FloatArray:
        """Return the numbers at a point; near the upper ends they are exact, too."""
        low, high = self.likelihood.low, self.likelihood.high
        less = (high - low) / (1 + np.exp(np.abs(t)))
        found: FloatArray = np.clip(np.where(t < 0, low + less, high - less), low, high)
        return found

    def t(self, theta: FloatArray) -> FloatArray:
        """Return the point of some numbers, kept off the ends."""
        low, high = self.likelihood.low, self.likelihood.high
        u = np.clip((theta - low) / (high - low), 1e-6, 1 - 1e-6)
        return np.log(u) - np.log1p(-u)

    def value(self, t: FloatArray) -> float:
        """Return f(t); -inf where the data are impossible."""
        if np.any(np.abs(t) > FARTHEST):
            return -np.inf
        value = self.likelihood.value(self.theta(t))
        return value + log_density(t) if np.isfinite(value) else -np.inf

    def gradient(self, t: FloatArray) -> FloatArray:
        """Return the derivatives of f, [k]."""
        _, gradient = self.likelihood.value_and_gradient(self.theta(t))
        found: FloatArray = gradient * self._stretch(t) - np.tanh(t / 2)
        return found

    def curvature(self, t: FloatArray) -> FloatArray:
        """Return the expected value of minus the Hessian of f, [k, k]."""
        share = self._stretch(t) / (self.likelihood.high - self.likelihood.low)
        scaled = scaled_information(self.likelihood, self.theta(t))
        return np.clip(scaled * np.outer(share, share), -1e200, 1e200) + np.diag(2 * share)

    def top(self, theta: FloatArray) -> FloatArray:
        """Return the maximum of f near some numbers, by Fisher scoring."""
        t = self.t(theta)
        value = self.value(t)
        for _ in range(40):
            gradient = self.gradient(t)
            inverse = np.linalg.inv(_positive(self.curvature(t)))
            step = inverse @ np.nan_to_num(gradient)
            step /= max(1.0, float(np.max(np.abs(step))) / 2)
            if gradient @ step < 1e-4:
                break
            for halving in range(20):
                moved = t + step * 0.5**halving
                new_value = self.value(moved)
                if new_value > value:
                    break
            else:
                break
            t, value = moved, new_value
        return t

    def observed_curvature(self, t: FloatArray) -> FloatArray:
        """Return minus the Hessian of f by differences of its derivatives, [k, k]."""
        expected = _positive(self.curvature(t))
        k = len(t)
        found = np.zeros((k, k))
        for j in range(k):
            step = np.zeros(k)
            step[j] = 0.1 / np.sqrt(expected[j, j])
            found[j] = (self.gradient(t - step) - self.gradient(t + step)) / (2 * step[j])
        if not np.isfinite(found).all():
            return expected
        return _positive((found + found.T) / 2)

    def weakest(self, t: FloatArray) -> int:
        """Return the number that moves most along the direction of the least curvature."""
        vectors = np.linalg.eigh(self.observed_curvature(t))[1]
        return int(np.argmax(np.abs(vectors[:, 0])))

    def _stretch(self, t: FloatArray) -> FloatArray:
        width = self.likelihood.high - self.likelihood.low
        less = 1 / (1 + np.exp(np.abs(t)))
        found: FloatArray = width * less * (1 - less)
        return found


def lattice_sum(surface: Surface, points: list[FloatArray], most: int) -> float | None:
    """Return the log of the integral, or slightly less; None if it takes too many points.

    The points are maxima of f, best first, or others from which to fill the lattice.
    """
    centre, k = points[0], len(points[0])
    values, vectors = np.linalg.eigh(surface.observed_curvature(centre))
    axes = vectors / np.sqrt(values)  # [k, k]  columns one deviation long
    log_volume = -0.5 * float(np.log(values).sum())
    starts = [np.linalg.solve(axes, point - centre) for point in points]
    step, used = STEP, 0
    while True:
        sums = []
        for shift in (0.0, 0.5):
            within = [start / step for start in starts]
            visited = _flood(surface, centre, axes * step, within, shift, most - used)
            if visited is None:
                return None
            used += len(visited)
            sums.append(log_sum(visited) + k * np.log(step) + log_volume)
        if min(sums) > -np.inf and abs(sums[0] - sums[1]) <= AGREEMENT:
            return float(min(sums) - abs(sums[0] - sums[1]))
        step /= 2


def _flood(
    surface: Surface,
    centre: FloatArray,
    axes: FloatArray,
    starts: list[FloatArray],
    shift: float,
    most: int,
) -> FloatArray | None:
    """Return f at the points of a lattice that matter; None if they are too many."""
    cells = [tuple(np.round(start - shift).astype(int).tolist()) for start in starts]
    waiting = deque(dict.fromkeys(cells))
    reached, best = set(waiting), -np.inf
    values: list[float] = []
    while waiting:
        if len(values) >= most:
            return None
        cell = waiting.popleft()
        value = surface.value(centre + axes @ (np.array(cell) + shift))
        values.append(value)
        best = max(best, value)
        if not value > best - CUT:
            continue
        for j in range(len(cell)):
            for move in (-1, 1):
                near = (*cell[:j], cell[j] + move, *cell[j + 1 :])
                if near not in reached:
                    reached.add(near)
                    waiting.append(near)
    return np.array(values)


def log_density(t: FloatArray) -> float:
    """Return the log density of independent logistic laws."""
    return float(-(np.abs(t) + 2 * np.log1p(np.exp(-np.abs(t)))).sum())


def log_sum(values: FloatArray) -> float:
    """Return log sum exp."""
    largest = float(values.max())
    if largest == -np.inf:
        return largest
    return largest + float(np.log(np.exp(values - largest).sum()))


def _positive(curvature: FloatArray) -> FloatArray:
    """Return a symmetric matrix with its eigenvalues raised to the least curvature."""
    values, vectors = np.linalg.eigh(curvature)
    found: FloatArray = (vectors * np.maximum(values, LEAST_CURVATURE)) @ vectors.T
    return found
