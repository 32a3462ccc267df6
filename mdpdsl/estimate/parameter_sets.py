"""Confidence sets of unknown numbers that hold at every look, covered by boxes.

The set {theta : l(theta) >= M - log(1/delta)} contains the true numbers at all times at once with
probability 1 - delta, whoever chooses the actions and when to stop: M is the log of the likelihood
mixed over the declared ranges (`mixture_likelihood`); divided by the true likelihood it is a
martingale, which ever reaches 1/delta with probability delta at most (Robbins 1970, Ville 1939).

`cover` finds boxes that together contain the set, by branch and bound: a box goes if an upper
bound of l over it is below the threshold; the others are halved across their longest side, measured
in deviations. The deviation of a number is taken with the others fixed, so that boxes are small
across a ridge, too. The ends of each number's interval come first, by best-first search: as long as
the outermost box can be halved or dropped, the end moves inwards. Ends are never rounded inwards,
and a limit on boxes makes the cover only coarser, so that it is proved like the bounds. The bounds
of several numbers together may be too coarse to prove anything useful in time. Then `cover` gives
up, and `numerical_cover` follows the profile likelihoods instead.

Where the data are possible in a small part of the ranges only (`likelihood.Edges`), linear programs
cut the box first, and take the place of profiles. Bounds are exact close to an edge, so that proved
ends are kept wherever they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mdpdsl.diagnostics import SolveError
from mdpdsl.estimate.likelihood import (
    ConcaveLikelihood,
    Likelihood,
    Peak,
    climb,
    deviation_along,
    edges_of,
)
from mdpdsl.estimate.parameter_fit import Fit
from mdpdsl.estimate.profile_likelihood import Profile
from mdpdsl.graph.space import FloatArray

#: Boxes are halved until they are no longer than this, in deviations.
SMALL = 1 / 6

#: The ends of a number's interval are sharp to this, in deviations: if it is the only one, and if
#: there are several. The set is about seven deviations wide.
SHARP, SHARP_TOGETHER = 1e-3, 5e-2

#: The most boxes of a cover, and the most bounds that one end of the hull may take.
MOST_BOXES, MOST_BOUNDS = 2_000, 300

#: The most terms of the likelihood that bounds may take in all: some ten seconds.
MOST_TERMS = 20_000_000

#: How often tangents cut: each interval that shrinks makes it easier for the others.
ROUNDS = 2

#: The width of a set in deviations.
WIDTH = 7.0

#: How far a proved end may be from where the profile likelihood has it, as a share of the interval:
#: in the first round, and in the last.
HOPEFUL, CLOSE = 0.5, 0.1

#: A computed log-likelihood may be off by this much per transition and per unit.
ROUNDING = 1e-11

Upper = Callable[[FloatArray, FloatArray], float]


class MissedMaximumError(Exception):
    """A part of a set that the fit did not know of, where the likelihood has another maximum."""

    def __init__(self, theta: FloatArray) -> None:
        super().__init__("there is another maximum")
        self.theta = theta


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes whose union contains a set of numbers; no boxes if the set is empty."""

    low: FloatArray  # [m, k]
    high: FloatArray  # [m, k]

    @property
    def is_empty(self) -> bool:
        """Whether there are no boxes."""
        return len(self.low) == 0

    @property
    def hull(self) -> tuple[FloatArray, FloatArray]:
        """The interval of every number, [k] and [k]; NaN if the set is empty."""
        if self.is_empty:
            nothing = np.full(self.low.shape[1], np.nan)
            return nothing, nothing
        return self.low.min(axis=0), self.high.max(axis=0)

    def contain(self, theta: FloatArray) -> bool:
        """Return whether some box contains these numbers."""
        return bool(np.any(np.all((self.low <= theta) & (theta <= self.high), axis=1)))


