"""What a model file says of its rows before any data: possible successors and known shares.

The row of a pair is P(s'|s,a) = share(s') + w(s'). The shares are known; the weights w of *open*
entries are not, except that they sum to what the shares leave. A row without open entries is known
and is no pair to learn. The row of a *law* is a function of the model's unknown numbers: all of its
entries are open, and the numbers say more than the entries do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.graph.row_sets import entry_pairs, places, row_sums
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from hashlib import _Hash

    from mdpdsl.graph.transition_graph import StateArray, TransitionGraph


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Known parts of the rows of a graph, over the same pairs and states."""

    successor_start: IntArray  # [n_pairs + 1]
    successor: IntArray  # [n_entries]  every successor that is possible, ascending within a pair
    share: FloatArray  # [n_entries]  the probability that is known
    is_open: BoolArray  # [n_entries]  may have more than its share
    is_joined: BoolArray  # [n_entries]  several branches lead here, and some of them are open
    is_law: BoolArray  # [n_pairs]    the row depends on unknown numbers
    has_truth: bool  # whether the rows of the graph are true, or only stand for unknown ones

    @property
    def n_pairs(self) -> int:
        """The number of pairs."""
        return len(self.is_law)

    @cached_property
    def entry_pair(self) -> IntArray:
        """The pair of every entry, [n_entries]."""
        return entry_pairs(self.successor_start)

    @cached_property
    def is_known(self) -> BoolArray:
        """Whether the whole row of a pair is known, [n_pairs]."""
        known = np.ones(self.n_pairs, np.bool_)
        known[self.entry_pair[self.is_open]] = False
        return known

    @cached_property
    def rest(self) -> FloatArray:
        """The probability that the open entries of a pair share, [n_pairs]; 0 if it is known."""
        left = 1.0 - row_sums(self.entry_pair, self.share, self.n_pairs)
        return np.where(self.is_known, 0.0, np.maximum(left, 0.0))

    @cached_property
    def placeholder(self) -> FloatArray:
        """Rows before any data: the open entries share the rest equally, [n_entries]."""
        n_open = np.bincount(self.entry_pair[self.is_open], minlength=self.n_pairs)
        each = self.rest / np.maximum(n_open, 1)
        return self.share + np.where(self.is_open, each[self.entry_pair], 0.0)

    def excludes(self, pair: IntArray, successor: IntArray | StateArray) -> BoolArray:
        """Return which of some transitions are impossible."""
        S = 1 + max(self.successor.max(initial=0), successor.max(initial=0))
        possible = self.entry_pair * np.int64(S) + self.successor
        return places(possible, pair * np.int64(S) + successor) < 0

    def add_to(self, digest: _Hash) -> None:
        """Add what is known to a hash."""
        digest.update(b"knowledge" + bytes([self.has_truth]))
        for array in (self.successor_start, self.successor, self.share, self.is_open, self.is_law):
            digest.update(np.ascontiguousarray(array).data)

    def restricted(self, kept: BoolArray, kept_pairs: BoolArray) -> Knowledge:
        """Return the knowledge of some states and their pairs; no entry may lead out of them."""
        inside = kept_pairs[self.entry_pair]
        new_index = np.cumsum(kept, dtype=np.int64) - 1
        lengths = np.diff(self.successor_start)[kept_pairs]
        return replace(
            self,
            successor_start=np.concatenate([[0], np.cumsum(lengths)]),
            successor=new_index[self.successor[inside]].astype(self.successor.dtype),
            share=self.share[inside],
            is_open=self.is_open[inside],
            is_joined=self.is_joined[inside],
            is_law=self.is_law[kept_pairs],
        )


def with_possible_rows(graph: TransitionGraph) -> TransitionGraph:
    """Return a graph with every successor that is possible, and rows as before any data.

    A graph whose file leaves nothing open is returned as it is.
    """
    known = graph.knowledge
    if known is None:
        return graph
    return replace(
        graph,
        successor_start=known.successor_start,
        successor=known.successor.astype(graph.successor.dtype),
        probability=known.placeholder,
        branch_reward=None,
        branch_rewards={},
    )


def said_of(graph: TransitionGraph) -> Knowledge:
    """Return what a model file says of its rows if only its successors are trusted.

    If the file says what is not known, that is its knowledge. Otherwise all rows are open, except
    those with a single successor.
    """
    if graph.knowledge is not None:
        return graph.knowledge
    counts = np.diff(graph.successor_start)
    is_alone = np.repeat(counts == 1, counts)
    return Knowledge(
        graph.successor_start,
        graph.successor.astype(np.int64),
        is_alone.astype(np.float64),
        ~is_alone,
        np.zeros(len(is_alone), np.bool_),
        np.zeros(graph.n_pairs, np.bool_),
        has_truth=True,
    )
