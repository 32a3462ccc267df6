"""The likelihood of the data mixed over all values of the unknown numbers.

M = log of the integral of exp(l(theta)) over the uniform law pi on the declared ranges. Where the
data determine the numbers, the trapezoidal rule finds it (`likelihood_lattice`). Otherwise l has a
ridge, thin and curved. Then adaptive quadrature by Simpson's rule runs over the main number of each
flat direction, and the trapezoidal rule over the others. If both need too many points, importance
sampling follows: Student's t around the known points of the ridge, mixed with pi, and a fixed seed.
So it does if l ends at edges, where no rule for smooth functions is exact. Then l has no curvature
that shows its size: a slice sampler (Neal 2003) visits where it is high.

A confidence set needs a value that is not too large. The result is the smaller of the sums of two
lattices, without what lies beyond them; less the estimated error of quadrature; or three standard
errors below the sampled mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from mdpdsl.estimate.likelihood import Likelihood, climb, edges_of
from mdpdsl.estimate.likelihood_lattice import FARTHEST, Surface, lattice_sum, log_density, log_sum
from mdpdsl.estimate.parameter_fit import Fit
from mdpdsl.graph.space import FloatArray, IntArray

#: Points of one lattice, and of all of them along a ridge.
MOST_LATTICE_POINTS, MOST_POINTS = 10_000, 25_000
MOST_LATTICE_NUMBERS = 4

#: The relative error of quadrature along a ridge, and the panels that it may take.
ACCURACY, MOST_PANELS = 3e-4, 200

#: Importance sampling: how many points, Student's degrees of freedom, the share of pi, and by how
#: much a mean of positive weights is cut at most (it exceeds 20 times its expectation with 5 % at
#: most, Markov).
DRAWS, FREEDOM, SHARE, LARGEST_CUT = 8_192, 5.0, 0.1, np.log(20.0)


#: Steps of the slice sampler for each number, how often its directions follow from the points, how
#: far it looks in deviations, and from how many points it starts.
WALK, RENEWED, WIDEST, MOST_WALKS = 150, 50, 10.0, 3


@dataclass(frozen=True, eq=False)
class Mixture:
    """The mixed likelihood, and the best point seen on the way."""

    value: float  # M, or slightly less
    best_theta: FloatArray  # [k]
    best_value: float  # l there
    is_sampled: bool  # by importance sampling, less exactly


def mixed_likelihood(likelihood: Likelihood, fitted: Fit) -> Mixture:
    """Return the logarithm of the likelihood mixed over the declared ranges, or slightly less."""
    if not np.isfinite(fitted.value):
        return Mixture(-np.inf, fitted.theta, -np.inf, False)
    watched = _Watched(likelihood, fitted)
    known = np.array([fitted.theta, *fitted.others])
    if edges_of(likelihood) is not None:
        sampled = _sampled_within(Surface(watched), known)
        return Mixture(sampled, watched.best_theta, watched.best_value, True)
    value: float | None = None
    outer, is_simple = _flat_numbers(fitted)
    k = len(fitted.theta)
    if not outer and k <= MOST_LATTICE_NUMBERS:
        surface = Surface(watched)
        points = [surface.top(theta) for theta in known]
        value = lattice_sum(surface, points, MOST_LATTICE_POINTS)
        outer = {surface.weakest(points[0]): True} if k > 1 else {}
    if value is None and outer and is_simple and k - len(outer) <= MOST_LATTICE_NUMBERS:
        value = _along_ridge(watched, known, outer)
    is_sampled = value is None
    if value is None:
        surface = Surface(watched)
        points = [surface.top(theta) for theta in known]
        roots = [_root(surface.observed_curvature(point)) for point in points]
        value = _sampled(surface, points, roots)
    return Mixture(value, watched.best_theta, watched.best_value, is_sampled)


def _flat_numbers(fitted: Fit) -> tuple[dict[int, bool], bool]:
    """Return the main number of each flat direction, and whether quadrature is fast enough.

    A number comes with whether its ridge is curved. Quadrature within quadrature along a ridge that
    is curved both ways would take too many points.
    """
    found = {
        int(np.argmax(np.abs(vector))): len(flat.names) > 1
        for flat in fitted.flat
        for vector in flat.vectors
    }
    return found, sum(found.values()) <= 1


class _Watched:
    """A likelihood that remembers its best value and how often it was asked."""

    def __init__(self, likelihood: Likelihood, fitted: Fit) -> None:
        self._likelihood = likelihood
        self.names, self.low, self.high = likelihood.names, likelihood.low, likelihood.high
        self.n, self.n_terms, self.n_evaluations = likelihood.n, likelihood.n_terms, 0
        self.best_theta, self.best_value = fitted.theta, fitted.value
        self.value_and_gradient = likelihood.value_and_gradient
        self.information, self.upper = likelihood.information, likelihood.upper

    def value(self, theta: FloatArray) -> float:
        """Return the log-likelihood."""
        self.n_evaluations += 1
        value = self._likelihood.value(theta)
        if value > self.best_value:
            self.best_theta, self.best_value = theta.copy(), value
        return value


class _Slice:
    """A likelihood with some of its numbers fixed."""

    def __init__(self, likelihood: Likelihood, theta: FloatArray, free: IntArray) -> None:
        self._likelihood, self._theta, self._free = likelihood, theta.copy(), free
        self.names = tuple(likelihood.names[j] for j in free)
        self.low, self.high = likelihood.low[free], likelihood.high[free]
        self.n, self.n_terms = likelihood.n, likelihood.n_terms

    def full(self, theta: FloatArray) -> FloatArray:
        """Return all numbers, given the free ones."""
        found = self._theta.copy()
        found[self._free] = theta
        return found

    def value(self, theta: FloatArray) -> float:
        """Return the log-likelihood."""
        return self._likelihood.value(self.full(theta))

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood and its derivatives by the free numbers."""
        value, gradient = self._likelihood.value_and_gradient(self.full(theta))
        return value, gradient[self._free]

    def information(self, theta: FloatArray) -> FloatArray:
        """Return the information of the free numbers."""
        return self._likelihood.information(self.full(theta))[np.ix_(self._free, self._free)]

    def upper(self, low: FloatArray, high: FloatArray) -> float:
        """Return an upper bound over a box of the free numbers."""
        return self._likelihood.upper(self.full(low), self.full(high))


