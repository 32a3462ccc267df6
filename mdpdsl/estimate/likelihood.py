"""Log-likelihoods of unknown numbers in given ranges, and how to climb them.

All steps are in units of the ranges, u in [0, 1]^k. `climb` is Fisher scoring: u moves by
I(u)^-1 l'(u), projected onto the box, where I is the Fisher information, and halves the step until
l grows. Numbers at an end of their range stay there while l falls towards the inside. `search` does
the same from afar, and runs L-BFGS-B (Byrd et al. 1995) where scoring does not arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray

#: Scoring stops when the next step would gain less than this; it has arrived if no step is possible
#: and the next one would have gained less than that.
LEAST_GAIN, LITTLE_GAIN = 1e-10, 1e-4
MOST_STEPS, MOST_HALVINGS = 60, 40

#: A step along a direction without information is that of information 1/100: a deviation of ten
#: ranges.
LEAST_INFORMATION = 1e-2

#: L-BFGS-B keeps off the ends, where probabilities may be 0, by this share of a range.
MARGIN = 1e-9

#: l falls by 2 at two deviations from the maximum of a normal law.
TWO_DEVIATIONS = 2.0


class Likelihood(Protocol):
    """The log-likelihood of some data as a function of unknown numbers."""

    @property
    def names(self) -> tuple[str, ...]:
        """The unknown numbers."""

    @property
    def low(self) -> FloatArray:
        """The lower ends of their ranges, [k]."""

    @property
    def high(self) -> FloatArray:
        """The upper ends of their ranges, [k]."""

    @property
    def n(self) -> int:
        """The number of transitions."""

    @property
    def n_terms(self) -> int:
        """How many logarithms are added up whenever the log-likelihood is computed."""

    def value(self, theta: FloatArray) -> float:
        """Return the log-likelihood; -inf if the data are impossible."""

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood and its derivatives, [k]."""

    def information(self, theta: FloatArray) -> FloatArray:
        """Return the Fisher information of all data, [k, k]."""

    def upper(self, low: FloatArray, high: FloatArray) -> float:
        """Return a proved upper bound of the log-likelihood over a box; SolveError if none is."""


@runtime_checkable
class ConcaveLikelihood(Likelihood, Protocol):
    """A log-likelihood that may be proved to be concave."""

    @property
    def is_concave(self) -> bool:
        """Whether it is."""


@dataclass(frozen=True, eq=False)
class Peak:
    """A local maximum of a log-likelihood."""

    theta: FloatArray  # [k]
    value: float
    gradient: FloatArray  # [k]


