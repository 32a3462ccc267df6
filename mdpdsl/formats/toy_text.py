"""Gymnasium's toy-text table, P[s][a] = [(probability, next state, reward, terminated), …].

A transition with `terminated` ends the episode: it leads to an end of the graph. An end has a row
for every action, as in Gymnasium's own tables: it stays there, without reward, and is terminated.
If a table ends only some of the transitions into a state, the state has a twin in the graph, and
the transitions that end lead to the twin. In the table they lead to the state itself.

In a graph without ends, as in version 1, `terminated` is a property of the states with the label
`terminal` or, if a graph has no such label, of those that no action leaves and that have no reward.
Actions that a table leaves out are not available.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.diagnostics import FormatError
from mdpdsl.formats.loops import TERMINAL, absorbing_states
from mdpdsl.formats.written_rows import require_rows
from mdpdsl.graph.branches import Branches, named_actions, numbered_states
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, StateSpace
from mdpdsl.graph.transition_graph import ROW_SUM_TOLERANCE, TransitionGraph

Row = list[tuple[float, int, float, bool]]
Table = dict[int, dict[int, Row]]


def to_toy_text(graph: TransitionGraph) -> Table:
    """Return P in the toy-text form; each state lists only its available actions, an end all.

    Rows are sorted by the number of the next state; a transition that ends is behind one that does
    not.
    """
    require_rows(graph, "there is no P")
    is_terminal = terminal_states(graph)[graph.successor]
    reward = graph.branch_reward
    if reward is None:
        pairs = np.zeros(graph.n_pairs) if graph.reward is None else graph.reward
        reward = np.repeat(pairs, np.diff(graph.successor_start))
    number = table_numbers(graph.states)
    target = number[graph.successor]
    pair_of = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
    order = np.lexsort((is_terminal, target, pair_of))
    columns = (graph.probability, target, reward, is_terminal)
    entries = list(zip(*(column[order].tolist() for column in columns), strict=True))
    start = graph.successor_start.tolist()
    table: Table = {state: {} for state in range(int(number.max()) + 1)}
    for pair in range(graph.n_pairs):
        row = entries[start[pair] : start[pair + 1]]
        table[int(graph.pair_state[pair])][int(graph.pair_action[pair])] = row
    for state, rows in table.items():
        if not rows:  # an end
            table[state] = {action: [(1.0, state, 0.0, True)] for action in range(graph.n_actions)}
    return table


def terminal_states(graph: TransitionGraph) -> BoolArray:
    """Return which states end an episode when they are entered, [n_states]."""
    if graph.ends is not None:
        return graph.ends
    return graph.labels[TERMINAL] if TERMINAL in graph.labels else absorbing_states(graph)


def table_numbers(states: StateSpace) -> IntArray:
    """Return the number of each state in the table, [n_states].

    A twin has the number of its state; if that is not among the states, it has one of its own.
    """
    n_own = len(states.own_codes)
    number = np.concatenate([np.arange(n_own), states.indices(states.codes[n_own:])])
    alone = number < 0
    number[alone] = n_own + np.arange(np.count_nonzero(alone))
    return number


def from_toy_text(
    table: Mapping[Any, Any] | Sequence[Any],
    initial: npt.ArrayLike | None = None,
    actions: Sequence[str] | None = None,
) -> TransitionGraph:
    """Return the graph of a table P; raise FormatError, with the place, if it is not valid.

    States and actions are numbered from 0; keys may be strings, as in JSON. Without `initial`, all
    states that are not ends are equally likely to start.
    """
    entries, n_states, n_actions = read_entries(table)
    start = None if initial is None else _start(initial, n_states)
    ends, mixed = _found_ends(entries, n_states, start)
    twins = np.flatnonzero(mixed)
    twin = np.arange(n_states)
    twin[twins] = n_states + np.arange(len(twins))
    branches = Branches(
        state=entries.state,
        action=entries.action,
        target=np.where(entries.ended, twin[entries.target], entries.target),
        probability=entries.probability,
        reward=entries.reward,
    )
    names = tuple(actions or (f"a{number}" for number in range(n_actions)))
    if len(names) < n_actions:
        raise FormatError(f"P has {n_actions} actions, but there are only {len(names)} names")
    if start is None:
        start = np.where(ends, 0.0, 1.0) / max(1, np.count_nonzero(~ends))
    all_ends = np.append(ends, np.ones(len(twins), np.bool_))
    try:
        return branches.graph(
            numbered_states(n_states).with_twins(twins),
            named_actions(names),
            np.append(start, np.zeros(len(twins))),
            {TERMINAL: all_ends} if all_ends.any() else {},
            all_ends,
        )
    except ValueError as error:
        raise FormatError(str(error)) from None


@dataclass(frozen=True, eq=False)
class Entries:
    """The transitions of a table with a positive probability, as columns."""

    state: IntArray
    action: IntArray
    target: IntArray
    probability: FloatArray
    reward: FloatArray
    ended: BoolArray


def read_entries(table: Mapping[Any, Any] | Sequence[Any]) -> tuple[Entries, int, int]:
    """Return the transitions of a table, and the numbers of its states and actions."""
    rows = _keyed(table, "P")
    n_states = len(rows)
    if sorted(rows) != list(range(n_states)):
        raise FormatError(f"the states of P must be numbered from 0 to {n_states - 1}")
    found = np.array(
        [
            (state, action, *_entry(entry, n_states, f"P[{state}][{action}]"))
            for state, choices in sorted(rows.items())
            for action, row in sorted(_keyed(choices, f"P[{state}]").items())
            for entry in _listed(row, f"P[{state}][{action}]")
        ],
        dtype=np.float64,
    ).reshape(-1, 6)
    if len(found) == 0:
        raise FormatError("P has no transitions")
    n_actions = int(found[:, 1].max()) + 1
    found = found[found[:, 2] > 0]
    state, action, target = (found[:, column].astype(np.int64) for column in (0, 1, 3))
    return (
        Entries(state, action, target, found[:, 2], found[:, 4], found[:, 5] != 0),
        n_states,
        n_actions,
    )


def _found_ends(
    entries: Entries, n_states: int, start: FloatArray | None
) -> tuple[BoolArray, BoolArray]:
    """Return the ends, and the states in which some episodes end and others continue.

    Episodes continue in a state if they start there, if a transition that does not end leads there
    from such a state, or if no transition that ends leads there.
    """

    def marked(states: IntArray) -> BoolArray:
        return np.bincount(states, minlength=n_states) > 0

    has_row = marked(entries.state)
    loops = (entries.target == entries.state) & (entries.reward == 0) & entries.ended
    # A row that does nothing but end: it is the same to end there, however it is entered.
    is_closed = has_row & ~marked(entries.state[~loops])
    lives = has_row & ~is_closed & ~marked(entries.target[entries.ended])
    if start is not None:
        lives |= (start > 0) & ~is_closed
    while True:
        acted = lives[entries.state]
        entered = marked(entries.target[acted & ~entries.ended]) & ~is_closed
        ended = marked(entries.target[acted & entries.ended])
        more = entered & ~lives
        if not more.any():
            more = has_row & ~is_closed & ~ended & ~lives  # nothing leads there
        if not more.any():
            break
        lives |= more
    if not has_row[lives].all():
        state = int(np.argmax(lives & ~has_row))
        raise FormatError(f"P[{state}] has no actions, and episodes continue there")
    stray = ~lives & ~ended & ~is_closed
    if stray.any():
        raise FormatError(f"P[{int(np.argmax(stray))}] has no actions, and no episode ends there")
    return ~lives, lives & ended


def _start(initial: npt.ArrayLike, n_states: int) -> FloatArray:
    given = np.asarray(initial, dtype=np.float64)
    if given.shape != (n_states,):
        raise FormatError(f"the initial distribution has {given.size} states, but P has {n_states}")
    return given


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