class _TooManyPointsError(Exception):
    """Quadrature along a ridge does not end in time."""


def _along_ridge(likelihood: _Watched, known: FloatArray, outer: dict[int, bool]) -> float | None:
    """Return M by quadrature over some numbers, one in the other; None if it takes too long."""
    low, width = likelihood.low, likelihood.high - likelihood.low
    numbers = list(outer)
    inner = np.setdiff1d(np.arange(len(low)), numbers)
    near = list(known)  # points on the ridge, from which to look for the next one

    def conditional(theta: FloatArray) -> float:
        """Return the integral over the inner numbers."""
        if likelihood.n_evaluations > MOST_POINTS:
            raise _TooManyPointsError
        if not len(inner):
            return likelihood.value(theta)
        part = _Slice(likelihood, theta, inner)
        gaps = [np.abs((point - theta) / width)[numbers].max() for point in near]
        peak = climb(part, near[int(np.argmin(gaps))][inner])
        if not np.isfinite(peak.value):
            peak = climb(part, (part.low + part.high) / 2)
        if not np.isfinite(peak.value):
            return -np.inf
        near.append(part.full(peak.theta))
        surface = Surface(part)
        value = lattice_sum(surface, [surface.top(peak.theta)], MOST_LATTICE_POINTS)
        if value is None:
            raise _TooManyPointsError
        return value

    def nested(theta: FloatArray, left: list[int]) -> float:
        """Return the integral over the inner numbers and some outer ones."""
        if not left:
            return conditional(theta)
        j, rest = left[0], left[1:]

        def at(u: float) -> float:
            moved = theta.copy()
            moved[j] = low[j] + width[j] * u
            return nested(moved, rest)

        return _simpson(at, np.unique(known[:, j] - low[j]) / width[j] if outer[j] else None)

    try:
        return nested(known[0], numbers)
    except _TooManyPointsError:
        return None


@dataclass(frozen=True)
class _Panel:
    """Simpson's rule on an interval: integral and error, both relative to exp(top)."""

    start: float
    end: float
    top: float
    integral: float
    error: float


