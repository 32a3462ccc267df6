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
from functools import cached_property
from typing import Any

import numpy as np

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Objective, Total, Until
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.set_rows import (
    INTERVALS,
    Ranking,
    SetRows,
    nature_rows,
    negated,
    ranking,
    room_for,
    rows_where,
)
from mdpdsl.kernels.set_sweeps import step_game, sweep_game
from mdpdsl.solve.robust_player import (
    Player,
    PlayerFound,
    groups_of,
    solve_player,
    sweep_order,
)
from mdpdsl.solve.robust_regions import Regions
from mdpdsl.solve.solution import SolveOutcome, SolveStatus, Watch
from mdpdsl.solve.solve_objective import solve_objective
from mdpdsl.solve.total import solve_total

#: The share of the tolerance that is left to the solution of the ordinary model.
MODEL_SHARE = 0.2
#: A choice must be better by this share of the tolerance to replace another; if the bounds are
#: still too far apart, by less and less.
BETTER, LESS, LEAST_BETTER = 0.02, 1 / 30, 1e-14
#: The discount with which a policy that makes progress is found, and the most sweeps for that.
PATIENCE, PROGRESS_SWEEPS = 0.99, 20_000
#: Values of a game are first swept until the change is this share of the tolerance, or so often.
SETTLED, FIRST_SWEEPS = 0.01, 300
#: Pairs that seem better by less than this are not: it may be rounding.
NOISE = 1e-11
#: Sweeps that carry an improvement of the policy to other states.
CARRYING_SWEEPS = 20
#: What losing means, in units of the largest reward; how closely gains are bounded, and how long.
CLEAR, CLEAR_WIDTH, CLEAR_SWEEPS = 1e-6, 1e-2, 3_000
MOST_GAIN = 1e9


@dataclass(frozen=True, eq=False)
class Ending:
    """A question up to a goal, signed such that the agent maximises."""

    graph: TransitionGraph
    objective: Until | Total
    rows: SetRows  # signed
    sign: float
    is_goal: BoolArray  # [n_states]
    is_lost: BoolArray  # [n_states]  from where the goal does not count any more
    goal_value: float  # signed
    is_miss_bad: bool  # for the agent

    @property
    def is_total(self) -> bool:
        """Whether rewards are summed up, so that missing the goal is worth infinity."""
        return isinstance(self.objective, Total)

    @property
    def miss_value(self) -> float:
        """The value of never reaching the goal."""
        if not self.is_total:
            return 0.0
        return -math.inf if self.is_miss_bad else math.inf

    @cached_property
    def acts(self) -> BoolArray:
        """The rows before the goal, [n]; what follows it or a lost state does not matter."""
        state = np.repeat(np.arange(len(self.is_goal)), np.diff(self.rows.pair_start))
        return np.asarray(~(self.is_goal | self.is_lost)[state])

    @cached_property
    def limits(self) -> tuple[float, float]:
        """Known bounds of all finite values."""
        if not self.is_total:
            return min(0.0, self.sign), max(0.0, self.sign)
        counts = np.diff(self.rows.row_start)
        worth = (np.repeat(self.rows.constant, counts) + self.rows.gain)[
            np.repeat(self.acts, counts)
        ]
        worth = np.append(worth, self.rows.constant[self.acts])
        return (
            -math.inf if np.any(worth < 0) else 0.0,
            math.inf if np.any(worth > 0) else 0.0,
        )


@dataclass(frozen=True, eq=False)
class GameFound:
    """Bounds of a game's values, signed, and the policy that attains the lower ones."""

    lower: FloatArray  # [n_states]
    upper: FloatArray  # [n_states]
    choice: IntArray  # [n_states]  pairs
    iterations: int
    goes_on: bool


@dataclass(eq=False)
class Budget:
    """How precisely, and how long."""

    tolerance: float
    floor: float
    watch: Watch
    iterations: int = 0

    def goes_on(self) -> bool:
        """Ask the watch whether to continue."""
        return self.watch(self.iterations, math.inf)

    def is_met(self, lower: FloatArray, upper: FloatArray) -> bool:
        """Return whether bounds are within the tolerance."""
        with np.errstate(invalid="ignore"):
            size = np.maximum(self.floor, np.minimum(np.abs(lower), np.abs(upper)))
            gap = np.where(lower == upper, 0.0, (upper - lower) / 2)
        return bool(np.all(gap <= self.tolerance * size))


