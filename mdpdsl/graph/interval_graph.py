"""An interval MDP: a transition graph with bounds on each of its probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.ends import absorb
from mdpdsl.graph.restrict import restrict
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on the probability of every branch: 0 < lower <= upper <= 1."""

    lower: FloatArray  # [n_branches]
    upper: FloatArray  # [n_branches]


@dataclass(frozen=True, eq=False)
class IntervalGraph:
    """All models with probabilities within the bounds; those of the graph are one choice."""

    graph: TransitionGraph
    bounds: Bounds

    def restricted(self, kept: BoolArray) -> IntervalGraph:
        """Keep some states, with all their pairs; no branch may lead out of them."""
        n_successors = np.diff(self.graph.successor_start)
        branches = np.repeat(kept[self.graph.pair_state], n_successors)
        bounds = Bounds(self.bounds.lower[branches], self.bounds.upper[branches])
        return IntervalGraph(restrict(self.graph, kept), bounds)

    def absorbing(self) -> IntervalGraph:
        """Return the same models with ends that stay where they are, as other tools need them."""
        graph, is_own = absorb(self.graph)
        own = np.repeat(is_own, np.diff(graph.successor_start))
        lower, upper = np.ones(graph.n_branches), np.ones(graph.n_branches)
        lower[own], upper[own] = self.bounds.lower, self.bounds.upper
        return IntervalGraph(graph, Bounds(lower, upper))


def probabilities_within(graph: TransitionGraph, bounds: Bounds) -> FloatArray:
    """Return probabilities that lie within the bounds and sum to 1 in each row, [n_branches].

    They are lower + t (upper - lower), with one t per row. Raise ValueError if no probabilities
    lie within the bounds of some row.
    """
    start, counts = graph.successor_start[:-1], np.diff(graph.successor_start)
    least = np.add.reduceat(bounds.lower, start)
    most = np.add.reduceat(bounds.upper, start)
    bad = (least > 1 + 1e-9) | (most < 1 - 1e-9)
    if bad.any():
        pair = int(np.flatnonzero(bad)[0])
        raise ValueError(f"no probabilities within the intervals of pair {pair} sum to 1")
    width = most - least
    share = np.clip((1 - least) / np.where(width > 0, width, 1.0), 0.0, 1.0)
    p = bounds.lower + np.repeat(share, counts) * (bounds.upper - bounds.lower)
    sums: FloatArray = np.add.reduceat(p, start)
    return p / np.repeat(sums, counts)
