"""Affine rows, what every solver works on; free of compiled code.

A row gives a pair's worth  Q(s,a) = constant + sum_s' weight(s') V(s'),  and a state is worth
V(s) = max_a Q(s,a). Discounted rewards have weight gamma P; the chance of reaching a goal has
weight P among the states that are undecided, and the constant is the chance to be there at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Unsigned, so that compiled code need not ask whether an index counts from the end.
IndexArray = npt.NDArray[np.uint32]
#: Rows and targets have to be countable by 31 bits, as SciPy counts them.
MOST_BRANCHES = 2**31 - 1
NO_PAIR = 2**32 - 1


class Rows(NamedTuple):
    """Affine rows of S states and n pairs; every state has a pair."""

    pair_start: IndexArray  # [S + 1]
    row_start: IndexArray  # [n + 1]
    target: IndexArray  # [k]  state index
    weight: FloatArray  # [k]  positive; at most 1 in a row
    constant: FloatArray  # [n]


def weight_matrix(rows: Rows) -> csr_array:
    """Return the weights as a sparse matrix [n, S]."""
    from scipy.sparse import csr_array

    shape = (len(rows.constant), len(rows.pair_start) - 1)
    # Indices of one signed width are taken as they are; anything else would be copied.
    target, start = rows.target.view(np.int32), rows.row_start.view(np.int32)
    return csr_array((rows.weight, target, start), shape=shape)


def first_best(rows: Rows, worth: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the largest worth of each state's pairs, and the first pair that has it."""
    start = rows.pair_start[:-1].astype(np.int64)
    best = np.maximum.reduceat(worth, start)
    is_best = worth == np.repeat(best, np.diff(rows.pair_start))
    places = np.where(is_best, np.arange(len(worth)), len(worth))
    return best, np.asarray(np.minimum.reduceat(places, start), dtype=np.int64)


def room_for_policy(rows: Rows) -> tuple[Rows, IndexArray]:
    """Return rows with one pair per state and room for any, and the pairs filled in: none yet."""
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