def require_losses(ending: Ending, watch: Watch) -> None:
    """Raise SolveError unless staying away from the goal for ever only loses, or earns nothing.

    If every transition with a reward earns a little more and the player may stop anywhere, its gain
    is finite only then.
    """
    rows = ending.rows
    counts = np.diff(rows.row_start)
    worth = np.repeat(rows.constant, counts) + rows.gain
    size = float(np.abs(worth[np.repeat(ending.acts, counts)]).max(initial=0.0))
    more = rows._replace(gain=rows.gain + np.where(worth != 0, CLEAR * size, 0.0))
    is_open = ~(ending.is_goal | ending.is_lost)
    idle = Regions(rows, ending.acts & (rows.constant == 0)).components(is_open, rows.gain == 0)
    more = rows_where(more, ending.acts)
    groups = groups_of(more, is_open, idle, np.zeros(len(is_open)))
    player = Player(more, groups, np.zeros(len(is_open)), least=0.0)
    found = solve_player(
        player, CLEAR_WIDTH, lambda done, bound: done < CLEAR_SWEEPS and watch(done, bound)
    )
    is_finite = found.is_close and found.upper.max(initial=0.0) < MOST_GAIN * size
    if not found.goes_on or not is_finite:
        raise SolveError(
            "rewards have both signs, and a policy might stay away from the goal for ever without "
            "losing, so the total reward depends on how long it stays. Ask for a limited number of "
            "steps or a discount instead"
        )


def solve_helped(ending: Ending, budget: Budget) -> GameFound:
    """Bound the values if nature helps: policy and rows are one player's."""
    player = _player(ending, ending.rows, ending.acts, is_nature=False)
    found = solve_player(player, budget.tolerance, budget.watch, floor=budget.floor)
    budget.iterations += found.iterations
    rows, sooner = NatureRows.best(ending.rows, found.values, 1.0), None
    if ending.is_miss_bad:
        rows, sooner = _with_progress(ending, rows, found.values, budget)
    better, is_open = BETTER * budget.tolerance, player.groups.of >= 0
    while True:
        outcome = _against(ending, rows, budget)
        lower = np.where(is_open, _signed(outcome, ending.sign)[0], player.known)
        upper = np.maximum(lower, found.upper)
        goes_on = found.goes_on and outcome.status is not SolveStatus.STOPPED
        is_done = not goes_on or budget.is_met(lower, upper)
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
    sooner = replace(sooner, gain=_expected_gain(ending.rows, sooner))
    size = BETTER * budget.tolerance * np.maximum(budget.floor, np.abs(values))
    with np.errstate(invalid="ignore"):
        is_worse = sooner.worth(values) < rows.worth(values) - size[ending.graph.pair_state]
    return sooner.replaced(rows, is_worse), sooner


def solve_opposed(ending: Ending, budget: Budget) -> GameFound:
    """Bound the values if nature is against the agent."""
    return (_AgentCares if ending.is_miss_bad else _NatureCares)(ending, budget).run()


# Rows chosen by nature


