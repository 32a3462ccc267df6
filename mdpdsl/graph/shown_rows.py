"""The rows of a graph as people see them: every possible successor, `?` for what is not known.

A probability that nobody stated has no number, even if the model has a truth to simulate with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.knowledge import with_possible_rows
from mdpdsl.graph.row_sets import entry_pairs, places
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: A known share that is smaller is only a rounding error.
LEAST_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class ShownRows:
    """A graph with every branch that is possible, and what is known of each."""

    graph: TransitionGraph
    is_open: BoolArray  # [n_branches]  its probability is more than its share
    share: FloatArray  # [n_branches]  the probability that is known
    branch_reward: FloatArray | None  # [n_branches]  if it depends on the next state; may be NaN

    @property
    def has_open(self) -> bool:
        """Whether any probability is not known."""
        return bool(self.is_open.any())

    def probability_text(self, branch: int, number: str) -> str:
        """Return the probability of a branch, `?` or `0.9 + ?`; `number` is its format."""
        share = float(self.share[branch])
        if not self.is_open[branch]:
            return format(share, number)
        return f"{share:{number}} + ?" if share > LEAST_SHARE else "?"

    def reward_of(self, pair: int, branch: int) -> float:
        """Return the reward of a branch, 0 if it has none or if it is not known."""
        if self.branch_reward is not None:
            return float(np.nan_to_num(self.branch_reward[branch]))
        return 0.0 if self.graph.reward is None else float(self.graph.reward[pair])

    def expected_reward(self, pair: int) -> float:
        """Return the expected reward of a pair, 0 if that depends on what is not known."""
        if self.graph.reward is None:
            return 0.0
        row = slice(*self.graph.successor_start[pair : pair + 2].tolist())
        if self.branch_reward is not None and self.is_open[row].any():
            return 0.0
        return float(self.graph.reward[pair])


def shown_rows(graph: TransitionGraph) -> ShownRows:
    """Return the rows to show of a graph: its own, unless its model says what is not known."""
    known = graph.knowledge
    if known is None:
        is_open = np.zeros(graph.n_branches, np.bool_)
        return ShownRows(graph, is_open, graph.probability, graph.branch_reward)
    rewards = None
    if graph.branch_reward is not None:
        S = np.int64(graph.n_states)
        own = entry_pairs(graph.successor_start) * S + graph.successor
        place = places(own, known.entry_pair * S + known.successor)
        rewards = np.where(place >= 0, graph.branch_reward[place], np.nan)
    return ShownRows(with_possible_rows(graph), known.is_open, known.share, rewards)


def simulated_or_possible(graph: TransitionGraph) -> TransitionGraph:
    """Return a graph with the transitions that are simulated; without a truth, all possible."""
    return graph if graph.has_truth or not graph.has_dynamics else with_possible_rows(graph)