class Edges(Protocol):
    """Where the data are possible, if this is a small part of the ranges with sharp edges."""

    @property
    def is_moving(self) -> BoolArray:
        """Whether a number moves an edge, [k]."""

    @property
    def is_linear(self) -> bool:
        """Whether the edges are linear in the numbers, so that what is found is the best."""

    @property
    def is_all(self) -> bool:
        """Whether l depends on the numbers that move an edge through these edges only."""

    def points(self, fixed: Mapping[int, float] | None = None) -> FloatArray:
        """Return the most likely points by the edges alone, [m, k]; some numbers may be fixed."""

    def hull(
        self, peak: Peak, level: float, *, is_proved: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends of each number where l reaches a level, [k] and [k]."""

    def weights(self, theta: FloatArray) -> FloatArray:
        """Return a matrix [k, k] that is singular along the directions that move no edge."""


@runtime_checkable
class EdgedLikelihood(Likelihood, Protocol):
    """A log-likelihood that may be -inf in most of the ranges, and then has no slope inwards."""

    @property
    def edges(self) -> Edges | None:
        """Where the data are possible; None if it has no such edges."""


def edges_of(likelihood: Likelihood) -> Edges | None:
    """Return the edges of a likelihood, if it has any."""
    return likelihood.edges if isinstance(likelihood, EdgedLikelihood) else None


def search(likelihood: Likelihood, start: FloatArray) -> Peak:
    """Return a local maximum, from a start that may be far from it."""
    peak, has_arrived = _climbed(likelihood, start, None)
    if has_arrived or not np.isfinite(peak.value):
        return peak
    return climb(likelihood, _quasi_newton(likelihood, peak))


def climb(likelihood: Likelihood, start: FloatArray, free: BoolArray | None = None) -> Peak:
    """Return a local maximum over the free numbers, from a start that is close to it."""
    edges = edges_of(likelihood)
    if edges is not None:  # first the numbers that nothing can stop
        inner = ~edges.is_moving if free is None else free & ~edges.is_moving
        peak = _climbed(likelihood, start, inner)[0]
        if edges.is_all:
            return peak
        start = peak.theta
    return _climbed(likelihood, start, free)[0]


def scaled_information(likelihood: Likelihood, theta: FloatArray) -> FloatArray:
    """Return the Fisher information in units of the ranges, [k, k]."""
    width = likelihood.high - likelihood.low
    found = likelihood.information(theta) * np.outer(width, width)
    return np.nan_to_num((found + found.T) / 2, nan=0.0, posinf=1e300, neginf=-1e300)


def reach(likelihood: Likelihood, peak: Peak, j: int, sign: int, drop: float) -> tuple[float, bool]:
    """Return how far a number can move alone until l falls by a drop, and whether it ever does.

    The distance is exact to a few percent.
    """
    end = likelihood.high[j] if sign > 0 else likelihood.low[j]
    farthest = abs(float(end - peak.theta[j]))

    def falls(distance: float) -> bool:
        theta = peak.theta.copy()
        theta[j] = end if distance >= farthest else theta[j] + sign * distance
        return not likelihood.value(theta) > peak.value - drop

    if farthest <= 0 or not falls(farthest):
        return farthest, False
    information = float(scaled_information(likelihood, peak.theta)[j, j])
    width = float(likelihood.high[j] - likelihood.low[j])
    guess = width * np.sqrt(2 * drop / max(information, 1e-30))
    inner = min(max(guess, 1e-15 * width), farthest)
    while falls(inner) and inner > 1e-15 * width:
        inner /= 2
    outer = inner
    while outer < farthest and not falls(outer):
        inner, outer = outer, min(2 * outer, farthest)
    for _ in range(5):
        middle = (inner + outer) / 2
        inner, outer = (inner, middle) if falls(middle) else (middle, outer)
    return outer, True


def deviation_along(likelihood: Likelihood, peak: Peak, j: int) -> float:
    """Return the deviation of a number, the others fixed, from how far l falls by 2.

    It is half of that distance, averaged over both sides unless the range ends on one of them; the
    whole range if l does not fall so far within it.
    """
    sides = [reach(likelihood, peak, j, sign, TWO_DEVIATIONS) for sign in (-1, 1)]
    fallen = [distance for distance, falls in sides if falls]
    if not fallen:
        return float(likelihood.high[j] - likelihood.low[j])
    return float(np.mean(fallen)) / 2


def _scoring_step(
    likelihood: Likelihood, theta: FloatArray, gradient: FloatArray, free: BoolArray | None
) -> FloatArray:
    """Return the step of Fisher scoring in units of the ranges, [k]."""
    stuck = (theta <= likelihood.low) & (gradient <= 0)
    stuck |= (theta >= likelihood.high) & (gradient >= 0)
    moves = ~stuck if free is None else free & ~stuck
    step, chosen = np.zeros(len(theta)), np.flatnonzero(moves)
    if len(chosen):
        information = scaled_information(likelihood, theta)[np.ix_(chosen, chosen)]
        values, vectors = np.linalg.eigh(information)
        values = np.maximum(values, LEAST_INFORMATION)
        step[chosen] = vectors @ ((vectors.T @ gradient[chosen]) / values)
    return step


def _climbed(
    likelihood: Likelihood, start: FloatArray, free: BoolArray | None
) -> tuple[Peak, bool]:
    """Climb by Fisher scoring, and return whether it has arrived at a maximum."""
    low, high = likelihood.low, likelihood.high
    width, theta = high - low, start.copy()
    value, gradient = likelihood.value_and_gradient(theta)
    has_arrived = False
    for _ in range(MOST_STEPS if np.isfinite(value) else 0):
        step = _scoring_step(likelihood, theta, gradient * width, free)
        gain = float(gradient * width @ step)
        has_arrived = gain < LEAST_GAIN
        if has_arrived:
            break
        for halving in range(MOST_HALVINGS):
            moved = np.clip(theta + width * step * 0.5**halving, low, high)
            if likelihood.value(moved) > value:
                break
        else:
            has_arrived = gain < LITTLE_GAIN
            break
        theta = moved
        value, gradient = likelihood.value_and_gradient(theta)
    return Peak(theta, value, gradient), has_arrived


def _quasi_newton(likelihood: Likelihood, peak: Peak) -> FloatArray:
    """Return a better point by L-BFGS-B, or the same one."""
    from scipy.optimize import minimize

    low, width = likelihood.low, likelihood.high - likelihood.low
    # Line searches need a number where the data are impossible.
    worst = abs(peak.value) + 1e6 * (1 + abs(peak.value))

    def objective(u: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = likelihood.value_and_gradient(low + width * u)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return worst, np.zeros_like(u)
        return -value, -gradient * width

    done = minimize(
        objective,
        np.clip((peak.theta - low) / width, MARGIN, 1 - MARGIN),
        jac=True,
        method="L-BFGS-B",
        bounds=[(MARGIN, 1 - MARGIN)] * len(low),
        options={"ftol": 1e-12, "gtol": 1e-7, "maxiter": 200},
    )
    theta = np.clip(low + width * np.asarray(done.x), low, likelihood.high)
    return theta if likelihood.value(theta) > peak.value else peak.theta
