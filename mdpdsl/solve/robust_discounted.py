"""Discounted rewards if nature chooses rows from sets.

The operator of the game is monotone and has  T(V + m) = T V + gamma m,  so that MacQueen's bounds
(see `bellman`) hold for it, too: if  low <= T V - V <= high  everywhere, the values of the game are
between  T V + gamma/(1-gamma) low  and  T V + gamma/(1-gamma) high.  The policy of that step is
worth at least the lower bound whatever nature does. An end is a state that stays and earns nothing.

Values come from the equations of policy and rows, or from sweeps with both in large models, as long
as that lowers the bound, and from plain sweeps otherwise.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.graph.objectives import Discounted
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.set_rows import SetRows, ranking, reward_limits, room_for
from mdpdsl.kernels.set_sweeps import step_game
from mdpdsl.solve.bellman import ROUNDING
from mdpdsl.solve.nature_choice import NatureRows
from mdpdsl.solve.policy_iteration import ELIMINATED_STATES, StoppedError, evaluated
from mdpdsl.solve.robust_objective import outcome_of
from mdpdsl.solve.solution import SolveOutcome, Watch

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Sweeps with one policy and its rows in a large model.
POLICY_SWEEPS = 50
#: Answers of nature to one policy in a small one, and when two of them are the same.
MOST_ANSWERS, SAME = 50, 1e-13
#: Bounds that fall by less than this factor, so often in a row, will not fall further.
FALLING, MOST_IDLE = 0.999, 50


def solve_robust_discounted(
    graph: TransitionGraph,
    objective: Discounted,
    rows: SetRows,
    sign: float,
    sense: float,
    tolerance: float,
    watch: Watch,
    began: float,
) -> SolveOutcome:
    """Bound the discounted values of the game within a tolerance."""
    run = DiscountedRun(rows, objective.discount, sense)
    iterations, goes_on, idle, best = 0, True, 0, np.inf
    sweeps, pause = 0, 1  # until the next jump, and after one that does no good
    kept, bounds = None, None
    while True:
        found = run.step()
        iterations += 1
        width = float((found[1] - found[0]).max(initial=0.0)) / 2
        if width < best:
            idle = 0 if width < FALLING * best else idle + 1
            best, bounds, choice = width, found, run.choice
        else:
            idle += 1
            if kept is not None:  # the jump did no good: policies tie, or bounds do not fall yet
                run.after, sweeps, pause = kept, pause, 2 * pause
        goes_on = watch(iterations, best)
        if best <= tolerance or not goes_on or idle > MOST_IDLE:
            break
        kept = run.after.copy() if sweeps == 0 else None
        run.values = run.after if kept is None else run.jump()
        sweeps = max(0, sweeps - 1)
    assert bounds is not None
    least, most = (x / (1 - objective.discount) for x in reward_limits(rows))
    return outcome_of(
        graph,
        np.maximum(bounds[0], least),
        np.minimum(bounds[1], most),
        sign,
        tolerance,
        goes_on,
        choice=choice,
        variant="discounted sweeps over sets of rows",
        iterations=iterations,
        seconds=time.perf_counter() - began,
    )


class DiscountedRun:
    """Values of a discounted game, which steps improve."""

    def __init__(self, rows: SetRows, discount: float, sense: float) -> None:
        self._rows, self._discount, self._sense = rows, discount, sense
        acts = np.diff(rows.pair_start) > 0
        self._order = np.flatnonzero(acts)
        self._has_ends = not acts.all()
        self._room = room_for(rows)
        self.values = np.zeros(len(acts))
        self.after = self.values
        self.choice: IntArray = np.where(acts, rows.pair_start[:-1], -1)
        longest = int(np.diff(rows.row_start).max(initial=0))
        self._unit = ROUNDING * (8 + 2 * longest)
        self._scale = float(
            np.abs(rows.constant).max(initial=0.0) + np.abs(rows.gain).max(initial=0.0)
        )

    def step(self) -> tuple[FloatArray, FloatArray]:
        """Take a step of the game; return the bounds that follow."""
        rows, discount = self._rows, self._discount
        self.after, self.choice = self.values.copy(), self.choice.copy()
        ranked = ranking(rows, self.values, self._sense)
        low, high = step_game(
            rows,
            self._order,
            self.values,
            self.after,
            self.choice,
            ranked,
            self._room,
            discount,
            self._sense,
        )
        if self._has_ends:
            low, high = min(low, 0.0), max(high, 0.0)
        rounding = self._unit * (self._scale + float(np.abs(self.values).max(initial=0.0)))
        ahead = discount / (1 - discount)
        acts = self.choice >= 0
        lower = self.after + ahead * low - (1 + ahead) * rounding
        upper = self.after + ahead * high + (1 + ahead) * rounding
        return np.where(acts, lower, 0.0), np.where(acts, upper, 0.0)

    def jump(self) -> FloatArray:
        """Return the values of the policy against nature's best rows, or values close to them.

        Nature answers the policy by policy iteration, so that policies only improve (Hoffman and
        Karp 1966).
        """
        discount, values = self._discount, self.after
        if len(values) > ELIMINATED_STATES:
            P, r = self.chain(values)
            for _ in range(POLICY_SWEEPS):
                values = r + discount * (P @ values)
            return np.where(self.choice >= 0, values, 0.0)
        everyone = np.arange(len(values))
        for _ in range(MOST_ANSWERS):
            P, r = self.chain(values)
            try:
                new = evaluated(discount * P, r, everyone, values)
            except (np.linalg.LinAlgError, RuntimeError, StoppedError):
                return self.after
            change = np.abs(new - values).max(initial=0.0)
            values = new
            if change <= SAME * max(1.0, float(np.abs(new).max(initial=0.0))):
                break
        return values

    def chain(self, values: FloatArray) -> tuple[csr_array, FloatArray]:
        """Return the chain of the policy and of nature's best rows, and its rewards."""
        from scipy.sparse import csr_array

        rows = self._rows
        chosen = NatureRows.best(rows, values, self._sense, self._discount)
        shape = (len(rows.constant) + 1, len(values))  # the last row is that of an end
        start = np.append(chosen.start, chosen.start[-1])
        P = csr_array((chosen.p, chosen.state, start), shape=shape)[self.choice]
        r = np.append(rows.constant + chosen.gain, 0.0)[self.choice]
        return csr_array(P), r
