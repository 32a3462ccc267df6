"""The transitions of some pairs of a graph between groups of its states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import Rows


class Partial(NamedTuple):
    """Rows between groups, and the probabilities of leaving."""

    rows: Rows
    leaving: FloatArray  # [n]  the row's own group
    outside: FloatArray  # [n]  all groups


def partial_rows(
    graph: TransitionGraph,
    group_of: IntArray,
    pairs: IntArray,
    terminal: FloatArray,
    reward: FloatArray | None = None,
    *,
    is_conditional: bool,
) -> Partial:
    """Return the probabilities of the next group of some pairs, as rows.

    `group_of` [n_states] is -1 outside the groups; `pairs` are sorted by group, of which each has
    one at least. A row's constant is the reward of its pair and the expected `terminal` [n_states]
    of the next state, if that is outside. Conditional rows are those given that the group is left.
    They are computed from the mass that leaves, which is exact even if it is tiny; a pair that
    never leaves its group stays there with probability 1.
    """
    from mdpdsl.kernels.grouping import group_rows

    pair_group = group_of[graph.pair_state[pairs]]
    counts = np.bincount(pair_group, minlength=int(group_of.max(initial=-1)) + 1)
    pair_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    row_start, target, weight, constant, leaving, outside = group_rows(
        graph.successor_start,
        graph.successor,
        graph.probability,
        pairs,
        pair_group,
        group_of,
        terminal,
        np.zeros(graph.n_pairs) if reward is None else reward,
        is_conditional,
    )
    return Partial(Rows(pair_start, row_start, target, weight, constant), leaving, outside)