def cover(
    likelihood: Likelihood, fitted: Fit, threshold: float, *, most_boxes: int = MOST_BOXES
) -> Boxes:
    """Cover the numbers whose likelihood reaches a threshold, by proved bounds.

    Raise SolveError if the likelihood cannot be bounded, or not closely enough, and
    MissedMaximumError if the set is larger than the fit suggests.
    """
    low, high = likelihood.low.astype(np.float64), likelihood.high.astype(np.float64)
    nothing = Boxes(np.empty((0, len(low))), np.empty((0, len(low))))
    if likelihood.upper(low, high) < threshold:
        return nothing
    scales = _scales(likelihood, fitted, threshold)
    inner_low, inner_high = _profile_hull(likelihood, fitted, threshold)
    edges = edges_of(likelihood)
    if edges is not None:
        proved = edges.hull(_peak(fitted), threshold, is_proved=True)
        if np.isnan(proved[0]).any():
            return nothing
        low, high = np.maximum(low, proved[0]), np.minimum(high, proved[1])
    if isinstance(likelihood, ConcaveLikelihood) and likelihood.is_concave:
        _cut_by_tangents(likelihood, fitted, threshold, low, high, inner_low, inner_high)

    left = MOST_TERMS

    def upper(box_low: FloatArray, box_high: FloatArray) -> float:
        """Bound l over a box, unless its centre shows that the box cannot be dropped."""
        nonlocal left
        left -= likelihood.n_terms
        if left < 0:  # nothing is dropped any more
            return np.inf
        if likelihood.value((box_low + box_high) / 2) >= threshold:
            return np.inf
        return likelihood.upper(box_low, box_high)

    for nearest in (HOPEFUL, CLOSE) if len(low) > 1 and edges is None else (np.inf,):
        for j in range(len(low)):
            for ends, inner in ((low, inner_low), (high, inner_high)):
                search = _EndSearch(upper, threshold, scales, j, ends is low)
                found = search.run(low, high, float(inner[j]))
                if found is None:
                    return nothing
                ends[j], place = found
                if abs(ends[j] - inner[j]) > nearest * (inner_high[j] - inner_low[j]):
                    peak = climb(likelihood, place)
                    if (
                        peak.value > threshold
                        and not inner_low[j] <= peak.theta[j] <= inner_high[j]
                    ):
                        raise MissedMaximumError(peak.theta)
                    raise SolveError(f"the set of `{likelihood.names[j]}` has no close bounds")
    return _covered(upper, low, high, threshold, scales, most_boxes)


