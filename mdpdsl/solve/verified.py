"""Bounds around values that are nearly exact, from the equations of the best policies.

Let e bound the residual |T V - V| and the rounding error in every state, and let  w >= e + W w  for
the nearly optimal pairs: what the errors of all later steps amount to. Then

    T(V + w) <= V + w   and   T(V - w) >= V - w,

so V is exact up to w (see `transient`). Both are checked numerically, for all pairs, with twice the
e that is needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.kernels.affine_rows import Rows, first_best, weight_matrix
from mdpdsl.solve.policy_iteration import Continue, policy_iteration

if TYPE_CHECKING:
    from mdpdsl.solve.transient import Problem

#: Pairs within this margin of the best, relative to the largest value, must satisfy w >= e + W w;
#: if that fails, the next margin.
MARGINS = (1e-9, 1e-4, math.inf)
#: Errors below this are not distinguished from 0.
TINY = 1e-300

Bounds = tuple[FloatArray, FloatArray, IntArray]


def verified_bounds(problem: Problem, values: FloatArray, goes_on: Continue) -> Bounds | None:
    """Return bounds and the pairs that attain the lower one; None if none could be verified."""
    rows, unit = problem.rows, problem.unit
    matrix, c = weight_matrix(rows), rows.constant
    spread = 0.0 if problem.spread is None else problem.spread
    worth = c + matrix @ values
    best, greedy = first_best(rows, worth)
    rounding = first_best(rows, unit * (np.abs(c) + matrix @ np.abs(values)) + spread)[0]
    excess = 2 * (np.abs(best - values) + 4 * rounding) + TINY
    scale = float(np.abs(c).max() + np.abs(values).max()) + TINY
    states = _states(rows)
    for margin in MARGINS:
        is_close = worth >= best[states] - margin * scale
        later = _later_errors(rows, is_close, greedy, excess, goes_on)
        if later is None:
            continue
        upper = np.minimum(values + later, problem.most)
        lower = np.maximum(values - later, problem.least)
        above = c + spread + matrix @ upper + unit * (np.abs(c) + matrix @ np.abs(upper))
        below = c - spread + matrix @ lower - unit * (np.abs(c) + matrix @ np.abs(lower))
        falls = (above <= upper[states]) | (upper >= problem.most)[states]
        attained, choice = first_best(rows, below)
        rises = (attained >= lower) | (lower <= problem.least)
        if falls.all() and rises.all():
            return lower, upper, choice
    return None


def _later_errors(
    rows: Rows, is_allowed: BoolArray, choice: IntArray, excess: FloatArray, goes_on: Continue
) -> FloatArray | None:
    """Return  w >= e + W w  for all allowed pairs, if there is one."""
    allowed = np.flatnonzero(is_allowed)
    matrix = weight_matrix(rows)[allowed]
    start = np.concatenate([[0], np.cumsum(is_allowed)])
    pair_start = start[rows.pair_start].astype(np.uint32)
    states = np.repeat(np.arange(len(excess)), np.diff(pair_start))
    limited = Rows(
        pair_start,
        matrix.indptr.astype(np.uint32),
        matrix.indices.astype(np.uint32),
        matrix.data,
        2 * excess[states],
    )
    try:
        for iterate in policy_iteration(limited, start[choice], lambda _: 0.0, goes_on):
            later = iterate.values
            if np.isfinite(later).all() and np.all(
                excess[states] + matrix @ later <= later[states]
            ):
                return later
    except (np.linalg.LinAlgError, RuntimeError):
        return None  # some policy never leaves, or so seldom that rounding hides it
    return None


def _states(rows: Rows) -> IntArray:
    """Return the state of every pair."""
    return np.repeat(np.arange(len(rows.pair_start) - 1), np.diff(rows.pair_start))