@dataclass(frozen=True, eq=False)
class NatureRows:
    """One row of every pair, as nature chose it."""

    start: IntArray  # [n_pairs + 1]
    state: IntArray  # [n_branches]
    p: FloatArray  # [n_branches]
    gain: FloatArray  # [n_pairs]  expected reward of the transition, signed

    @classmethod
    def best(
        cls, rows: SetRows, values: FloatArray, sense: float, factor: float = 1.0
    ) -> NatureRows:
        """Return the rows that are best for nature if states have some values."""
        start, state, p, gain, _ = nature_rows(
            rows, values, ranking(rows, values, sense), room_for(rows), factor, sense
        )
        return cls(start, state, p, gain)

    def worth(self, values: FloatArray) -> FloatArray:
        """Return the expected value after each pair."""
        with np.errstate(invalid="ignore"):
            terms = np.where(self.p > 0, self.p * values[self.state], 0.0)
        sums = np.add.reduceat(np.append(terms, 0.0), self.start[:-1])
        return np.where(np.diff(self.start) > 0, sums, 0.0) + self.gain

    def improved(
        self, rows: SetRows, values: FloatArray, sense: float, margin: float
    ) -> NatureRows | None:
        """Return rows that are strictly better for nature somewhere; None if there are none."""
        best = NatureRows.best(rows, values, sense)
        with np.errstate(invalid="ignore"):
            old, new = sense * self.worth(values), sense * best.worth(values)
            size = np.where(np.isfinite(old), np.maximum(1.0, np.abs(old)), 0.0)
            is_better = new > old + margin * size
        return self.replaced(best, is_better) if is_better.any() else None

    def replaced(self, better: NatureRows, where: BoolArray) -> NatureRows:
        """Return these rows with some of them replaced."""
        if not where.any():
            return self
        length = np.where(where, np.diff(better.start), np.diff(self.start))
        start = np.concatenate([[0], np.cumsum(length)])
        state, p = np.empty(start[-1], self.state.dtype), np.empty(start[-1])
        for rows, kept in ((self, ~where), (better, where)):
            to = np.repeat(kept, length)
            of = np.repeat(kept, np.diff(rows.start))
            state[to], p[to] = rows.state[of], rows.p[of]
        return NatureRows(start, state, p, np.where(where, better.gain, self.gain))

    def points(self, rows: SetRows) -> SetRows:
        """Return these rows as sets of one row each."""
        n, nothing = len(rows.constant), np.zeros(len(self.p))
        return SetRows(
            pair_start=rows.pair_start,
            row_start=self.start,
            target=self.state.astype(np.int32),
            low=self.p,
            high=self.p,
            is_other=np.zeros(len(self.p), np.bool_),
            gain=nothing,
            constant=rows.constant + self.gain,
            each=np.zeros(n),
            rest=np.zeros(n),
            radius=np.zeros(n),
            shape=INTERVALS,
        )

    def model(
        self, graph: TransitionGraph, objective: Objective, rows: SetRows, sign: float
    ) -> tuple[TransitionGraph, Objective]:
        """Return the ordinary model with these rows, and the question with its rewards."""
        chosen = replace(
            graph,
            successor_start=self.start,
            successor=self.state.astype(np.int32),
            probability=self.p,
            branch_reward=None,
            branch_rewards={},
            rewards={},
        )
        if isinstance(objective, Total | Cumulative | Discounted | Average):
            objective = replace(objective, reward=sign * (rows.constant + self.gain))
        return chosen, objective


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


# One player


def _player(ending: Ending, rows: SetRows, is_allowed: BoolArray, is_nature: bool) -> Player:
    """Return the player that chooses rows, signed as its own maximum: the agent's or nature's."""
    regions = Regions(rows, is_allowed)
    goal, lost = ending.is_goal, ending.is_lost
    both: dict[str, Any] = {"agent_helps": True, "nature_helps": True}
    everywhere = np.ones(len(goal), np.bool_)
    side = -1.0 if is_nature else 1.0
    is_bad = ending.is_miss_bad != is_nature
    miss = side * ending.miss_value
    least, most = ending.limits if side > 0 else tuple(-x for x in reversed(ending.limits))
    component, is_certain = None, goal
    if is_bad and not ending.is_total:
        is_certain = regions.sure(goal, lost, **both)
        is_open = regions.reaching(goal, everywhere, **both) & ~is_certain
        component = regions.components(is_open)
    elif is_bad:
        is_open = regions.sure(goal, lost, **both) & ~goal
        is_idle = rows.gain == 0
        row_idle = is_allowed & (rows.constant == 0)
        component = Regions(rows, row_idle).components(is_open, is_idle)
    else:
        avoids = regions.staying(~goal, lost, **both)
        may_avoid = regions.reaching(avoids, everywhere, **both)
        if ending.is_total:
            is_open = ~may_avoid & ~goal
        else:
            is_certain = ~may_avoid
            is_open = may_avoid & ~avoids
    known = np.where(is_certain, side * ending.goal_value, miss)
    kept = rows_where(rows, is_allowed)
    groups = groups_of(kept, is_open, component)
    return Player(kept, groups, known, least, most, is_proper=not is_bad)


