"""An estimate as files in the folder of a run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import Provenance
from mdpdsl.compile.transition_rewards import with_transition_rewards
from mdpdsl.estimate.confidence_sets import ConfidenceSets
from mdpdsl.estimate.empirical import estimated_graph, too_large_estimate
from mdpdsl.estimate.intervals import Intervals
from mdpdsl.files import write_arrays, write_json
from mdpdsl.formats.npz import save_model_graph
from mdpdsl.graph.counts import Counts
from mdpdsl.logs.rejections import Rejections
from mdpdsl.runs.arrays import DAMAGE, save_counts
from mdpdsl.runs.directory import COUNTS, ESTIMATE, INTERVALS, RADII, REJECTED


def save_estimated_graph(
    folder: Path, counts: Counts, model: Model, prior: float
) -> dict[str, str | None]:
    """Write the estimate of a model; return why it or its rewards are missing, if they are."""
    spaces = model.graph
    too_large = too_large_estimate(counts, spaces)
    if too_large is not None:
        return {"estimate_missing": too_large, "rewards_missing": None}
    unseen = int(np.count_nonzero(counts.visits == 0))
    graph, faults = with_transition_rewards(model.checked, estimated_graph(counts, spaces, prior))
    missing = f"{faults[0].message} {faults[0].witness}" if faults else None
    # Without a path, so that equal estimates are equal files, wherever they are.
    provenance = Provenance("", unseen, graph.n_pairs, rewards_missing=missing)
    save_model_graph(model, graph, folder / ESTIMATE, provenance)
    return {"estimate_missing": None, "rewards_missing": missing}


def read_intervals(folder: Path, counts: Counts) -> Intervals | None:
    """Read the intervals of a run; None if it has none for these counts."""
    try:
        with np.load(folder / INTERVALS, allow_pickle=False) as file:
            same = np.array_equal(file["successor"], counts.successor) and np.array_equal(
                file["successor_start"], counts.successor_start
            )
            risk = float(file["entry_risk"])
            found = Intervals(file["lower"], file["upper"], file["unseen_upper"], risk)
    except (OSError, *DAMAGE):
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
    save_counts(counts, folder / COUNTS)
    write_arrays(
        folder / RADII,
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
    write_json(folder / REJECTED, {"rejected": rejected.counts, "examples": examples})
    return save_estimated_graph(folder, counts, model, prior)
