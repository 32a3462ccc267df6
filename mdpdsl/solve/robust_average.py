"""Long-run averages if nature chooses rows from sets.

For any values h, the agent gets at least  min (T h - h)  with the policy of a step T of the game,
and nature allows at most  max (T h - h)  with its rows, wherever they start (see `gains`). If the
average is the same everywhere, sweeps bring both together.

If not, discounted games with a discount close to 1 suggest a policy and rows (Blackwell 1962).
Each is then bounded on its own: the rows make an ordinary model, which bounds the best policy from
above. Against the policy, nature is a player who stays in some component at last. The best average
of each component is bounded by its sweeps, and stopping there is worth that much (`robust_player`).
If nature helps, policy and rows are one player's.
"""

from __future__ import annotations

import math
import time

import numpy as np

from mdpdsl.graph.objectives import Average
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.set_rows import (
    SetRows,
    negated,
    ranking,
    reward_limits,
    room_for,
    rows_where,
)
from mdpdsl.kernels.set_sweeps import step_game
from mdpdsl.solve.average import solve_average
from mdpdsl.solve.bellman import ROUNDING
from mdpdsl.solve.nature_choice import NatureRows
from mdpdsl.solve.robust_discounted import DiscountedRun
from mdpdsl.solve.robust_ending import Budget
from mdpdsl.solve.robust_game import MODEL_SHARE
from mdpdsl.solve.robust_objective import outcome_of
from mdpdsl.solve.robust_player import Player, groups_of, solve_player
from mdpdsl.solve.robust_regions import Regions
from mdpdsl.solve.solution import SolveOutcome, Watch

#: The share of new values in a sweep, which makes it converge even if the model is periodic.
FRESH = 0.75
#: Sweeps over everything before parts are looked at, and the most sweeps of a component.
WHOLE_SWEEPS, COMPONENT_SWEEPS = 300, 50_000
#: Whole sweeps go on as long as they lower the distance of the bounds by this factor in so many.
USEFUL = 0.9
#: Discounts that suggest policies and rows, each solved so precisely, in so many steps.
DISCOUNTS = (0.99, 0.999, 0.9999, 0.99999, 0.999999)
PRECISE, MOST_STEPS = 1e-7, 300
#: The share of the tolerance that the averages of components may use.
GAIN_SHARE = 0.25


def solve_robust_average(
    graph: TransitionGraph,
    objective: Average,
    rows: SetRows,
    sign: float,
    sense: float,
    tolerance: float,
    watch: Watch,
    began: float,
) -> SolveOutcome:
    """Bound the long-run averages of the game within a tolerance."""
    budget = Budget(tolerance, 1.0, watch)
    acts = np.diff(rows.pair_start) > 0
    sweeps = _Sweeps(rows, acts, sense, has_ends=not acts.all())
    goes_on = _sweep_everything(sweeps, budget)
    lower = np.full(graph.n_states, sweeps.low)
    upper = np.full(graph.n_states, sweeps.high)
    choice = sweeps.best_choice
    if graph.ends is not None:
        lower[graph.ends] = upper[graph.ends] = 0.0
    variant = "sweeps over sets of rows"
    for discount in DISCOUNTS:
        if not goes_on or budget.is_met(lower, upper):
            break
        variant = "averages of components of sets of rows"
        run = _discounted(rows, discount, sense, budget)
        nature = NatureRows.best(rows, run.values, sense, discount)
        found = _against(graph, objective, rows, nature, sign, budget)
        model_low, model_high = (
            (found.lower, found.upper) if sign > 0 else (-found.upper, -found.lower)
        )
        if sense > 0:
            is_first = discount == DISCOUNTS[0]
            if is_first:
                upper = np.minimum(upper, player_averages(rows, budget))
            lower, choice = np.maximum(lower, model_low), found.choice
        else:
            upper = np.minimum(upper, model_high)
            chosen = np.zeros(len(rows.constant), np.bool_)
            chosen[run.choice[run.choice >= 0]] = True
            new = -player_averages(negated(rows_where(rows, chosen)), budget)
            if np.all(new >= lower - tolerance) or graph.initial @ (new - lower) > 0:
                lower, choice = new, run.choice
        upper = np.maximum(lower, upper)
        goes_on = budget.goes_on()
    least, most = reward_limits(rows)
    return outcome_of(
        graph,
        np.maximum(lower, least),
        np.minimum(upper, most),
        sign,
        tolerance,
        goes_on,
        choice=choice,
        variant=variant,
        iterations=budget.iterations,
        seconds=time.perf_counter() - began,
    )


