"""An estimate as files in the folder of a run."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import Provenance
from mdpdsl.compile.transition_rewards import with_transition_rewards
from mdpdsl.estimate.confidence_sets import ConfidenceSets, confidence_sets
from mdpdsl.estimate.empirical import estimated_graph, too_large_estimate
from mdpdsl.estimate.intervals import Intervals
from mdpdsl.files import write_arrays, write_json
from mdpdsl.formats.npz import save_model_graph
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.rejections import Rejections
from mdpdsl.runs.arrays import DAMAGE, save_counts
from mdpdsl.runs.directory import COUNTS, ESTIMATE, INTERVALS, RADII, REJECTED


def graph_with_rewards(
    counts: Counts, model: Model, prior: float
) -> tuple[TransitionGraph, str | None]:
    """Return the estimate of a model, and why it has no rewards, if they are missing."""
    estimated = estimated_graph(counts, model.graph, prior)
    graph, faults = with_transition_rewards(model.checked, estimated)
    return graph, f"{faults[0].message} {faults[0].witness}" if faults else None


def what_is_left_out(counts: Counts, model: Model, prior: float) -> dict[str, Any]:
    """Return why there is no estimated graph, or why it has no rewards, if that is the case."""
    too_large = too_large_estimate(counts, model.graph)
    if too_large is not None:
        return {"estimate_missing": too_large, "rewards_missing": None}
    return {
        "estimate_missing": None,
        "rewards_missing": graph_with_rewards(counts, model, prior)[1],
    }


def save_estimated_graph(
    folder: Path, counts: Counts, model: Model, prior: float
) -> dict[str, str | None]:
    """Write the estimate of a model; return why it or its rewards are missing, if they are."""
    too_large = too_large_estimate(counts, model.graph)
    if too_large is not None:
        return {"estimate_missing": too_large, "rewards_missing": None}
    unseen = int(np.count_nonzero(counts.visits == 0))
    graph, missing = graph_with_rewards(counts, model, prior)
    # Without a path, so that the same estimate has the same bytes in every folder.
    provenance = Provenance("", unseen, graph.n_pairs, rewards_missing=missing)
    save_model_graph(model, graph, folder / ESTIMATE, provenance)
    return {"estimate_missing": None, "rewards_missing": missing}


def stored_sets(
    folder: Path, counts: Counts, graph: TransitionGraph, delta: float, kind: str
) -> ConfidenceSets:
    """Return the confidence sets of a run, with its stored intervals if there are any."""
    sets = confidence_sets(counts, graph.n_states, delta, kind)
    try:
        with np.load(folder / INTERVALS, allow_pickle=False) as file:
            same = np.array_equal(file["successor"], counts.successor) and np.array_equal(
                file["successor_start"], counts.successor_start
            )
            risk = float(file["entry_risk"])
            found = Intervals(file["lower"], file["upper"], file["unseen_upper"], risk)
    except (OSError, *DAMAGE):
        return sets
    return replace(sets, intervals=found) if same else sets


def save_estimate(
    folder: Path,
    counts: Counts,
    sets: ConfidenceSets,
    model: Model,
    prior: float,
    rejected: Rejections,
) -> dict[str, str | None]:
    """Write the files of a run; return why the estimate or its rewards are missing, if they are."""
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
