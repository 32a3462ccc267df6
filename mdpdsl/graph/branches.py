"""Assemble a transition graph from branches in any order, as other libraries and formats have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from mdpdsl.graph.space import (
    ActionSpace,
    BoolArray,
    FloatArray,
    IntArray,
    Product,
    StateSpace,
    Variable,
)
from mdpdsl.graph.transition_graph import ROW_SUM_TOLERANCE, TransitionGraph

#: Foreign rows may sum to 1 with this error (single precision); they are then normalised.
FOREIGN_ROW_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Branches:
    """Branches in any order, as parallel columns, [n_branches] each."""

    state: IntArray
    action: IntArray
    target: IntArray
    probability: FloatArray
    reward: FloatArray | None
    rewards: Mapping[str, FloatArray] = field(default_factory=dict)  # the named ones

    def with_reward(self, reward: FloatArray) -> Branches:
        """Return the same branches with rewards."""
        return replace(self, reward=reward)

    def graph(
        self,
        states: StateSpace,
        actions: ActionSpace,
        initial: FloatArray,
        labels: Mapping[str, BoolArray] | None = None,
        ends: BoolArray | None = None,
    ) -> TransitionGraph:
        """Return the graph of these branches; raise ValueError if they are not a valid MDP.

        Branches with probability 0 are dropped, branches of a pair to the same state are added up
        (with the mean of their rewards), and rows are normalised to remove rounding errors.
        Branches that leave an end are dropped, and episodes start in the other states.
        """
        if ends is not None and ends.any():
            initial = starts_outside(ends, initial)
            return self._chosen(~ends[self.state])._graph(states, actions, initial, labels, ends)
        return self._graph(states, actions, initial, labels, None)

    def _graph(
        self,
        states: StateSpace,
        actions: ActionSpace,
        initial: FloatArray,
        labels: Mapping[str, BoolArray] | None,
        ends: BoolArray | None,
    ) -> TransitionGraph:
        if not np.all(self.probability >= 0):
            raise ValueError("a probability is negative or not a number")
        parts = self._sorted_and_merged()
        pairs = parts.state * actions.n_actions + parts.action
        codes, first, counts = np.unique(pairs, return_index=True, return_counts=True)
        if len(codes) == 0:
            raise ValueError("there are no transitions")
        probability = parts.probability
        sums = np.add.reduceat(probability, first)
        off = np.abs(sums - 1)
        if np.any(off > FOREIGN_ROW_SUM_TOLERANCE):
            worst = int(np.argmax(off))
            state, action = divmod(int(codes[worst]), actions.n_actions)
            raise ValueError(
                f"the probabilities of {actions.labels[action]} in {states.native(state)} "
                f"sum to {sums[worst]:.9g}, not 1"
            )
        probability = probability / np.repeat(np.where(off > ROW_SUM_TOLERANCE, sums, 1.0), counts)

        def is_plain(rewards: FloatArray) -> bool:
            return np.array_equal(np.repeat(rewards[first], counts), rewards)

        def of_pairs(rewards: FloatArray) -> FloatArray:
            """Return the expected reward of every pair; rewards that are the same stay exact."""
            if is_plain(rewards):
                return rewards[first]
            return np.asarray(np.add.reduceat(probability * rewards, first))

        own, named = parts.reward, parts.rewards
        n_pairs = np.bincount(codes // actions.n_actions, minlength=states.n_states)
        graph = TransitionGraph(
            states=states,
            actions=actions,
            pair_start=starts_of(n_pairs),
            pair_action=(codes % actions.n_actions).astype(np.int32),
            successor_start=starts_of(counts),
            successor=parts.target.astype(np.int32),
            probability=probability,
            initial=initial,
            reward=None if own is None else of_pairs(own),
            branch_reward=None if own is None or is_plain(own) else own,
            labels=dict(labels or {}),
            ends=ends,
            rewards={name: of_pairs(of) for name, of in named.items()},
            branch_rewards={name: of for name, of in named.items() if not is_plain(of)},
        )
        graph.validate()
        return graph

    def _chosen(self, places: BoolArray | IntArray) -> Branches:
        return Branches(
            state=self.state[places],
            action=self.action[places],
            target=self.target[places],
            probability=self.probability[places],
            reward=None if self.reward is None else self.reward[places],
            rewards={name: of[places] for name, of in self.rewards.items()},
        )

    def _sorted_and_merged(self) -> Branches:
        order = np.lexsort((self.target, self.action, self.state))
        ordered = self._chosen(order[self.probability[order] > 0])
        state, action, target = ordered.state, ordered.action, ordered.target
        probability = ordered.probability
        is_new = np.ones(len(state), np.bool_)
        is_new[1:] = np.any(np.diff(np.stack([state, action, target]), axis=1) != 0, axis=0)
        if is_new.all():
            return ordered
        first = np.flatnonzero(is_new)
        total = np.add.reduceat(probability, first)

        def mean(reward: FloatArray) -> FloatArray:
            """Return the mean reward of merged branches; that of equal ones has no rounding."""
            highest, lowest = np.maximum.reduceat(reward, first), np.minimum.reduceat(reward, first)
            weighted = np.add.reduceat(probability * reward, first) / total
            return np.where(highest == lowest, highest, weighted)

        return Branches(
            state=state[first],
            action=action[first],
            target=target[first],
            probability=total,
            reward=None if ordered.reward is None else mean(ordered.reward),
            rewards={name: mean(of) for name, of in ordered.rewards.items()},
        )


def numbered_states(n_states: int, name: str = "s") -> StateSpace:
    """Return states that are numbered from 0."""
    return StateSpace(Product((Variable(name, "int", n_states),)), np.arange(n_states))


def named_actions(names: tuple[str, ...]) -> ActionSpace:
    """Return named actions."""
    return ActionSpace(Product((Variable("action", "enum", len(names), members=names),)))


def starts_outside(ends: BoolArray, initial: FloatArray) -> FloatArray:
    """Return the initial distribution, given that episodes do not start in an end."""
    if ends.all():
        raise ValueError("every state is an end")
    if not initial[ends].any():
        return initial
    outside = np.where(ends, 0.0, initial)
    if not outside.any():
        raise ValueError("every initial state is an end")
    return np.asarray(outside / outside.sum())


def starts_of(counts: IntArray) -> IntArray:
    """Return the start of each part of a compressed array, and the end, [n + 1]."""
    return np.concatenate([[0], np.cumsum(counts)])
