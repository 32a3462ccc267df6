"""An estimate as files in the folder of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.compile.family import Family
from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import Provenance, StoredModel, guessed_pairs
from mdpdsl.compile.transition_rewards import with_transition_rewards
from mdpdsl.estimate.confidence_sets import (
    DEFAULT_SETS,
    DEFAULT_SUPPORT,
    ConfidenceSets,
    Intervals,
    settled_sets,
)
from mdpdsl.estimate.empirical import estimated_graph, too_large_estimate
from mdpdsl.estimate.learned_numbers import LawFit, LearnedNumbers
from mdpdsl.files import write_arrays, write_json
from mdpdsl.formats.npz import save_model_graph
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.ends import Settled
from mdpdsl.graph.space import BoolArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.raw_steps import RawTransitions
from mdpdsl.logs.rejections import Rejections
from mdpdsl.runs.arrays import DAMAGE, save_settled
from mdpdsl.runs.directory import (
    COUNTS,
    ESTIMATE,
    INTERVALS,
    NUMBERS,
    RADII,
    REJECTED,
    STEPS,
)

#: The arrays of intervals in a file.
ENDS = ("lower", "upper", "unseen_upper", "rest_upper")


def with_data_starts(model: Model, settled: Settled) -> Settled:
    """Let episodes start where they do in the data, unless the model says where."""
    graph, starts = settled.graph, settled.starts
    initial = np.append(starts, np.zeros(graph.n_states - len(starts)))
    is_known = initial.sum() > 0 and not np.any(initial[np.diff(graph.pair_start) == 0])
    if model.checked.init.is_declared or isinstance(model, StoredModel) or not is_known:
        return settled
    return replace(settled, graph=replace(graph, initial=initial / initial.sum()))


def graph_with_rewards(
    counts: Counts,
    model: Model,
    spaces: TransitionGraph,
    prior: float,
    knows_support: bool = False,
    law: LawFit | None = None,
) -> tuple[TransitionGraph, str | None]:
    """Return the estimate over some spaces, and why it has no rewards, if they are missing."""
    estimated = estimated_graph(counts, spaces, prior, knows_support=knows_support)
    if law is not None:
        estimated = law.rows_of_laws(estimated)
    graph, faults = with_transition_rewards(model.checked, estimated)
    return graph, f"{faults[0].message} {faults[0].witness}" if faults else None


def guesses(counts: Counts, spaces: TransitionGraph, law: LawFit | None) -> BoolArray:
    """Return the pairs whose rows are not known, and were neither visited nor follow a law."""
    found: BoolArray = (counts.visits == 0) & spaces.to_learn
    if law is not None:
        found[law.family.pairs] = False
    return found


def what_is_left_out(
    counts: Counts,
    model: Model,
    spaces: TransitionGraph,
    prior: float,
    knows_support: bool = False,
) -> dict[str, Any]:
    """Return why there is no estimated graph, or why it has no rewards, if that is the case."""
    too_large = too_large_estimate(counts, spaces, knows_support=knows_support)
    if too_large is not None:
        return {"estimate_missing": too_large, "rewards_missing": None}
    return {
        "estimate_missing": None,
        "rewards_missing": graph_with_rewards(counts, model, spaces, prior, knows_support)[1],
    }


def save_estimated_graph(
    folder: Path,
    counts: Counts,
    model: Model,
    spaces: TransitionGraph,
    prior: float,
    knows_support: bool = False,
    law: LawFit | None = None,
) -> dict[str, str | None]:
    """Write the estimate of a model; return why it or its rewards are missing, if they are."""
    too_large = too_large_estimate(counts, spaces, knows_support=knows_support)
    if too_large is not None:
        return {"estimate_missing": too_large, "rewards_missing": None}
    is_guess = guesses(counts, spaces, law)
    unseen = int(np.count_nonzero(is_guess))
    graph, missing = graph_with_rewards(counts, model, spaces, prior, knows_support, law)
    guessed = guessed_pairs(graph, is_guess)
    # Without a path, so that the same estimate has the same bytes in every folder.
    provenance = Provenance("", unseen, graph.n_pairs, rewards_missing=missing, guessed=guessed)
    save_model_graph(model, graph, folder / ESTIMATE, provenance)
    return {"estimate_missing": None, "rewards_missing": missing}


def stored_sets(folder: Path, settled: Settled, settings: Mapping[str, Any]) -> ConfidenceSets:
    """Return the confidence sets of a run as its files have them, or computed anew without files.

    Files of version 1 have no support; their radii are the paper's or Weissman's at one look, and
    their intervals those of Clopper and Pearson, for all states.
    """
    counts, n_pairs, delta = settled.counts, settled.graph.n_pairs, float(settings["delta"])
    kind, support = settings.get("sets", DEFAULT_SETS), settings.get("support", DEFAULT_SUPPORT)
    radii = _arrays(folder / RADII)
    if len(radii.get("radius", ())) != n_pairs:
        return settled_sets(settled, delta, kind, support)
    if "support" in radii:
        kind, support = str(radii["kind"]), str(radii["support"])
        sets = settled_sets(settled, delta, kind, support)
        sets = replace(sets, radius=radii["radius"], kl=radii["kl"])
    else:
        kind = "paper" if str(radii["kind"]) == "paper" else "weissman-v1"
        sets = settled_sets(settled, delta, "clopper-pearson", "all")
        sets = replace(sets, kind=kind, radius=radii["radius"], kl=np.full(n_pairs, np.inf))
    found = _arrays(folder / INTERVALS)
    if not all(
        name in found and np.array_equal(found[name], getattr(counts, name))
        for name in ("successor", "successor_start")
    ):
        return sets
    ends = {name: found.get(name, getattr(sets.intervals, name)) for name in ENDS}
    risk = float(found.get("entry_risk", sets.intervals.entry_risk))
    return replace(sets, intervals=Intervals(**ends, entry_risk=risk))


def saved_steps(folder: Path) -> RawTransitions | None:
    """Return the raw values that a run has kept; None if there are none."""
    arrays = _arrays(folder / STEPS)
    try:
        found = {field.name: arrays[field.name] for field in fields(RawTransitions)}
    except KeyError:
        return None
    return RawTransitions(**found | {"n_left_out": int(found["n_left_out"])})


def steps_arrays(steps: RawTransitions) -> dict[str, Any]:
    """Return raw values as arrays by name."""
    return {field.name: np.asarray(getattr(steps, field.name)) for field in fields(steps)}


def saved_numbers(folder: Path, model: Model, settled: Settled) -> LearnedNumbers | None:
    """Return the unknown numbers that a run has estimated; None if they are missing."""
    arrays = _arrays(folder / NUMBERS)
    try:
        return LearnedNumbers.from_arrays(Family(model.checked, settled.graph), arrays)
    except (KeyError, ValueError):
        return None


def _arrays(path: Path) -> dict[str, Any]:
    """Return the arrays in a file; none if it is missing or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            return {name: saved[name] for name in saved.files}
    except (OSError, *DAMAGE):
        return {}


def save_estimate(
    folder: Path,
    settled: Settled,
    sets: ConfidenceSets,
    model: Model,
    prior: float,
    rejected: Rejections,
    law: LawFit | None = None,
) -> dict[str, str | None]:
    """Write the files of a run; return why the estimate or its rewards are missing, if they are."""
    counts = settled.counts
    save_settled(settled, folder / COUNTS)
    about = {
        "kind": np.array(sets.kind),
        "support": np.array(sets.support),
        "delta": np.array(sets.delta),
        "holds": np.array(sets.holds),
    }
    write_arrays(folder / RADII, {"radius": sets.radius, "kl": sets.kl, **about})
    write_arrays(
        folder / INTERVALS,
        {
            "successor_start": counts.successor_start,
            "successor": counts.successor,
            **{name: getattr(sets.intervals, name) for name in ENDS},
            "entry_risk": np.array(sets.intervals.entry_risk),
            **about,
        },
    )
    examples = {
        reason: [asdict(example) for example in kept] for reason, kept in rejected.examples.items()
    }
    write_json(folder / REJECTED, {"rejected": rejected.counts, "examples": examples})
    knows = sets.support == "model"
    return save_estimated_graph(folder, counts, model, settled.graph, prior, knows, law)
