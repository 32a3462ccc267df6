"""Backward searches over a graph: the pairs that may lead to a state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import IndexArray, rows_of
from mdpdsl.kernels.reaching import attract, confine
from mdpdsl.kernels.solving import predecessors

#: More steps than any search takes.
FOREVER = 2**62


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The pairs that may lead to each state, in compressed rows."""

    start: IndexArray  # [n_states + 1]
    pair: IndexArray  # [n_branches]
    pair_start: IndexArray  # [n_states + 1]
    pair_state: IndexArray  # [n_pairs]

    def attracted(
        self,
        is_allowed: BoolArray,
        is_goal: BoolArray,
        choice: IntArray | None = None,
        within: int = FOREVER,
    ) -> BoolArray:
        """Return which states can reach the goal by allowed pairs; write the pairs to `choice`.

        `within` limits the steps that it takes.
        """
        if choice is None:
            choice = np.zeros(len(is_goal), dtype=np.int64)
        found: BoolArray = attract(
            self.start, self.pair, self.pair_state, is_allowed, is_goal, choice, within
        )
        return found

    def confined(
        self, is_left: BoolArray, is_gone: BoolArray, is_kept: BoolArray
    ) -> tuple[BoolArray, BoolArray]:
        """Remove pairs that may lead to removed states; return the pairs left and those states."""
        is_left, is_gone = is_left.copy(), is_gone.copy()
        confine(self.start, self.pair, self.pair_start, self.pair_state, is_left, is_gone, is_kept)
        return is_left, is_gone


def arrivals_of(graph: TransitionGraph) -> Arrivals:
    """Return the pairs that may lead to each state of a graph."""
    rows = rows_of(graph)
    start, pair = predecessors(rows)
    return Arrivals(start, pair, rows.pair_start, graph.pair_state.astype(np.uint32))
