"""Policies: the probability of each action in each state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph


@dataclass(frozen=True, eq=False)
class Policy:
    """A stationary policy of a model."""

    model: str
    hash: str  # of the graph
    probability: FloatArray  # [n_pairs]  sums to 1 within a state

    @classmethod
    def deterministic(cls, model: str, graph: TransitionGraph, choice: IntArray) -> Policy:
        """Return the deterministic policy that takes one given pair in each state, [n_states]."""
        probability = np.zeros(graph.n_pairs)
        probability[choice] = 1.0
        return cls(model, graph.hash, probability)

    def __repr__(self) -> str:
        return f"<Policy of {self.model}: {len(self.probability):,} pairs>"

    def choice(self, graph: TransitionGraph) -> IntArray:
        """Return the most likely pair of each state, [n_states]."""
        best = np.maximum.reduceat(self.probability, graph.pair_start[:-1])
        is_best = self.probability == np.repeat(best, np.diff(graph.pair_start))
        places = np.where(is_best, np.arange(graph.n_pairs), graph.n_pairs)
        return np.asarray(np.minimum.reduceat(places, graph.pair_start[:-1]), dtype=np.int64)
