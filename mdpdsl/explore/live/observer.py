"""The state of each observation of a live system, and whether the episode is over there.

It is what the reader of logs would find in the same row. Common values are converted directly;
anything unusual (a missing value, a text, a value out of range) is passed to that reader, which
also says what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.terms import Read, Term, reads
from mdpdsl.explore.live.observed import LiveColumns, text_of
from mdpdsl.graph.space import BoolArray, IntArray, Value, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels import binning
from mdpdsl.kernels.counting import ENDED, NUMBER, STOPPED
from mdpdsl.logs.conversion import Converter
from mdpdsl.logs.inputs import open_log, read_log
from mdpdsl.logs.readers.log_file import BATCH_ROWS, LogFile, RawBatch
from mdpdsl.logs.rejections import Rejections
from mdpdsl.logs.sources import ColumnSources, column_sources

#: The cell of a variable, and whether its value was clipped; None if the reader has to decide.
_Cell = Callable[[Mapping[str, Value]], tuple[int, bool] | None]
#: Whether a row says that its episode is over; None if the reader has to decide.
_Flag = Callable[[Mapping[str, Value]], bool | None]


class Observed(NamedTuple):
    """The state of a row, and whether the row says that its episode ended or was cut there."""

    state: int
    ended: bool
    cut: bool


@dataclass(frozen=True, eq=False)
class Replay:
    """The steps of a log, in order."""

    pair: IntArray  # [n_steps]
    arrival: IntArray  # [n_steps]  n_states + s: it ended in s; -1 if it could not be counted
    is_start: BoolArray  # [n_steps]  whether it is the first of its episode
    episodes: int
    rows: int


def no_replay() -> Replay:
    """Return the steps of an empty log."""
    nothing = np.empty(0, np.int64)
    return Replay(nothing, nothing, np.empty(0, np.bool_), 0, 0)


class Observer:
    """Reads rows of a live log as they are written, and keeps a record of those it rejects."""

    def __init__(
        self, model: CheckedModel, graph: TransitionGraph, columns: LiveColumns, path: Path
    ) -> None:
        self.path = path
        self.columns = columns
        self.sources = sources_of(model, columns, path)
        self.rejected = Rejections()
        self.clipped: dict[str, int] = {}
        self._graph = graph
        product = graph.states.product
        self._names = [variable.name for variable in product.variables]
        self._strides = product.strides
        self._cells = [
            _cell_of(variable, term)
            for variable, term in zip(product.variables, self.sources.states, strict=True)
        ]
        self._ended = [] if self.sources.ended is None else [_flag_of(self.sources.ended)]
        self._cut = [_flag_of(term) for term in self.sources.cut]
        self._has_all_states = graph.n_states == product.size
        self._converter = Converter(
            model, graph, self.sources, str(path), 0, False, self.rejected, self.clipped
        )

    def read(self, values: Mapping[str, Value], texts: Sequence[str], row: int) -> Observed | None:
        """Return what a row of the log says; None if it is rejected, which is recorded.

        The row has the values by column, what is observed and the flags, and their texts.
        """
        code, clipped = 0, []
        for name, stride, cell_of in zip(self._names, self._strides, self._cells, strict=True):
            found = cell_of(values)
            if found is None:
                return self._read(texts, row)
            code += stride * found[0]
            if found[1]:
                clipped.append(name)
        state = code
        if not self._has_all_states:
            state = int(self._graph.states.indices(np.array([code]))[0])
            if state < 0:
                return self._read(texts, row)
        ended = [flag(values) for flag in self._ended]
        cut = [flag(values) for flag in self._cut]
        if None in ended or None in cut:
            return self._read(texts, row)
        for name in clipped:
            self.clipped[name] = self.clipped.get(name, 0) + 1
        return Observed(state, any(ended), any(cut) and not any(ended))

    def replay(self) -> Replay:
        """Read the whole log, whose last row has no action, and record what is rejected."""
        log = open_log(self.path)
        parts = [
            self._converter.records(raw) for raw in read_log(log, self.sources.columns, BATCH_ROWS)
        ]
        state, pair, row = (
            np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in parts)])
            for name in ("state", "pair", "row")
        )
        acted = np.flatnonzero(pair[:-1] >= 0)
        # If the next line is missing or cannot be read, the step has no successor.
        follows = row[acted + 1] == row[acted] + 1
        arrival = np.where(follows, state[acted + 1], -1)
        # A flag in a row with an action is about the next one, as anywhere in logs.
        is_ending = (pair[acted] & ENDED != 0) & (arrival >= 0) & (arrival < self._graph.n_states)
        return Replay(
            pair=pair[acted] & NUMBER,
            arrival=arrival + self._graph.n_states * is_ending,
            is_start=np.append(True, pair[:-1] < 0)[acted],
            episodes=len(pair) - len(acted),
            rows=int(row[-1]) if len(row) else 0,
        )

    def _read(self, texts: Sequence[str], row: int) -> Observed | None:
        """Read a row as the reader of logs does."""
        import pyarrow as pa

        columns = self.columns
        fields = dict(zip((*columns.observed, *columns.flags), texts, strict=True))
        fields |= {columns.episode: "0", columns.time: "0"}
        arrays = {
            name: pa.array([fields.get(name, "")], pa.string()) for name in self.sources.columns
        }
        records = self._converter.records(RawBatch(arrays, np.array([row])))
        state = int(records.state[0])
        if state < 0:
            return None
        ended, state = divmod(state, self._graph.n_states)
        return Observed(state, ended > 0, ended == 0 and int(records.pair[0]) == STOPPED)


def sources_of(model: CheckedModel, columns: LiveColumns, path: Path) -> ColumnSources:
    """Return what `estimate` reads from a live log."""
    sources = column_sources(model, LogFile(str(path), columns.all, _never))
    assert sources.next_states is None
    return sources


def plain(value: Any, column: str) -> Value:
    """Return an observed value as a value of the language; None becomes NaN."""
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        value = value.item()
    if value is None:
        return math.nan
    if isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"the column `{column}` has {value!r:.60}, which is of type {type(value).__name__}; give a "
        "number, a truth value or a text, and put each number in a column of its own"
    )


def texts_of(observed: Mapping[str, Value]) -> list[str]:
    """Write an observation as the fields of a log."""
    return [text_of(value) for value in observed.values()]


def _never(columns: Sequence[str], batch_rows: int) -> Any:
    raise AssertionError("there is no file yet")


def _flag_of(term: Term) -> _Flag:
    number_of = _column_number(term.name) if isinstance(term, Read) else _term_number(term)

    def flag(values: Mapping[str, Value]) -> bool | None:
        number = number_of(values)
        return number == 1 if number in (0, 1) else None

    return flag


def _cell_of(variable: Variable, term: Term) -> _Cell:
    if isinstance(term, Read) and variable.kind == "enum":
        return _member_cell(variable, term.name)
    if term.type.kind == "enum":
        return lambda observed: None
    number_of = _column_number(term.name) if isinstance(term, Read) else _term_number(term)
    cell_of = _number_cell(variable)

    def cell(observed: Mapping[str, Value]) -> tuple[int, bool] | None:
        number = number_of(observed)
        return None if number is None else cell_of(number)

    return cell


def _member_cell(variable: Variable, column: str) -> _Cell:
    by_name = {member: (place, False) for place, member in enumerate(variable.members)}
    by_number = _number_cell(variable)

    def cell(observed: Mapping[str, Value]) -> tuple[int, bool] | None:
        value = observed[column]
        return by_name.get(value) if isinstance(value, str) else by_number(value)

    return cell


def _column_number(column: str) -> Callable[[Mapping[str, Value]], float | None]:
    def number(observed: Mapping[str, Value]) -> float | None:
        value = observed[column]
        if isinstance(value, str):
            return None
        try:
            found = float(value)
        except OverflowError:
            return None
        return found if math.isfinite(found) else None

    return number


def _term_number(term: Term) -> Callable[[Mapping[str, Value]], float | None]:
    columns = [(("column", name), _column_number(name)) for _, name in sorted(reads(term))]

    def number(observed: Mapping[str, Value]) -> float | None:
        values = {}
        for key, number_of in columns:
            found = number_of(observed)
            if found is None:
                return None
            values[key] = np.array([found])
        result = evaluate(term, Frame(1, values))
        value = float(np.ravel(result.values)[0])
        return None if result.faults or not math.isfinite(value) else value

    return number


def _number_cell(variable: Variable) -> Callable[[float], tuple[int, bool] | None]:
    if variable.kind == "real":
        edges, wraps, cells = variable.edges, variable.wraps, np.empty(1, np.int64)

        def real(number: float) -> tuple[int, bool] | None:
            n_clipped = binning.real_cells(np.array([number]), edges, wraps, cells)
            return int(cells[0]), n_clipped > 0

        return real
    if variable.kind == "set":
        values = variable.values(np.arange(variable.size)).tolist()
        return {value: (place, False) for place, value in enumerate(values)}.get
    low, size = variable.low, variable.size

    def whole(number: float) -> tuple[int, bool] | None:
        place = number - low
        return (int(place), False) if 0 <= place < size and place == int(place) else None

    return whole
