"""Small Minari datasets, written by Minari itself, and a plain counter of their transitions."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer

from mdpdsl.compile.model import Model


@dataclass(frozen=True)
class Recorded:
    """Episodes as they were lived through: lists of observations and of actions."""

    observation_space: Any
    action_space: Any
    observations: list[list[Any]]  # one more than actions in each episode
    actions: list[list[Any]]


def lived(environment: str, lengths: Sequence[int], **options: Any) -> Recorded:
    """Act at random in an environment, for some steps in each episode, or until it ends."""
    env = gymnasium.make(environment, **options)
    env.action_space.seed(0)
    observations, actions = [], []
    for seed, length in enumerate(lengths):
        seen: list[Any] = [env.reset(seed=seed)[0]]
        done: list[Any] = []
        is_over = False
        while len(done) < length and not is_over:
            done.append(env.action_space.sample())
            observation, _, terminated, truncated, _ = env.step(done[-1])
            seen.append(observation)
            is_over = terminated or truncated
        observations.append(seen)
        actions.append(done)
    env.close()
    return Recorded(env.observation_space, env.action_space, observations, actions)


def written(dataset: str, recorded: Recorded, form: str = "hdf5", **options: Any) -> Path:
    """Write a dataset among the local ones; return its data folder."""
    buffers = [
        EpisodeBuffer(
            observations=_stacked(recorded.observation_space, seen),
            actions=_stacked(recorded.action_space, done),
            rewards=[float(t) for t in range(len(done))],
            terminations=[False] * len(done),
            truncations=[t == len(done) - 1 for t in range(len(done))],
        )
        for seen, done in zip(recorded.observations, recorded.actions, strict=True)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no author, no code, no environment
        made = minari.create_dataset_from_buffers(
            dataset,
            buffers,
            observation_space=recorded.observation_space,
            action_space=recorded.action_space,
            data_format=form,
            **options,
        )
    return Path(made.storage.data_path)


def plainly_counted(
    recorded: Recorded, state: Callable[[Any], int | None], action: Callable[[Any], int | None]
) -> Counter[tuple[int, int, int]]:
    """Count state, action, next state; None is what a model does not know."""
    found: Counter[tuple[int, int, int]] = Counter()
    for seen, done in zip(recorded.observations, recorded.actions, strict=True):
        for before, a, after in zip(seen, done, seen[1:], strict=False):
            key = (state(before), action(a), state(after))
            if None not in key:
                found[key] += 1  # type: ignore[index]
    return found


def counts_of(model: Model, read: Any) -> dict[tuple[int, int, int], int]:
    """Return what was read as state, action, next state."""
    graph, counts = model.graph, read.counts
    pairs = np.repeat(np.arange(graph.n_pairs), np.diff(counts.successor_start))
    return {
        (int(graph.pair_state[p]), int(graph.pair_action[p]), int(s)): int(n)
        for p, s, n in zip(pairs, counts.successor, counts.count, strict=True)
    }


def _stacked(space: Any, values: Sequence[Any]) -> Any:
    """Turn a list of values into a value of lists."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: _stacked(part, [v[key] for v in values]) for key, part in space.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(_stacked(part, [v[i] for v in values]) for i, part in enumerate(space))
    return list(values) if isinstance(space, gymnasium.spaces.Text) else np.array(values)