def numerical_cover(
    likelihood: Likelihood, fitted: Fit, threshold: float, *, most_boxes: int = MOST_BOXES
) -> Boxes:
    """Cover these numbers where no bounds can be proved.

    The hull is where the profile likelihoods cross the threshold. Inside of it, l is bounded by its
    tangent planes, and by as much curvature upwards as it has downwards at its maximum.
    """
    k = len(fitted.theta)
    if not fitted.value > -np.inf or fitted.value < threshold:
        return Boxes(np.empty((0, k)), np.empty((0, k)))
    low, high = _profile_hull(likelihood, fitted, threshold)

    def tangent(box_low: FloatArray, box_high: FloatArray) -> float:
        middle = (box_low + box_high) / 2
        value, gradient = likelihood.value_and_gradient(middle)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            is_small = np.all(box_high - box_low <= 2 * SMALL * scales)
            return -np.inf if is_small else np.inf
        half = (box_high - box_low) / 2
        return value + float(np.abs(gradient) @ half + np.sum(half / scales) ** 2 / 2)

    scales = _scales(likelihood, fitted, threshold)
    most_boxes = max(1, min(most_boxes, MOST_TERMS // max(1, likelihood.n_terms)))
    found = _covered(tangent, low, high, threshold, scales, most_boxes)
    if found.is_empty:
        return Boxes(low[None], high[None])
    return _stretched(found, low, high)


def _cut_by_tangents(
    likelihood: Likelihood,
    fitted: Fit,
    threshold: float,
    low: FloatArray,
    high: FloatArray,
    inner_low: FloatArray,
    inner_high: FloatArray,
) -> None:
    """Move the ends of a box inwards, as far as tangents of a concave likelihood prove it.

    Where the profile of a number crosses the threshold, l changes along this number only, so that
    l(c) + l'(c)(theta - c) >= threshold bounds it almost exactly.
    """
    for _ in range(ROUNDS):
        for j in range(len(low)):
            profile = Profile(likelihood, fitted, j)
            for ends, inner, sign in ((low, inner_low, 1), (high, inner_high, -1)):
                if not np.isfinite(inner[j]) or inner[j] == ends[j]:
                    continue
                c = profile.point(float(inner[j]))
                if np.isnan(c).any():
                    continue
                value, slope = likelihood.value_and_gradient(c)
                if not sign * slope[j] > 0:
                    continue
                others = np.maximum(slope * (high - c), slope * (low - c))
                others[j] = 0.0
                room = value - threshold + others.sum() + ROUNDING * (likelihood.n + abs(value))
                cut = c[j] - room / slope[j]
                ends[j] = max(ends[j], cut) if sign > 0 else min(ends[j], cut)


def _scales(likelihood: Likelihood, fitted: Fit, threshold: float) -> FloatArray:
    """Return the deviation of every number if the others are fixed, [k]."""
    width = likelihood.high - likelihood.low
    if not np.isfinite(fitted.value):
        return width
    peak, edges = _peak(fitted), edges_of(likelihood)
    found = np.array([deviation_along(likelihood, peak, j) for j in range(len(width))])
    if edges is not None:
        low, high = edges.hull(peak, threshold)
        found = np.where(edges.is_moving, (high - low) / WIDTH, found)
    return np.asarray(np.clip(found, 1e-12 * width, width))


def _peak(fitted: Fit) -> Peak:
    return Peak(fitted.theta, fitted.value, fitted.gradient)


def _covered(
    upper: Upper,
    low: FloatArray,
    high: FloatArray,
    threshold: float,
    scales: FloatArray,
    most_boxes: int,
) -> Boxes:
    k, number = len(low), 0
    # (minus the longest side in deviations, order of creation, ends)
    waiting: list[tuple[float, int, FloatArray, FloatArray]] = []
    if upper(low, high) >= threshold:
        waiting.append((-float(np.max((high - low) / scales)), number, low, high))
    while waiting and len(waiting) < most_boxes and -waiting[0][0] > SMALL:
        _, _, box_low, box_high = heapq.heappop(waiting)
        for half_low, half_high in _halves(box_low, box_high, scales):
            if upper(half_low, half_high) >= threshold:
                number += 1
                size = float(np.max((half_high - half_low) / scales))
                heapq.heappush(waiting, (-size, number, half_low, half_high))
    waiting.sort(key=lambda box: box[1])
    return Boxes(
        np.array([box[2] for box in waiting]).reshape(-1, k),
        np.array([box[3] for box in waiting]).reshape(-1, k),
    )


@dataclass(frozen=True, eq=False)
class _EndSearch:
    """A search for one end of a number's interval."""

    upper: Upper
    threshold: float
    scales: FloatArray  # [k]
    j: int
    is_low: bool

    def run(
        self, low: FloatArray, high: FloatArray, inner: float
    ) -> tuple[float, FloatArray] | None:
        """Return the end within a box, and a point near it; None if the set is not in the box.

        `inner` is where the end is at best, as far as is known: close to it the search is over.
        """
        j, number = self.j, 0
        goal = (SHARP if len(low) == 1 else SHARP_TOGETHER) * float(self.scales[j])
        # (how far out, order of creation, ends)
        waiting = [(self._place(low, high), number, low.copy(), high.copy())]
        while waiting:
            place, _, box_low, box_high = waiting[0]
            end = place if self.is_low else -place
            is_small = bool(np.max((box_high - box_low) / self.scales) <= SMALL)
            is_sharp = is_small and box_high[j] - box_low[j] <= goal
            if abs(end - inner) <= goal or is_sharp or number >= MOST_BOUNDS:
                return end, (box_low + box_high) / 2
            heapq.heappop(waiting)
            for half in _halves(box_low, box_high, self.scales, j if is_small else None):
                number += 1
                if self.upper(*half) >= self.threshold:
                    heapq.heappush(waiting, (self._place(*half), number, *half))
        return None

    def _place(self, low: FloatArray, high: FloatArray) -> float:
        return float(low[self.j] if self.is_low else -high[self.j])


def _profile_hull(
    likelihood: Likelihood, fitted: Fit, threshold: float
) -> tuple[FloatArray, FloatArray]:
    """Return where the profile likelihoods cross a threshold, [k] and [k]; NaN if they do not."""
    k = len(likelihood.low)
    low, high = np.full(k, np.nan), np.full(k, np.nan)
    if fitted.value >= threshold > -np.inf:
        edges = edges_of(likelihood)
        if edges is not None:
            low, high = edges.hull(_peak(fitted), threshold)
        for j in range(k):
            if edges is not None and edges.is_moving[j]:
                continue
            profile = Profile(likelihood, fitted, j)
            low[j], high[j] = profile.end(-1, threshold), profile.end(1, threshold)
    return low, high


def _halves(
    low: FloatArray, high: FloatArray, scales: FloatArray, j: int | None = None
) -> list[tuple[FloatArray, FloatArray]]:
    """Return the halves of a box across a side, or else across the longest one in deviations."""
    j = int(np.argmax((high - low) / scales)) if j is None else j
    left_high, right_low = high.copy(), low.copy()
    left_high[j] = right_low[j] = low[j] + (high[j] - low[j]) / 2
    return [(low, left_high), (right_low, high)]


def _stretched(boxes: Boxes, low: FloatArray, high: FloatArray) -> Boxes:
    """Return boxes that reach the ends of a hull."""
    own_low, own_high = boxes.hull
    return Boxes(
        np.where(boxes.low == own_low, low, boxes.low),
        np.where(boxes.high == own_high, high, boxes.high),
    )
