"""What counts say of a model, with its confidence sets, as the files of a run directory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mdpdsl.estimate.confidence import l1_radius
from mdpdsl.estimate.counts import Counts, estimated_graph, too_large_estimate
from mdpdsl.estimate.intervals import Intervals, joint_intervals
from mdpdsl.estimate.rejections import Rejections
from mdpdsl.graph.npz import to_npz
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.results import write_arrays, write_json


@dataclass(frozen=True, eq=False)
class ConfidenceSets:
    """Balls and intervals around the estimated rows; each kind holds with 1 - delta."""

    radius: FloatArray  # [n_pairs]  l1, 2 where a pair was never seen
    kind: str  # of the radius
    delta: float
    intervals: Intervals


def confidence_sets(counts: Counts, n_states: int, delta: float, kind: str) -> ConfidenceSets:
    """Work out the confidence sets of counts, as of the number of transitions counted."""
    radius = l1_radius(counts.visits, n_states, counts.n_transitions, delta, kind)
    return ConfidenceSets(radius, kind, delta, joint_intervals(counts, n_states, delta))


def save_estimate(
    folder: Path,
    counts: Counts,
    sets: ConfidenceSets,
    spaces: TransitionGraph,
    prior: float,
    rejected: Rejections,
) -> str | None:
    """Write the files of a run; return why there is no `estimate.npz` where there is none."""
    write_arrays(
        folder / "counts.npz",
        {
            "successor_start": counts.successor_start,
            "successor": counts.successor,
            "count": counts.count,
        },
    )
    write_arrays(
        folder / "radii.npz",
        {"radius": sets.radius, "kind": np.array(sets.kind), "delta": np.array(sets.delta)},
    )
    write_arrays(
        folder / "intervals.npz",
        {
            "successor_start": counts.successor_start,
            "successor": counts.successor,
            "lower": sets.intervals.lower,
            "upper": sets.intervals.upper,
            "unseen_upper": sets.intervals.unseen_upper,
            "delta": np.array(sets.delta),
            "entry_risk": np.array(sets.intervals.entry_risk),
        },
    )
    examples = {
        reason: [asdict(example) for example in kept] for reason, kept in rejected.examples.items()
    }
    write_json(folder / "rejected.json", {"rejected": rejected.counts, "examples": examples})
    missing = too_large_estimate(counts, spaces)
    if missing is None:
        to_npz(estimated_graph(counts, spaces, prior), folder / "estimate.npz")
    return missing
