"""The stages of `tracking`: a cold start, then plans for the rest of the budget.

Every stage is a function of the counts, the state and the last plan, all of which are saved, so a
run that was stopped and resumed is the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from mdpdsl.estimate.metrics import utility
from mdpdsl.explore.algorithms.tracking import rule
from mdpdsl.explore.algorithms.tracking.targets import (
    affordable,
    planned_visits,
    target_program,
)
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.following import complexity_bounds
from mdpdsl.kernels.incentives import Strategy
from mdpdsl.kernels.memory import TIME, Memory
from mdpdsl.kernels.merging import plan_afresh
from mdpdsl.programs.visitable import AllocationError

#: The kinds of stages, the values of `Stage.stage`.
COLD, PLANNED, STEERED, UNPLANNED = "cold start", "plan", "steered plan", "no plan"

#: Whether the cold start is over is checked first after these steps, then whenever the number of
#: steps has grown by this factor.
FIRST_LOOK = 50
LOOK_FACTOR = 1.05
#: It ends when pairs have this many visits on average, or this part of the budget is spent,
SEVERAL = 10
COLD_SHARE = 0.1
#: provided that all states have been seen, of which plans would otherwise know nothing, or that the
#: last new one was seen within this part of the steps done; ...
STALE = 0.15
#: ... and at the latest when this part of the budget is spent.
MOST_COLD = 0.3

#: A plan is followed for this part of the steps done or this part of those left, the smaller, ...
GROWTH = 0.25
SHRINKAGE = 0.25
#: ... but at least for this part of the budget.
LEAST_SHARE = 0.03
#: A plan is steered if it promises an L_Worst larger by this factor than the last plan did, and the
#: last one a larger one than the plan before it, ...
LAG = 1.05
#: ... or if at most this part of the budget is left: chance decides which states miss their
#: targets, and no later plan can make up for it.
FINISH = 0.1
#: Without a budget, a plan is made for this part of the steps done, and followed to its end.
ANYTIME_GROWTH = 0.1

#: The part of p - 1 that a plan at the very start of the budget would have.
EARLY_POWER = 0.6
#: After a plan that could not afford its p, p - 1 rises at most by this factor from plan to plan,
#: starting from at least this value.
RISE = 3
LEAST_RISE = 0.25


@dataclass(frozen=True)
class Stage:
    """The record of a stage, made when it began."""

    stage: str
    step: int  # steps done before it
    steps: int  # its length
    unvisited: int
    states_seen: int  # of those that have pairs to learn
    found_at: int  # the step at which the cold start last noticed a new state
    utility: float | None  # U_kappa(d_hat) with the true c, if known and finite
    power: float | None = None  # p
    weight: float | None = None  # w, see `tracked_model`
    worst: float | None = None  # L_Worst and L_Avg as planned, with upper bounds of c
    average: float | None = None
    status: str | None = None
    seconds: float = 0.0  # of planning
    note: str | None = None  # the reason if there is no plan


class Tracking:
    """The stages of one run."""

    def __init__(self, settings: ExploreSettings, spaces: TransitionGraph) -> None:
        self.settings = settings
        self.spaces = spaces
        self.steps_before = 0  # in the counts that the run began with
        self.records: list[Stage] = []

    @property
    def next_start(self) -> int:
        """The number of steps before the next decision."""
        return self.records[-1].step + self.records[-1].steps if self.records else 0

    def begin(
        self, memory: Memory, strategy: Strategy, count: Callable[[], Counts], c: FloatArray | None
    ) -> Strategy:
        """Continue the cold start, or plan; return the strategy to follow from now on."""
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
        """Compile or load what a plan needs, with a memory that is not used again."""
        complexity_bounds(memory, strategy)
        plan_afresh(memory, strategy)

    def saved(self) -> list[dict[str, Any]]:
        """Return the records as plain data."""
        return [asdict(record) for record in self.records]

    def restore(self, records: Sequence[Mapping[str, Any]], strategy: Strategy) -> Strategy:
        """Continue after saved stages; return the strategy to continue with."""
        self.records = [Stage(**record) for record in records]
        return self._followed(self.records[-1], strategy) if self.records else strategy

    def _described(self, memory: Memory, c: FloatArray | None) -> Stage:
        visits, done = memory.visits, int(memory.integers[TIME])
        learned = self._learned_states
        T_plus = np.maximum(visits, self.settings.epsilon)
        known = None if c is None or done == 0 else utility(T_plus / done, c, self.settings.kappa)
        return Stage(
            stage=COLD,
            step=done,
            steps=0,
            unvisited=int(np.count_nonzero((visits == 0) & (memory.rest > 0))),
            states_seen=int(np.count_nonzero(memory.state_visits[learned])),
            found_at=done,
            utility=known,
        )

    def _cold(self, stage: Stage) -> Stage | None:
        """Return the cold start up to its next check; None if it is over."""
        done, first = stage.step, self.records[-1] if self.records else stage
        found_at = done if stage.states_seen > first.states_seen else first.found_at
        spent = 0.0 if self.settings.anytime else self._spent(done)
        has_all = stage.states_seen == int(self._learned_states.sum())
        n_pairs = int(self.spaces.to_learn.sum())
        has_enough = done >= SEVERAL * n_pairs or spent >= COLD_SHARE
        if (has_enough and (has_all or found_at <= STALE * done)) or spent >= MOST_COLD:
            return None
        shortest = FIRST_LOOK
        if not self.settings.anytime:
            shortest = max(1, min(FIRST_LOOK, int(COLD_SHARE * self.settings.steps)))
        steps = done + max(shortest, int(done * (LOOK_FACTOR - 1))) - first.step
        return replace(first, steps=steps, states_seen=stage.states_seen, found_at=found_at)

    @property
    def _learned_states(self) -> BoolArray:
        """The states that have pairs to learn, [n_states]."""
        learned = np.zeros(self.spaces.n_states, np.bool_)
        learned[self.spaces.pair_state[self.spaces.to_learn]] = True
        return learned

    def _spent(self, done: int) -> float:
        """Return the part of the budget that has been spent."""
        return min(1.0, (done - self.steps_before) / max(1, self.settings.steps))

    def _lengths(self, done: int) -> tuple[int, int]:
        """Return the number of steps a plan is followed for, and the number it is made for."""
        budget = self.settings.steps
        left = budget + self.steps_before - done
        if self.settings.anytime or left <= 0:
            steps = max(1, int(ANYTIME_GROWTH * done))
            return steps, steps
        least = LEAST_SHARE * budget
        lasts = max(min(GROWTH * done, SHRINKAGE * left), least)
        return (left if left - lasts < least else max(1, int(lasts))), left

    def _planned(self, stage: Stage, memory: Memory, counts: Counts, left: int) -> Stage:
        """Plan the steps left, and write the targets to the memory."""
        try:
            program = target_program(memory, counts, self.spaces, left, self.settings)
            power, found = affordable(program, self._power(stage.step))
        except (AllocationError, LinAlgError, FloatingPointError) as error:
            return replace(stage, stage=UNPLANNED, note=str(error))
        is_planned = slice(None) if self.spaces.ends is None else ~self.spaces.ends
        memory.center[is_planned] = found.center
        memory.target[:] = found.target
        if self.spaces.knowledge is not None:
            memory.policy[:] = planned = planned_visits(program, found, memory)
            memory.target[:] = np.where(planned > 0, memory.visits + planned, found.target)
        return replace(
            stage,
            stage=STEERED if self._is_steered(found.worst, left) else PLANNED,
            power=power,
            weight=program.model.weight,
            worst=found.worst,
            average=found.average,
            status=found.status,
        )

    def _is_steered(self, worst: float, left: int) -> bool:
        """Return whether to steer: near the end, or if plans promise less and less."""
        if not self.settings.anytime and left <= FINISH * self.settings.steps:
            return True
        before = [record.worst for record in self.records[-2:]]
        if len(before) < 2 or before[0] is None or before[1] is None:
            return False
        return worst > LAG * before[1] and before[1] > before[0]

    def _power(self, done: int) -> float:
        """Return the power to try: it rises as the budget is spent.

        After a plan that could not afford its power, it rises step by step.
        """
        most = rule.full_power(self.settings)
        spent = 1.0 if self.settings.anytime else self._spent(done)
        power = 1 + (most - 1) * (EARLY_POWER + (1 - EARLY_POWER) * spent)
        before = self.records[-1].power if self.records else None
        return power if before is None else min(power, 1 + RISE * max(before - 1, LEAST_RISE))

    def _followed(self, stage: Stage, strategy: Strategy) -> Strategy:
        """Return the strategy of a stage."""
        n_states = self.spaces.n_states
        if stage.stage == COLD:
            return strategy
        if stage.stage == PLANNED:
            return rule.following(self.settings, n_states)
        if stage.stage == STEERED:
            return rule.steering(self.settings, n_states)
        return rule.without_targets(self.settings, n_states)
