"""Two kinds of sweeps towards the long-run average of components (see `gains`).

* Whole sweeps that keep a part of the old values (an aperiodicity transformation; Puterman 1994,
  8.5.4) converge always, and soon if the model mixes well.
* Sweeps in place in a good order, relative to a reference state of each component and by the steps
  until it is reached (Bertsekas 1998), need no mixing, but a reference that is visited often.
"""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.affine_rows import IndexArray, first_best, room_for_policy, weight_matrix
from mdpdsl.kernels.averaging import evaluate_to_reference, improve_to_reference, jumps
from mdpdsl.kernels.solving import fill_policy, order_from
from mdpdsl.solve.gains import GainBounds, GainProblem
from mdpdsl.solve.solution import Watch
from mdpdsl.solve.value_iteration import Forecast

#: The share of the new values in a whole sweep.
FRESH = 0.75
#: Sweeps by one policy between two improvements, and the reduction of the change that ends them.
POLICY_SWEEPS = 50
WORTHWHILE = 0.02
#: The first policy is found, and evaluated, by so many sweeps, or until the change is below a
#: share of the reward; values start with the largest reward times the states and this.
FIRST_SWEEPS, ROUGH, PESSIMISM = 100, 1e-3, 2.0
#: Improvements after which progress is predicted.
ROUNDS = 8
#: After so many steps the states visited most are taken as references.
OCCUPANCY_STEPS = 200


def whole_sweeps(bounds: GainBounds, tolerance: float, patience: float, watch: Watch) -> bool:
    """Sweep until the bounds are close or that proves to be slow; return False if stopped."""
    forecast, values = Forecast(tolerance), bounds.values
    start, of = bounds.problem.start[:-1], bounds.problem.component_of
    while True:
        new, gap = bounds.certify(values)
        if not bounds.is_open(tolerance).any():
            return True
        if not watch(bounds.iterations, bounds.widest):
            return False
        if forecast.work_left(1.0, float(bounds.scaled(gap).max())) > patience:
            return True
        values = (1 - FRESH) * values + FRESH * new
        # Only differences matter, and small numbers lose fewer digits.
        middle = np.maximum.reduceat(values, start) + np.minimum.reduceat(values, start)
        values -= (middle / 2)[of]


def reference_sweeps(
    bounds: GainBounds,
    tolerance: float,
    patience: float,
    watch: Watch,
    reference: IntArray,
    *,
    has_policy_sweeps: bool,
) -> bool:
    """Sweep in place relative to a state of each component, as long as that is not slow.

    Return False if it was stopped.
    """
    problem, forecast = bounds.problem, Forecast(tolerance, ROUNDS)
    sweeps = _ReferenceSweeps(bounds, reference)
    bounds.iterations += sweeps.head_for_reference(watch)
    n_sweeps = POLICY_SWEEPS if has_policy_sweeps else 1
    share = problem.n_states / len(problem.rows.constant)
    while True:
        change = sweeps.improve()
        done = sweeps.evaluate(n_sweeps, WORTHWHILE * change)
        bounds.iterations += 1 + done
        values = sweeps.values()
        if not np.isfinite(values).all():
            return True
        _, gap = bounds.certify(_centred(values, problem))
        if not bounds.is_open(tolerance).any():
            return True
        if not watch(bounds.iterations, bounds.widest):
            return False
        if forecast.work_left(2 + done * share, float(bounds.scaled(gap).max())) > patience:
            return True


