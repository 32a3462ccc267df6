"""Unknown numbers that fit the data best, and how well the data determine each of them.

theta maximises the log-likelihood l over the box of the declared ranges. Fisher scoring, with
L-BFGS-B in reserve (`likelihood`), starts from the centre and from the best points of a Latin
hypercube; from all of them, if these lead to different maxima. I is the Fisher information of all
data, sum T(s,a) F(s,a). The deviations are the roots of the diagonal of I^-1, restricted to the
numbers that are not at an end of their range. The deviation of a number at an end is half the
distance over which l falls by 2, as with a normal law. A number in a flat direction, along which
the data say the same, has an infinite one.

Where the data are possible in a small part of the ranges only, as with uniform noise, searches
start there. The deviation of a number that moves its edges is half the distance over which its
profile falls by 2, if it is less: no normal law describes such a number, and I says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.estimate.flat_directions import Direction, flat_directions
from mdpdsl.estimate.likelihood import (
    TWO_DEVIATIONS,
    Edges,
    Likelihood,
    Peak,
    climb,
    deviation_along,
    edges_of,
    scaled_information,
    search,
)
from mdpdsl.graph.space import BoolArray, FloatArray

#: Points of a Latin hypercube per number, and how many of the best are starts.
POINTS_PER_NUMBER, BEST_POINTS = 8, 3

#: A maximum this much lower than the best says nothing about the data.
NEGLIGIBLE = 20.0

#: A maximum within this of the best fits the data almost as well.
CLOSE = 2.0

#: Maxima that differ by less are equal.
EQUAL = 1e-6

#: Two maxima closer than this in units of the ranges are one.
SAME_POINT = 1e-3

#: A number is at an edge if this share of its interval is beyond it.
AT_EDGE = 0.02

#: An eigenvalue of the information this much smaller than the largest is numerically zero.
SINGULAR = 1e-9


@dataclass(frozen=True, eq=False)
class Fit:
    """Where the log-likelihood is largest, and how it falls from there."""

    theta: FloatArray  # [k]
    value: float  # log-likelihood; -inf if no values fit the data
    gradient: FloatArray  # [k]
    information: FloatArray  # [k, k]
    deviations: FloatArray  # [k]  infinite if the data do not determine a number
    is_at_bound: BoolArray  # [k]  whether a number is at an end of its range
    flat: tuple[Direction, ...]
    others: FloatArray  # [m, k]  other local maxima, and points along flat directions
    rivals: FloatArray  # [r, k]  other local maxima that are almost as high, if nothing is flat


def fit(likelihood: Likelihood, *, seed: int = 0, start: FloatArray | None = None) -> Fit:
    """Maximise a likelihood.

    `start` is one more point [k] to start from, such as a previous fit, or several [m, k].
    """
    peaks = _peaks(likelihood, seed, start)
    if not peaks:
        return _no_fit(likelihood)
    best = peaks[0]
    theta = best.theta
    flat, ridge = flat_directions(likelihood, best)
    is_at_bound: BoolArray = (theta <= likelihood.low) | (theta >= likelihood.high)
    others = [peak for peak in peaks[1:] if peak.value > best.value - NEGLIGIBLE]
    rivals = [peak.theta for peak in others if peak.value > best.value - CLOSE and not flat]
    return Fit(
        theta=theta,
        value=best.value,
        gradient=best.gradient,
        information=likelihood.information(theta),
        deviations=_deviations(likelihood, best, is_at_bound, flat),
        is_at_bound=is_at_bound,
        flat=flat,
        others=np.array([*(peak.theta for peak in others), *ridge]).reshape(-1, len(theta)),
        rivals=np.array(rivals).reshape(-1, len(theta)),
    )


def _peaks(likelihood: Likelihood, seed: int, start: FloatArray | None) -> list[Peak]:
    """Return the different local maxima found, best first."""
    low, width = likelihood.low, likelihood.high - likelihood.low
    edges = edges_of(likelihood)
    if edges is not None:
        return _peaks_within(likelihood, edges, seed, start)
    centre = low + width / 2
    points = [low + width * u for u in _latin(len(low), seed)]
    values = np.array([likelihood.value(point) for point in points])
    order = np.argsort(-values, kind="stable")
    best, rest = order[:BEST_POINTS], order[BEST_POINTS:]
    starts = [centre, *(points[i] for i in best)]
    if start is not None:
        starts = [*np.clip(np.atleast_2d(start), low, likelihood.high), *starts]
    peaks = _different(_searched(likelihood, starts), width)
    if len(peaks) > 1 and peaks[1].value > peaks[0].value - NEGLIGIBLE:
        more = _searched(likelihood, [points[i] for i in rest])
        peaks = _different([*peaks, *more], width)
    return peaks


def _peaks_within(
    likelihood: Likelihood, edges: Edges, seed: int, start: FloatArray | None
) -> list[Peak]:
    """Return the different local maxima found where the data are possible, best first."""
    low, width = likelihood.low, likelihood.high - likelihood.low
    starts = list(edges.points())
    points = [low + width * u for u in _latin(len(low), seed)]
    if starts:
        points = [np.where(edges.is_moving, starts[0], point) for point in points]
    if not (starts and edges.is_moving.all()):
        starts += sorted(points, key=likelihood.value, reverse=True)[:BEST_POINTS]
    if start is not None:
        starts = [*np.clip(np.atleast_2d(start), low, likelihood.high), *starts]
    possible = [each for each in starts if np.isfinite(likelihood.value(each))]
    peaks = _different([climb(likelihood, each) for each in possible], width)
    # Climbing stops at an edge, which is no maximum.
    return peaks[:1] if edges.is_linear and edges.is_moving.all() else peaks


def _searched(likelihood: Likelihood, starts: list[FloatArray]) -> list[Peak]:
    """Return the maxima that are found from some points, where the data are possible."""
    possible = [each for each in starts if np.isfinite(likelihood.value(each))]
    return [search(likelihood, each) for each in possible]


def _different(found: list[Peak], width: FloatArray) -> list[Peak]:
    """Return the different maxima among those found, best first."""
    highest = max((peak.value for peak in found), default=-np.inf)
    # Of equal maxima, as on a ridge, the first start wins: a previous fit, or the centre.
    found = sorted(found, key=lambda peak: -min(peak.value, highest - EQUAL))
    peaks: list[Peak] = []
    for peak in found:
        gaps = [np.max(np.abs(peak.theta - other.theta) / width) for other in peaks]
        if not gaps or min(gaps) > SAME_POINT:
            peaks.append(peak)
    return peaks


def _latin(k: int, seed: int) -> FloatArray:
    """Return points of the unit box such that each coordinate visits every slice once."""
    n, generator = POINTS_PER_NUMBER * k, np.random.default_rng(seed)
    slices = np.stack([generator.permutation(n) for _ in range(k)], axis=1)
    return (slices + 0.5) / n


def _deviations(
    likelihood: Likelihood, peak: Peak, is_at_bound: BoolArray, flat: tuple[Direction, ...]
) -> FloatArray:
    width = likelihood.high - likelihood.low
    found = np.zeros(len(width))
    inside = np.flatnonzero(~is_at_bound)
    scaled = scaled_information(likelihood, peak.theta)[np.ix_(inside, inside)]
    if len(inside):
        values, vectors = np.linalg.eigh(scaled)
        kept = values > SINGULAR * values[-1]
        variances = (vectors[:, kept] ** 2 / values[kept]).sum(axis=1)
        # Where information vanishes although no direction is flat, l says how far a number reaches.
        lost = (vectors[:, ~kept] ** 2).sum(axis=1) > SINGULAR
        found[inside] = np.sqrt(variances) * width[inside]
        is_at_bound = is_at_bound.copy()
        is_at_bound[inside[lost]] = True
    edges = edges_of(likelihood)
    is_moving = np.zeros(len(width), np.bool_) if edges is None else edges.is_moving
    for j in np.flatnonzero(is_at_bound & ~is_moving):
        found[j] = deviation_along(likelihood, peak, int(j))
    if edges is not None:
        found[is_at_bound & is_moving] = np.inf
        within = _deviations_within(edges, peak)
        found[is_moving] = np.minimum(found, within)[is_moving]
    for direction in flat:
        found[[likelihood.names.index(name) for name in direction.names]] = np.inf
    return found


def _deviations_within(edges: Edges, peak: Peak) -> FloatArray:
    """Return half the distance over which profiles fall by 2, averaged over sides with room."""
    low, high = edges.hull(peak, peak.value - TWO_DEVIATIONS)
    sides = np.maximum(np.array([peak.theta - low, high - peak.theta]), 0.0)
    n_sides = np.sum(sides > AT_EDGE * (high - low), axis=0)
    return np.asarray(sides.sum(axis=0) / np.maximum(n_sides, 1) / 2)


def _no_fit(likelihood: Likelihood) -> Fit:
    k = len(likelihood.low)
    nothing = np.full(k, np.nan)
    return Fit(
        theta=nothing,
        value=-np.inf,
        gradient=nothing,
        information=np.full((k, k), np.nan),
        deviations=nothing,
        is_at_bound=np.zeros(k, np.bool_),
        flat=(),
        others=np.empty((0, k)),
        rivals=np.empty((0, k)),
    )
