"""A transition graph as one `.npz` file: arrays unchanged, the spaces as JSON, without pickle.

If written from a model, the file also has its text and parameters and can be read as a model. If
the model says what is not known, the file has that knowledge, too.
"""

from __future__ import annotations

import json
import time
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import NO_FILE, Provenance, StoredModel, checked_or_spaces
from mdpdsl.diagnostics import FormatError, Source
from mdpdsl.files import write_arrays
from mdpdsl.formats.foreign import Format
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.space import ActionSpace, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import ROW_SUM_TOLERANCE, TransitionGraph

FORMAT = "mdpdsl transition graph 1"

ARRAYS = (
    "pair_start",
    "pair_action",
    "successor_start",
    "successor",
    "probability",
    "initial",
    "reward",
    "branch_reward",
    "ends",
)

#: Of what is known, under names that begin with `knowledge.`.
KNOWLEDGE = ("successor_start", "successor", "share", "is_open", "is_joined", "is_law")

Arrays = Mapping[str, npt.NDArray[Any]]


def to_npz(
    graph: TransitionGraph, path: str | Path, about: Mapping[str, Any] | None = None
) -> None:
    """Write a graph without loss, atomically: a reader sees the old file or the complete new one.

    Fields of the graph keep their names; `codes` are the product codes of the states, `label.goal`
    the states of a label, `reward.energy` and `branch_reward.energy` those of a named reward,
    `state.x.edges` the cells of a variable, `knowledge.share` and others what is known of the rows,
    and `header` the spaces as JSON, together with further information `about` the graph.
    """
    known = graph.knowledge
    header = {
        "format": FORMAT,
        "about": dict(about or {}),
        "states": [_variable_header(v) for v in graph.states.variables],
        "actions": [_variable_header(v) for v in graph.actions.product.variables],
        "labels": list(graph.labels),
        **({"twins": graph.states.n_twins} if graph.states.n_twins else {}),
        **({"rewards": list(graph.rewards)} if graph.rewards else {}),
        **({} if known is None else {"knowledge": {"has_truth": known.has_truth}}),
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "header": np.array(json.dumps(header)),
        "codes": graph.states.codes,
        **{name: getattr(graph, name) for name in ARRAYS if getattr(graph, name) is not None},
        **{f"label.{name}": states for name, states in graph.labels.items()},
        **{f"reward.{name}": numbers for name, numbers in graph.rewards.items()},
        **{f"branch_reward.{name}": numbers for name, numbers in graph.branch_rewards.items()},
        **_variable_arrays("state", graph.states.variables),
        **_variable_arrays("action", graph.actions.product.variables),
        **({} if known is None else {f"knowledge.{n}": getattr(known, n) for n in KNOWLEDGE}),
    }
    Format.require_folder(Path(path))
    write_arrays(Path(path), arrays)


def from_npz(path: str | Path) -> TransitionGraph:
    """Read a graph that `to_npz` wrote; raise FormatError if the file is something else."""
    return read_npz(path)[0]


