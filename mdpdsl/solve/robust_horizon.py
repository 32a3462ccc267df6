"""Objectives over a limited number of steps if nature chooses rows from sets, anew at every step.

With i steps left, V_i = T V_{i-1}; T is the step of the game. Every step adds at most its rounding
error, as T is monotone and does not enlarge distances.
"""

from __future__ import annotations

import math
import time

import numpy as np

from mdpdsl.graph.objectives import Cumulative, Next, Until
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.kernels.set_rows import KL, SetRows, ranking, reward_limits, room_for
from mdpdsl.kernels.set_sweeps import step_game
from mdpdsl.solve.bellman import ROUNDING
from mdpdsl.solve.horizon import MOST_KEPT_BYTES, MOST_PLAN_BYTES, check_steps
from mdpdsl.solve.qualitative import lost_states
from mdpdsl.solve.robust_objective import outcome_of
from mdpdsl.solve.solution import SolveOutcome, Watch

#: The root search in a ball leaves at most this share of the values' range, on the other side.
KL_ERROR = 1e-12


def solve_robust_horizon(
    graph: TransitionGraph,
    objective: Until | Cumulative | Next,
    rows: SetRows,
    sign: float,
    sense: float,
    tolerance: float,
    watch: Watch,
    began: float,
) -> SolveOutcome:
    """Back up values as often as there are steps; the policy depends on the steps left."""
    acts = np.diff(graph.pair_start) > 0
    terminal, least, most = np.zeros(graph.n_states), -math.inf, math.inf
    steps = 1 if isinstance(objective, Next) else objective.steps
    assert steps is not None
    check_steps(steps)
    if isinstance(objective, Until | Next):
        terminal = np.where(objective.goal, sign, 0.0)
        least, most = min(0.0, sign), max(0.0, sign)
    if isinstance(objective, Until):
        acts = acts & ~objective.goal & ~lost_states(graph, objective.goal, objective.allowed)
    backups = _Backups(rows, acts, terminal, steps, sense)
    goes_on = backups.run(watch)
    values, error = backups.values, backups.error
    lower, upper = values - error, values + error
    low, high = reward_limits(rows)
    if isinstance(objective, Cumulative):
        least, most = steps * low, steps * high
    if not goes_on:
        left = steps - backups.done
        lower = np.full_like(lower, lower.min() + left * low)
        upper = np.full_like(upper, upper.max() + left * high)
    lower = np.where(acts, np.maximum(lower, least), terminal)
    upper = np.where(acts, np.minimum(upper, most), terminal)
    return outcome_of(
        graph,
        lower,
        upper,
        sign,
        tolerance,
        goes_on,
        choice=backups.choice(steps).astype(np.int64),
        variant="one backup over sets of rows for each step",
        iterations=backups.done,
        seconds=time.perf_counter() - began,
        plan=None if isinstance(objective, Next) or not goes_on else backups.plan,
        replay=None
        if isinstance(objective, Next) or (goes_on and backups.plan is not None)
        else backups.choice,
    )


class _Backups:
    """Values with more and more steps left, and the policy for each number of them."""

    def __init__(
        self,
        rows: SetRows,
        acts: BoolArray,
        terminal: FloatArray,
        steps: int,
        sense: float,
    ) -> None:
        self._rows, self._acts, self._steps, self._sense = rows, acts, steps, sense
        self._order = np.flatnonzero(acts)
        self._room = room_for(rows)
        has_pairs = np.diff(rows.pair_start) > 0
        self._first = np.where(has_pairs, rows.pair_start[:-1], -1).astype(np.int32)
        self.values, self.error, self.done = terminal.copy(), 0.0, 0
        self._start, self._is_settled = terminal, False
        self.plan: StateArray | None = None
        if 4 * steps * len(acts) <= MOST_PLAN_BYTES:
            self.plan = np.empty((steps, len(acts)), np.int32)
            self.plan[:] = self._first
        kept = max(1, MOST_KEPT_BYTES // (8 * max(1, len(acts))))
        self._every = max(1, math.isqrt(steps), math.ceil(steps / kept))
        self._kept: list[FloatArray] = []
        longest = int(np.diff(rows.row_start).max(initial=0))
        self._unit = ROUNDING * (8 + 2 * longest) + (KL_ERROR if rows.shape == KL else 0.0)
        self._scale = float(
            np.abs(rows.constant).max(initial=0.0) + np.abs(rows.gain).max(initial=0.0)
        )

    def run(self, watch: Watch) -> bool:
        """Back up until no step is left; return False if the watch stopped it."""
        while self.done < self._steps:
            if self.plan is None and self.done % self._every == 0:
                self._kept.append(self.values)
            new, choice = self._step(self.values)
            if self.plan is not None:
                self.plan[self.done] = choice
            self.done += 1
            self.error += self._unit * (self._scale + float(np.abs(new).max(initial=0.0)))
            if np.array_equal(new, self.values):  # nothing changes any more
                left = self._steps - self.done
                if self.plan is not None:
                    self.plan[self.done :] = choice
                self.error += left * self._unit * (self._scale + float(np.abs(new).max(initial=0)))
                self._is_settled = True
                return True
            self.values = new
            if not watch(self.done, math.inf) and self.done < self._steps:
                return False
        return True

    def choice(self, steps_left: int) -> StateArray:
        """Return the pair to take with so many steps left, or as many as have been backed up."""
        last = min(steps_left, self._steps if self._is_settled else self.done)
        if last < 1:
            return self._first
        if self.plan is not None:
            row: StateArray = self.plan[last - 1]
            return row
        last = min(last, self.done)
        place = min((last - 1) // self._every, len(self._kept) - 1)
        values = self._kept[place]
        for _ in range(last - 1 - place * self._every):
            values, _ = self._step(values)
        return self._step(values)[1]

    def _step(self, values: FloatArray) -> tuple[FloatArray, StateArray]:
        rows, new, choice = self._rows, values.copy(), self._first.astype(np.int64)
        ranked = ranking(rows, values, self._sense)
        step_game(rows, self._order, values, new, choice, ranked, self._room, 1.0, self._sense)
        return new, choice.astype(np.int32)
