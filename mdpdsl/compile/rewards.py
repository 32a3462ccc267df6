"""Rewards and labels: expressions over states, pairs and next states."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdpdsl.compile.checked import CheckedModel, Reward
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.merge import Transitions
from mdpdsl.compile.outcome import report_faults
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.terms import Term, reads
from mdpdsl.compile.transitions import action_values, any_holds, state_values
from mdpdsl.diagnostics import Diagnostic
from mdpdsl.graph.reward_fields import RewardFields
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, StateSpace
from mdpdsl.graph.transition_graph import DEFAULT_REWARD


class RewardKernel:
    """Computes one reward for batches of pairs: the sum over all its lines that apply."""

    def __init__(self, model: CheckedModel, name: str, problems: Problems) -> None:
        self.model = model
        self.problems = problems
        self._action_values = action_values(model)
        self._lines = [reward for reward in model.rewards if reward.name == name]
        self.depends_on_next = any(_reads_next(reward) for reward in self._lines)

    def pair_rewards(self, codes: IntArray, found: Transitions) -> FloatArray:
        """Return the part of each pair's reward that does not depend on the next state."""
        rewards = [reward for reward in self._lines if not _reads_next(reward)]
        return self._rewards(rewards, codes[found.pair_rows], found.pair_actions, None)

    def branch_rewards(self, codes: IntArray, found: Transitions) -> FloatArray:
        """Return the part of each branch's reward that depends on the next state."""
        rewards = [reward for reward in self._lines if _reads_next(reward)]
        pair = np.repeat(np.arange(len(found.pair_rows)), np.diff(found.starts))
        starts = codes[found.pair_rows[pair]]
        return self._rewards(rewards, starts, found.pair_actions[pair], found.targets)

    def _rewards(
        self,
        rewards: list[Reward],
        codes: IntArray,
        actions: IntArray,
        targets: IntArray | None,
    ) -> FloatArray:
        total = np.zeros(len(codes))
        if not rewards:
            return total
        for action in np.unique(actions).tolist():
            rows = np.flatnonzero(actions == action)
            values = state_values(self.model, codes[rows])
            if targets is not None:
                values |= state_values(self.model, targets[rows], "next")
            frame = Frame(len(rows), values | self._action_values[action])
            for reward in rewards:
                if action in reward.actions:
                    with np.errstate(over="ignore"):
                        total[rows] += self._reward(reward, frame, codes[rows], action)
        bad = ~np.isfinite(total)
        if bad.any():
            message = "the sum of the rewards is not a finite number"
            self.problems.add("E507", rewards[-1].value.span, message, codes[bad])
            total[bad] = 0.0
        return total

    def _reward(self, reward: Reward, frame: Frame, codes: IntArray, action: int) -> FloatArray:
        applies: BoolArray = np.ones(frame.size, np.bool_)
        if reward.guard is not None:
            result = evaluate(reward.guard, frame)
            report_faults(self.problems, result, frame, codes, action)
            applies = frame.full(result.values).astype(np.bool_)
        rows = np.flatnonzero(applies)
        total = np.zeros(frame.size)
        if len(rows) == 0:
            return total
        part = frame.take(rows, len(rows))
        result = evaluate(reward.value, part)
        report_faults(self.problems, result, part, codes[rows], action)
        values = part.full(result.values).astype(np.float64)
        bad = ~np.isfinite(values)
        if bad.any() and not result.faults:
            self.problems.add(
                "E507",
                reward.value.span,
                "the reward is not a finite number",
                codes[rows[bad]],
                action=action,
            )
        total[rows] = np.where(bad, 0.0, values)
        return total


def reward_kernels(model: CheckedModel, problems: Problems) -> dict[str, RewardKernel]:
    """Return a kernel for each reward, by its name."""
    return {name: RewardKernel(model, name, problems) for name in model.reward_names}


def reward_fields(
    by_pair: Mapping[str, FloatArray], by_branch: Mapping[str, FloatArray]
) -> RewardFields:
    """Return rewards by name as the fields of a graph, in which the default reward is apart."""
    return {
        "reward": by_pair.get(DEFAULT_REWARD),
        "branch_reward": by_branch.get(DEFAULT_REWARD),
        "rewards": {name: of for name, of in by_pair.items() if name != DEFAULT_REWARD},
        "branch_rewards": {name: of for name, of in by_branch.items() if name != DEFAULT_REWARD},
    }


def marked_states(
    model: CheckedModel, problems: Problems, codes: IntArray, batch: int
) -> tuple[dict[str, BoolArray], BoolArray | None]:
    """Return the states of each label, and the ends (None if there are none)."""
    labels = {name: np.zeros(len(codes), np.bool_) for name in model.labels}
    ends = np.zeros(len(codes), np.bool_)
    if not labels and not model.ends:
        return labels, None
    for begin in range(0, len(codes), batch):
        part = codes[begin : begin + batch]
        frame = Frame(len(part), state_values(model, part))
        for name, guard in model.labels.items():
            labels[name][begin : begin + batch] = any_holds((guard,), frame, part, problems)
        ends[begin : begin + batch] = any_holds(model.ends, frame, part, problems)
    return labels, ends if ends.any() else None


def rewards_in_ends(model: CheckedModel, states: StateSpace, ends: BoolArray) -> list[Diagnostic]:
    """Warn of rewards that could only be earned in an end, where nothing more happens."""
    found = []
    frame = Frame(states.n_states, state_values(model, states.codes))
    values = action_values(model)
    for reward in model.rewards:
        # What depends on the next state is taken to apply.
        terms = [t for t in (reward.guard, reward.value) if t is not None and not _reads(t, "next")]
        is_earned = np.zeros(states.n_states, np.bool_)
        for action in reward.actions:
            here = frame.extended(values[action])
            results = [here.full(evaluate(term, here).values) != 0 for term in terms]
            is_earned |= np.logical_and.reduce([np.ones(states.n_states, np.bool_), *results])
        if is_earned.any() and not (is_earned & ~ends).any():
            found.append(
                Diagnostic(
                    "W004",
                    "this reward is never earned: only states in which the episode has ended "
                    "would give it",
                    (reward.value if reward.guard is None else reward.guard).span,
                    "reward the step that leads there: `reward when x' == 3 : 1`",
                )
            )
    return found


def _reads_next(reward: Reward) -> bool:
    return any(_reads(t, "next") for t in (reward.value, reward.guard) if t is not None)


def _reads(term: Term, kind: str) -> bool:
    return any(read == kind for read, _ in reads(term))
