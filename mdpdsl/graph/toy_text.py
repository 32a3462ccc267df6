"""Gymnasium's toy-text table, P[s][a] = [(probability, next state, reward, terminated), …].

A transition that terminates ends the episode, and nothing follows it. A graph has no ends: where
one is, a *terminal* state stands for it, which no action leaves and where every reward is 0. So
`terminated` belongs to the state that is entered: the states with the label `terminal`, or, where a
graph has no such label, those that no action leaves and that have no reward.

Where a table ends some transitions into a state and not others, the state gets a twin behind all
others, and what ends leads to the twin. Actions that a table leaves out are not available.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.branches import Branches, named_actions, numbered_states
from mdpdsl.graph.space import BoolArray
from mdpdsl.graph.transition_graph import ROW_SUM_TOLERANCE, TransitionGraph

#: The label of the states where episodes end.
TERMINAL = "terminal"

Row = list[tuple[float, int, float, bool]]
Table = dict[int, dict[int, Row]]


def to_toy_text(graph: TransitionGraph) -> Table:
    """Return P in the toy-text form; a state has the actions that are available there."""
    if not graph.has_dynamics:
        raise ValueError("the dynamics of this model are unknown: there is no P")
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
    """Tell which states end an episode when they are entered, [n_states]."""
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
    """Return the graph of a table P; raise ValueError where it is none, and say where.

    States and actions are numbered from 0; keys may be texts of numbers, as JSON has them. Without
    `initial` every state that is no end is as likely to start.
    """
    rows = _keyed(table, "P")
    n_states = len(rows)
    if sorted(rows) != list(range(n_states)):
        raise ValueError(f"the states of P are not numbered from 0 to {n_states - 1}")
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
        raise ValueError("P has no transitions")
    state, action, target = (entries[:, column].astype(np.int64) for column in (0, 1, 3))
    ends = entries[:, 5] != 0
    has_row = np.bincount(state, minlength=n_states) > 0
    if not has_row.all():
        raise ValueError(f"P[{int(np.argmin(has_row))}] has no actions")
    is_end = np.zeros(n_states, np.bool_)
    is_end[target[ends]] = True
    is_mixed = np.zeros(n_states, np.bool_)
    # A state that is entered both ways from where an episode can still go on is two states.
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
        raise ValueError(f"P has {n_actions} actions, and there are {len(names)} names")
    return branches.graph(numbered_states(n_all), named_actions(names), start, {TERMINAL: closed})


def _loops(
    closed: BoolArray,
    twin_of: npt.NDArray[np.int64],
    n_states: int,
    state: npt.NDArray[np.int64],
    action: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the pairs of the states that are ends: the actions that the table has there."""
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
        raise ValueError(f"the initial distribution is of {given.size} states, not {n_states}")
    start[:n_states] = given
    return start


def _entry(entry: Any, n_states: int, where: str) -> tuple[float, float, float, float]:
    try:
        probability, target, reward, ends = entry
        chance, number, gain = float(probability), int(target), float(reward)
        if number != float(target) or not isinstance(ends, bool | np.bool_ | int):
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(
            f"{where} has the entry {entry!r}, not (probability, next state, reward, terminated)"
        ) from None
    if not 0 <= number < n_states:
        raise ValueError(f"{where} leads to {number}, and the states are 0 to {n_states - 1}")
    if not 0 <= chance <= 1 + ROW_SUM_TOLERANCE or not np.isfinite(gain):
        raise ValueError(f"{where} has the probability {chance} and the reward {gain}")
    return chance, float(number), gain, float(bool(ends))


def _keyed(value: Any, where: str) -> dict[int, Any]:
    """Read a mapping from numbers, or from texts of numbers, or a list; None is left out."""
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        items = list(enumerate(value))
    else:
        raise ValueError(f"{where} is {type(value).__name__}, not a table by numbers")
    found: dict[int, Any] = {}
    for key, entry in items:
        try:
            number = int(key)
        except (TypeError, ValueError):
            number = -1
        if number < 0:
            raise ValueError(f"{where} has the key {key!r}, not a number from 0 on")
        if entry is not None:
            found[number] = entry
    return found


def _listed(row: Any, where: str) -> Sequence[Any]:
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) == 0:
        raise ValueError(f"{where} is not a list of transitions")
    return row
