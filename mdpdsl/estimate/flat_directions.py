"""Flat directions: combinations of unknown numbers about which the data say nothing.

In units of the ranges, an eigenvector of the Fisher information whose eigenvalue is 0, or whose
deviation 1/sqrt(eigenvalue) exceeds the range, may be one. It is one if l stays the same when its
main number moves through its range and the others follow to their best values, until one of them
reaches an end of its range: a ridge, which may be curved (with p*q in the rows, p*q = constant).
A basis of the flat directions in reduced echelon form mixes as few numbers as possible; directions
that share a number form a group. If the data determine just one function of a group, and this is
the product, sum, ratio or difference of its numbers, it is constant along the ridge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.estimate.likelihood import Likelihood, Peak, climb, edges_of, scaled_information
from mdpdsl.graph.space import BoolArray, FloatArray

#: l may change by this much along a flat direction.
SAME = 1e-3

#: An eigenvalue of the information this small, or this much smaller than the largest, is 0.
SINGULAR = 1e-9

#: Weights below this share of the largest one are numerical noise.
NOISE = 1e-3

#: Where on the way to the end of its range a number is tried.
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0)

#: A function is constant along a ridge if it changes this much less than the numbers in it, and is
#: the one that shows if every other one changes more than this factor more.
CONSTANT, DISTINCT = 0.02, 3.0


@dataclass(frozen=True, eq=False)
class Direction:
    """Numbers that the data cannot tell apart, or a single one that does not show in them."""

    names: tuple[str, ...]
    vectors: FloatArray  # [d, k]  a basis of the flat directions, in units of the ranges
    expression: str | None  # what the data determine of these numbers, if it has a simple form
    sentence: str


def flat_directions(
    likelihood: Likelihood, peak: Peak
) -> tuple[tuple[Direction, ...], list[FloatArray]]:
    """Return the groups of flat directions at a maximum, and points along them."""
    information, edges = scaled_information(likelihood, peak.theta), edges_of(likelihood)
    if edges is not None:  # l says nothing of numbers that move its edges, but the edges do
        width = likelihood.high - likelihood.low
        information = information + edges.weights(peak.theta) * np.outer(width, width)
    values, vectors = np.linalg.eigh(information)
    is_zero = values <= SINGULAR * max(1.0, float(values[-1]))
    certain = _echelon(vectors[:, is_zero].T)
    weak = _cleaned(vectors[:, ~is_zero & (values < 1)].T)
    rows, paths = [], []
    for vector in (*certain, *weak):
        path = _ridge(likelihood, peak, vector)
        if len(path) > 1:
            rows.append(vector)
            paths.append(path)
    groups = []
    for members in _groups(rows):
        path = np.concatenate([paths[i] for i in members])
        groups.append(_direction(likelihood, np.array([rows[i] for i in members]), path))
    points = [point for path in paths for point in path[1:]]
    return tuple(groups), points


def _echelon(rows: FloatArray) -> FloatArray:
    """Return the reduced echelon form of a basis, pivoting on its largest entries, as units."""
    rows = rows.copy()
    pivots: list[int] = []
    for i in range(len(rows)):
        rest = np.abs(rows[i:])
        rest[:, pivots] = 0.0
        row, column = divmod(int(np.argmax(rest)), rest.shape[1])
        rows[[i, i + row]] = rows[[i + row, i]]
        rows[i] /= rows[i, column]
        for other in range(len(rows)):
            if other != i:
                rows[other] -= rows[other, column] * rows[i]
        pivots.append(column)
    return _cleaned(rows)


def _cleaned(rows: FloatArray) -> FloatArray:
    """Return directions as unit vectors without numerical noise."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    kept = np.where(np.abs(rows) < NOISE * largest, 0.0, rows)
    found: FloatArray = kept / np.linalg.norm(kept, axis=1, keepdims=True)
    return found


def _ridge(likelihood: Likelihood, peak: Peak, vector: FloatArray) -> FloatArray:
    """Follow a flat direction to both ends; return the points, or only the peak if it is not flat.

    A side is flat if it reaches the end of the main number's range, or until another number is at
    an end of its own.
    """
    j = int(np.argmax(np.abs(vector)))
    low, high = likelihood.low, likelihood.high
    free = np.ones(len(low), np.bool_)
    free[j] = False
    points = [peak.theta]
    for end in (low[j], high[j]):
        last = peak.theta
        for share in SHARES:
            start = last.copy()
            start[j] = peak.theta[j] + share * (end - peak.theta[j]) if share < 1 else end
            if start[j] == last[j]:
                break
            found = _followed(likelihood, start, last, vector, free)
            if not found.value > peak.value - SAME:
                if not _is_blocked(likelihood, found.theta, vector, free):
                    return np.array(points[:1])
                break
            points.append(found.theta)
            last = found.theta
    return np.array(points)


