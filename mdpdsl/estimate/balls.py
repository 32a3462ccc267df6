"""Counts as an uncertain model: estimated rows, each with the radius of its confidence set."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.uncertain import UncertainModel, names_of


def confidence_balls(
    counts: Counts, spaces: TransitionGraph, radius: FloatArray, starts: FloatArray | None = None
) -> UncertainModel:
    """Return P_hat = T(s,a,s')/T(s,a) with radii [n_pairs]; an unvisited pair has no row.

    Episodes start as `starts` says, [n_states], by default as the spaces do.
    """
    n_seen = np.diff(counts.successor_start)
    return UncertainModel(
        pair_start=spaces.pair_start,
        successor_start=counts.successor_start,
        successor=counts.successor,
        probability=counts.count / np.repeat(counts.visits, n_seen),
        radius=radius,
        label=lambda: names_of(spaces),
        starts=spaces.initial if starts is None else starts,
    )
