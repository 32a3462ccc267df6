"""The columns of a log: their names, as the model expects them, and their values.

A row is a state with the action taken there; the last row of an episode has no action. A transition
is two consecutive rows. If the model's `log` block names columns for next values, a row is a whole
transition instead, and the end of an episode has no row of its own. If the model has ends, two more
columns say of every row whether the state it shows last ended the episode, or the episode was cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.terms import Read
from mdpdsl.diagnostics import LogError
from mdpdsl.graph.space import BoolArray, IntArray, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.simulate.trajectory import Chunk

if TYPE_CHECKING:
    import pyarrow as pa

EPISODE, TIME = "episode", "time"
#: The keys of the `log` block about the ends of episodes, and the columns they mean by default.
FLAGS = {"ended": "terminated", "cut": "truncated"}


@dataclass(frozen=True)
class ColumnNames:
    """The names of the columns of a log."""

    episode: str | None  # None if a variable has that name
    time: str | None
    variables: tuple[str, ...]  # in the order of declaration
    actions: tuple[str, ...]
    next_variables: tuple[str, ...] = ()  # empty if a row is a state
    ended: str | None = None  # None if the model has no ends, or a variable has that name
    cut: str | None = None
    note: str | None = None  # why the model's `log` block is not followed

    @property
    def all(self) -> tuple[str, ...]:
        """Every name, in the order of the columns."""
        first = (name for name in (self.episode, self.time) if name is not None)
        flags = (name for name in (self.ended, self.cut) if name is not None)
        return (*first, *self.variables, *self.actions, *self.next_variables, *flags)


def column_names(model: CheckedModel, n_episodes: int, has_ends: bool = False) -> ColumnNames:
    """Name the columns so that the model can read the log unchanged."""
    if not model.log:
        return _own_names(model, n_episodes, has_ends, None)
    computed = [column.key for column in model.log if not _is_plain(column.term)]
    if computed:
        them = ", ".join(f"`{key}`" for key in computed)
        return _own_names(
            model,
            n_episodes,
            has_ends,
            f"the log block computes {them} from columns; the file names its columns after the "
            "variables, so a model without a log block can read it",
        )
    given = {column.key: column.term.name for column in model.log if isinstance(column.term, Read)}
    variables = [v.name for v in model.states.variables]
    actions = [v.name for v in model.actions.variables]
    following = [_next_name(given, name) for name in variables]
    has_next = any(f"{name}'" in given or f"next_{name}" in given for name in variables)
    taken = {*variables, *actions}
    names = ColumnNames(
        None if EPISODE in taken else given.get(EPISODE, EPISODE),
        None if TIME in taken else given.get(TIME, TIME),
        tuple(given.get(name, name) for name in variables),
        tuple(given.get(name, name) for name in actions),
        tuple(following) if has_next else (),
        _flag_name("ended", given, has_ends, taken),
        _flag_name("cut", given, has_ends, taken),
    )
    twice = [name for name, n in Counter(names.all).items() if n > 1]
    if twice:
        return _own_names(
            model,
            n_episodes,
            has_ends,
            f"with the log block, the column `{twice[0]}` would have two different values; the "
            "file names its columns after the variables",
        )
    _check_episodes(names, n_episodes)
    return names


class LogColumns:
    """Turns rows of a trajectory into columns, from a table of the values of all states.

    With `is_raw`, real variables have the values of a continuous system, otherwise the centres of
    cells. With `spells_numbers`, the fractional values of cells are strings, so that text formats
    format each of them only once.
    """

    def __init__(
        self,
        graph: TransitionGraph,
        names: ColumnNames,
        *,
        is_raw: bool = False,
        spells_numbers: bool = False,
    ) -> None:
        import pyarrow as pa

        self.names = names
        states, actions = graph.states.product, graph.actions.product
        self._is_raw = [is_raw and v.kind == "real" for v in states.variables]
        self._state_tables = [
            _table(v, states.cells(graph.states.codes, i), spells_numbers and not self._is_raw[i])
            for i, v in enumerate(states.variables)
        ]
        action = graph.pair_action.astype(np.int64)
        self._action_tables = [
            _table(v, actions.cells(action, i), spells_numbers)
            for i, v in enumerate(actions.variables)
        ]
        fields = [(name, pa.int64()) for name in (names.episode, names.time) if name is not None]
        state_types = [table.type for table in self._state_tables]
        fields += zip(names.variables, state_types, strict=True)
        fields += zip(names.actions, [t.type for t in self._action_tables], strict=True)
        fields += zip(names.next_variables, state_types[: len(names.next_variables)], strict=True)
        fields += [(name, pa.bool_()) for name in (names.ended, names.cut) if name is not None]
        self._ends = np.zeros(graph.n_states, np.bool_) if graph.ends is None else graph.ends
        self.schema: pa.Schema = pa.schema(fields)
        raw = [i for i, is_it in enumerate(self._is_raw) if is_it]
        varying = [names.variables[i] for i in raw]
        varying += [names.next_variables[i] for i in raw if names.next_variables]
        spelled = [*zip(names.variables, self._state_tables, strict=True)]
        spelled += zip(names.actions, self._action_tables, strict=True)
        spelled += zip(names.next_variables, self._state_tables, strict=False)
        #: Columns of numbers stored as strings.
        self.spelled = frozenset(name for name, table in spelled if table.is_spelled)
        #: Columns with few different values.
        self.repetitive = tuple(n for n in names.all if n != names.time and n not in varying)

    def batch(self, chunk: Chunk) -> pa.RecordBatch:
        """Return rows as columns."""
        import pyarrow as pa

        names, has_pair = self.names, chunk.has_pair
        kept: Any = has_pair if names.next_variables else slice(None)
        found = [pa.array(chunk.episode[kept])] if names.episode is not None else []
        found += [pa.array(chunk.time[kept])] if names.time is not None else []
        state = chunk.state[kept]
        values = None if chunk.values is None else chunk.values[kept]
        found += self._state_columns(state, values)
        is_missing = ~has_pair[kept]
        pair = np.maximum(chunk.pair[kept], 0)
        mask = is_missing if is_missing.any() else None
        found += [table.column(pair, mask) for table in self._action_tables]
        if names.next_variables:
            following = np.append(chunk.state[1:], np.int32(chunk.next_state))[kept]
            next_values = None
            if chunk.values is not None and chunk.next_values is not None:
                next_values = np.vstack([chunk.values[1:], chunk.next_values])[kept]
            found += self._state_columns(following, next_values)
        found += self._flags(chunk, has_pair, kept)
        return pa.RecordBatch.from_arrays(found, schema=self.schema)

    def _flags(self, chunk: Chunk, has_pair: BoolArray, kept: Any) -> list[pa.Array]:
        """Return whether episodes ended, or were cut, in the last state that a row shows."""
        import pyarrow as pa

        state, is_last = chunk.state, ~has_pair
        if self.names.next_variables:
            state = np.append(state[1:], np.int32(chunk.next_state))
            is_last = np.append(is_last[1:], chunk.is_next_last)
        ended = self._ends[state]
        flags = ((self.names.ended, ended), (self.names.cut, is_last & ~ended))
        return [pa.array(flag[kept]) for name, flag in flags if name is not None]

    def _state_columns(
        self, state: npt.NDArray[np.integer[Any]], values: npt.NDArray[np.float64] | None
    ) -> list[pa.Array]:
        import pyarrow as pa

        found = []
        for position, table in enumerate(self._state_tables):
            if values is not None and self._is_raw[position]:
                found.append(pa.array(values[:, position]))
            else:
                found.append(table.column(state, None))
        return found


@dataclass(frozen=True, eq=False)
class _Table:
    """The values of one variable by state or by pair."""

    type: Any  # of Arrow
    numbers: npt.NDArray[Any]  # [n]
    wrap: Callable[[Any], Any]  # from an Arrow array of these numbers to the column
    is_spelled: bool = False

    def column(self, index: npt.NDArray[np.integer[Any]], mask: Any) -> Any:
        import pyarrow as pa

        return self.wrap(pa.array(self.numbers[index], mask=mask))


def _table(variable: Variable, cells: IntArray, spells_numbers: bool) -> _Table:
    import pyarrow as pa

    if variable.kind == "bool":
        return _Table(pa.bool_(), cells != 0, _unchanged)
    if variable.kind == "int":
        return _Table(pa.int64(), cells + variable.low, _unchanged)
    if variable.kind == "enum":
        return _text_table(variable.members, cells)
    values = variable.values(np.arange(variable.size))
    if variable.kind == "set" and np.all(values == np.floor(values)):
        return _Table(pa.int64(), values.astype(np.int64)[cells], _unchanged)
    if spells_numbers:
        return _text_table([repr(value) for value in values.tolist()], cells, is_spelled=True)
    return _Table(pa.float64(), values[cells], _unchanged)


def _text_table(texts: Sequence[str], cells: IntArray, *, is_spelled: bool = False) -> _Table:
    import pyarrow as pa

    members = pa.array(texts, pa.string())
    return _Table(
        pa.dictionary(pa.int32(), pa.string()),
        cells.astype(np.int32),
        lambda numbers: pa.DictionaryArray.from_arrays(numbers, members),
        is_spelled,
    )


def _unchanged(numbers: Any) -> Any:
    return numbers


def _is_plain(term: object) -> bool:
    return isinstance(term, Read) and term.kind == "column"


def _next_name(given: dict[str, str], name: str) -> str:
    return given.get(f"{name}'", given.get(f"next_{name}", f"next_{name}"))


def _flag_name(
    key: str, given: Mapping[str, str], has_ends: bool, taken: Collection[str]
) -> str | None:
    """Return the column that says how episodes end; None if there is none to write."""
    name = given.get(key, FLAGS[key])
    return name if has_ends and name not in taken else None


def _own_names(
    model: CheckedModel, n_episodes: int, has_ends: bool, note: str | None
) -> ColumnNames:
    variables = tuple(v.name for v in model.states.variables)
    actions = tuple(v.name for v in model.actions.variables)
    taken: Sequence[str] = (*variables, *actions)
    names = ColumnNames(
        None if EPISODE in taken else EPISODE,
        None if TIME in taken else TIME,
        variables,
        actions,
        ended=_flag_name("ended", {}, has_ends, taken),
        cut=_flag_name("cut", {}, has_ends, taken),
        note=note,
    )
    _check_episodes(names, n_episodes)
    return names


def _check_episodes(names: ColumnNames, n_episodes: int) -> None:
    if names.episode is None and n_episodes > 1:
        raise LogError(
            "a variable of the model is named `episode`, so a log cannot have a column for "
            "episodes; rename the variable, or leave out `episode_length=`"
        )
