"""The largest long-run average in components whose states all reach each other, with bounds.

Rows are those of  T h = max_a [r + P h].  For any values h, the best average g of a component lies
between the least and the largest change of a Bellman step on it (Puterman 1994, theorem 8.5.5):

    min_s (T h - h)(s)  <=  g  <=  max_s (T h - h)(s).

A policy whose pairs attain T h has an average of at least the lower bound, wherever it starts: the
stationary distribution m of any of its classes has  m r = m (r + P h - h) >= min (T h - h).  No
policy exceeds the upper bound, by the same argument; and as all states reach each other, the best
average is the same in all of them. Both bounds include the rounding error of the step.

Small problems are solved by policy iteration (`gain_policies`), others by sweeps (`gain_sweeps`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.kernels.affine_rows import Rows, restricted
from mdpdsl.solve.bellman import rounding_unit
from mdpdsl.solve.choose import chosen_method
from mdpdsl.solve.policy_iteration import ELIMINATED_STATES
from mdpdsl.solve.solution import Watch

#: Bounds within this many units of rounding cannot be improved.
NEAR_ROUNDING = 3.0
#: Sweeps change kind when this many more are predicted, and after each change so many times more.
PATIENCE, MORE_PATIENCE = 60.0, 4.0


@dataclass(frozen=True, eq=False)
class GainProblem:
    """Components as rows, none of which leaves its own; states are sorted by component."""

    rows: Rows  # of n states; constants are rewards, weights are probabilities
    start: IntArray  # [n_components + 1]  the first state of each

    @property
    def n_states(self) -> int:
        """The number of states in all components."""
        return int(self.start[-1])

    @property
    def component_of(self) -> IntArray:
        """The component of each state, [n]."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