class _ReferenceSweeps:
    """Values relative to a reference state of each component, in order of the distance to it."""

    def __init__(self, bounds: GainBounds, reference: IntArray) -> None:
        problem = bounds.problem
        n_states = problem.n_states
        self._order = order_from(problem.rows, reference.astype(np.uint32))
        self._rows, self._time, _ = jumps(problem.rows, self._order)
        self._of = problem.component_of[self._order]
        is_reference = np.zeros(n_states, np.bool_)
        is_reference[reference] = True
        self._is_reference = is_reference[self._order]
        self._resting = _component_largest(_resting(problem), problem)
        self._gain = bounds.high.copy()
        self._values, self._steps = np.zeros(n_states), np.zeros(n_states)
        self._choice: IndexArray = self._rows.pair_start[:-1].copy()
        self._single, self._filled = room_for_policy(self._rows)

    def head_for_reference(self, watch: Watch) -> int:
        """Find a first policy and evaluate it; return the number of sweeps.

        With a gain that no policy attains it is best to reach the reference soon, and from values
        that are too low everywhere pairs are preferred that surely come closer.
        """
        largest = float(np.abs(self._rows.constant).max())
        self._values[:] = -largest * PESSIMISM * len(self._values)
        self._values[self._is_reference] = 0.0
        n_sweeps = 0
        while n_sweeps < FIRST_SWEEPS and watch(0, math.inf):
            n_sweeps += 1
            if self.improve() <= ROUGH * largest:
                break
        return n_sweeps + self.evaluate(FIRST_SWEEPS, ROUGH * largest)

    def values(self) -> FloatArray:
        """Return the values in the order of the problem."""
        values = np.empty_like(self._values)
        values[self._order] = self._values
        return values

    def improve(self) -> float:
        """Choose the best pairs; return the largest change."""
        change: float = improve_to_reference(
            self._rows,
            self._time,
            self._gain,
            self._of,
            self._is_reference,
            self._values,
            self._choice,
        )
        return change

    def evaluate(self, n_sweeps: int, least: float) -> int:
        """Sweep over the chosen pairs until no change is large, and correct the gains."""
        fill_policy(self._rows, self._choice, self._filled, self._single)
        done: int = evaluate_to_reference(
            self._single,
            self._time[self._choice],
            self._gain,
            self._resting,
            self._of,
            self._is_reference,
            self._values,
            self._steps,
            n_sweeps,
            least,
        )
        return done


def best_rewarded(bounds: GainBounds) -> IntArray:
    """Return the state of best reward of each component; where it is good to rest, that state."""
    problem = bounds.problem
    best, _ = first_best(problem.rows, problem.rows.constant)
    rest = _resting(problem)
    is_good = (_component_largest(rest, problem) >= bounds.low)[problem.component_of]
    return _largest(np.where(is_good, rest, best), problem)


def most_visited(bounds: GainBounds) -> IntArray:
    """Return the state of each component that the best policy so far visits most."""
    matrix = weight_matrix(bounds.problem.rows)[bounds.choice].T.tocsr()
    share = np.ones(bounds.problem.n_states)
    for _ in range(OCCUPANCY_STEPS):
        share = (1 - FRESH) * share + FRESH * (matrix @ share)
    return _largest(share, bounds.problem)


def _centred(values: FloatArray, problem: GainProblem) -> FloatArray:
    """Return values around 0 in each component: small numbers lose fewer digits."""
    start = problem.start[:-1]
    middle = np.maximum.reduceat(values, start) / 2 + np.minimum.reduceat(values, start) / 2
    return np.asarray(values - middle[problem.component_of])


def _largest(numbers: FloatArray, problem: GainProblem) -> IntArray:
    """Return the first state of each component with the largest number."""
    n_states = problem.n_states
    is_best = numbers == _component_largest(numbers, problem)[problem.component_of]
    places = np.where(is_best, np.arange(n_states), n_states)
    return np.asarray(np.minimum.reduceat(places, problem.start[:-1]), dtype=np.int64)


def _component_largest(numbers: FloatArray, problem: GainProblem) -> FloatArray:
    """Return the largest number of the states of each component."""
    return np.asarray(np.maximum.reduceat(numbers, problem.start[:-1]), dtype=np.float64)


def _resting(problem: GainProblem) -> FloatArray:
    """Return the best reward of a pair that never leaves its state, -inf without one, [n]."""
    rows = problem.rows
    state = np.repeat(np.arange(problem.n_states), np.diff(rows.pair_start))
    is_single = np.diff(rows.row_start) == 1
    rests = np.zeros(len(state), np.bool_)
    rests[is_single] = rows.target[rows.row_start[:-1][is_single]] == state[is_single]
    return first_best(rows, np.where(rests, rows.constant, -np.inf))[0]
