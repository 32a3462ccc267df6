"""What a policy is guaranteed, and what is possible, up to a goal: reachability and total rewards.

Everything is a maximum here: for a minimum, all signs are changed. The value of a policy and of
rows that never reach the goal is 0 (reachability) or infinite (total rewards; see `total`). That is
bad for one side, which has to take care of progress:

* If it is bad for the agent, policies are improved, each against the worst rows for it.
* If it is good for the agent, it is bad for nature, and nature's rows are improved, each against
  the best policy.

A choice is changed only if that is strictly better. Then the values only get better, and they stop
improving at those of the game: they solve its equations, which for the careful side means that
nothing better exists (Hoffman and Karp 1966; Condon 1992). Changing ties could stop all progress.

The lower bound is that of nature as a player against the policy found (`robust_player`). The upper
bound is that of the agent as a player against the rows found. If nature helps, one player chooses
policy and rows; the lower bound is then that of an ordinary model with these rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdpdsl.graph.objectives import Total
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.set_rows import (
    Ranking,
    negated,
    ranking,
    room_for,
)
from mdpdsl.kernels.set_sweeps import step_game, sweep_game
from mdpdsl.solve.nature_choice import NatureRows, expected_gain
from mdpdsl.solve.robust_ending import Budget, Ending, missing_pairs, player_of
from mdpdsl.solve.robust_player import PlayerFound, solve_player, sweep_order
from mdpdsl.solve.robust_regions import Regions
from mdpdsl.solve.solution import SolveOutcome, SolveStatus
from mdpdsl.solve.solve_objective import solve_objective
from mdpdsl.solve.total import solve_total

#: The share of the tolerance that is left to the solution of the ordinary model.
MODEL_SHARE = 0.2
#: A choice must be better by this share of the tolerance to replace another; if the bounds are
#: still too far apart, by less and less. There are at most so many rounds.
BETTER, LESS, LEAST_BETTER, MOST_ROUNDS = 0.02, 1 / 30, 1e-12, 300
#: The discount with which a policy that makes progress is found, and the most sweeps for that.
PATIENCE, PROGRESS_SWEEPS = 0.99, 20_000
#: Values of a game are first swept until they change by less than this, or so often.
ROUGH, FIRST_SWEEPS = 1e-3, 300
#: Pairs that seem better by less than this are not: it may be rounding.
NOISE = 1e-11
#: Sweeps that carry an improvement of the policy to other states.
CARRYING_SWEEPS = 20


@dataclass(frozen=True, eq=False)
class GameFound:
    """Bounds of a game's values, signed, and the policy that attains the lower ones."""

    lower: FloatArray  # [n_states]
    upper: FloatArray  # [n_states]
    choice: IntArray  # [n_states]  pairs
    iterations: int
    goes_on: bool


def solve_helped(ending: Ending, budget: Budget) -> GameFound:
    """Bound the values if nature helps: policy and rows are one player's."""
    player = player_of(ending, ending.rows, ending.acts, is_nature=False)
    found = solve_player(player, budget.tolerance, budget.watch, floor=budget.floor)
    budget.iterations += found.iterations
    rows, sooner = NatureRows.best(ending.rows, found.values, 1.0), None
    if ending.is_miss_bad:
        rows, sooner = _with_progress(ending, rows, found.values, budget)
    better, is_open, rounds = BETTER * budget.tolerance, player.groups.of >= 0, 0
    while True:
        rounds += 1
        outcome = _against(ending, rows, budget)
        lower = np.where(is_open, _signed(outcome, ending.sign)[0], player.known)
        upper = np.maximum(lower, found.upper)
        goes_on = found.goes_on and outcome.status is not SolveStatus.STOPPED
        is_done = not goes_on or rounds > MOST_ROUNDS or budget.is_met(lower, upper)
        if sooner is not None and np.any(np.isinf(lower[is_open])):
            rows, sooner = sooner, None  # begin with rows that surely arrive
            continue
        if not is_done:
            values = ending.sign * outcome.values
            improved = rows.improved(ending.rows, values, 1.0, better * budget.floor)
            is_done = improved is None and better <= LEAST_BETTER
            if improved is None:
                better *= LESS
            else:
                rows = improved
        if is_done:
            choice = np.where(is_open, outcome.choice, missing_pairs(ending, nature_helps=True))
            return GameFound(lower, upper, choice, budget.iterations, goes_on)


