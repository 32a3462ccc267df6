"""Optimistic value iteration: sweeps towards the values, then bounds proved around them.

Source: Hartmanns and Kaminski 2020. Sweeps are in place over states ordered by strongly connected
part and by their distance from where rows leave, and between two sweeps over all pairs a few go
over the chosen pairs only (modified policy iteration). As soon as the values are probably close
enough, bounds at the distance of the tolerance are guessed, and swept until each entry has fallen
(risen) in one sweep, which proves them (see `transient`); if that takes too long, the values have
to come closer first.
"""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.graph.space import FloatArray
from mdpdsl.kernels.affine_rows import IndexArray, Rows, room_for_policy, weight_matrix
from mdpdsl.kernels.bounding import approach, approach_policy, prove
from mdpdsl.kernels.components import strong_parts
from mdpdsl.kernels.solving import fill_policy, order_from, reordered
from mdpdsl.solve.solution import SolveStatus, half_gap, middle
from mdpdsl.solve.transient import SMALLEST, Found, Task
from mdpdsl.solve.verified import Bounds

#: Sweeps by one policy between two improvements, and the reduction of the change that ends them.
POLICY_SWEEPS = 50
WORTHWHILE = 0.02
#: Bounds are guessed at this share of the tolerance, once values are probably twice as close.
GUESS = 0.9
#: A failed proof makes the estimate of the error this much larger.
CAUTION = 4.0
#: Sweeps spent on a proof: so many, and one for this many before.
PROOF_SWEEPS, SWEEPS_PER_PROOF = 10, 8
#: Once values do not improve any more, so many sweeps are spent, or as many as until then: upper
#: bounds have to fall along the ways of all policies, values only along those of good ones.
PATIENT_SWEEPS = 1_000
#: After so many sweeps without a proof, a wider guess keeps the bounds of a slow solution useful;
#: the next time after this many times as many.
FIRST_LOOK, NEXT_LOOK = 250, 4
#: Values that change by less than this many units of rounding do not improve any more. Then each
#: guess is wider by a factor than the last until one is proved, or none can be.
STALLED, WIDER, WIDEST = 4.0, 8.0, 1e3
#: Values that are too low are the largest constant times the unknowns and this.
PESSIMISM = 2.0
#: The precision of policies that only show the size of the values.
ROUGH = 1e-3


