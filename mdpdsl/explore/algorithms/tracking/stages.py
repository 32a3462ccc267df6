"""The stages of `tracking`: a cold start, then plans for the rest of the budget.

Every stage is a function of the counts, the state and the last plan, all of which are saved: where
a run was stopped and resumed makes no difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from mdpdsl.explore.algorithms.tracking import rule
from mdpdsl.explore.algorithms.tracking.targets import affordable, planning_problem
from mdpdsl.explore.metrics import utility
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.following import complexity_bounds
from mdpdsl.kernels.incentives import Strategy
from mdpdsl.kernels.memory import TIME, Memory
from mdpdsl.kernels.merging import plan_afresh
from mdpdsl.programs.visitable import AllocationError

#: What `Stage.stage` may be.
COLD, PLANNED, STEERED, UNPLANNED = "cold start", "plan", "steered plan", "no plan"

#: The cold start is looked at after so many steps, and when time has grown by this factor.
FIRST_LOOK = 50
LOOK_FACTOR = 1.05
#: It ends when pairs have been visited so often on average, or this part of the budget is spent,
SEVERAL = 10
COLD_SHARE = 0.1
#: and all states are seen, which plans know nothing of before, or none was new since this part of
#: the time; ...
STALE = 0.15
#: ... or this part of the budget is spent.
MOST_COLD = 0.3

#: A plan holds for this part of the steps done, and this one of those left, ...
GROWTH = 0.25
SHRINKAGE = 0.25
#: ... but at least for this part of the budget.
LEAST_SHARE = 0.03
#: A plan is steered if it promises an L_Worst larger by this factor than the last one, which
#: promised a larger one than the last but one, ...
LAG = 1.05
#: ... or no more than this part of the budget is left: plans leave to chance which states come
#: short, and there will be none to make up for it.
FINISH = 0.1
#: Without a budget a plan is for this part of the steps done, and holds to its end.
ANYTIME_GROWTH = 0.1

#: The part of p - 1 that plans have with nothing of the budget spent yet.
EARLY_POWER = 0.6
#: From plan to plan p - 1 rises by this factor at most, where it could not be afforded before, and
#: from no less than that.
RISE = 3
LEAST_RISE = 0.25


@dataclass(frozen=True)
class Stage:
    """What was known and planned when a stage began."""

    stage: str
    step: int  # steps done before it
    steps: int  # that it lasts
    unvisited: int
    states_seen: int
    found_at: int  # when the last new state was noticed, in the cold start
    utility: float | None  # U_kappa(d_hat) with the true c, where it is known and finite
    power: float | None = None  # p
    weight: float | None = None  # w, see `tracked_model`
    worst: float | None = None  # L_Worst and L_Avg as planned, with upper bounds of c
    average: float | None = None
    status: str | None = None
    seconds: float = 0.0  # of planning
    note: str | None = None  # why there is no plan


class Tracking:
    """The stages of one run."""

    def __init__(self, settings: ExploreSettings, spaces: TransitionGraph) -> None:
        self.settings = settings
        self.spaces = spaces
        self.steps_before = 0  # of counts that the run began with
        self.records: list[Stage] = []

    @property
    def next_start(self) -> int:
        """After how many steps there is something to decide again."""
        return self.records[-1].step + self.records[-1].steps if self.records else 0

    def begin(
        self, memory: Memory, strategy: Strategy, count: Callable[[], Counts], c: FloatArray | None
    ) -> Strategy:
        """Go on with the cold start, or plan; return what is followed from now on."""
        stage = self._described(memory, c)
        if not self.records or self.records[-1].stage == COLD:
            cold = self._cold(stage)
            if cold is not None:
                self.records[:] = [cold]
                return strategy
        lasts, left = self._lengths(stage.step)
        began = time.perf_counter()
        stage = self._planned(replace(stage, steps=lasts), memory, count(), left)
        self.records.append(replace(stage, seconds=time.perf_counter() - began))
        strategy = self._followed(stage, strategy)
        plan_afresh(memory, strategy)
        return strategy

    def rehearse(self, memory: Memory, strategy: Strategy) -> None:
        """Have what a plan needs compiled, or loaded, on a memory that is thrown away."""
        complexity_bounds(memory, strategy)
        plan_afresh(memory, strategy)

    def saved(self) -> list[dict[str, Any]]:
        """Return the records as plain data."""
        return [asdict(record) for record in self.records]

    def restore(self, records: Sequence[Mapping[str, Any]], strategy: Strategy) -> Strategy:
        """Go on after stages that were saved; return the plan to go on with."""
        self.records = [Stage(**record) for record in records]
        return self._followed(self.records[-1], strategy) if self.records else strategy

    def _described(self, memory: Memory, c: FloatArray | None) -> Stage:
        visits, done = memory.visits, int(memory.integers[TIME])
        T_plus = np.maximum(visits, self.settings.epsilon)
        known = None if c is None or done == 0 else utility(T_plus / done, c, self.settings.kappa)
        return Stage(
            stage=COLD,
            step=done,
            steps=0,
            unvisited=int(np.count_nonzero(visits == 0)),
            states_seen=int(np.count_nonzero(memory.state_visits)),
            found_at=done,
            utility=known,
        )

    def _cold(self, stage: Stage) -> Stage | None:
        """Return the cold start up to the next look at it; None where it is over."""
        done, first = stage.step, self.records[-1] if self.records else stage
        found_at = done if stage.states_seen > first.states_seen else first.found_at
        spent = 0.0 if self.settings.anytime else self._spent(done)
        has_all = stage.states_seen == self.spaces.n_states
        has_enough = done >= SEVERAL * self.spaces.n_pairs or spent >= COLD_SHARE
        if (has_enough and (has_all or found_at <= STALE * done)) or spent >= MOST_COLD:
            return None
        shortest = FIRST_LOOK
        if not self.settings.anytime:
            shortest = max(1, min(FIRST_LOOK, int(COLD_SHARE * self.settings.steps)))
        steps = done + max(shortest, int(done * (LOOK_FACTOR - 1))) - first.step
        return replace(first, steps=steps, states_seen=stage.states_seen, found_at=found_at)

    def _spent(self, done: int) -> float:
        """Return the part of the budget that is spent."""
        return min(1.0, (done - self.steps_before) / max(1, self.settings.steps))

    def _lengths(self, done: int) -> tuple[int, int]:
        """Return for how many steps a plan is followed, and for how many it is made."""
        budget = self.settings.steps
        left = budget + self.steps_before - done
        if self.settings.anytime or left <= 0:
            steps = max(1, int(ANYTIME_GROWTH * done))
            return steps, steps
        least = LEAST_SHARE * budget
        lasts = max(min(GROWTH * done, SHRINKAGE * left), least)
        return (left if left - lasts < least else max(1, int(lasts))), left

    def _planned(self, stage: Stage, memory: Memory, counts: Counts, left: int) -> Stage:
        """Plan the steps left, and write the targets into the memory."""
        try:
            problem = planning_problem(memory, counts, self.spaces, left, self.settings)
            power, found = affordable(problem, self._power(stage.step))
        except (AllocationError, LinAlgError, FloatingPointError) as error:
            return replace(stage, stage=UNPLANNED, note=str(error))
        memory.center[:] = found.center
        memory.target[:] = found.target
        return replace(
            stage,
            stage=STEERED if self._is_steered(found.worst, left) else PLANNED,
            power=power,
            weight=problem.model.weight,
            worst=found.worst,
            average=found.average,
            status=found.status,
        )

    def _is_steered(self, worst: float, left: int) -> bool:
        """Tell whether a plan is to be steered: by the end, or as those before promised more."""
        if not self.settings.anytime and left <= FINISH * self.settings.steps:
            return True
        before = [record.worst for record in self.records[-2:]]
        if len(before) < 2 or before[0] is None or before[1] is None:
            return False
        return worst > LAG * before[1] and before[1] > before[0]

    def _power(self, done: int) -> float:
        """Return the power to plan with, if it can be afforded: it rises as the budget is spent.

        After a plan that could not afford it, it rises step by step.
        """
        most = rule.full_power(self.settings)
        spent = 1.0 if self.settings.anytime else self._spent(done)
        power = 1 + (most - 1) * (EARLY_POWER + (1 - EARLY_POWER) * spent)
        before = self.records[-1].power if self.records else None
        return power if before is None else min(power, 1 + RISE * max(before - 1, LEAST_RISE))

    def _followed(self, stage: Stage, strategy: Strategy) -> Strategy:
        """Return what is followed in a stage."""
        n_states = self.spaces.n_states
        if stage.stage == COLD:
            return strategy
        if stage.stage == PLANNED:
            return rule.following(self.settings, n_states)
        if stage.stage == STEERED:
            return rule.steering(self.settings, n_states)
        return rule.without_targets(self.settings, n_states)