def _simpson(log_function: Callable[[float], float], breaks: FloatArray | None) -> float:
    """Return the log of the integral over [0, 1] of exp of a function, less its likely error."""
    ends = np.array([0.0, 1.0])
    if breaks is not None:
        breaks = breaks[(breaks > 1e-6) & (breaks < 1 - 1e-6)]
        ends = np.concatenate([[0.0], breaks[:: max(1, len(breaks) // 8)], [1.0]])
    evaluated = lru_cache(maxsize=None)(log_function)
    panels = [_panel(evaluated, *pair) for pair in pairwise(ends.tolist())]
    while True:
        top = max(panel.top for panel in panels)
        if top == -np.inf:
            return top
        shares = [float(np.exp(panel.top - top)) for panel in panels]
        total = sum(s * panel.integral for s, panel in zip(shares, panels, strict=True))
        errors = [s * panel.error for s, panel in zip(shares, panels, strict=True)]
        if sum(errors) <= ACCURACY * total or len(panels) >= MOST_PANELS:
            return top + float(np.log(max(total - sum(errors), total * np.exp(-LARGEST_CUT))))
        worst = panels.pop(int(np.argmax(errors)))
        middle = (worst.start + worst.end) / 2
        panels += [
            _panel(evaluated, worst.start, middle),
            _panel(evaluated, middle, worst.end),
        ]


def _panel(log_function: Callable[[float], float], start: float, end: float) -> _Panel:
    nodes = [start, *(start + (end - start) * i / 4 for i in (1, 2, 3)), end]
    values = np.array([log_function(u) for u in nodes])
    top, width = float(values.max()), end - start
    if top == -np.inf:
        return _Panel(start, end, top, 0.0, 0.0)
    y = np.exp(values - top)
    once = width / 6 * (y[0] + 4 * y[2] + y[4])
    twice = width / 12 * (y[0] + 4 * y[1] + 2 * y[2] + 4 * y[3] + y[4])
    return _Panel(start, end, top, float(twice), abs(float(once - twice)) / 4)


def _sampled_within(surface: Surface, known: FloatArray) -> float:
    """Return M by importance sampling where the data are possible."""
    starts = [t for t in map(surface.t, known) if np.isfinite(surface.value(t))]
    if not starts:
        return -np.inf
    generator = np.random.default_rng(0)
    walks = [_walked(surface, start, generator) for start in starts[:MOST_WALKS]]
    centres = [walk.mean(axis=0) for walk in walks]
    roots = [_root(np.asarray(np.linalg.inv(_spread(walk)), np.float64)) for walk in walks]
    return _sampled(surface, centres, roots, DRAWS // 4)


def _walked(surface: Surface, t: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return points that a slice sampler visits along random directions, [m, k]."""
    k, value = len(t), surface.value(t)
    axes: FloatArray = np.eye(k)
    points: list[FloatArray] = []
    longest = 2 * FARTHEST
    for step in range(1, WALK * k + 1):
        direction = axes @ generator.standard_normal(k)
        level = value - generator.exponential()
        first, last = -longest, longest
        while last - first > 1e-15:
            share = generator.uniform(first, last)
            moved = t + share * direction
            found = surface.value(moved)
            if found > level:
                t, value = moved, found
                break
            first, last = (share, last) if share < 0 else (first, share)
        points.append(t)
        if step % RENEWED == 0 and step < WALK * k:
            axes = _root(_spread(np.array(points[step // 2 :])))
            longest = WIDEST
    return np.array(points[len(points) // 2 :])


def _spread(points: FloatArray) -> FloatArray:
    """Return the covariance of points, which may be on one line."""
    found = np.atleast_2d(np.cov(points.T))
    scale = np.sqrt(np.maximum(np.diag(found), 1e-30))
    return np.asarray(found + np.diag(1e-6 * scale**2))


def _sampled(
    surface: Surface, points: list[FloatArray], roots: list[FloatArray], n: int = DRAWS
) -> float:
    """Return M by importance sampling, three standard errors below its mean."""
    k, generator = len(points[0]), np.random.default_rng(0)
    centres = np.array(points)  # [m, k]
    chosen = generator.integers(len(points), size=n)
    chosen[generator.random(n) < SHARE] = -1
    normal = generator.standard_normal((n, k))
    stretch = np.sqrt(FREEDOM / generator.chisquare(FREEDOM, n))
    draws = generator.logistic(size=(n, k))
    for i, root in enumerate(roots):
        mine = chosen == i
        away = np.linalg.solve(root.T, normal[mine].T).T * stretch[mine, None]
        draws[mine] = centres[i] + away
    parts = [_student(draws, c, root) for c, root in zip(centres, roots, strict=True)]
    near = np.log1p(-SHARE) - np.log(len(points)) + np.logaddexp.reduce(parts, axis=0)
    proposed = np.logaddexp(near, np.log(SHARE) + np.array([log_density(t) for t in draws]))
    logs = np.array([surface.value(t) for t in draws]) - proposed
    mean = log_sum(logs) - float(np.log(n))
    if not np.isfinite(mean):
        return -np.inf
    error = float(np.std(np.exp(logs - mean)) / np.sqrt(n))
    less = float(np.log1p(-min(3 * error, 0.999)))
    return mean + max(less, -float(LARGEST_CUT))


def _root(precision: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.cholesky(precision), np.float64)


def _student(draws: FloatArray, centre: FloatArray, root: FloatArray) -> FloatArray:
    """Return log densities of Student's t with a precision whose Cholesky factor is given."""
    from scipy.special import gammaln

    k = len(centre)
    squares = (((draws - centre) @ root) ** 2).sum(axis=1)
    constant = gammaln((FREEDOM + k) / 2) - gammaln(FREEDOM / 2) - k / 2 * np.log(FREEDOM * np.pi)
    constant += float(np.log(np.diag(root)).sum())
    found: FloatArray = constant - (FREEDOM + k) / 2 * np.log1p(squares / FREEDOM)
    return found
