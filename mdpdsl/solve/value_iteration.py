"""Value iteration and modified policy iteration on discounted rewards, by sweeps.

Two kinds of sweeps alternate until one is predicted to converge soon:

* whole sweeps (Jacobi), stopped by the span of the change (MacQueen 1966): a few suffice if the
  model mixes well, whatever the discount;
* sweeps in place (Gauss-Seidel) over states ordered by their distance from the reward, with
  self-loops eliminated exactly, starting from values that are too low everywhere; from time to
  time, the constant part of the remaining error is added at once.

Between two sweeps over all pairs, modified policy iteration (Puterman and Shin 1978) sweeps a few
times over the chosen pairs only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import FloatArray
from mdpdsl.kernels.affine_rows import IndexArray, Rows, room_for_policy
from mdpdsl.kernels.solving import (
    evaluate,
    evaluate_in_place,
    fill_policy,
    improve,
    order_from,
    reordered,
    sweep_in_place,
)
from mdpdsl.solve.solution import Iterate

#: The largest number of sweeps by one policy between two improvements: whole, and in place.
MOST_WHOLE = 50
MOST_IN_PLACE = 50
#: Sweeps by one policy end when the change has fallen to this fraction of that at the improvement.
WORTHWHILE = 0.02
#: Sweeps change kind when this many more are predicted; twice as many the next time.
PATIENCE = 40.0
#: The number of records of progress that a prediction uses.
TRIALS = 4
#: Improvements in place between two attempts to add the constant part.
SHIFT_EVERY = 8


class SweepRun:
    """Iterates of value iteration or modified policy iteration; `variant` names the sweeps used."""

    def __init__(
        self,
        rows: Rows,
        discount: float,
        tolerance: float,
        has_policy_sweeps: bool,
        start: FloatArray | None = None,
    ) -> None:
        self._rows, self._discount, self._tolerance = rows, discount, tolerance
        self._has_policy_sweeps = has_policy_sweeps
        values = np.zeros(len(rows.pair_start) - 1) if start is None else start - _middle(start)
        self._state = _SweepState(values)
        self._ordered: tuple[IndexArray, Rows] | None = None
        self.variant = "whole sweeps"

    def __iter__(self) -> Iterator[Iterate]:
        """Yield better and better values without end."""
        patience = PATIENCE
        while True:
            yield from self._whole(patience)
            yield from self._in_place(patience)
            patience *= 2

    def _whole(self, patience: float) -> Iterator[Iterate]:
        """Do whole sweeps until they prove to be slow."""
        rows, state = self._rows, self._state
        new, scratch = np.empty_like(state.values), np.empty_like(state.values)
        choice = np.zeros(len(new), np.uint32)
        ahead = self._discount / (1 - self._discount)
        chosen, filled = room_for_policy(rows)
        share = len(new) / len(rows.constant)
        progress = Forecast(self._tolerance)
        while True:
            low, high = improve(rows, state.values, new, choice)
            bound = ahead * (high - low) / 2
            yield Iterate(state.values.copy(), state.iterations, bound)
            state.iterations += 1
            state.values, new = new, state.values
            # Only the span matters here, and small numbers lose fewer digits. After one more step,
            # T(TV) - TV >= discount * low, and subtracting m adds (1 - discount) m.
            middle = _middle(state.values)
            state.values -= middle
            state.low = self._discount * low + (1 - self._discount) * middle
            if progress.work_left(1.0, bound) > patience:
                return
            if self._has_policy_sweeps:
                fill_policy(rows, choice, filled, chosen)
                span = high - low
                done = evaluate(chosen, state.values, scratch, MOST_WHOLE, WORTHWHILE * span)
                state.iterations += done
                progress.work += done * share

    def _in_place(self, patience: float) -> Iterator[Iterate]:
        """Sweep in place in a good order, from below, until that proves to be slow."""
        rows, state, discount = self._rows, self._state, self._discount
        self.variant = "whole sweeps and ordered sweeps in place"
        order, ordered = self._order()
        # Both are too low everywhere, and a Bellman step raises both, hence also their maximum.
        floor = state.values + state.low / (1 - discount)
        values = np.maximum(floor, rows.constant.min() / (1 - discount))[order]
        choice = np.zeros(len(values), np.uint32)
        whole, new = np.empty_like(values), np.empty_like(values)
        ahead = discount / (1 - discount)
        chosen, filled = room_for_policy(ordered)
        share = len(order) / len(rows.constant)
        progress = Forecast(self._tolerance)
        work, sharper = 0.0, 1.0  # factor by which a whole step gives a tighter bound
        for n_improvements in itertools.count(1):
            low, high = sweep_in_place(ordered, values, choice)
            change = max(high, -low)
            state.iterations += 1
            work += 1
            bound = ahead * change
            is_due = n_improvements % SHIFT_EVERY == 0 or bound * sharper <= self._tolerance
            if not is_due and self._has_policy_sweeps:
                fill_policy(ordered, choice, filled, chosen)
                done = evaluate_in_place(chosen, values, MOST_IN_PLACE, WORTHWHILE * change)
                state.iterations += done
                work += done * share
            whole[order] = values
            if is_due:
                middle = _middle(whole)
                low, high = improve(rows, whole - middle, new, choice)
                sharper = min(1.0, (high - low) / 2 / max(change, 1e-300))
                bound = ahead * (high - low) / 2
                gain = (1 - discount) * middle  # by which the centred values improve
                missing = max(low - gain, 0.0) + min(high - gain, 0.0)
                values += missing / (1 - discount)
            yield Iterate(whole.copy(), state.iterations, bound)
            if is_due:
                left, work = progress.work_left(work + 1, bound), 0.0
                if left > 10 * patience:
                    state.values, state.low = new, discount * low
                    return

    def _order(self) -> tuple[IndexArray, Rows]:
        """Return the states ordered from the rewards, and the rows in that order, computed once."""
        if self._ordered is None:
            order = order_from(self._rows, sources(self._rows))
            self._ordered = order, reordered(self._rows, order)[0]
        return self._ordered


def sources(rows: Rows) -> IndexArray:
    """Return the states to order from: those of best reward, or of worst if these are fewer."""
    start = rows.pair_start[:-1].astype(np.int64)
    best = np.maximum.reduceat(rows.constant, start)
    margin = 1e-9 * (best.max() - best.min())
    top = np.flatnonzero(best >= best.max() - margin)
    bottom = np.flatnonzero(best <= best.min() + margin)
    return (top if len(top) <= len(bottom) else bottom).astype(np.uint32)


class Forecast:
    """Bounds recorded over the work done, and a prediction of the work left."""

    def __init__(self, tolerance: float, trials: int = TRIALS) -> None:
        self.work = 0.0
        self._tolerance, self._trials = tolerance, trials
        self._records: list[tuple[float, float]] = []

    def work_left(self, work: float, bound: float) -> float:
        """Record work and a bound; return the work left if the bound keeps falling at this rate."""
        self.work += work
        self._records.append((self.work, bound))
        if len(self._records) <= self._trials or bound <= self._tolerance:
            return 0.0
        earlier, before = self._records[-1 - self._trials]
        if not 0 < bound < before:
            return math.inf
        rate = math.log(before / bound) / (self.work - earlier)
        return math.log(bound / self._tolerance) / rate


@dataclass
class _SweepState:
    """The state that one kind of sweeps passes to the other."""

    values: FloatArray  # [n_states]
    iterations: int = 0
    low: float = -math.inf  # least change in a Bellman step on the values


def _middle(values: FloatArray) -> float:
    return float(values.max() + values.min()) / 2
