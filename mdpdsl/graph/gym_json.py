"""A toy-text table as a JSON file, with the spaces of the model that it came from.

    {"format": "mdpdsl toy-text 1", "name": …, "n_states": S, "n_actions": A,
     "P": [[[[p, next state, reward, terminated], …] or null, …], …],   P[s][a]; null: not available
     "initial_state_distrib": [p, …],
     "action_names": [name, …], "variables": {…}, "codes": […], "labels": {name: [state, …]}}

Only `P` is needed to read one: a table that was written by others, as JSON has it (with texts for
the keys), is read as well. Names, variables and labels make the same model again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.graph.space import ActionSpace, Product, StateSpace, Variable
from mdpdsl.graph.toy_text import from_toy_text, terminal_states, to_toy_text
from mdpdsl.graph.transition_graph import TransitionGraph

FORMAT = "mdpdsl toy-text 1"


def toy_text_json(graph: TransitionGraph, name: str) -> str:
    """Return the text of the file; raise ValueError where the dynamics are unknown."""
    table = to_toy_text(graph)
    record = {
        "format": FORMAT,
        "name": name,
        "n_states": graph.n_states,
        "n_actions": graph.n_actions,
        "P": [[table[s].get(a) for a in range(graph.n_actions)] for s in range(graph.n_states)],
        "initial_state_distrib": graph.initial.tolist(),
        "terminal_states": np.flatnonzero(terminal_states(graph)).tolist(),
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
    """Read a graph and its name; raise ValueError where the file has no table."""
    try:
        record = json.loads(path.read_text("utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: this is not JSON: {error.msg}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text in UTF-8") from None
    if not isinstance(record, dict | list):
        raise ValueError(f"{path} holds no table P")
    if isinstance(record, list) or "P" not in record:
        return _plain(path, {"P": record}), path.stem
    name = str(record.get("name") or path.stem)
    if record.get("format") != FORMAT:
        return _plain(path, record), name
    try:
        return _own(record), name
    except (AssertionError, KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        reason = f": {error}" if isinstance(error, ValueError) else ""
        raise ValueError(f"{path} is damaged, or was changed by hand{reason}") from None


def _plain(path: Path, record: Mapping[str, Any]) -> TransitionGraph:
    initial = record.get("initial_state_distrib")
    try:
        return from_toy_text(record["P"], initial, record.get("action_names"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} holds no table P: {error}") from None


def _own(record: Mapping[str, Any]) -> TransitionGraph:
    """Return the graph that was written, with its own ends, variables and labels."""
    # What ends is in the table for others; here the rows of such states stay what they were.
    table = [
        [None if row is None else [[p, t, r, False] for p, t, r, _ in row] for row in choices]
        for choices in record["P"]
    ]
    variables = record["variables"]
    actions = ActionSpace(Product(tuple(_variable(v) for v in variables["actions"])))
    graph = from_toy_text(table, record["initial_state_distrib"], actions.labels)
    codes = np.array(record["codes"], dtype=np.int64)
    labels = {}
    for label, states in record["labels"].items():
        labels[label] = np.zeros(graph.n_states, np.bool_)
        labels[label][states] = True
    has_rewards = bool(record["has_rewards"])
    found = replace(
        graph,
        states=StateSpace(Product(tuple(_variable(v) for v in variables["states"])), codes),
        actions=actions,
        reward=graph.reward if has_rewards else None,
        branch_reward=graph.branch_reward if has_rewards else None,
        labels=labels,
    )
    found.validate()
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


def _variable(record: Mapping[str, Any]) -> Variable:
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
