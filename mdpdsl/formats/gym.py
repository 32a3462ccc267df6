"""Gymnasium's toy-text table, P[s][a] = [(probability, next state, reward, terminated), …].

A transition with `terminated` ends the episode. A graph represents such an end by a *terminal*
state, which no action leaves and where every reward is 0. So `terminated` is a property of the
state that is entered: of the states with the label `terminal` or, if a graph has no such label, of
those that no action leaves and that have no reward.

If a table ends only some of the transitions into a state, the state gets a twin after all others,
and the transitions that end lead to the twin. Actions that a table leaves out are not available.

As a JSON file, with the spaces of the original model:

    {"format": "mdpdsl toy-text 1", "name": …, "n_states": S, "n_actions": A,
     "P": [[[[p, next state, reward, terminated], …] or null, …], …],   P[s][a]; null: not available
     "initial_state_distrib": [p, …],
     "action_names": [name, …], "variables": {…}, "codes": […], "labels": {name: [state, …]}}

Only `P` is required to read a file, so tables from elsewhere, with strings as the keys of objects,
can be read as well. Names, variables and labels restore the original model.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import graph_model
from mdpdsl.diagnostics import Diagnostic, FormatError, ModelError, did_you_mean
from mdpdsl.formats.foreign import Format
from mdpdsl.graph.branches import Branches, named_actions, numbered_states
from mdpdsl.graph.space import ActionSpace, BoolArray, FloatArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import ROW_SUM_TOLERANCE, TransitionGraph

#: The label of the states where episodes end.
TERMINAL = "terminal"

Row = list[tuple[float, int, float, bool]]
Table = dict[int, dict[int, Row]]


def to_toy_text(graph: TransitionGraph) -> Table:
    """Return P in the toy-text form; each state lists only its available actions."""
    if not graph.has_dynamics:
        raise FormatError("the dynamics of this model are unknown, so there is no P")
    is_terminal = terminal_states(graph)[graph.successor].tolist()
    reward = graph.branch_reward
    if reward is None:
        pairs = np.zeros(graph.n_pairs) if graph.reward is None else graph.reward
        reward = np.repeat(pairs, np.diff(graph.successor_start))
    columns = (graph.probability.tolist(), graph.successor.tolist(), reward.tolist(), is_terminal)
    entries = list(zip(*columns, strict=True))
    start = graph.successor_start.tolist()
    table: Table = {state: {} for state in range(graph.n_states)}
    for pair in range(graph.n_pairs):
        row = entries[start[pair] : start[pair + 1]]
        table[int(graph.pair_state[pair])][int(graph.pair_action[pair])] = row
    return table


def terminal_states(graph: TransitionGraph) -> BoolArray:
    """Return which states end an episode when they are entered, [n_states]."""
    if TERMINAL in graph.labels:
        return graph.labels[TERMINAL]
    leaves = np.zeros(graph.n_states, np.bool_)
    origin = np.repeat(graph.pair_state, np.diff(graph.successor_start))
    leaves[origin[graph.successor != origin]] = True
    if graph.reward is not None:
        leaves[graph.pair_state[graph.reward != 0]] = True
    return ~leaves


def from_toy_text(
    table: Mapping[Any, Any] | Sequence[Any],
    initial: npt.ArrayLike | None = None,
    actions: Sequence[str] | None = None,
) -> TransitionGraph:
    """Return the graph of a table P; raise FormatError, with the place, if it is not valid.

    States and actions are numbered from 0; keys may be strings, as in JSON. Without `initial`, all
    states that are not ends are equally likely to start.
    """
    rows = _keyed(table, "P")
    n_states = len(rows)
    if sorted(rows) != list(range(n_states)):
        raise FormatError(f"the states of P must be numbered from 0 to {n_states - 1}")
    entries = np.array(
        [
            (state, action, *_entry(entry, n_states, f"P[{state}][{action}]"))
            for state, choices in sorted(rows.items())
            for action, row in sorted(_keyed(choices, f"P[{state}]").items())
            for entry in _listed(row, f"P[{state}][{action}]")
        ],
        dtype=np.float64,
    ).reshape(-1, 6)
    if len(entries) == 0:
        raise FormatError("P has no transitions")
    state, action, target = (entries[:, column].astype(np.int64) for column in (0, 1, 3))
    ends = entries[:, 5] != 0
    has_row = np.bincount(state, minlength=n_states) > 0
    if not has_row.all():
        raise FormatError(f"P[{int(np.argmin(has_row))}] has no actions")
    is_end = np.zeros(n_states, np.bool_)
    is_end[target[ends]] = True
    is_mixed = np.zeros(n_states, np.bool_)
    # A state that live states enter both with and without an end is split into two.
    for _ in range(n_states):
        lives = ~(is_end & ~is_mixed)[state] & ~ends & is_end[target] & ~is_mixed[target]
        if not lives.any():
            break
        is_mixed[target[lives]] = True
    twin_of = np.flatnonzero(is_mixed)
    twin = np.arange(n_states)
    twin[twin_of] = n_states + np.arange(len(twin_of))
    target = np.where(ends, twin[target], target)
    n_all = n_states + len(twin_of)
    closed = np.zeros(n_all, np.bool_)
    closed[:n_states] = is_end & ~is_mixed
    closed[n_states:] = True
    keep = ~closed[state]
    loops, loop_actions = _loops(closed, twin_of, n_states, state, action)
    branches = Branches(
        state=np.concatenate([state[keep], loops]),
        action=np.concatenate([action[keep], loop_actions]),
        target=np.concatenate([target[keep], loops]),
        probability=np.concatenate([entries[keep, 2], np.ones(len(loops))]),
        reward=np.concatenate([entries[keep, 4], np.zeros(len(loops))]),
    )
    start = _start(initial, closed, n_states)
    n_actions = int(action.max()) + 1
    names = tuple(actions or (f"a{number}" for number in range(n_actions)))
    if len(names) < n_actions:
        raise FormatError(f"P has {n_actions} actions, but there are only {len(names)} names")
    return branches.graph(numbered_states(n_all), named_actions(names), start, {TERMINAL: closed})


def _loops(
    closed: BoolArray,
    twin_of: npt.NDArray[np.int64],
    n_states: int,
    state: npt.NDArray[np.int64],
    action: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the states and actions of the pairs of ends: the actions that the table has there."""
    n_actions = int(action.max()) + 1
    pairs = np.unique(state * n_actions + action)
    own_state, own_action = pairs // n_actions, pairs % n_actions
    loops, actions = [own_state[closed[own_state]]], [own_action[closed[own_state]]]
    for number, origin in enumerate(twin_of.tolist()):
        chosen = own_action[own_state == origin]
        loops.append(np.full(len(chosen), n_states + number))
        actions.append(chosen)
    return np.concatenate(loops), np.concatenate(actions)


