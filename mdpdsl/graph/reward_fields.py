"""The rewards of a graph, all of them at once, for a graph with other pairs or branches.

Each function returns fields for `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypedDict

from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import DEFAULT_REWARD, TransitionGraph

Change = Callable[[FloatArray], FloatArray]


class RewardFields(TypedDict):
    """The fields of a graph that have rewards."""

    reward: FloatArray | None
    branch_reward: FloatArray | None
    rewards: Mapping[str, FloatArray]
    branch_rewards: Mapping[str, FloatArray]


#: No rewards at all.
NO_REWARDS: RewardFields = {
    "reward": None,
    "branch_reward": None,
    "rewards": {},
    "branch_rewards": {},
}


def all_rewards(graph: TransitionGraph) -> dict[str, FloatArray]:
    """Return the expected rewards of the pairs by name, the default reward first."""
    default = {} if graph.reward is None else {DEFAULT_REWARD: graph.reward}
    return {**default, **graph.rewards}


def mapped_rewards(graph: TransitionGraph, per_pair: Change, per_branch: Change) -> RewardFields:
    """Return all rewards, with the numbers of pairs and of branches changed."""
    by_branch = graph.branch_rewards
    return {
        "reward": None if graph.reward is None else per_pair(graph.reward),
        "branch_reward": None if graph.branch_reward is None else per_branch(graph.branch_reward),
        "rewards": {name: per_pair(numbers) for name, numbers in graph.rewards.items()},
        "branch_rewards": {name: per_branch(numbers) for name, numbers in by_branch.items()},
    }


def chosen_rewards(graph: TransitionGraph, pairs: BoolArray, branches: BoolArray) -> RewardFields:
    """Return the rewards of some pairs and of their branches."""
    return mapped_rewards(graph, lambda rewards: rewards[pairs], lambda rewards: rewards[branches])


def rewards_of_pairs(graph: TransitionGraph, pairs: BoolArray | None = None) -> RewardFields:
    """Return the rewards that do not depend on the next state, of all pairs or of some.

    The others are expectations over the transitions of the graph, and so hold for them only.
    """

    def chosen(rewards: FloatArray) -> FloatArray:
        return rewards if pairs is None else rewards[pairs]

    reward = graph.reward if graph.branch_reward is None else None
    return {
        "reward": None if reward is None else chosen(reward),
        "branch_reward": None,
        "rewards": {
            name: chosen(numbers)
            for name, numbers in graph.rewards.items()
            if name not in graph.branch_rewards
        },
        "branch_rewards": {},
    }
