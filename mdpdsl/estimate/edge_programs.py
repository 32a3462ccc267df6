"""Linear programs over a few unknown numbers and many inequalities.

The dual of a linear program proves a bound whatever its rounding errors: for multipliers y >= 0,

    c u >= min over the box of (c + y A) u - y b   wherever A u <= b

(Neumaier and Shcherbina 2004). Numbers are in units of their ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray

#: Points keep this far inside, in widths: linear programs are exact to a tenth of it.
MARGIN, TOLERANCE = 1e-9, 1e-10

#: Where a number is least on a whole side of a polytope, both ends of that side count: programs are
#: tilted by this, both ways.
TILT = 1e-4

#: A program starts with this many inequalities, and adds as many of those that fail.
FEW = 50

#: A proved end is moved outwards by this share of the range: inequalities have rounding errors.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Inequalities:
    """The inequalities A u <= b and the widths s + S u of uniform laws; u is in units of ranges."""

    A: FloatArray  # [m, k]  in widths
    b: FloatArray  # [m]
    s: FloatArray  # [r]  at u = 0, of the numbers that were observed inside
    S: FloatArray  # [r, k]


def farthest_inside(rows: Inequalities, low: FloatArray, high: FloatArray) -> FloatArray | None:
    """Return the point in a box with the most room to all ends."""
    solved = _most_room(rows, low, high)
    return None if solved is None else np.clip(solved[0][:-1], low, high)


def narrowest(
    rows: Inequalities, low: FloatArray, high: FloatArray, u: FloatArray
) -> FloatArray | None:
    """Return the point in a box with the least sum of log s, by its tangent at u."""
    c = np.sum(rows.S / (rows.s + rows.S @ u)[:, None], axis=0)
    solved = lowest(c / max(1.0, float(np.abs(c).max())), rows.A, rows.b - MARGIN, low, high)
    return None if solved is None else np.clip(solved[0], low, high)


def mean_of_outermost(A: FloatArray, b: FloatArray, u: FloatArray, held: BoolArray) -> FloatArray:
    """Return the mean of the points of a polytope where each number is least and largest."""
    low, high = np.where(held, u, 0.0), np.where(held, u, 1.0)
    axes = np.eye(len(u))[~held]
    solved = [
        lowest(c + tilt, A, b - MARGIN, low, high)
        for c in (*axes, *-axes)
        for tilt in (TILT, -TILT)
    ]
    found = [each[0] for each in solved if each is not None]
    return np.asarray(np.mean(found, axis=0)) if found else u


def is_impossible(rows: Inequalities) -> bool:
    """Return whether no point of the ranges satisfies the inequalities, by a weighted sum."""
    solved = _most_room(rows, np.zeros(rows.A.shape[1]), np.ones(rows.A.shape[1]))
    if solved is None or not solved[1].sum() > 0:
        return False
    y = solved[1] / solved[1].sum()
    error = ROUNDING * (1 + float(np.abs(rows.A).max()) + float(np.abs(rows.b).max()))
    return bool(y @ rows.b - np.minimum(y @ rows.A, 0.0).sum() < -error)


def with_level(
    rows: Inequalities, low: FloatArray, high: FloatArray, most: float
) -> tuple[FloatArray, FloatArray]:
    """Return the inequalities, and one more: the secants of all log s add up to no more."""
    half = np.abs(rows.S) @ (high - low) / 2
    middle = rows.s + rows.S @ (low + high) / 2
    narrow, wide = middle - half, middle + half
    if not len(narrow) or np.any(narrow <= 0) or not most < 1e300:
        return rows.A, rows.b
    slope = np.where(wide > narrow, np.log1p((wide - narrow) / narrow), 1.0)
    slope /= np.where(wide > narrow, wide - narrow, narrow)
    row = slope @ rows.S
    limit = most - float(np.sum(np.log(narrow) + slope * (rows.s - narrow)))
    size = float(np.abs(row).max())
    if size == 0:
        return rows.A, rows.b
    limit += ROUNDING * (abs(most) + float(np.abs(np.log(narrow)).sum()))
    return np.vstack([rows.A, row / size]), np.append(rows.b, limit / size)


def lowest(
    c: FloatArray, A: FloatArray, b: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Minimise c u subject to A u <= b in a box: return u and the multipliers; None if impossible.

    Few inequalities matter, so that only those are used that fail without them.
    """
    from scipy.optimize import linprog

    solve: Any = linprog
    finite = np.where(np.isfinite(low), low, 0.0)
    order = np.argsort(b - A @ ((finite + high) / 2), kind="stable")
    used = np.sort(order[:FEW])
    while True:
        done = solve(
            c,
            A[used],
            b[used],
            bounds=np.column_stack([low, high]),
            method="highs",
            options={"primal_feasibility_tolerance": TOLERANCE},
        )
        if done.status != 0:
            return None
        u = np.asarray(done.x)
        room = b - A @ u
        room[used] = np.inf
        failing = np.flatnonzero(room < -TOLERANCE)
        if not len(failing):
            y = np.zeros(len(b))
            y[used] = np.maximum(-np.asarray(done.ineqlin.marginals), 0.0)
            return u, y
        used = np.sort([*used, *failing[np.argsort(room[failing])[:FEW]]])


def _most_room(
    rows: Inequalities, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    k = len(low)
    A = np.column_stack([rows.A, np.ones(len(rows.A))])
    c = np.append(np.zeros(k), -1.0)
    return lowest(c, A, rows.b, np.append(low, -np.inf), np.append(high, 1.0))
