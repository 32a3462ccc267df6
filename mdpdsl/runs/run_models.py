"""The models in the folder of a run: the one it started with, and the one it estimated."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import Provenance, StoredModel, checked_or_spaces, guessed_pairs
from mdpdsl.diagnostics import Diagnostic, ModelError, Source
from mdpdsl.formats.npz import read_model, read_npz
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.ends import Settled
from mdpdsl.graph.restrict import restrict
from mdpdsl.graph.space import IntArray, Value
from mdpdsl.runs.arrays import DAMAGE, read_counts, read_settled, read_starts
from mdpdsl.runs.directory import COUNTS, ESTIMATE, EXPLORED, MODEL, NUMBERS, RunDirectory
from mdpdsl.runs.places import RunPlace, what_is_missing
from mdpdsl.runs.records import RunConfiguration


def resumed_model(run: RunDirectory, configuration: RunConfiguration) -> Model:
    """Return the model that a run started with, as its folder keeps it."""
    stored = run.path / EXPLORED
    if stored.exists():
        return read_model(stored)
    path = run.path / MODEL
    return Model(
        Source(path.read_text("utf-8"), str(path)),
        configuration.parameters,
        keeps_all_states=configuration.options.all_states,
        most_states=configuration.options.max_states,
        learns_all=configuration.options.learn == "all",
    )


def estimated_model(place: RunPlace, path: str, *, all_states: bool) -> StoredModel:
    """Return the model that a run estimated, over the states that its estimate can reach, or all.

    Raise ModelError if the run has no estimate, ValueError or OSError if it cannot be read.
    """
    began = time.perf_counter()
    file = place.folder / ESTIMATE
    if not file.exists():
        message, hint = what_is_missing(place, ESTIMATE)
        raise ModelError([Diagnostic("E603", message, None, hint)])
    graph, about = read_npz(file)
    counts = read_counts(place.folder / COUNTS, graph.n_pairs, graph.n_states)
    kept = np.ones(graph.n_states, np.bool_) if all_states else reachable_states(graph)
    stored = about.get("provenance") or {}
    is_guess = counts.visits == 0
    if isinstance(stored.get("guessed"), list):  # known rows, and those of laws, are no guesses
        is_guess = np.isin(np.arange(graph.n_pairs), stored["guessed"])
    provenance = Provenance(
        path,
        int(stored.get("unseen_pairs", np.count_nonzero(counts.visits == 0))),
        graph.n_pairs,
        int(np.count_nonzero(~kept)),
        stored.get("rewards_missing"),
        guessed_pairs(graph, is_guess, kept),
    )
    source = Source((place.run.path / MODEL).read_text("utf-8"), path)
    configuration = place.configuration
    checked = checked_or_spaces(configuration.model, source, configuration.parameters, graph)
    if checked.unknowns:
        checked = replace(checked, parameters=_own_parameters(checked, place.folder / NUMBERS))
    seconds = time.perf_counter() - began
    return StoredModel(checked, source, restrict(graph, kept), provenance, seconds)


def _own_parameters(checked: CheckedModel, numbers: Path) -> dict[str, Value]:
    """Return the parameters of an estimate: unknown numbers as it has them, and never the truth."""
    names = {each.name for each in checked.unknowns}
    found = {name: value for name, value in checked.parameters.items() if name not in names}
    with suppress(OSError, *DAMAGE), np.load(numbers, allow_pickle=False) as saved:
        found |= dict(zip(saved["names"].tolist(), saved["value"].tolist(), strict=True))
    return found


def settled_model(model: Model, settled: Settled) -> Model:
    """Return a model over the graph with the ends that data show."""
    if not settled.has_changed:
        return model
    return StoredModel(model.checked, model.source, settled.graph, Provenance(""))


def run_counts(place: RunPlace) -> tuple[Model, Counts, IntArray | None]:
    """Return the model that the counts of a run belong to, the counts, and starts if kept.

    The model is the estimate with all its states; if that was too large to keep, the run's own.
    Raise ModelError if there are none.
    """
    file = place.folder / COUNTS
    try:
        if not (place.folder / ESTIMATE).exists() and file.exists():
            model = resumed_model(place.run, place.configuration)
            settled = read_settled(file, model.graph)
            return settled_model(model, settled), settled.counts, settled.starts
        found = estimated_model(place, str(place.folder), all_states=True)
        if not file.exists():
            raise unreadable(*what_is_missing(place, COUNTS))
        counts = read_counts(file, found.graph.n_pairs, found.graph.n_states)
        return found, counts, read_starts(file)
    except ValueError as error:
        raise unreadable(str(error), "estimate the model again") from None
    except OSError as error:
        raise cannot_read(error, place.folder) from None


def unreadable(message: str, help_text: str) -> ModelError:
    """Return the error of a model that cannot be read."""
    return ModelError([Diagnostic("E603", message, None, help_text)])


def cannot_read(error: OSError, path: str | Path) -> ModelError:
    """Return the error of a file that cannot be opened."""
    reason = (error.strerror or str(error)).lower()
    return unreadable(f"cannot read {error.filename or path}: {reason}", "check the path")