@dataclass(eq=False)
class GainBounds:
    """The best bounds of each component so far, and a policy that attains the lower ones."""

    problem: GainProblem
    low: FloatArray = field(init=False)  # [n_components]
    high: FloatArray = field(init=False)  # [n_components]
    rounding: FloatArray = field(init=False)  # [n_components]  their part that is due to rounding
    choice: IntArray = field(init=False)  # [n]  rows
    values: FloatArray = field(init=False)  # [n]  h, with the closest bounds so far
    gap: FloatArray = field(init=False)  # [n_components]  of these values
    #: Tolerances are in units of an average's size divided by this, but at least 1.
    unit: float = math.inf
    iterations: int = 0

    def __post_init__(self) -> None:
        """Begin with no bounds."""
        n_components = len(self.problem.start) - 1
        self.low, self.high = np.full(n_components, -np.inf), np.full(n_components, np.inf)
        self.rounding, self.gap = np.zeros(n_components), np.full(n_components, np.inf)
        self.choice = self.problem.rows.pair_start[:-1].astype(np.int64)
        self.values = np.zeros(self.problem.n_states)

    @property
    def widest(self) -> float:
        """Half of the largest distance of two bounds."""
        return float((self.high - self.low).max(initial=0.0)) / 2

    def certify(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Take a Bellman step and note the bounds; return its result and the gap of each."""
        from mdpdsl.kernels.solving import improve

        new, pairs = np.empty_like(values), np.zeros(len(values), np.uint32)
        improve(self.problem.rows, values, new, pairs)
        self.iterations += 1
        return new, self.note(values, new - values, new - values, pairs.astype(np.int64))

    def note(
        self, values: FloatArray, attained: FloatArray, best: FloatArray, pairs: IntArray
    ) -> FloatArray:
        """Note the bounds from the changes that some pairs attain, and from the best changes."""
        rows, start = self.problem.rows, self.problem.start[:-1]
        first = rows.pair_start[start].astype(np.int64)
        size = np.maximum.reduceat(np.abs(rows.constant), first)
        size += np.maximum.reduceat(np.abs(values), start)
        rounding = 2 * rounding_unit(rows) * size
        low = np.minimum.reduceat(attained, start) - rounding
        high = np.maximum.reduceat(best, start) + rounding
        gap = np.asarray(high - low, dtype=np.float64)
        of = self.problem.component_of
        self.choice = np.where((low > self.low)[of], pairs, self.choice)
        self.values = np.where((gap < self.gap)[of], values, self.values)
        self.rounding = np.where(gap < self.gap, rounding, self.rounding)
        self.gap = np.minimum(gap, self.gap)
        self.low, self.high = np.maximum(low, self.low), np.minimum(high, self.high)
        return gap

    def size(self) -> FloatArray:
        """Return the least size that the average of each component may have."""
        least = np.where(self.low > 0, self.low, np.where(self.high < 0, -self.high, 0.0))
        return np.asarray(least, dtype=np.float64)

    def scaled(self, gap: FloatArray) -> FloatArray:
        """Return half a gap of each component in the units of tolerances."""
        return np.asarray(gap / 2 / np.maximum(1.0, self.size() / self.unit), dtype=np.float64)

    def is_open(self, tolerance: float) -> BoolArray:
        """Return which components have bounds that are too wide, but not for rounding."""
        gap = self.high - self.low
        is_wide = self.scaled(gap) > tolerance
        return np.asarray(is_wide & (gap > 2 * NEAR_ROUNDING * self.rounding))


def solve_gains(
    bounds: GainBounds,
    tolerance: float,
    method: str,
    *,
    watch: Watch,
    backend: str,
    time_limit: float | None,
) -> tuple[str, bool, str]:
    """Bound all gains within a tolerance, as far as rounding allows.

    Return the method chosen, False if the watch stopped it, and what a backend said if it gave up.
    """
    from mdpdsl.solve.gain_policies import iterate_policies
    from mdpdsl.solve.gain_sweeps import (
        best_rewarded,
        most_visited,
        reference_sweeps,
        whole_sweeps,
    )

    if not np.isfinite(bounds.gap).all():
        bounds.certify(bounds.values)
    chosen = _affordable(bounds, tolerance, method)
    patience, message, goes_on = PATIENCE, "", True
    kinds = itertools.cycle(["whole", "rewarded", "whole", "visited"])
    kind = "policies" if chosen in ("pi", "lp") else next(kinds)
    while goes_on and not message and (is_open := bounds.is_open(tolerance)).any():
        part, is_state, rows = _part(bounds, is_open)
        if kind == "policies":
            solver = backend if chosen == "lp" else None
            goes_on, message = iterate_policies(part, tolerance, watch, solver, time_limit)
        elif kind == "whole":
            goes_on = whole_sweeps(part, tolerance, patience, watch)
            patience *= MORE_PATIENCE
        else:
            references = most_visited(part) if kind == "visited" else best_rewarded(part)
            goes_on = reference_sweeps(
                part, tolerance, patience, watch, references, has_policy_sweeps=chosen != "vi"
            )
        _merge(bounds, part, is_open, is_state, rows)
        kind = next(kinds)
    return chosen, goes_on, message


def _affordable(bounds: GainBounds, tolerance: float, method: str) -> str:
    """Return the method to use for the components that a first step does not solve."""
    is_open = bounds.is_open(tolerance)
    if not is_open.any():
        return "vi" if method == "auto" else method
    part, *_ = _part(bounds, is_open)
    chosen = chosen_method(part.problem.rows, method)
    is_large = part.problem.n_states > ELIMINATED_STATES
    return "mpi" if chosen == "pi" and is_large else chosen


def _part(bounds: GainBounds, is_kept: BoolArray) -> tuple[GainBounds, BoolArray, IntArray]:
    """Return the bounds of some components, which states these have, and their rows."""
    problem = bounds.problem
    is_state = is_kept[problem.component_of]
    rows, numbers = restricted(problem.rows, is_state)
    sizes = np.diff(problem.start)[is_kept]
    part = GainBounds(GainProblem(rows, np.concatenate([[0], np.cumsum(sizes)])))
    part.unit = bounds.unit
    part.low, part.high = bounds.low[is_kept], bounds.high[is_kept]
    part.rounding, part.gap = bounds.rounding[is_kept], bounds.gap[is_kept]
    part.choice = np.searchsorted(numbers, bounds.choice[is_state])
    part.values, part.iterations = bounds.values[is_state], bounds.iterations
    return part, is_state, numbers


def _merge(
    bounds: GainBounds, part: GainBounds, is_kept: BoolArray, is_state: BoolArray, rows: IntArray
) -> None:
    """Take over what became known about some components."""
    bounds.low[is_kept], bounds.high[is_kept] = part.low, part.high
    bounds.rounding[is_kept], bounds.gap[is_kept] = part.rounding, part.gap
    bounds.choice[is_state], bounds.values[is_state] = rows[part.choice], part.values
    bounds.iterations = part.iterations