def read_npz(path: str | Path) -> tuple[TransitionGraph, dict[str, Any]]:
    """Read a graph and the information about it; raise FormatError if the file is something else.

    The graph is validated, because the file may have been changed since it was written.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays["header"]))
        found = header["format"]
    except (zipfile.BadZipFile, zlib.error, EOFError, *_NOT_OURS) as e:
        raise FormatError(f"{path} is not a transition graph written by mdpdsl") from e
    if found != FORMAT:
        raise FormatError(f"{path} has the format {found!r}; this version reads {FORMAT!r}")
    try:
        graph = _graph(header, arrays)
        graph.validate()
        about = dict(header.get("about", {}))
    except (AssertionError, IndexError, *_NOT_OURS) as error:
        reason = f": {error}" if isinstance(error, ValueError) else ""
        raise FormatError(f"{path} is damaged or was changed by hand{reason}") from error
    return graph, about


def save_graph(model: Model, path: Path) -> None:
    """Write the graph of a model with its text and parameters, so that it reads as a model."""
    provenance = model.provenance if isinstance(model, StoredModel) else None
    save_model_graph(model, model.graph, path, provenance)


def save_model_graph(
    model: Model, graph: TransitionGraph, path: Path, provenance: Provenance | None
) -> None:
    """Write a graph with the name, the text and the parameters of a model."""
    about = {
        "name": model.name,
        "source": None if model.source.text == NO_FILE else model.source.text,
        "parameters": dict(model.parameters),
        "provenance": None if provenance is None else asdict(provenance),
    }
    to_npz(graph, path, about)


def read_model(path: Path) -> StoredModel:
    """Read the file of a graph as a model; raise FormatError if it is something else."""
    began = time.perf_counter()
    graph, about = read_npz(path)
    name, text = about.get("name") or path.stem, about.get("source") or NO_FILE
    try:
        provenance = Provenance(**about["provenance"])
        provenance = replace(provenance, path=provenance.path or str(path))
    except (KeyError, TypeError):  # written by hand, or not an estimate
        provenance = Provenance(str(path))
    source = Source(str(text), str(path))
    checked = checked_or_spaces(str(name), source, about.get("parameters") or {}, graph)
    return StoredModel(checked, source, graph, provenance, time.perf_counter() - began)


#: The errors that may arise in reading a file that is not a graph.
_NOT_OURS = (ValueError, KeyError, TypeError, AttributeError)


def _graph(header: Mapping[str, Any], arrays: Arrays) -> TransitionGraph:
    states = Product(tuple(_variable("state", h, arrays) for h in header["states"]))
    actions = Product(tuple(_variable("action", h, arrays) for h in header["actions"]))
    named = header.get("rewards", [])
    by_branch = [name for name in named if f"branch_reward.{name}" in arrays]
    graph = TransitionGraph(
        states=StateSpace(states, arrays["codes"], int(header.get("twins", 0))),
        actions=ActionSpace(actions),
        labels={name: arrays[f"label.{name}"] for name in header["labels"]},
        rewards={name: arrays[f"reward.{name}"] for name in named},
        branch_rewards={name: arrays[f"branch_reward.{name}"] for name in by_branch},
        **_fields(arrays),
    )
    if len(graph.rewards) < len(named):
        raise ValueError("a reward does not fit the pairs")
    if "knowledge" not in header:
        return graph
    return replace(graph, knowledge=_knowledge(graph, header["knowledge"], arrays))


def _knowledge(graph: TransitionGraph, header: Mapping[str, Any], arrays: Arrays) -> Knowledge:
    """Return what is known of the rows; raise ValueError if it does not fit them."""
    found = {name: arrays[f"knowledge.{name}"] for name in KNOWLEDGE}
    start, successor, share = (found[name] for name in KNOWLEDGE[:3])
    is_fitting = (
        len(start) == graph.n_pairs + 1
        and len(found["is_law"]) == graph.n_pairs
        and start[0] == 0
        and bool(np.all(np.diff(start) > 0))
        and all(len(found[name]) == start[-1] for name in KNOWLEDGE[1:5])
        and all(found[name].dtype == np.bool_ for name in KNOWLEDGE[3:])
        and bool(np.all((successor >= 0) & (successor < graph.n_states)))
        and bool(np.all((share >= 0) & (share <= 1 + ROW_SUM_TOLERANCE)))
    )
    if not is_fitting:
        raise ValueError("what is known does not fit the pairs")
    return Knowledge(**found, has_truth=bool(header["has_truth"]))


def _fields(arrays: Arrays) -> dict[str, Any]:
    return {name: arrays[name] for name in ARRAYS if name in arrays}


def _variable_header(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "kind": variable.kind,
        "size": variable.size,
        "low": variable.low,
        "members": variable.members,
        "wraps": variable.wraps,
    }


def _variable_arrays(space: str, variables: tuple[Variable, ...]) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {}
    for variable in variables:
        if variable.numbers is not None:
            arrays[f"{space}.{variable.name}.numbers"] = variable.numbers
        if variable.edges is not None:
            arrays[f"{space}.{variable.name}.edges"] = variable.edges
    return arrays


def _variable(space: str, header: Mapping[str, Any], arrays: Arrays) -> Variable:
    name = header["name"]
    return Variable(
        name=name,
        kind=header["kind"],
        size=header["size"],
        low=header["low"],
        members=tuple(header["members"]),
        numbers=arrays.get(f"{space}.{name}.numbers"),
        edges=arrays.get(f"{space}.{name}.edges"),
        wraps=header["wraps"],
    )


class Npz(Format):
    """Our own arrays, as `to_npz` writes them."""

    name, title, suffix = "npz", "NumPy arrays", ".npz"
    can_read = True

    def read(self, path: str) -> Model:
        """Read a graph as a model."""
        return read_model(Path(path))

    def write(self, model: Model, path: Path, **options: object) -> list[Path]:
        """Write the graph of a model, with its text and parameters."""
        save_graph(model, path)
        return [path]
