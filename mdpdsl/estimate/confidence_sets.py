"""What counts say of a model, with its confidence sets, as the files of a run directory."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.estimate.confidence import l1_radius
from mdpdsl.estimate.counts import Counts, count_arrays
from mdpdsl.estimate.intervals import Intervals, joint_intervals
from mdpdsl.estimate.rejections import Rejections
from mdpdsl.estimate.stored import save_estimated_graph
from mdpdsl.graph.space import FloatArray
from mdpdsl.results import write_arrays, write_json

INTERVALS = "intervals.npz"


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


def read_intervals(folder: Path, counts: Counts) -> Intervals | None:
    """Read the intervals of a run; None where it has none of these counts."""
    try:
        with np.load(folder / INTERVALS, allow_pickle=False) as file:
            same = np.array_equal(file["successor"], counts.successor) and np.array_equal(
                file["successor_start"], counts.successor_start
            )
            risk = float(file["entry_risk"])
            found = Intervals(file["lower"], file["upper"], file["unseen_upper"], risk)
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    return found if same else None


def save_estimate(
    folder: Path,
    counts: Counts,
    sets: ConfidenceSets,
    model: Model,
    prior: float,
    rejected: Rejections,
) -> dict[str, str | None]:
    """Write the files of a run; return why `estimate.npz` or its rewards are missing, if so."""
    write_arrays(folder / "counts.npz", count_arrays(counts))
    write_arrays(
        folder / "radii.npz",
        {"radius": sets.radius, "kind": np.array(sets.kind), "delta": np.array(sets.delta)},
    )
    write_arrays(
        folder / INTERVALS,
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
    return save_estimated_graph(folder, counts, model, prior)
