"""A question up to a goal if rows are only known to lie in sets: what each side wants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.objectives import Total, Until
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.set_rows import SetRows, rows_where
from mdpdsl.solve.robust_player import Player, groups_of, solve_player
from mdpdsl.solve.robust_regions import Regions
from mdpdsl.solve.solution import Watch

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


def player_of(ending: Ending, rows: SetRows, is_allowed: BoolArray, is_nature: bool) -> Player:
    """Return the player that chooses rows, signed as its own maximum: the agent's or nature's."""
    rows = rows_where(rows, is_allowed)
    regions = Regions(rows, np.ones(len(rows.constant), np.bool_))
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
        component = Regions(rows, rows.constant == 0).components(is_open, is_idle)
    else:
        avoids = regions.staying(~goal, lost, **both)
        may_avoid = regions.reaching(avoids, everywhere, **both)
        if ending.is_total:
            is_open = ~may_avoid & ~goal
        else:
            is_certain = ~may_avoid
            is_open = may_avoid & ~avoids
    known = np.where(is_certain, side * ending.goal_value, miss)
    groups = groups_of(rows, is_open, component)
    return Player(rows, groups, known, least, most, is_proper=not is_bad)


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
