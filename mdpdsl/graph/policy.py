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
        """Return the policy that takes one given pair in each state, [n_states]; -1 in ends."""
        probability = np.zeros(graph.n_pairs)
        probability[choice[choice >= 0]] = 1.0
        return cls(model, graph.hash, probability)

    def __repr__(self) -> str:
        return f"<Policy of {self.model}: {len(self.probability):,} pairs>"

    def choice(self, graph: TransitionGraph) -> IntArray:
        """Return the most likely pair of each state, [n_states]; -1 in ends."""
        acting = np.diff(graph.pair_start) > 0
        start = graph.pair_start[:-1][acting]
        best = np.maximum.reduceat(self.probability, start)
        is_best = self.probability == np.repeat(best, np.diff(graph.pair_start)[acting])
        places = np.where(is_best, np.arange(graph.n_pairs), graph.n_pairs)
        choice = np.full(graph.n_states, -1)
        choice[acting] = np.minimum.reduceat(places, start)
        return choice