def _with_progress(
    ending: Ending, rows: NatureRows, values: FloatArray, budget: Budget
) -> tuple[NatureRows, NatureRows]:
    """Return rows that are as good, but make progress where values are equal.

    The second rows always make progress, as good or not.
    """
    game = _Game(ending, budget, sense=1.0)
    soon = np.empty(len(values))
    game.progress(soon)
    sooner = NatureRows.best(ending.rows._replace(gain=0 * ending.rows.gain), soon, 1.0)
    sooner = replace(sooner, gain=expected_gain(ending.rows, sooner))
    size = BETTER * budget.tolerance * np.maximum(budget.floor, np.abs(values))
    with np.errstate(invalid="ignore"):
        is_worse = sooner.worth(values) < rows.worth(values) - size[ending.graph.pair_state]
    return sooner.replaced(rows, is_worse), sooner


def solve_opposed(ending: Ending, budget: Budget) -> GameFound:
    """Bound the values if nature is against the agent."""
    return (_AgentCares if ending.is_miss_bad else _NatureCares)(ending, budget).run()


def _against(ending: Ending, rows: NatureRows, budget: Budget) -> SolveOutcome:
    """Solve the ordinary model that has nature's rows."""
    graph, objective = rows.model(ending.graph, ending.objective, ending.rows, ending.sign)
    how: dict[str, Any] = {
        "is_minimised": ending.sign < 0,
        "tolerance": MODEL_SHARE * budget.tolerance * min(1.0, budget.floor),
        "watch": budget.watch,
    }
    if isinstance(objective, Total):
        found = solve_total(
            graph, objective.reward, objective.goal, is_miss_bad=ending.is_miss_bad, **how
        )
    else:
        found = solve_objective(graph, objective, **how)
    budget.iterations += found.iterations
    return found


