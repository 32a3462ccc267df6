"""The transitions of some pairs of a graph between groups of its states."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import IndexArray, Rows


def partial_rows(
    graph: TransitionGraph,
    is_goal: BoolArray,
    group_of: IntArray,
    pairs: IntArray,
    pair_start: IndexArray,
    *,
    is_conditional: bool = False,
) -> Rows:
    """Return the probabilities of the next group, with that of the goal as the constant.

    `group_of` [n_states] is -1 outside the groups; `pairs` are sorted by group, and `pair_start`
    [n_groups + 1] is where the pairs of each group begin. Probabilities are conditional on leaving
    the group. They are computed from the mass that leaves, which is exact even if it is tiny.
    """
    lengths = np.diff(graph.successor_start)[pairs]
    begin = np.concatenate([[0], np.cumsum(lengths)])
    row = np.repeat(np.arange(len(pairs)), lengths)
    branch = np.arange(begin[-1]) + np.repeat(graph.successor_start[pairs] - begin[:-1], lengths)
    target, probability = graph.successor[branch], graph.probability[branch]
    group = group_of[target]
    kept = group >= 0
    arrives = _sums(row, probability * is_goal[target], len(pairs))
    if is_conditional:
        leaves = group != group_of[graph.pair_state[pairs]][row]
        outside = _sums(row, probability * leaves, len(pairs))
        probability, arrives = probability / outside[row], arrives / outside
        kept &= leaves
    starts = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=len(pairs)))])
    return Rows(
        pair_start=pair_start,
        row_start=starts.astype(np.uint32),
        target=group[kept].astype(np.uint32),
        weight=probability[kept],
        constant=arrives,
    )


def _sums(row: IntArray, terms: FloatArray, n_rows: int) -> FloatArray:
    return np.asarray(np.bincount(row, weights=terms, minlength=n_rows), dtype=np.float64)
