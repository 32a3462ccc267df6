"""Models whose graph is stored, not built: estimates, `.npz` files, and those of other tools.

They stand wherever a model does. What the model file says beside its dynamics (name, parameters,
rewards, labels, the `log` and `explore` blocks) stays with them, since a run directory and an
`.npz` file keep its text. As for other models, the states of an estimate are those that can be
reached from `init`, unless all are asked for; an `.npz` file is taken as it is, and so are the
models of other tools (`estimate.foreign`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.checked import CheckedModel, spaces_alone
from mdpdsl.compile.expand import Expansion
from mdpdsl.compile.model import Model, load_file
from mdpdsl.compile.parameters import Override
from mdpdsl.compile.system import RawSystem
from mdpdsl.compile.transition_rewards import with_transition_rewards
from mdpdsl.diagnostics import Diagnostic, ModelError, Source
from mdpdsl.estimate.counts import Counts, estimated_graph, read_counts, too_large_estimate
from mdpdsl.estimate.foreign import gym_table_graph, is_foreign, read_foreign
from mdpdsl.estimate.places import COUNTS, ESTIMATE, RunPlace, place_of_arrays, what_is_missing
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.npz import read_npz, to_npz
from mdpdsl.graph.restrict import restrict
from mdpdsl.graph.space import Product
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.results import RunConfiguration, RunDirectory, RunError

#: The model that a run explored, where it was a stored one.
EXPLORED = "model.npz"

#: What `model.mdp` says in a run on a graph that came without a file.
NO_FILE = "# This run's model is the transition graph in model.npz.\n"


@dataclass(frozen=True)
class Provenance:
    """Where a stored graph comes from, and what whoever uses it has to know."""

    path: str  # where it was first read from
    unseen_pairs: int | None = None  # pairs never seen; None: the graph is no estimate
    estimated_pairs: int = 0  # of how many
    states_left_out: int = 0  # that nothing seen leads to
    rewards_missing: str | None = None  # why the rewards of the file are not in the graph

    def warnings(self) -> list[Diagnostic]:
        """Return what a person is to be warned of."""
        found = []
        if self.unseen_pairs:
            message = (
                f"{self.unseen_pairs:,} of {self.estimated_pairs:,} pairs were never seen; "
                "their rows are uniform"
            )
            n_out = self.states_left_out
            states = "1 state is" if n_out == 1 else f"{n_out:,} states are"
            hint = f"{states} left out, since nothing seen leads there; --all-states keeps all"
            found.append(Diagnostic("W002", message, None, hint if n_out else None))
        if self.rewards_missing is not None:
            found.append(Diagnostic("W003", f"the estimate has no rewards: {self.rewards_missing}"))
        return found


class StoredModel(Model):
    """A model whose graph was read, not built."""

    def __init__(
        self,
        checked: CheckedModel,
        source: Source,
        graph: TransitionGraph,
        provenance: Provenance,
        seconds: float = 0.0,
    ) -> None:
        self.checked = checked
        self.source = source
        self.provenance = provenance
        self._graph = graph
        self._seconds = seconds

    @property
    def is_continuous(self) -> bool:
        """Never: the equations of a continuous system are not what was estimated."""
        return False

    @cached_property
    def system(self) -> RawSystem:
        """A stored graph has no system behind it."""
        raise ValueError(f"{self.provenance.path} holds a graph, not the system that it came from")

    @property
    def is_built(self) -> bool:
        """Always: the graph was read."""
        return True

    def diagnose(self) -> list[Diagnostic]:
        """Return the warnings that whoever uses this model has to know."""
        return self.provenance.warnings()

    def __repr__(self) -> str:
        return f"<StoredModel {self.name} from {self.provenance.path}>"

    @cached_property
    def _expansion(self) -> Expansion:
        return Expansion(self._graph, None, (), self._seconds)


def load(
    path: str | Path,
    /,
    *,
    all_states: bool = False,
    max_states: int | None = None,
    **parameters: Override,
) -> Model:
    """Read a model from a file, a shipped one by its name, or a stored one.

    Stored are the estimates in run directories (of several trials the first, or `RUN/trial-003`),
    `.npz` files, PRISM's explicit files (`.tra`), toy-text tables (`.json`) and Gymnasium's
    environments of toy text (`gym:FrozenLake-v1`). Parameters of a file are given by keyword.
    """
    if is_stored(str(path)):
        return load_stored(str(path), parameters, all_states=all_states)
    return load_file(path, all_states=all_states, max_states=max_states, **parameters)


def is_stored(path: str) -> bool:
    """Tell whether a path stands for a stored model: a folder, or a file that holds a graph."""
    if path.endswith(".npz") or is_foreign(path):
        return True
    try:
        place = Path(path)
        is_trial = place.name.startswith("trial-") and (place.parent / "run.json").exists()
        return path != "" and (is_trial or place.is_dir())
    except (OSError, ValueError):  # too long, or with characters that no path has
        return False


def load_stored(
    path: str, parameters: Mapping[str, object], *, all_states: bool = False
) -> StoredModel:
    """Read a stored model; raise ModelError where there is none."""
    if parameters:
        names = ", ".join(f"`{name}`" for name in parameters)
        raise _error(
            f"{path} holds a graph that is there already, so {names} cannot be set",
            "set parameters where the graph is made, as in `mdpdsl estimate MODEL LOG --set …`",
            code="E601",
        )
    began = time.perf_counter()
    if is_foreign(path):
        graph, name = read_foreign(path)
        return graph_model(graph, name, path, time.perf_counter() - began)
    try:
        place = place_of_arrays(Path(path))
        if place is None:
            return _from_file(Path(path), began)
        return _from_run(place, path, all_states, began)
    except RunError as error:
        raise _error(str(error), "give the folder that estimate or explore wrote") from None
    except ValueError as error:
        hint = "give a file that `mdpdsl estimate` or `mdpdsl export --to npz` wrote"
        raise _error(str(error), hint) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise _error(f"cannot read {error.filename or path}: {reason}", "check the path") from None


def graph_model(
    graph: TransitionGraph, name: str, path: str = "", seconds: float = 0.0
) -> StoredModel:
    """Return a graph as a model that has no file of its own."""
    checked = spaces_alone(name, graph.states.product, graph.actions.product)
    return StoredModel(checked, Source(NO_FILE, path), graph, Provenance(path), seconds)


def from_gym_P(  # noqa: N802 (Gymnasium's own name of it)
    P: Mapping[Any, Any] | Sequence[Any],
    initial: npt.ArrayLike | None = None,
    *,
    actions: Sequence[str] | None = None,
    name: str = "table",
) -> StoredModel:
    """Return the model of a toy-text table, P[s][a] = [(probability, state, reward, ended), …].

    `initial` is a distribution over the states, or one of them; without it every state that is no
    end is as likely to start. Raise ValueError where P is no table, and say where.
    """
    return graph_model(gym_table_graph(P, initial, actions), name)


def resumed_model(run: RunDirectory, configuration: RunConfiguration) -> Model:
    """Return the model that a run started with, from its folder alone."""
    stored = run.path / EXPLORED
    if stored.exists():
        return load_stored(str(stored), {})
    path = run.path / "model.mdp"
    return Model(
        Source(path.read_text("utf-8"), str(path)),
        configuration.parameters,
        keeps_all_states=bool(configuration.options.get("all_states")),
        most_states=configuration.options.get("max_states"),
    )


def run_counts(place: RunPlace) -> tuple[Model, Counts]:
    """Return the counts of a run and the model over whose pairs they are; raise ModelError.

    The model is the estimate with all its states; where that was too large to keep, the run's own.
    """
    try:
        if (place.folder / ESTIMATE).exists():
            model: Model = _from_run(place, str(place.folder), True, time.perf_counter())
        else:
            model = resumed_model(place.run, place.configuration)
        if not (place.folder / COUNTS).exists():
            raise _error(*what_is_missing(place, COUNTS))
        graph = model.graph
        return model, read_counts(place.folder / COUNTS, graph.n_pairs, graph.n_states)
    except ValueError as error:
        raise _error(str(error), "estimate the model anew") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        where = error.filename or place.folder
        raise _error(f"cannot read {where}: {reason}", "check the path") from None


def save_graph(model: Model, path: Path) -> None:
    """Write the graph of a model with all that is known of it: reading it gives the model."""
    provenance = model.provenance if isinstance(model, StoredModel) else None
    to_npz(model.graph, path, _about(model, provenance))


def save_estimated_graph(
    folder: Path, counts: Counts, model: Model, prior: float
) -> dict[str, str | None]:
    """Write the estimate of a model; return why it, or its rewards, are missing where they are."""
    spaces = model.graph
    too_large = too_large_estimate(counts, spaces)
    if too_large is not None:
        return {"estimate_missing": too_large, "rewards_missing": None}
    unseen = int(np.count_nonzero(counts.visits == 0))
    graph, faults = with_transition_rewards(model.checked, estimated_graph(counts, spaces, prior))
    missing = f"{faults[0].message} {faults[0].witness}" if faults else None
    # Without a path: the same estimate is the same bytes, wherever it lies.
    provenance = Provenance("", unseen, graph.n_pairs, rewards_missing=missing)
    to_npz(graph, folder / ESTIMATE, _about(model, provenance))
    return {"estimate_missing": None, "rewards_missing": missing}


def _about(model: Model, provenance: Provenance | None) -> dict[str, Any]:
    """Return what a file says about its graph, so that it is a model again when it is read."""
    return {
        "name": model.name,
        "source": None if model.source.text == NO_FILE else model.source.text,
        "parameters": dict(model.parameters),
        "provenance": None if provenance is None else asdict(provenance),
    }


def _from_file(path: Path, began: float) -> StoredModel:
    graph, about = read_npz(path)
    name, text = about.get("name") or path.stem, about.get("source") or NO_FILE
    parameters = about.get("parameters") or {}
    try:
        provenance = Provenance(**about["provenance"])
        provenance = replace(provenance, path=provenance.path or str(path))
    except (KeyError, TypeError):  # written by hand, or not an estimate
        provenance = Provenance(str(path))
    source = Source(str(text), str(path))
    checked = _checked(str(name), source, parameters, graph)
    return StoredModel(checked, source, graph, provenance, time.perf_counter() - began)


def _from_run(place: RunPlace, path: str, all_states: bool, began: float) -> StoredModel:
    file = place.folder / ESTIMATE
    if not file.exists():
        raise _error(*what_is_missing(place, ESTIMATE))
    graph, about = read_npz(file)
    counts = read_counts(place.folder / COUNTS, graph.n_pairs, graph.n_states)
    kept = np.ones(graph.n_states, np.bool_) if all_states else reachable_states(graph)
    provenance = Provenance(
        path,
        int(np.count_nonzero(counts.visits == 0)),
        graph.n_pairs,
        int(np.count_nonzero(~kept)),
        (about.get("provenance") or {}).get("rewards_missing"),
    )
    source = Source((place.run.path / "model.mdp").read_text("utf-8"), path)
    configuration = place.configuration
    checked = _checked(configuration.model, source, configuration.parameters, graph)
    seconds = time.perf_counter() - began
    return StoredModel(checked, source, restrict(graph, kept), provenance, seconds)


def _checked(
    name: str, source: Source, parameters: Mapping[str, Any], graph: TransitionGraph
) -> CheckedModel:
    """Return the names and blocks of a file; the spaces alone where its text does not fit."""
    if source.text != NO_FILE:
        try:
            checked = Model(source, parameters).checked
            if _spaces(checked.states, checked.actions) == _spaces(
                graph.states.product, graph.actions.product
            ):
                return checked
        except (ModelError, TypeError):
            pass
    return spaces_alone(name, graph.states.product, graph.actions.product)


def _spaces(*products: Product) -> list[tuple[str, str, int]]:
    return [(v.name, v.kind, v.size) for product in products for v in product.variables]


def _error(message: str, help_text: str, code: str = "E603") -> ModelError:
    return ModelError([Diagnostic(code, message, None, help_text)])
