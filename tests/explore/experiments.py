"""Logs of simulated experiments, as counts."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.counts import Counts, counts_from
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.simulate.trajectory import Schedule, draw_trajectory


def simulated(
    graph: TransitionGraph,
    n_steps: int,
    seed: int = 0,
    *,
    policy: FloatArray | None = None,
    episode_length: int | None = None,
) -> Counts:
    """Return the counts of a trajectory under a policy, by default the random one."""
    chunks = list(
        draw_trajectory(
            graph,
            Schedule(n_steps, episode_length),
            np.random.default_rng(seed),
            policy=policy,
        )
    )
    state = np.concatenate([chunk.state for chunk in chunks])
    pair = np.concatenate([chunk.pair for chunk in chunks])
    taken = np.flatnonzero(pair >= 0)
    return counts_from(
        pair[taken], state[taken + 1].astype(np.int64), np.ones(len(taken), np.int64), graph.n_pairs
    )


def counted(graph: TransitionGraph, *transitions: tuple[int, int, int, int]) -> Counts:
    """Return counts from (state, action, next state, times)."""
    pairs = np.array([graph.pair(state, action) for state, action, _, _ in transitions])
    numbers = np.array([rest for _, _, *rest in transitions])
    return counts_from(pairs, numbers[:, 0], numbers[:, 1], graph.n_pairs)