def _signed(outcome: SolveOutcome, sign: float) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of an outcome as those of a maximum."""
    if sign > 0:
        return outcome.lower, outcome.upper
    return -outcome.upper, -outcome.lower


class _Game:
    """The states whose value is open, and sweeps over them."""

    def __init__(self, ending: Ending, budget: Budget, sense: float = -1.0) -> None:
        self.ending, self.budget, self.sense = ending, budget, sense
        self.rows = ending.rows
        regions = Regions(self.rows, ending.acts)
        goal, lost = ending.is_goal, ending.is_lost
        agent_helps = ending.is_miss_bad
        nature_helps = agent_helps if sense > 0 else not agent_helps
        helping: dict[str, Any] = {"agent_helps": agent_helps, "nature_helps": nature_helps}
        arriving, is_certain = np.full(len(goal), -1), goal
        if ending.is_total:
            reached = regions.sure(goal, lost, **helping)
        else:
            reached = regions.reaching(goal, np.ones(len(goal), np.bool_), **helping)
            if agent_helps and sense < 0:
                is_certain = regions.sure(goal, lost, arriving, **helping)
        self.is_open = reached & ~is_certain
        self.known = np.where(is_certain, ending.goal_value, ending.miss_value)
        order = sweep_order(self.rows, self.is_open)
        self.order = order[self.is_open[order]]
        self.room = room_for(self.rows)
        first = self.rows.pair_start[:-1]
        self.choice = np.where(np.diff(self.rows.pair_start) > 0, first, -1)
        if agent_helps:
            self.choice = np.where(is_certain & (arriving >= 0), arriving, self.choice)

    def sweep(
        self, values: FloatArray, choice: IntArray, factor: float = 1.0, margin: float = 0.0
    ) -> float:
        """Back up the open states in place; return the largest relative change."""
        self.budget.iterations += 1
        change: float = sweep_game(
            self.rows,
            self.order,
            values,
            choice,
            self.ranked(values),
            self.room,
            factor,
            self.sense,
            margin,
            self.budget.floor,
        )
        return change

    def best(self, values: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the values after a step of the game, and the pairs that are best."""
        new, choice = values.copy(), self.choice.copy()
        step_game(
            self.rows,
            self.order,
            values,
            new,
            choice,
            self.ranked(values),
            self.room,
            1.0,
            self.sense,
        )
        return new, choice

    def ranked(self, values: FloatArray) -> Ranking:
        """Return the states that are best for nature."""
        return ranking(self.rows, values, self.sense)

    def settle(self, is_done: Callable[[float], bool]) -> FloatArray:
        """Sweep from what missing the goal is worth towards the values of the game."""
        values = np.where(self.is_open, 0.0, self.known)
        n_sweeps = 0
        while len(self.order):
            change = self.sweep(values, self.choice, margin=NOISE)
            n_sweeps += 1
            if is_done(change) or n_sweeps >= FIRST_SWEEPS or not self.budget.goes_on():
                break
        return values

    def progress(self, values: FloatArray) -> IntArray:
        """Return pairs such that the careful side surely reaches the goal; change `values`.

        They maximise the chance of arriving soon, E[delta^T] (see `heading`).
        """
        side = 1.0 if self.ending.is_miss_bad else -1.0
        outside = -math.inf * side if self.ending.is_total else 0.0
        values[:] = np.where(self.is_open, 0.0, outside)
        values[self.ending.is_goal] = side
        choice = self.choice.copy()
        plain = self.rows._replace(
            constant=np.zeros(len(self.rows.constant)), gain=np.zeros(len(self.rows.gain))
        )
        for _ in range(PROGRESS_SWEEPS):
            change = sweep_game(
                plain,
                self.order,
                values,
                choice,
                ranking(plain, values, self.sense),
                self.room,
                PATIENCE,
                self.sense,
                0.0,
                1e-300,
            )
            is_positive = np.all(side * values[self.is_open] > 0)
            if (is_positive and change <= 1e-6) or not self.budget.goes_on():
                break
        return choice

    def agent(self, rows: NatureRows, start: FloatArray | None) -> PlayerFound:
        """Solve the agent's problem against rows that nature chose."""
        ending, budget = self.ending, self.budget
        player = player_of(ending, rows.points(self.rows), ending.acts, is_nature=False)
        begin = None
        if start is not None:
            begin = np.clip(np.where(np.isfinite(start), start, 0.0), player.least, player.most)
        found = solve_player(
            player, budget.tolerance, budget.watch, floor=budget.floor, start=begin
        )
        budget.iterations += found.iterations
        return found

    def nature(
        self, choice: IntArray, start: FloatArray | None, is_bounded: bool = True
    ) -> PlayerFound:
        """Solve nature's problem against a policy; signed as nature's maximum."""
        is_allowed = np.zeros(len(self.rows.constant), np.bool_)
        is_allowed[choice[choice >= 0]] = True
        is_allowed &= self.ending.acts
        player = player_of(self.ending, negated(self.rows), is_allowed, is_nature=True)
        begin = None
        if start is not None:
            begin = np.where(np.isfinite(start), -start, 0.0)
            begin = np.clip(begin, player.least, player.most)
        found = solve_player(
            player,
            self.budget.tolerance,
            self.budget.watch,
            floor=self.budget.floor,
            start=begin,
            is_bounded=is_bounded,
        )
        self.budget.iterations += found.iterations
        return found


