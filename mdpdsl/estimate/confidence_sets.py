"""Confidence sets around all estimated rows."""

from __future__ import annotations

from dataclasses import dataclass

from mdpdsl.estimate.confidence import l1_radius
from mdpdsl.estimate.intervals import Intervals, joint_intervals
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray


@dataclass(frozen=True, eq=False)
class ConfidenceSets:
    """Balls and intervals around the estimated rows; each kind holds with probability 1 - delta."""

    radius: FloatArray  # [n_pairs]  l1, 2 if a pair was never visited
    kind: str  # of the radius
    delta: float
    intervals: Intervals


def confidence_sets(counts: Counts, n_states: int, delta: float, kind: str) -> ConfidenceSets:
    """Compute the confidence sets of counts, with the number of transitions counted as the time."""
    radius = l1_radius(counts.visits, n_states, counts.n_transitions, delta, kind)
    return ConfidenceSets(radius, kind, delta, joint_intervals(counts, n_states, delta))