def player_averages(rows: SetRows, budget: Budget) -> FloatArray:
    """Return upper bounds of the averages that one player can get who chooses pairs and rows."""
    acts = np.diff(rows.pair_start) > 0
    everything = np.ones(len(rows.constant), np.bool_)
    component = Regions(rows, everything).components(acts)
    gain = np.full(len(acts), -np.inf)
    members = np.flatnonzero(component >= 0)
    if not len(members):  # everything ends, and nothing is earned after that
        return np.zeros(len(acts))
    members = members[np.argsort(component[members], kind="stable")]
    starts = np.unique(component[members], return_index=True)[1]
    for states in np.split(members, starts[1:]):
        sweeps = _Sweeps(rows, np.isin(np.arange(len(acts)), states), 1.0, has_ends=False)
        while sweeps.n_steps < COMPONENT_SWEEPS and budget.goes_on():
            sweeps.step()
            if sweeps.high - sweeps.low <= 2 * GAIN_SHARE * budget.tolerance:
                break
        budget.iterations += sweeps.n_steps
        gain[states] = sweeps.high
    plain = rows._replace(constant=0 * rows.constant, gain=0 * rows.gain)
    player = Player(
        plain,
        groups_of(plain, acts, component, gain),
        np.zeros(len(acts)),
        *reward_limits(rows),
    )
    found = solve_player(player, GAIN_SHARE * budget.tolerance, budget.watch)
    budget.iterations += found.iterations
    return found.upper


def _against(
    graph: TransitionGraph,
    objective: Average,
    rows: SetRows,
    nature: NatureRows,
    sign: float,
    budget: Budget,
) -> SolveOutcome:
    """Solve the ordinary model that has nature's rows."""
    model, asked = nature.model(graph, objective, rows, sign)
    assert isinstance(asked, Average)
    found = solve_average(
        model,
        asked.reward,
        is_minimised=sign < 0,
        tolerance=MODEL_SHARE * budget.tolerance,
        watch=budget.watch,
    )
    budget.iterations += found.iterations
    return found


def _discounted(rows: SetRows, discount: float, sense: float, budget: Budget) -> DiscountedRun:
    """Solve a discounted game, as well as a limited number of steps allows."""
    run = DiscountedRun(rows, discount, sense)
    for _ in range(MOST_STEPS):
        lower, upper = run.step()
        budget.iterations += 1
        width = float((upper - lower).max(initial=0.0))
        if width * (1 - discount) <= PRECISE * budget.tolerance or not budget.goes_on():
            break
        run.values = run.jump()
    return run


def _sweep_everything(sweeps: _Sweeps, budget: Budget) -> bool:
    """Sweep all states as long as that brings the bounds together; return False if stopped."""
    before = math.inf
    while True:
        for _ in range(WHOLE_SWEEPS):
            sweeps.step()
            budget.iterations += 1
            if sweeps.high - sweeps.low <= 2 * GAIN_SHARE * budget.tolerance:
                return True
            if not budget.goes_on():
                return False
        if sweeps.has_ends or sweeps.high - sweeps.low > USEFUL * before:
            return True
        before = sweeps.high - sweeps.low


class _Sweeps:
    """Relative values of some states, and the bounds of the average that follow from them.

    A player does not leave them; in a game they are all states but the ends, which are worth 0.
    """

    def __init__(
        self, rows: SetRows, is_inside: BoolArray, sense: float, *, has_ends: bool
    ) -> None:
        self._rows, self._sense = rows, sense
        self._order = np.flatnonzero(is_inside)
        acts = np.diff(rows.pair_start) > 0
        self.has_ends = has_ends
        self._room = room_for(rows)
        outside = 0.0 if has_ends else -np.inf
        self._values = np.where(is_inside, 0.0, outside)
        self.low, self.high, self.n_steps = -math.inf, math.inf, 0
        self.best_choice: IntArray = np.where(acts, rows.pair_start[:-1], -1)
        longest = int(np.diff(rows.row_start).max(initial=0))
        self._unit = ROUNDING * (8 + 2 * longest)
        self._scale = float(
            np.abs(rows.constant).max(initial=0.0) + np.abs(rows.gain).max(initial=0.0)
        )

    def step(self) -> None:
        """Take a step, note the bounds, and mix its result with the old values."""
        rows, values = self._rows, self._values
        new, choice = values.copy(), self.best_choice.copy()
        ranked = ranking(rows, values, self._sense)
        low, high = step_game(
            rows, self._order, values, new, choice, ranked, self._room, 1.0, self._sense
        )
        if self.has_ends:
            low, high = min(low, 0.0), max(high, 0.0)
        inside = values[self._order]
        rounding = 2 * self._unit * (self._scale + float(np.abs(inside).max(initial=0.0)))
        if low - rounding > self.low:
            self.low, self.best_choice = low - rounding, choice
        self.high = min(self.high, high + rounding)
        mixed = (1 - FRESH) * inside + FRESH * new[self._order]
        if not self.has_ends:  # only differences matter, and small numbers lose fewer digits
            mixed -= (mixed.max(initial=0.0) + mixed.min(initial=0.0)) / 2
        values[self._order] = mixed
        self.n_steps += 1
