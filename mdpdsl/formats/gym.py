"""Toy-text tables as files, and those of Gymnasium's environments, by id (`gym:FrozenLake-v1`).

As a JSON file, with the spaces of the original model:

    {"format": "mdpdsl toy-text 1", "name": …, "n_states": S, "n_actions": A,
     "P": [[[[p, next state, reward, terminated], …] or null, …], …],   P[s][a]; null: not available
     "initial_state_distrib": [p, …], "action_names": [name, …], "variables": {…},
     "codes": […], "twins": number of twins, "ends": [state, …], "labels": {name: [state, …]}}

Only `P` is required to read a file, so tables from elsewhere, with strings as the keys of objects,
can be read as well. The rest restores the original model: codes, ends and labels are about all of
its states, of which the last are the twins. The reward of a table is the default one; named
rewards are left out. A file without `ends` was written by version 1: there,
states with the label `terminal` that are never left and have no reward are the ends.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import graph_model
from mdpdsl.diagnostics import Diagnostic, FormatError, ModelError, did_you_mean
from mdpdsl.formats.foreign import Format
from mdpdsl.formats.loops import TERMINAL, absorbing_states, with_ends
from mdpdsl.formats.toy_text import (
    from_toy_text,
    read_entries,
    table_numbers,
    terminal_states,
    to_toy_text,
)
from mdpdsl.graph.branches import Branches
from mdpdsl.graph.space import ActionSpace, BoolArray, FloatArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph

JSON_FORMAT = "mdpdsl toy-text 1"

#: The prefix of the name of an environment, given instead of a file.
GYM = "gym:"


def gym_graph(identifier: str) -> TransitionGraph:
    """Return the graph of an environment with a table P, as toy-text environments have."""
    try:
        import gymnasium
    except ImportError:
        raise FormatError(
            'reading an environment needs gymnasium: pip install "mdpdsl[gym]"'
        ) from None
    try:
        # Gymnasium itself warns about an outdated version of an environment.
        environment = gymnasium.make(identifier, disable_env_checker=True).unwrapped
    except Exception as error:
        hint = did_you_mean(identifier, gymnasium.registry) or "give the id of an environment"
        raise FormatError(f"gymnasium cannot make {identifier}: {error}; {hint}") from None
    try:
        table = getattr(environment, "P", None)
        if table is None:
            raise FormatError(
                f"{identifier} has no table P of its transitions, as toy-text environments have; "
                "write a model of its spaces and explore it live"
            )
        initial = getattr(environment, "initial_state_distrib", None)
        return from_toy_text(table, initial)
    except ValueError as error:
        raise FormatError(f"the table P of {identifier} is not a model: {error}") from None
    finally:
        environment.close()


def gym_table_graph(
    table: Mapping[Any, Any] | Sequence[Any],
    initial: npt.ArrayLike | None,
    actions: Sequence[str] | None,
) -> TransitionGraph:
    """Return the graph of a table; the start may also be the number of a state."""
    if initial is not None and np.ndim(initial) == 0:
        place = int(np.asarray(initial))
        start: FloatArray = np.zeros(len(table))
        if not 0 <= place < len(start):
            raise FormatError(
                f"the start {place} is not a state; the states are 0 to {len(start) - 1}"
            )
        start[place] = 1.0
        initial = start
    return from_toy_text(table, initial, actions)


def toy_text_json(graph: TransitionGraph, name: str) -> str:
    """Return the text of the file; raise FormatError if the dynamics are unknown."""
    table = to_toy_text(graph)
    record = {
        "format": JSON_FORMAT,
        "name": name,
        "n_states": len(table),
        "n_actions": graph.n_actions,
        "P": [[rows.get(a) for a in range(graph.n_actions)] for rows in table.values()],
        "initial_state_distrib": graph.initial[: len(table)].tolist(),
        "terminal_states": np.flatnonzero(terminal_states(graph)[: len(table)]).tolist(),
        "ends": [] if graph.ends is None else np.flatnonzero(graph.ends).tolist(),
        "twins": graph.states.n_twins,
        "action_names": list(graph.actions.labels),
        "has_rewards": graph.reward is not None,
        "variables": {
            "states": [_variable_record(v) for v in graph.states.variables],
            "actions": [_variable_record(v) for v in graph.actions.product.variables],
        },
        "codes": graph.states.codes.tolist(),
        "labels": {label: np.flatnonzero(on).tolist() for label, on in graph.labels.items()},
    }
    return json.dumps(record, allow_nan=False) + "\n"


def read_toy_text(path: Path) -> tuple[TransitionGraph, str]:
    """Read a graph and its name; raise FormatError if the file has no table."""
    try:
        record = json.loads(path.read_text("utf-8"))
    except json.JSONDecodeError as error:
        raise FormatError(f"{path}:{error.lineno}: this is not JSON: {error.msg}") from None
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not UTF-8 text") from None
    if not isinstance(record, dict | list):
        raise FormatError(f"{path} has no table P")
    if isinstance(record, list) or "P" not in record:
        return _read_plain(path, {"P": record}), path.stem
    name = str(record.get("name") or path.stem)
    if record.get("format") != JSON_FORMAT:
        return _read_plain(path, record), name
    try:
        return _read_own(record), name
    except (AssertionError, KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        reason = f": {error}" if isinstance(error, ValueError) else ""
        raise FormatError(f"{path} is damaged or was changed by hand{reason}") from None


def _read_plain(path: Path, record: Mapping[str, Any]) -> TransitionGraph:
    initial = record.get("initial_state_distrib")
    try:
        return from_toy_text(record["P"], initial, record.get("action_names"))
    except (ValueError, TypeError) as error:
        raise FormatError(f"{path} has no valid table P: {error}") from None


def _read_own(record: Mapping[str, Any]) -> TransitionGraph:
    """Return the graph that was written, with its own ends, variables and labels."""
    entries, n_rows, _ = read_entries(record["P"])
    variables = record["variables"]
    states = Product(tuple(_read_variable(v) for v in variables["states"]))
    actions = Product(tuple(_read_variable(v) for v in variables["actions"]))
    codes = np.array(record["codes"], dtype=np.int64)
    space = StateSpace(states, codes, int(record.get("twins", 0)))
    labels = {label: _mask(on, len(codes)) for label, on in record["labels"].items()}
    ends = _mask(record.get("ends", []), len(codes))
    # A number in the table means a state or, in a transition that ends, the twin of the state.
    number, everything = table_numbers(space), np.arange(len(codes))
    ending, going = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    ending[number] = everything
    going[number[::-1]] = everything[::-1]
    branches = Branches(
        state=going[entries.state],
        action=entries.action,
        target=np.where(entries.ended, ending[entries.target], going[entries.target]),
        probability=entries.probability,
        reward=entries.reward if record["has_rewards"] else None,
    )
    initial = np.zeros(len(codes))
    initial[:n_rows] = record["initial_state_distrib"]
    graph = branches.graph(space, ActionSpace(actions), initial, labels, ends)
    if "ends" not in record and TERMINAL in labels:
        return with_ends(graph, labels[TERMINAL] & absorbing_states(graph))
    return graph


def _mask(states: Sequence[int], n_states: int) -> BoolArray:
    found = np.zeros(n_states, np.bool_)
    found[states] = True
    return found


def _variable_record(variable: Variable) -> dict[str, Any]:
    record: dict[str, Any] = {"name": variable.name, "kind": variable.kind, "size": variable.size}
    if variable.kind == "int":
        record["low"] = variable.low
    elif variable.kind == "enum":
        record["members"] = list(variable.members)
    elif variable.kind == "set" and variable.numbers is not None:
        record["numbers"] = variable.numbers.tolist()
    elif variable.edges is not None:
        record |= {"edges": variable.edges.tolist(), "wraps": variable.wraps}
    return record


def _read_variable(record: Mapping[str, Any]) -> Variable:
    numbers, edges = record.get("numbers"), record.get("edges")
    return Variable(
        name=str(record["name"]),
        kind=str(record["kind"]),
        size=int(record["size"]),
        low=int(record.get("low", 0)),
        members=tuple(record.get("members", ())),
        numbers=None if numbers is None else np.array(numbers, dtype=np.float64),
        edges=None if edges is None else np.array(edges, dtype=np.float64),
        wraps=bool(record.get("wraps", False)),
    )


class Gym(Format):
    """Gymnasium's toy-text tables: JSON files, or environments such as `gym:FrozenLake-v1`."""

    name, title, suffix = "gym", "Gymnasium's toy-text table as JSON", ".json"
    can_read = True

    def read(self, path: str) -> Model:
        """Read a table from a file, or from an environment that has one."""
        began = time.perf_counter()
        try:
            if path.startswith(GYM):
                name = path.removeprefix(GYM)
                graph = gym_graph(name)
            else:
                graph, name = read_toy_text(Path(path))
        except FormatError as error:
            hint = "P[s][a] is a list of [probability, next state, reward, …]"
            raise ModelError([Diagnostic("E603", str(error), None, hint)]) from None
        return graph_model(graph, name, path, time.perf_counter() - began)

    def text(self, model: Model) -> str:
        """Return the table of a model as JSON."""
        self.require_truth(model)
        return toy_text_json(model.graph, model.name)
