"""Values over a limited number of steps, by as many backups, with the policy for each step.

With i steps left, V_i = T V_{i-1} and V_0 = 0. The rounding errors of k backups add up: a sum of
products that do not cancel is exact up to a factor 1 + u, and k such sums up to (1 + u)^k; if signs
are mixed, each backup adds at most u times the largest constant and value.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.kernels.affine_rows import Rows
from mdpdsl.solve.bellman import ROUNDING
from mdpdsl.solve.partial import partial_rows
from mdpdsl.solve.qualitative import first_pairs
from mdpdsl.solve.solution import SolveOutcome, SolveStatus, Watch, value_at_start
from mdpdsl.solve.transient import TOLERANCE

#: A plan is kept if it takes at most so many bytes. If not, values at some steps are kept, in at
#: most so many bytes, and the choice for a number of steps is computed from them when asked for.
MOST_PLAN_BYTES = 2**25
MOST_KEPT_BYTES = 2**26
#: Between two calls of the watch there are backups of about so many branches.
BRANCHES_AT_ONCE = 2e7
#: Numbers below this may have lost digits, or vanished.
TINY = 1e-290

#: Bounds of the values with all steps left, from those with fewer and how many are missing.
Extend = Callable[[FloatArray, FloatArray, int], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Horizon:
    """What to back up; every open state can reach one in which a row has a constant."""

    graph: TransitionGraph
    is_open: BoolArray  # [n_states]
    terminal: FloatArray  # [n_states]  what other states are worth
    reward: FloatArray | None  # [n_pairs]
    steps: int
    is_minimised: bool
    most: float  # the values are known to be at most this
    extend: Extend  # what is known if the backups are stopped


def check_steps(steps: int) -> None:
    """Raise SolveError unless a number of steps makes sense."""
    if steps < 0 or steps != int(steps):
        raise SolveError(f"the number of steps must be a whole number from 0, not {steps}")


def solve_horizon(
    horizon: Horizon, *, tolerance: float | None, watch: Watch, began: float
) -> SolveOutcome:
    """Back up values as often as there are steps; return them with their bounds and the plan."""
    graph, steps = horizon.graph, horizon.steps
    backups = _Backups(horizon)
    is_done = backups.run(watch)
    values, lower, upper = backups.bounds()
    if not is_done:
        lower, upper = horizon.extend(lower, upper, steps - backups.done)
        values = lower / 2 + upper / 2
    limit = TOLERANCE if tolerance is None else tolerance
    error = np.maximum(upper - values, values - lower)
    is_precise = np.all(error <= limit * np.maximum(1.0, np.abs(values)))
    status = SolveStatus.OPTIMAL if is_precise else SolveStatus.PRECISION
    return SolveOutcome(
        status=status if is_done else SolveStatus.STOPPED,
        method="vi",
        variant="one backup for each step",
        values=values,
        lower=lower,
        upper=upper,
        choice=backups.choice(steps).astype(np.int64),
        value=value_at_start(graph, values),
        bound=float(error.max(initial=0.0)),
        residual=0.0,
        iterations=backups.done,
        seconds=time.perf_counter() - began,
        plan=backups.plan if is_done else None,
        replay=None if is_done and backups.plan is not None else backups.choice,
    )


class _Backups:
    """Values with more and more steps left, over states ordered by their distance from rewards."""

    def __init__(self, horizon: Horizon) -> None:
        self._horizon, graph = horizon, horizon.graph
        sign = -1.0 if horizon.is_minimised else 1.0
        self.done = 0
        self._sign = sign
        self._states = np.flatnonzero(horizon.is_open)
        group_of = np.full(graph.n_states, -1)
        group_of[self._states] = np.arange(len(self._states))
        self._pairs = np.flatnonzero(horizon.is_open[graph.pair_state])
        reward = None if horizon.reward is None else sign * horizon.reward
        rows = partial_rows(
            graph, group_of, self._pairs, sign * horizon.terminal, reward, is_conditional=False
        ).rows
        self._first = first_pairs(graph).astype(np.int32)
        self._total = 0.0  # of the largest values after each backup
        self._settled = False
        self.plan: StateArray | None = None
        if 4 * horizon.steps * graph.n_states <= MOST_PLAN_BYTES:
            self.plan = np.empty((horizon.steps, graph.n_states), np.int32)
            self.plan[:] = self._first
        self._order(rows)
        kept = max(1, MOST_KEPT_BYTES // (8 * max(1, len(self._states))))
        self._every = max(1, math.isqrt(horizon.steps), math.ceil(horizon.steps / kept))
        self._kept: list[FloatArray] = []

    def _order(self, rows: Rows) -> None:
        """Order the states by distance, so that only those with something to earn are swept."""
        from mdpdsl.kernels.solving import reordered
        from mdpdsl.kernels.stepping import waves_from

        self._rows, self._ends = rows, np.zeros(1, np.int64)
        if len(self._states):
            start = rows.pair_start[:-1].astype(np.int64)
            earns = np.logical_or.reduceat(rows.constant != 0, start)
            order, self._ends = waves_from(rows, np.flatnonzero(earns).astype(np.uint32))
            self._rows, old_pair = reordered(rows, order, True)
            self._states, self._pairs = self._states[order], self._pairs[old_pair]
        self._values, self._new = np.zeros(len(self._states)), np.zeros(len(self._states))

    def run(self, watch: Watch) -> bool:
        """Back up until no step is left; return False if the watch stopped it."""
        steps = self._horizon.steps
        at_once = max(1, int(BRANCHES_AT_ONCE / max(1, len(self._rows.target))))
        if not len(self._states):
            self._settled = True
        while self.done < steps and not self._settled:
            if self.plan is None and self.done % self._every == 0:
                self._kept.append(self._values.copy())
            to_next = self._every - self.done % self._every
            self._advance(min(steps - self.done, at_once, to_next), self.plan)
            if not watch(self.done, math.inf) and self.done < steps and not self._settled:
                return False
        if self.plan is not None and self._settled and self.done:
            self.plan[self.done :] = self.plan[self.done - 1]
        return True

    def bounds(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the values with the steps so far in every state, and bounds of them."""
        horizon, steps = self._horizon, self._horizon.steps
        n_backups = steps if self._settled else self.done
        unit = ROUNDING * (4 + int(np.diff(horizon.graph.successor_start).max(initial=0)))
        values, c = self._sign * self._values, self._sign * self._rows.constant
        if np.all(c >= 0) or np.all(c <= 0):
            error = math.expm1(n_backups * math.log1p(2 * unit)) * np.abs(values) + TINY
        else:
            largest = float(np.abs(values).max(initial=0.0))
            sizes = self._total + (n_backups - self.done) * largest
            spread = n_backups * float(np.abs(c).max(initial=0.0))
            error = np.full(len(values), 2 * unit * (spread + sizes) + TINY)
        low, high = values - error, values + error
        if np.all(c >= 0):
            low = np.maximum(low, 0.0)
        if np.all(c <= 0):
            high = np.minimum(high, 0.0)
        whole = horizon.terminal.copy(), horizon.terminal.copy(), horizon.terminal.copy()
        for side, numbers in zip(whole, (values, low, high), strict=True):
            side[self._states] = np.minimum(numbers, horizon.most)
        return whole

    def choice(self, steps_left: int) -> StateArray:
        """Return the pair to take with so many steps left, or as many as have been backed up."""
        chosen: StateArray = self._first.copy()
        last = min(steps_left, self._horizon.steps if self._settled else self.done)
        if last < 1 or not len(self._states):
            return chosen
        if self.plan is not None:
            row: StateArray = self.plan[last - 1]
            return row
        from mdpdsl.kernels.solving import improve

        values, done = self._values_with(last - 1)
        pairs = np.zeros(len(values), np.uint32)
        improve(self._rows, values, np.empty_like(values), pairs)
        until = self._ends[min(done, len(self._ends) - 1)]
        chosen[self._states[:until]] = self._pairs[pairs[:until]]
        return chosen

    def _values_with(self, steps_left: int) -> tuple[FloatArray, int]:
        """Return the values with so many steps left, from the nearest that are kept."""
        from mdpdsl.kernels.stepping import step_back

        place = min(steps_left // self._every, len(self._kept) - 1)
        values, done = self._kept[place].copy(), place * self._every
        new = values.copy()
        n, _ = step_back(self._rows, values, new, done, steps_left - done, self._ends)
        return (new if n % 2 else values), steps_left

    def _advance(self, n_steps: int, plan: IntArray | StateArray | None) -> None:
        from mdpdsl.kernels.stepping import step_back, step_back_with_plan

        now = self._rows, self._values, self._new, self.done, n_steps, self._ends
        if plan is None:
            n, total = step_back(*now)
        else:
            n, total = step_back_with_plan(*now, plan, self._states, self._pairs)
        if n % 2:
            self._values, self._new = self._new, self._values
        self._settled = n < n_steps or bool(np.array_equal(self._values, self._new))
        self.done += n
        self._total += total
