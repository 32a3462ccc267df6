"""Affine rows, the form in which every solver receives its model. Nothing here is compiled.

A row gives the value of a pair,  Q(s,a) = constant + sum_s' weight(s') V(s'),  and a state has the
value  V(s) = max_a Q(s,a)  (Bellman's equation; Puterman 1994, chapter 6). For discounted rewards
the weights are gamma P and the constant is the expected reward. For the probability of reaching a
goal the weights are P restricted to the undecided states, and the constant is the probability of
reaching the goal in one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Unsigned, so that compiled code need not check for negative indices.
IndexArray = npt.NDArray[np.uint32]
#: SciPy indexes rows and targets with 31 bits.
MOST_BRANCHES = 2**31 - 1
NO_PAIR = 2**32 - 1


class Rows(NamedTuple):
    """Affine rows of S states and n pairs; every state has a pair."""

    pair_start: IndexArray  # [S + 1]
    row_start: IndexArray  # [n + 1]
    target: IndexArray  # [k]  state index
    weight: FloatArray  # [k]  positive; at most 1 in a row
    constant: FloatArray  # [n]


def rows_of(graph: TransitionGraph, constant: FloatArray | None = None) -> Rows:
    """Return the probabilities of a graph as rows; they need not have a constant."""
    return Rows(
        graph.pair_start.astype(np.uint32),
        graph.successor_start.astype(np.uint32),
        graph.successor.view(np.uint32),
        graph.probability,
        np.empty(graph.n_pairs) if constant is None else constant,
    )


def restricted(rows: Rows, is_kept: BoolArray) -> tuple[Rows, IntArray]:
    """Return the rows of some states [S], none of which may lead out, and the pairs kept."""
    is_pair = np.repeat(is_kept, np.diff(rows.pair_start))
    is_entry = np.repeat(is_pair, np.diff(rows.row_start))
    n_pairs, n_entries = (np.concatenate([[0], np.cumsum(m)]) for m in (is_pair, is_entry))
    starts = np.concatenate([[True], is_kept]), np.concatenate([[True], is_pair])
    number = np.cumsum(is_kept) - 1
    kept = Rows(
        n_pairs[rows.pair_start][starts[0]].astype(np.uint32),
        n_entries[rows.row_start][starts[1]].astype(np.uint32),
        number[rows.target[is_entry]].astype(np.uint32),
        rows.weight[is_entry],
        rows.constant[is_pair],
    )
    return kept, np.flatnonzero(is_pair)


def weight_matrix(rows: Rows) -> csr_array:
    """Return the weights as a sparse matrix [n, S]."""
    from scipy.sparse import csr_array

    shape = (len(rows.constant), len(rows.pair_start) - 1)
    # SciPy takes signed indices of one width as they are; it would copy any others.
    target, start = rows.target.view(np.int32), rows.row_start.view(np.int32)
    return csr_array((rows.weight, target, start), shape=shape)


def first_best(rows: Rows, worth: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the largest value among each state's pairs, and the first pair that has it."""
    start = rows.pair_start[:-1].astype(np.int64)
    best = np.maximum.reduceat(worth, start)
    is_best = worth == np.repeat(best, np.diff(rows.pair_start))
    places = np.where(is_best, np.arange(len(worth)), len(worth))
    return best, np.asarray(np.minimum.reduceat(places, start), dtype=np.int64)


def room_for_policy(rows: Rows) -> tuple[Rows, IndexArray]:
    """Return empty rows with room for any one pair per state, and the pairs filled in: none."""
    n_states = len(rows.pair_start) - 1
    start = rows.pair_start[:-1].astype(np.int64)
    room = int(np.maximum.reduceat(np.diff(rows.row_start), start).sum(dtype=np.int64))
    chosen = Rows(
        np.arange(n_states + 1, dtype=np.uint32),
        np.zeros(n_states + 1, np.uint32),
        np.empty(room, np.uint32),
        np.empty(room),
        np.empty(n_states),
    )
    return chosen, np.full(n_states, NO_PAIR, np.uint32)