# Games


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
        if ending.is_total:
            reached = regions.sure(goal, lost, **helping)
        else:
            reached = regions.reaching(goal, np.ones(len(goal), np.bool_), **helping)
        self.is_open = reached & ~goal
        self.known = np.where(goal, ending.goal_value, ending.miss_value)
        order = sweep_order(self.rows, self.is_open)
        self.order = order[self.is_open[order]]
        self.room = room_for(self.rows)
        first = self.rows.pair_start[:-1]
        self.choice = np.where(np.diff(self.rows.pair_start) > 0, first, -1)

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
        player = _player(ending, rows.points(self.rows), ending.acts, is_nature=False)
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
        player = _player(self.ending, negated(self.rows), is_allowed, is_nature=True)
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
            limit = SETTLED * budget.tolerance
            values = self.settle(lambda change: change <= limit)
            choice = self.choice
        better = BETTER * budget.tolerance
        lower = np.where(self.is_open, ending.limits[0], self.known)
        upper = np.where(self.is_open, ending.limits[1], self.known)
        while True:
            nature = self.nature(choice, values, is_bounded=False)
            values = np.where(self.is_open, -nature.values, self.known)
            improved = self._improved(choice, values, better)
            if improved is not None and nature.goes_on and budget.goes_on():
                choice = improved
                continue
            nature = self.nature(choice, values)
            lower = np.where(self.is_open, -nature.upper, self.known)
            if not nature.goes_on or not budget.goes_on():
                return GameFound(lower, upper, choice, budget.iterations, False)
            rows = NatureRows.best(self.rows, values, -1.0)
            above = self.agent(rows, values).upper
            upper = np.where(self.is_open, np.maximum(above, lower), self.known)
            if budget.is_met(lower, upper) or better <= LEAST_BETTER:
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
            self.sweep(raised, improved, margin=max(margin, NOISE))
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
            gain = _expected_gain(self.rows, rows)
            rows = replace(rows, gain=gain)
        else:
            limit = SETTLED * budget.tolerance
            values = self.settle(lambda change: change <= limit)
            rows = NatureRows.best(self.rows, values, -1.0)
        better = BETTER * budget.tolerance
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
            if improved is not None:
                rows = improved
                continue
            choice = np.where(self.is_open, self.best(values)[1], missing)
            nature = self.nature(choice, None)
            lower = np.where(self.is_open, -nature.upper, self.known)
            upper = np.maximum(lower, upper)
            if budget.is_met(lower, upper) or better <= LEAST_BETTER or not nature.goes_on:
                return GameFound(lower, upper, choice, budget.iterations, nature.goes_on)
            better *= LESS


def missing_pairs(ending: Ending, *, nature_helps: bool) -> IntArray:
    """Return the pairs with which the agent misses the goal where it can; elsewhere the first."""
    n, first = len(ending.is_goal), ending.rows.pair_start[:-1]
    choice = np.where(np.diff(ending.rows.pair_start) > 0, first, -1)
    if ending.is_miss_bad:
        return choice
    regions = Regions(ending.rows, ending.acts)
    if ending.is_total and not nature_helps:
        preventing = np.full(n, -1)
        is_sure = regions.sure(
            ending.is_goal, ending.is_lost, preventing, agent_helps=False, nature_helps=True
        )
        return np.where(~is_sure & (preventing >= 0), preventing, choice)
    helping: dict[str, Any] = {"agent_helps": True, "nature_helps": nature_helps}
    stay, go = np.full(n, -1), np.full(n, -1)
    avoids = regions.staying(~ending.is_goal, ending.is_lost, stay, **helping)
    if ending.is_total:
        regions.reaching(avoids, np.ones(n, np.bool_), go, **helping)
    choice = np.where(go >= 0, go, choice)
    return np.where(avoids & (stay >= 0), stay, choice)


def _expected_gain(rows: SetRows, chosen: NatureRows) -> FloatArray:
    """Return the expected rewards of transitions, signed, of rows that nature chose."""
    S = len(rows.pair_start) - 1
    listed = np.repeat(np.arange(len(rows.constant)), np.diff(rows.row_start)) * S + rows.target
    pair = np.repeat(np.arange(len(rows.constant)), np.diff(chosen.start))
    place = np.searchsorted(listed, pair * S + chosen.state)
    place = np.minimum(place, max(0, len(listed) - 1))
    if not len(listed):
        return np.zeros(len(rows.constant))
    gain = np.where(listed[place] == pair * S + chosen.state, rows.gain[place], 0.0)
    return np.bincount(pair, chosen.p * gain, minlength=len(rows.constant)).astype(np.float64)
