"""Lists of episodes as logs: each episode is a list of rows, in order.

A row is a mapping or a tuple. The keys of a mapping are columns, read by the `log` block like those
of a file. A tuple `(state, action)` has values of the model's own variables: a single value, or a
tuple or mapping if there are several variables; the last row of an episode may be `(state,)`. Each
list is a separate episode, even if its rows have a column that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.terms import Read
from mdpdsl.logs.readers.frames import Frame, column_of
from mdpdsl.logs.readers.log_file import LogFileError
from mdpdsl.logs.values import ColumnTypeError, keys_of

#: The column that numbers the episodes of a list.
OWN_EPISODES = "episode of the list"
ROWS_ARE = "a row is a mapping of columns to values, or a tuple (state, action)"

_Row = Mapping[str, Any]


def is_episode(given: object) -> bool:
    """Return whether something is a list of rows."""
    return isinstance(given, list) and bool(given) and _is_row(given[0])


def is_list_of_episodes(given: object) -> bool:
    """Return whether something is a list of lists of rows; some of them may be empty."""
    if not isinstance(given, list | tuple) or not all(isinstance(one, list) for one in given):
        return False
    return is_episode(next(filter(None, given), None))


def frame_of_episodes(given: Sequence[list[Any]], name: str, model: CheckedModel) -> Frame:
    """Put the rows of all episodes in one table; raise LogFileError where some are no rows."""
    places = [(i, j) for i, episode in enumerate(given) for j in range(len(episode))]
    rows = [given[i][j] for i, j in places]
    are_tuples = any(isinstance(row, tuple) for row in rows)
    for (i, j), row in zip(places, rows, strict=True):
        if not _is_row(row):
            raise LogFileError(f"{name}: [{i}][{j}] is of the type {type(row).__name__}", ROWS_ARE)
        if are_tuples != isinstance(row, tuple):
            raise LogFileError(
                f"{name}: some rows are mappings and some are tuples, as [{i}][{j}]",
                "use one of them throughout: " + ROWS_ARE,
            )
    if are_tuples:
        rows = [
            _named(row, model, f"{name}: [{i}][{j}]")
            for (i, j), row in zip(places, rows, strict=True)
        ]
    sizes = [len(episode) for episode in given]
    numbers = np.repeat(np.arange(len(given)), sizes)
    frame = Frame(
        name,
        _table(rows).append_column(OWN_EPISODES, [numbers]),
        own_episodes=OWN_EPISODES,
        has_model_values=are_tuples,
        starts=np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64),
    )
    if not are_tuples:
        _check_episodes(frame, numbers, model)
    return frame


def _is_row(given: object) -> bool:
    return isinstance(given, Mapping | tuple)


def _named(row: tuple[Any, ...], model: CheckedModel, place: str) -> _Row:
    """Return the values of a tuple by the names of variables."""
    if len(row) not in (1, 2):
        raise LogFileError(f"{place} has {len(row)} parts, not two: (state, action)", ROWS_ARE)
    states = [variable.name for variable in model.states.variables]
    factors = [variable.name for variable in model.actions.variables]
    action = row[1] if len(row) == 2 else None
    return _values(row[0], states, place, "state") | _values(action, factors, place, "action")


def _values(given: Any, names: Sequence[str], place: str, part: str) -> dict[str, Any]:
    if given is None:
        return dict.fromkeys(names)
    if isinstance(given, Mapping):
        values = {str(key): value for key, value in given.items()}
        unknown = [key for key in values if key not in names]
        if not unknown:
            return {name: values.get(name) for name in names}
        raise LogFileError(
            f"{place} gives `{unknown[0]}`, which is no {part} variable of the model",
            f"the model has {', '.join(names)}",
        )
    if isinstance(given, np.ndarray):
        given = np.atleast_1d(given).tolist()
    several = list(given) if isinstance(given, tuple | list) else [given]
    if len(several) != len(names):
        raise LogFileError(
            f"{place} gives {len(several)} {part} value(s), and the model has {len(names)}",
            f"give {', '.join(names)}, in this order",
        )
    return dict(zip(names, several, strict=True))


def _table(rows: Iterable[_Row]) -> Any:
    """Return rows as a table whose columns are all keys, in the order in which they appear."""
    import pyarrow as pa

    rows = list(rows)
    names = dict.fromkeys(key for row in rows for key in row)
    columns = {}
    for name in names:
        columns[str(name)] = column_of([row.get(name) for row in rows])
    return pa.table(columns)


def _check_episodes(frame: Frame, numbers: Any, model: CheckedModel) -> None:
    """Raise LogFileError where the rows of one list name several episodes in a column of theirs."""
    given = {column.key: column.term for column in model.log}
    term = given.get("episode")
    name = term.name if isinstance(term, Read) else "episode" if term is None else None
    is_variable = any(variable.name == "episode" for variable in model.states.variables)
    if name not in frame.table.column_names or is_variable:
        return
    try:
        keys, is_missing = keys_of(frame.table.column(name).combine_chunks())
    except ColumnTypeError:
        return
    known = np.flatnonzero(~is_missing)
    differs = keys[known][1:] != keys[known][:-1]
    differs &= numbers[known][1:] == numbers[known][:-1]
    if differs.any():
        episode = int(numbers[known][1:][differs][0])
        raise LogFileError(
            f"{frame.name}: the column `{name}` says that [{episode}] is several episodes",
            "put each episode in a list of its own, or give the rows as a table, as in "
            "pyarrow.Table.from_pylist(rows)",
        )
