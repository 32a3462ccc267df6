"""The empirical model: P_hat from counts of transitions, and its complexity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpdsl.graph.counts import Counts
from mdpdsl.graph.reward_fields import rewards_of_pairs
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: The most entries that uniform rows of unvisited pairs may take in an estimate that is saved.
MOST_UNIFORM_ENTRIES = 50_000_000


def estimated_graph(
    counts: Counts,
    spaces: TransitionGraph,
    smoothing: float = 0.0,
    *,
    knows_support: bool = False,
) -> TransitionGraph:
    """Return the model estimated from counts, over the spaces of a graph.

    P_hat = T(s,a,s')/T(s,a) (paper, eq. p_hat_def); with `smoothing` a, it is
    (T(s,a,s') + a)/(T(s,a) + a m) over the m successors seen. An unvisited pair gets the uniform
    row 1/S. That row is dense, so a large model with many such pairs is better kept as counts. If
    the spaces have dynamics and `knows_support`, it is uniform over the successors there.

    Rewards of pairs and labels are those of the spaces. Rewards that depend on the next state are
    left out, because their expectations in the spaces are over other transitions;
    `compile.transition_rewards` evaluates them on the estimated ones.
    """
    S = spaces.n_states
    visits = counts.visits
    n_seen = np.diff(counts.successor_start)
    n_possible = np.diff(spaces.successor_start) if knows_support else S
    per_pair = np.where(visits > 0, n_seen, n_possible)
    start = np.concatenate([[0], np.cumsum(per_pair)])
    successor = np.empty(start[-1], np.int32)
    probability = np.empty(start[-1])
    pair = np.repeat(np.arange(len(visits)), n_seen)
    place = start[:-1][pair] + np.arange(len(pair)) - counts.successor_start[:-1][pair]
    successor[place] = counts.successor
    total = visits + smoothing * n_seen
    probability[place] = (counts.count + smoothing) / total[pair]
    for unvisited in np.flatnonzero(visits == 0).tolist():
        row = slice(start[unvisited], start[unvisited + 1])
        possible = spaces.row(unvisited)[0] if knows_support else np.arange(S)
        successor[row], probability[row] = possible, 1 / len(possible)
    return replace(
        spaces,
        successor_start=start,
        successor=successor,
        probability=probability,
        **rewards_of_pairs(spaces),
    )


def too_large_estimate(
    counts: Counts, spaces: TransitionGraph, *, knows_support: bool = False
) -> str | None:
    """Return why the estimated graph is too large to save, or None if it is not."""
    is_unvisited = counts.visits == 0
    n_uniform = int(np.count_nonzero(is_unvisited)) * spaces.n_states
    if knows_support:
        n_uniform = int(np.diff(spaces.successor_start)[is_unvisited].sum())
    if n_uniform <= MOST_UNIFORM_ENTRIES:
        return None
    return (
        f"the uniform rows of unvisited pairs would take {n_uniform:,} entries; "
        "counts.npz has the data"
    )


def estimated_complexity(counts: Counts) -> FloatArray:
    """Return c_hat(s,a) = 1 - sum P_hat^2, and 1 for an unvisited pair, [n_pairs]."""
    visits = counts.visits
    squares = np.concatenate([[0.0], np.cumsum(counts.count.astype(np.float64) ** 2)])
    sums = np.diff(squares[counts.successor_start])
    return np.where(visits > 0, 1 - sums / np.maximum(visits, 1.0) ** 2, 1.0)