def _followed(
    likelihood: Likelihood, start: FloatArray, last: FloatArray, vector: FloatArray, free: BoolArray
) -> Peak:
    """Return the best point after a move of one number, starting straight along the direction."""
    low, high = likelihood.low, likelihood.high
    width, j = high - low, int(np.flatnonzero(~free)[0])
    moved = (start[j] - last[j]) / width[j]
    ahead = np.clip(last + width * vector * (moved / vector[j]), low, high)
    ahead[j] = start[j]
    starts, edges = [ahead, start], edges_of(likelihood)
    if edges is not None:
        starts += list(edges.points({j: float(start[j])}))
    tried = [climb(likelihood, each, free) for each in starts]
    return max(tried, key=lambda found: found.value)


def _is_blocked(
    likelihood: Likelihood, theta: FloatArray, vector: FloatArray, free: BoolArray
) -> bool:
    at_end = (theta <= likelihood.low) | (theta >= likelihood.high)
    return bool(np.any(at_end & free & (vector != 0)))


def _groups(rows: list[FloatArray]) -> list[list[int]]:
    """Return the directions in groups that share numbers."""
    groups: list[tuple[BoolArray, list[int]]] = []
    for i, row in enumerate(rows):
        numbers, members = row != 0, [i]
        apart = []
        for other, its_members in groups:
            if np.any(other & numbers):
                numbers, members = numbers | other, its_members + members
            else:
                apart.append((other, its_members))
        groups = [*apart, (numbers, members)]
    return [members for _, members in groups]


def _direction(likelihood: Likelihood, vectors: FloatArray, path: FloatArray) -> Direction:
    involved = np.flatnonzero(np.any(vectors != 0, axis=0))
    names = tuple(likelihood.names[j] for j in involved)
    if len(names) == 1:
        return Direction(names, vectors, None, f"`{names[0]}` does not show in the data")
    along = " or along ".join(
        ", ".join(f"{names[i]} {vector[j]:+.2g}" for i, j in enumerate(involved) if vector[j])
        for vector in vectors
    )
    listed = ", ".join(f"`{name}`" for name in names[:-1]) + f" and `{names[-1]}`"
    sentence = (
        f"{listed} cannot be told apart: the data say the same along {along} "
        "(in units of their ranges)"
    )
    shown = None
    if len(names) - len(vectors) == 1:
        shown = _what_shows(names, path[:, involved])
    if shown is None:
        return Direction(names, vectors, None, sentence)
    kind, expression, value = shown
    sentence += f"; only their {kind} `{expression}` = {value:.4g} shows"
    return Direction(names, vectors, expression, sentence)


def _what_shows(names: tuple[str, ...], path: FloatArray) -> tuple[str, str, float] | None:
    """Return the function that is constant along a ridge: its kind, its text and its value."""
    first, last = path[:, 0], path[:, -1]
    candidates = [
        ("product", "*".join(names), path.prod(axis=1), True),
        ("sum", " + ".join(names), path.sum(axis=1), False),
    ]
    if len(names) == 2:
        with np.errstate(divide="ignore", invalid="ignore"):
            candidates.append(("ratio", "/".join(names), first / last, True))
        candidates.append(("difference", " - ".join(names), first - last, False))
    changes = [_change(values, path, is_log) for _, _, values, is_log in candidates]
    order = np.argsort(changes, kind="stable")
    least, next_least = changes[order[0]], changes[order[1]]
    if not least < CONSTANT or next_least < DISTINCT * least:
        return None
    kind, text, values, _ = candidates[order[0]]
    return kind, text, float(np.median(values))


def _change(values: FloatArray, path: FloatArray, is_log: bool) -> float:
    """Return how much a function changes along a path, relative to the numbers in it."""
    if is_log:
        # A number may be 0 at an end of the ridge; logarithms need the rest of it.
        inside = np.all(path != 0, axis=1)
        values, path = values[inside], path[inside]
        if len(path) < 2 or np.any(values * values[0] <= 0) or np.any(path * path[0] <= 0):
            return np.inf
        values, path = np.log(np.abs(values)), np.log(np.abs(path))
    if not np.isfinite(values).all():
        return np.inf
    spread = np.max(np.ptp(path, axis=0))
    return float(np.ptp(values) / spread) if spread > 0 else np.inf
