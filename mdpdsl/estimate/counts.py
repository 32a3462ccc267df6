"""Counts of transitions: sparse, mergeable, and the model they estimate."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph

#: Entries that the uniform rows of pairs never visited may take in an estimate that is written.
MOST_UNIFORM_ENTRIES = 50_000_000


@dataclass(frozen=True, eq=False)
class Counts:
    """T(s,a,s') by pair, successors ascending; a pair never visited has none."""

    successor_start: IntArray  # [n_pairs + 1]
    successor: StateArray  # [n_entries]
    count: IntArray  # [n_entries]  positive

    @property
    def visits(self) -> IntArray:
        """T(s,a), [n_pairs]."""
        total = np.concatenate([[0], np.cumsum(self.count)])
        return np.diff(total[self.successor_start])

    @property
    def n_transitions(self) -> int:
        """How many transitions were counted."""
        return int(self.count.sum())


def counts_from(pairs: IntArray, successors: IntArray, counts: IntArray, n_pairs: int) -> Counts:
    """Build counts from entries in any order; entries alike add up."""
    order = np.lexsort((successors, pairs))
    pairs, successors, counts = pairs[order], successors[order], counts[order]
    is_new = np.ones(len(pairs), np.bool_)
    is_new[1:] = (pairs[1:] != pairs[:-1]) | (successors[1:] != successors[:-1])
    first = np.flatnonzero(is_new)
    total = np.add.reduceat(counts, first) if len(first) else counts
    per_pair = np.bincount(pairs[first], minlength=n_pairs)
    start = np.concatenate([[0], np.cumsum(per_pair)])
    return Counts(start, successors[first].astype(np.int32), total.astype(np.int64))


def no_counts(n_pairs: int) -> Counts:
    """Return the counts of nothing."""
    nothing = np.empty(0, np.int64)
    return counts_from(nothing, nothing, nothing, n_pairs)


def merge(one: Counts, other: Counts) -> Counts:
    """Add the counts of two runs over the same pairs."""
    n_pairs = len(one.successor_start) - 1
    pairs = [np.repeat(np.arange(n_pairs), np.diff(c.successor_start)) for c in (one, other)]
    return counts_from(
        np.concatenate(pairs),
        np.concatenate([one.successor, other.successor]),
        np.concatenate([one.count, other.count]),
        n_pairs,
    )


def estimated_graph(
    counts: Counts, spaces: TransitionGraph, smoothing: float = 0.0
) -> TransitionGraph:
    """Return the model that counts estimate, over the spaces of a graph.

    P_hat = T(s,a,s')/T(s,a) (paper, eq. p_hat_def); with `smoothing` a, it is
    (T(s,a,s') + a)/(T(s,a) + a m) over the m successors seen. A pair never visited gets the uniform
    row 1/S: it is dense, so a large model with many such pairs is better kept as counts.

    Rewards of pairs and labels are those of the spaces. Rewards that depend on the next state are
    left out, for what the spaces expect of them is by their own transitions;
    `compile.transition_rewards` evaluates them on the estimated ones.
    """
    S = spaces.n_states
    visits = counts.visits
    n_seen = np.diff(counts.successor_start)
    per_pair = np.where(visits > 0, n_seen, S)
    start = np.concatenate([[0], np.cumsum(per_pair)])
    successor = np.empty(start[-1], np.int32)
    probability = np.empty(start[-1])
    pair = np.repeat(np.arange(len(visits)), n_seen)
    place = start[:-1][pair] + np.arange(len(pair)) - counts.successor_start[:-1][pair]
    successor[place] = counts.successor
    total = visits + smoothing * n_seen
    probability[place] = (counts.count + smoothing) / total[pair]
    for unvisited in np.flatnonzero(visits == 0):
        row = slice(start[unvisited], start[unvisited + 1])
        successor[row], probability[row] = np.arange(S), 1 / S
    return replace(
        spaces,
        successor_start=start,
        successor=successor,
        probability=probability,
        reward=spaces.reward if spaces.branch_reward is None else None,
        branch_reward=None,
    )


def too_large_estimate(counts: Counts, spaces: TransitionGraph) -> str | None:
    """Say why the estimated graph is not to be written, where its uniform rows are too many."""
    n_uniform = int(np.count_nonzero(counts.visits == 0)) * spaces.n_states
    if n_uniform <= MOST_UNIFORM_ENTRIES:
        return None
    return (
        f"the uniform rows of pairs never seen would take {n_uniform:,} entries; "
        "counts.npz has what was seen"
    )


def estimated_complexity(counts: Counts) -> FloatArray:
    """Return c_hat(s,a) = 1 - sum P_hat^2, and 1 for a pair never visited, [n_pairs]."""
    visits = counts.visits
    squares = np.concatenate([[0.0], np.cumsum(counts.count.astype(np.float64) ** 2)])
    sums = np.diff(squares[counts.successor_start])
    return np.where(visits > 0, 1 - sums / np.maximum(visits, 1.0) ** 2, 1.0)


def count_arrays(counts: Counts) -> dict[str, npt.NDArray[np.generic]]:
    """Return counts as the arrays of a file."""
    names = ("successor_start", "successor", "count")
    return {name: getattr(counts, name) for name in names}


def read_counts(path: Path, n_pairs: int, n_states: int) -> Counts:
    """Read the counts of a file over a model's pairs; raise ValueError where it holds others."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("successor_start", "successor", "count")}
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} does not hold counts that mdpdsl wrote") from error
    counts = Counts(**arrays)
    start, n_entries = counts.successor_start, len(counts.count)
    if len(start) != n_pairs + 1 or len(counts.successor) != n_entries:
        raise ValueError(
            f"{path} has counts of {len(start) - 1:,} pairs; the model has {n_pairs:,}"
        )
    is_ordered = start[0] == 0 and start[-1] == n_entries and not np.any(np.diff(start) < 0)
    is_inside = not np.any((counts.successor < 0) | (counts.successor >= n_states))
    if not (is_ordered and is_inside and np.all(counts.count > 0)):
        raise ValueError(f"{path} is damaged: its counts are not those of transitions")
    return counts