class ProvedSweeps:
    """The state of the sweeps: values, and bounds that are proved; all in their own order."""

    def __init__(
        self,
        task: Task,
        *,
        has_policy_sweeps: bool,
        start: FloatArray | None = None,
        known: Bounds | None = None,
    ) -> None:
        problem = task.problem
        rows = problem.rows
        self.iterations, self.variant = 0, "guessed bounds, proved"
        self._task, self._has_policy_sweeps = task, has_policy_sweeps
        self._order = _order(rows)
        self._rows, self._old_pair = reordered(rows, self._order)
        spread = 0.0 if problem.spread is None else problem.spread[self._old_pair]
        self._above = self._rows.constant + spread
        self._below = self._rows._replace(constant=self._rows.constant - spread)
        self._room, self._filled = room_for_policy(self._rows)
        self._lower = np.full(problem.n_groups, problem.least)
        self._upper = np.full(problem.n_groups, problem.most)
        self._greedy: IndexArray = self._rows.pair_start[:-1].copy()
        self._choice: IndexArray | None = None  # proves the lower bound
        if known is not None:
            self._lower, self._upper = known[0][self._order], known[1][self._order]
            self._choice = self._places()[known[2][self._order]]
        self._values = self._first() if start is None else start[self._order]

    def run(self) -> Found:
        """Sweep until the bounds are precise, rounding prevents it, or the watch stops it."""
        precision = self._task.precision
        floor, width, wide = precision.floor, GUESS * precision.tolerance, 0.0
        caution, before, between, look = 1.0, math.inf, 1, FIRST_LOOK
        is_met, patience = False, 0
        while True:
            change = approach(self._rows, self._values, self._greedy, floor)
            self.iterations += 1
            if not self._goes_on():
                return self.found(SolveStatus.STOPPED)
            error = caution * change * _ahead(change / before, between)
            is_stalled = change <= STALLED * self._task.problem.unit
            is_close, is_late = error <= width / 2, self.iterations >= look
            if is_stalled or is_close or is_late:
                wide = max(WIDER * wide, width) if is_stalled else 0.0
                if is_stalled:
                    patience = patience or max(PATIENT_SWEEPS, self.iterations)
                guess = max(wide, width if is_close else 4 * error)
                is_proved = self._prove(guess, floor, patience if is_stalled else 0)
                caution *= CAUTION if is_close else 1.0
                look = max(look, NEXT_LOOK * self.iterations) if is_late else look
                if is_proved and precision.is_met(self._lower, self._upper, floor):
                    is_met, last = True, floor
                    floor = precision.floor_at_start(*self._bounds()) or floor
                    if floor >= last:
                        return self.found(SolveStatus.OPTIMAL)
                    wide, caution, before = 0.0, 1.0, math.inf
                    continue
                if is_stalled and (is_proved or wide > WIDEST):
                    return self.found(SolveStatus.OPTIMAL if is_met else SolveStatus.PRECISION)
            before, between = max(change, SMALLEST), 1
            if self._has_policy_sweeps and not is_stalled:
                between += self._sweep_policy(self._greedy, WORTHWHILE * change, floor)

    def size_after(self, n_sweeps: int) -> float:
        """Return the approximate size of the values, after so many sweeps."""
        while self.iterations < n_sweeps:
            approach(self._rows, self._values, self._greedy, 1.0)
            self.iterations += 1 + self._sweep_policy(self._greedy, ROUGH, 1.0)
        return max(float(np.abs(self._values).max()), _largest(self._rows)) or 1.0

    def found(self, status: SolveStatus) -> Found:
        """Return what is known so far."""
        lower, upper = self._bounds()
        values, choice = np.empty(len(lower)), np.empty(len(lower), np.int64)
        values[self._order] = self._values
        values = middle(lower, upper, values)
        chosen = self._greedy if self._choice is None else self._choice
        choice[self._order] = self._old_pair[chosen]
        return Found(status, values, lower, upper, choice, self.iterations, self.variant)

    def _first(self) -> FloatArray:
        """Return values to start from: too low, so that pairs are preferred that surely leave."""
        problem = self._task.problem
        if problem.proper is not None:
            return np.full(problem.n_groups, -PESSIMISM * problem.n_groups * _largest(self._rows))
        return np.full(problem.n_groups, problem.least if math.isfinite(problem.least) else 0.0)

    def _sweep_policy(self, choice: IndexArray, least: float, floor: float) -> int:
        """Sweep over the pairs of a policy until the change is small; return the sweeps done."""
        fill_policy(self._rows, choice, self._filled, self._room)
        done: int = approach_policy(self._room, self._values, POLICY_SWEEPS, least, floor)
        self.iterations += done
        return done

    def _prove(self, width: float, floor: float, patience: int) -> bool:
        """Guess bounds at a relative distance from the values; return whether both are proved.

        With `patience`, that many sweeps are spent, as long as bounds change.
        """
        problem = self._task.problem
        margin = width * np.maximum(floor, np.abs(self._values))
        lower = np.maximum(self._values - margin, self._lower)
        upper = np.minimum(self._values + margin, self._upper)
        choice = self._greedy.copy()
        relative, absolute = problem.unit, float(np.finfo(np.float64).tiny)
        if not problem.is_one_signed:
            size = max(float(np.abs(side).max()) for side in (self._above, lower, upper))
            relative, absolute = 0.0, 2 * problem.unit * size
        known = problem.least, problem.most
        is_lower = is_upper = False
        for _ in range(patience or PROOF_SWEEPS + self.iterations // SWEEPS_PER_PROOF):
            before = (lower.copy(), upper.copy()) if patience else None
            is_lower, is_upper = prove(
                self._below, self._above, lower, upper, choice, *known, relative, absolute
            )
            self.iterations += 1
            if (is_lower and is_upper) or np.any(lower > upper) or not self._goes_on():
                break
            if before is not None and all(map(np.array_equal, before, (lower, upper))):
                break
        if is_lower:
            self._lower, self._choice = lower, choice
        if is_upper:
            self._upper = upper
        return is_lower and is_upper

    def _goes_on(self) -> bool:
        return self._task.watch(self.iterations, half_gap(self._lower, self._upper))

    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the bounds in the order of the problem."""
        lower, upper = np.empty(len(self._order)), np.empty(len(self._order))
        lower[self._order], upper[self._order] = self._lower, self._upper
        return lower, upper

    def _places(self) -> IndexArray:
        """Return the place of each row of the problem in this order."""
        place = np.empty(len(self._old_pair), np.uint32)
        place[self._old_pair] = np.arange(len(place), dtype=np.uint32)
        return place


def _ahead(reduction: float, n_sweeps: int) -> float:
    """Return the sum of all later changes in units of the last, if they keep falling like this."""
    if reduction == 0:  # the first change
        return 1.0
    rate = math.exp(math.log(min(max(reduction, 1e-9), 1 - 1e-9)) / n_sweeps)
    return rate / (1 - rate)


def _largest(rows: Rows) -> float:
    return float(np.abs(rows.constant).max())


def _order(rows: Rows) -> IndexArray:
    """Return the states by strongly connected part, and in each part those near an exit first.

    No pair leads to a later part. So if there are no cycles, one sweep solves all rows, and one
    more proves the bounds.
    """
    near_first = order_from(rows, _exits(rows))
    return np.asarray(near_first[np.argsort(strong_parts(rows)[near_first], kind="stable")])


def _exits(rows: Rows) -> IndexArray:
    """Return the groups with a row that may leave all groups."""
    start = rows.pair_start[:-1].astype(np.int64)
    lacks = 1 - np.asarray(weight_matrix(rows).sum(axis=1))
    return np.flatnonzero(np.maximum.reduceat(lacks, start) > 1e-12).astype(np.uint32)