class _AgentCares(_Game):
    """Policies of the agent are improved."""

    def run(self) -> GameFound:
        """Improve the policy until the bounds are close, or nothing better is found."""
        budget, ending = self.budget, self.ending
        values: FloatArray | None
        if ending.is_total:
            choice, values = self.progress(np.empty(len(self.is_open))), None
        else:
            values = self.settle(lambda change: change <= ROUGH)
            choice = self.choice
        better, rounds = BETTER * budget.tolerance, 0
        lower = np.where(self.is_open, ending.limits[0], self.known)
        upper = np.where(self.is_open, ending.limits[1], self.known)
        while True:
            nature = self.nature(choice, values, is_bounded=False)
            values = np.where(self.is_open, -nature.values, self.known)
            improved = self._improved(choice, values, better)
            rounds += 1
            is_late = rounds > MOST_ROUNDS or not nature.goes_on or not budget.goes_on()
            if improved is not None and not is_late:
                choice = improved
                continue
            nature = self.nature(choice, values)
            lower = np.where(self.is_open, -nature.upper, self.known)
            if not nature.goes_on or not budget.goes_on():
                return GameFound(lower, upper, choice, budget.iterations, False)
            rows = NatureRows.best(self.rows, values, -1.0)
            above = self.agent(rows, values).upper
            upper = np.where(self.is_open, np.maximum(above, lower), self.known)
            if budget.is_met(lower, upper) or better <= LEAST_BETTER or is_late:
                return GameFound(lower, upper, choice, budget.iterations, True)
            better *= LESS

    def _improved(self, choice: IntArray, values: FloatArray, margin: float) -> IntArray | None:
        """Return a policy that is strictly better somewhere; None if there is none."""
        best, pairs = self.best(values)
        size = np.maximum(self.budget.floor, np.abs(values))
        with np.errstate(invalid="ignore"):
            is_better = self.is_open & (best > values + margin * size)
        if not is_better.any():
            return None
        # A few sweeps carry what is better further; they only raise values that can be attained.
        improved, raised = np.where(is_better, pairs, choice), np.where(is_better, best, values)
        for _ in range(CARRYING_SWEEPS):
            if self.sweep(raised, improved, margin=max(margin, NOISE)) <= ROUGH:
                break
        return improved


class _NatureCares(_Game):
    """Rows of nature are improved."""

    def run(self) -> GameFound:
        """Improve the rows until the bounds are close, or nothing worse is found."""
        budget, ending = self.budget, self.ending
        if ending.is_total:
            values = np.empty(len(self.is_open))
            self.progress(values)
            rows = NatureRows.best(self.rows._replace(gain=0 * self.rows.gain), values, -1.0)
            gain = expected_gain(self.rows, rows)
            rows = replace(rows, gain=gain)
        else:
            values = self.settle(lambda change: change <= ROUGH)
            rows = NatureRows.best(self.rows, values, -1.0)
        better, rounds = BETTER * budget.tolerance, 0
        lower = np.where(self.is_open, ending.limits[0], self.known)
        upper = np.where(self.is_open, ending.limits[1], self.known)
        choice = missing = missing_pairs(ending, nature_helps=False)
        start = None
        while True:
            agent = self.agent(rows, start)
            upper = np.where(self.is_open, agent.upper, self.known)
            start = values = np.where(self.is_open, agent.values, self.known)
            if not agent.goes_on or not budget.goes_on():
                return GameFound(lower, upper, choice, budget.iterations, False)
            improved = rows.improved(self.rows, values, -1.0, better * budget.floor)
            rounds += 1
            is_late = rounds > MOST_ROUNDS
            if improved is not None and not is_late:
                rows = improved
                continue
            choice = np.where(self.is_open, self.best(values)[1], missing)
            nature = self.nature(choice, None)
            lower = np.where(self.is_open, -nature.upper, self.known)
            upper = np.maximum(lower, upper)
            is_last = better <= LEAST_BETTER or is_late or not nature.goes_on
            if is_last or budget.is_met(lower, upper):
                return GameFound(lower, upper, choice, budget.iterations, nature.goes_on)
            better *= LESS