def _start(
    initial: npt.ArrayLike | None, closed: BoolArray, n_states: int
) -> npt.NDArray[np.float64]:
    start = np.zeros(len(closed))
    if initial is None:
        possible = ~closed if not closed.all() else closed
        return possible / np.count_nonzero(possible)
    given = np.asarray(initial, dtype=np.float64)
    if given.shape != (n_states,):
        raise FormatError(f"the initial distribution has {given.size} states, but P has {n_states}")
    start[:n_states] = given
    return start


def _entry(entry: Any, n_states: int, where: str) -> tuple[float, float, float, float]:
    try:
        probability, target, reward, ends = entry
        chance, number, gain = float(probability), int(target), float(reward)
        if number != float(target) or not isinstance(ends, bool | np.bool_ | int):
            raise ValueError
    except (TypeError, ValueError):
        raise FormatError(
            f"{where} has the entry {entry!r}, not (probability, next state, reward, terminated)"
        ) from None
    if not 0 <= number < n_states:
        raise FormatError(f"{where} leads to {number}, but the states are 0 to {n_states - 1}")
    if not 0 <= chance <= 1 + ROW_SUM_TOLERANCE or not np.isfinite(gain):
        raise FormatError(f"{where} has the probability {chance} and the reward {gain}")
    return chance, float(number), gain, float(bool(ends))


def _keyed(value: Any, where: str) -> dict[int, Any]:
    """Read a list, or a mapping whose keys are numbers or strings of them; skip None."""
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        items = list(enumerate(value))
    else:
        raise FormatError(f"{where} is a {type(value).__name__}, not a list or a mapping")
    found: dict[int, Any] = {}
    for key, entry in items:
        try:
            number = int(key)
        except (TypeError, ValueError):
            number = -1
        if number < 0:
            raise FormatError(f"{where} has the key {key!r}, which is not a number from 0 up")
        if entry is not None:
            found[number] = entry
    return found


def _listed(row: Any, where: str) -> Sequence[Any]:
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) == 0:
        raise FormatError(f"{where} is not a list of transitions")
    return row


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


JSON_FORMAT = "mdpdsl toy-text 1"

#: The prefix of the name of an environment, given instead of a file.
GYM = "gym:"


def toy_text_json(graph: TransitionGraph, name: str) -> str:
    """Return the text of the file; raise FormatError if the dynamics are unknown."""
    table = to_toy_text(graph)
    record = {
        "format": JSON_FORMAT,
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
    # `terminated` is for other readers; here the rows of terminal states stay as they were.
    table = [
        [None if row is None else [[p, t, r, False] for p, t, r, _ in row] for row in choices]
        for choices in record["P"]
    ]
    variables = record["variables"]
    actions = ActionSpace(Product(tuple(_read_variable(v) for v in variables["actions"])))
    graph = from_toy_text(table, record["initial_state_distrib"], actions.labels)
    codes = np.array(record["codes"], dtype=np.int64)
    labels = {}
    for label, states in record["labels"].items():
        labels[label] = np.zeros(graph.n_states, np.bool_)
        labels[label][states] = True
    has_rewards = bool(record["has_rewards"])
    found = replace(
        graph,
        states=StateSpace(Product(tuple(_read_variable(v) for v in variables["states"])), codes),
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
        return toy_text_json(model.graph, model.name)
