"""Transition counts for the pairs of a graph: sparse, and merged by addition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import IntArray
from mdpdsl.graph.transition_graph import StateArray


@dataclass(frozen=True, eq=False)
class Counts:
    """T(s,a,s') by pair, with successors ascending; a pair never visited has no entries."""

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
        """The number of transitions counted."""
        return int(self.count.sum())


def counts_from(pairs: IntArray, successors: IntArray, counts: IntArray, n_pairs: int) -> Counts:
    """Build counts from entries in any order; equal entries are added up."""
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
    """Return counts without any transitions."""
    nothing = np.empty(0, np.int64)
    return counts_from(nothing, nothing, nothing, n_pairs)


def one_count(pair: int, successor: int, n_pairs: int) -> Counts:
    """Return the count of a single transition."""
    return counts_from(np.array([pair]), np.array([successor]), np.ones(1, np.int64), n_pairs)


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
