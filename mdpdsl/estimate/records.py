"""Rows of a log as states and pairs of a model: values to cells, with what is wrong by reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.expressions import Fault, Frame, evaluate
from mdpdsl.compile.terms import Read, Term, reads
from mdpdsl.estimate import rejections as reasons
from mdpdsl.estimate.columns import ColumnPlan
from mdpdsl.estimate.readers import LogFileError, RawBatch
from mdpdsl.estimate.rejections import Rejections
from mdpdsl.estimate.values import (
    ColumnTypeError,
    Numbers,
    keys_of,
    lookup,
    numbers_of,
    text_at,
    texts_of,
)
from mdpdsl.graph.space import SET_TOLERANCE, BoolArray, FloatArray, IntArray, Variable
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.kernels import binning

#: How far a number of single precision may be from a member of a set, relative to the largest.
SINGLE_PRECISION = 1e-6
#: In `Records.pair`: no pair, and no pair because no action is given.
NO_PAIR, NO_ACTION = -1, -2


@dataclass(frozen=True, eq=False)
class Records:
    """Rows in the order they were read.

    Rows of one episode have the same source and episode. Source 0 is shared by files whose episodes
    may span them; a negative source has no times but the order of its rows.
    """

    source: StateArray  # [n]
    episode: IntArray  # [n]
    time: FloatArray  # [n]
    state: StateArray  # [n]  -1 where the row has none
    pair: StateArray  # [n]  NO_PAIR, NO_ACTION
    file: StateArray  # [n]
    row: IntArray  # [n]

    def __len__(self) -> int:
        return len(self.row)

    def take(self, where: slice | BoolArray | IntArray) -> Records:
        """Return some of the rows."""
        return Records(*(getattr(self, f.name)[where] for f in fields(self)))


def joined(parts: Sequence[Records]) -> Records:
    """Return the rows of several batches."""
    return Records(
        *(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Records))
    )


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cell of a variable in each row; what is wrong by reason, each with the rows."""

    index: IntArray  # [n]  -1 where there is none
    wrong: tuple[tuple[str, BoolArray], ...]
    is_missing: BoolArray  # [n]
    term: Term
    name: str


@dataclass(eq=False)
class Converter:
    """Turns batches of one file into records or transitions."""

    model: CheckedModel
    graph: TransitionGraph
    plan: ColumnPlan
    path: str
    file: int
    is_separate: bool
    rejected: Rejections
    clipped: dict[str, int]
    _last_episode: int = 0
    _pair_codes: IntArray | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        graph = self.graph
        if graph.n_pairs < graph.n_states * graph.n_actions:
            state_code = graph.pair_state.astype(np.int64) * graph.n_actions
            self._pair_codes = state_code + graph.pair_action
        self._has_all_states = graph.n_states == graph.states.product.size

    def records(self, raw: RawBatch) -> Records:
        """Return the rows of a batch whose place in time is known."""
        batch = _Batch(self.path, raw)
        n = len(raw.rows)
        self._reject_broken(raw)
        has_time = self.plan.time is not None
        episode, no_episode = self._episodes(batch)
        time = raw.rows.astype(np.float64)
        no_time = np.zeros(n, np.bool_)
        if self.plan.time is not None:
            time, wrong = batch.evaluated(self.plan.time)
            no_time = ~np.isfinite(time)
            no_time |= np.logical_or.reduce([mask for _, mask in wrong]) if wrong else no_time
        is_bad = no_episode | no_time
        self._reject(reasons.MISSING_EPISODE, no_episode, batch, self.plan.episode, "episode")
        lost_time = no_time & ~no_episode
        self._reject(reasons.MISSING_TIME, lost_time, batch, self.plan.time, "time")
        state, is_bad = self._states(batch, self.plan.states, is_bad, "")
        pair = self._pairs(batch, state, is_bad)
        source = 0
        if self.plan.episode is None or self.is_separate or not has_time:
            source = self.file + 1 if has_time else -self.file - 1
        records = Records(
            source=np.full(n, source, np.int32),
            episode=episode,
            time=time,
            state=np.where(is_bad, -1, state).astype(np.int32),
            pair=pair,
            file=np.full(n, self.file, np.int32),
            row=raw.rows,
        )
        if has_time:
            is_lost = no_episode | no_time
            return records.take(~is_lost) if is_lost.any() else records
        return self._with_holes(records, raw)

    def transitions(self, raw: RawBatch) -> tuple[IntArray, IntArray]:
        """Return pairs and next states of a batch whose rows are whole transitions."""
        assert self.plan.next_states is not None
        batch = _Batch(self.path, raw)
        self._reject_broken(raw)
        is_bad = np.zeros(len(raw.rows), np.bool_)
        state, is_bad = self._states(batch, self.plan.states, is_bad, "")
        following, is_bad = self._states(batch, self.plan.next_states, is_bad, "next ")
        pair = self._pairs(batch, state, is_bad)
        needed = pair == NO_ACTION
        self._reject(reasons.MISSING_ACTION, needed, batch, self.plan.actions[0], "the action")
        is_good = (pair >= 0) & ~is_bad
        return pair[is_good].astype(np.int64), following[is_good]

    def _episodes(self, batch: _Batch) -> tuple[IntArray, BoolArray]:
        n = batch.size
        term = self.plan.episode
        if term is None:
            return np.zeros(n, np.int64), np.zeros(n, np.bool_)
        if isinstance(term, Read):
            try:
                return keys_of(batch.raw.columns[term.name])
            except ColumnTypeError as error:
                raise batch.wrong_type(term.name, error) from None
        import pyarrow as pa

        values, wrong = batch.evaluated(term)
        keys, is_missing = keys_of(pa.array(values, from_pandas=True))
        for _, mask in wrong:
            is_missing = is_missing | mask
        return keys, is_missing

    def _states(
        self, batch: _Batch, terms: Sequence[Term], is_bad: BoolArray, prefix: str
    ) -> tuple[IntArray, BoolArray]:
        product = self.graph.states.product
        code = np.zeros(batch.size, np.int64)
        for variable, stride, term in zip(product.variables, product.strides, terms, strict=True):
            cells = self._cells(batch, variable, term, prefix, reasons.OUT_OF_RANGE)
            is_bad = self._reject_cells(batch, cells, is_bad, reasons.MISSING_VALUE)
            code += stride * np.maximum(cells.index, 0)
        if self._has_all_states:
            return code, is_bad
        state = self.graph.states.indices(code)
        is_new = (state < 0) & ~is_bad
        self._reject(reasons.NOT_A_STATE, is_new, batch, terms, f"{prefix}state")
        return np.maximum(state, 0), is_bad | is_new

    def _pairs(self, batch: _Batch, state: IntArray, is_bad: BoolArray) -> StateArray:
        """Return the pair of each row; rows without a state have none and are told already."""
        product = self.graph.actions.product
        action = np.zeros(batch.size, np.int64)
        is_missing = np.zeros(batch.size, np.bool_)
        has_none = is_bad
        for variable, stride, term in zip(
            product.variables, product.strides, self.plan.actions, strict=True
        ):
            cells = self._cells(batch, variable, term, "", reasons.UNKNOWN_ACTION)
            has_none = self._reject_cells(batch, cells, has_none | is_missing, None)
            is_missing |= cells.is_missing
            action += stride * np.maximum(cells.index, 0)
        pair = state * self.graph.n_actions + action
        if self._pair_codes is not None:
            codes = self._pair_codes
            place = np.minimum(np.searchsorted(codes, pair), len(codes) - 1)
            is_free = (codes[place] != pair) & ~has_none & ~is_missing
            terms = [*self.plan.states, *self.plan.actions]
            self._reject(reasons.NOT_AVAILABLE, is_free, batch, terms, "pair")
            pair, has_none = place, has_none | is_free
        pair = np.where(has_none, NO_PAIR, pair)
        return np.where(is_missing & ~is_bad, NO_ACTION, pair).astype(np.int32)

    def _cells(
        self, batch: _Batch, variable: Variable, term: Term, prefix: str, outside: str
    ) -> _Cells:
        """Work out the cell of a variable in every row."""
        name = prefix + variable.name
        column = batch.raw.columns[term.name] if isinstance(term, Read) else None
        if variable.kind == "enum" and column is not None and texts_of(column) is not None:
            members = {member: float(i) for i, member in enumerate(variable.members)}
            values = lookup(column, members)
            numbers = batch.numbers(column)
            is_number = np.isnan(values) & ~np.isnan(numbers.values)
            values = np.where(is_number, numbers.values, values)
            is_missing = np.isnan(values) & ~numbers.is_text
            index = variable.indices(values)
            return _Cells(index, ((outside, (index < 0) & ~is_missing),), is_missing, term, name)
        values, wrong = batch.evaluated(term)
        is_missing = np.isnan(values)
        for _, mask in wrong:
            is_missing = is_missing & ~mask
        if term.type.kind == "enum":
            values = self._members(variable, values)
        is_infinite = np.isinf(values)
        if variable.kind == "real":
            index = self._real_cells(variable, values)
        elif variable.kind == "set":
            index = _set_cells(variable, values)
        else:
            index = variable.indices(values)
        if not wrong and (len(index) == 0 or index.min() >= 0):
            return _Cells(index, (), is_missing, term, name)
        for _, mask in wrong:
            index = np.where(mask, -1, index)
        wrong = (*wrong, (reasons.NOT_FINITE, is_infinite))
        is_told = is_missing.copy()
        for _, mask in wrong:
            is_told |= mask
        return _Cells(index, (*wrong, (outside, (index < 0) & ~is_told)), is_missing, term, name)

    def _members(self, variable: Variable, values: FloatArray) -> FloatArray:
        """Turn numbers of symbols into the places of a variable's members."""
        table = np.full(len(self.model.symbols) + 1, -1.0)
        for place, member in enumerate(variable.members):
            table[self.model.symbols[member]] = place
        known = np.where(np.isfinite(values), values, len(table) - 1).astype(np.int64)
        return table[known]

    def _real_cells(self, variable: Variable, values: FloatArray) -> IntArray:
        """Return cells, and take note of values that are clipped to them."""
        assert variable.edges is not None
        index = np.empty(len(values), np.int64)
        n_clipped = binning.real_cells(values, variable.edges, variable.wraps, index)
        if n_clipped:
            self.clipped[variable.name] = self.clipped.get(variable.name, 0) + n_clipped
        return index

    def _reject_cells(
        self, batch: _Batch, cells: _Cells, is_bad: BoolArray, missing: str | None
    ) -> BoolArray:
        """Tell the rows in which a variable has no cell, and return all bad rows so far."""
        if not (cells.index < 0).any():
            return is_bad
        told = list(cells.wrong)
        if missing is not None:
            told.insert(0, (missing, cells.is_missing))
        for reason, mask in told:
            is_new = mask & ~is_bad
            self._reject(reason, is_new, batch, cells.term, cells.name)
            is_bad = is_bad | mask
        return is_bad

    def _reject(
        self,
        reason: str,
        mask: BoolArray,
        batch: _Batch,
        terms: Term | Sequence[Term] | None,
        name: str,
    ) -> None:
        places = np.flatnonzero(mask)
        if len(places) == 0:
            return
        several = [terms] if isinstance(terms, Term) else list(terms or ())

        def found(i: int) -> str:
            return batch.text(several, name, int(places[i]))

        self.rejected.add(reason, self.path, batch.raw.rows[places], found)

    def _reject_broken(self, raw: RawBatch) -> None:
        numbers = np.array([number for number, _ in raw.broken], np.int64)
        self.rejected.add(reasons.BROKEN_LINE, self.path, numbers, lambda i: raw.broken[i][1])

    def _with_holes(self, records: Records, raw: RawBatch) -> Records:
        """Put broken lines, and rows without an episode, where no transition may pass over them.

        Without times nothing else tells that a row is missing. Such a row counts as one of the
        episode before it.
        """
        holes = np.array([number for number, _ in raw.broken], np.int64)
        n = len(holes)
        broken = Records(
            source=np.full(n, -self.file - 1, np.int32),
            episode=np.zeros(n, np.int64),
            time=holes.astype(np.float64),
            state=np.full(n, -1, np.int32),
            pair=np.full(n, NO_PAIR, np.int32),
            file=np.full(n, self.file, np.int32),
            row=holes,
        )
        if self.plan.episode is None:
            if n == 0:
                return records
            both = joined([records, broken])
            return both.take(np.argsort(both.row, kind="stable"))
        is_known = np.concatenate([~self._episodes(_Batch(self.path, raw))[1], np.zeros(n, bool)])
        both = joined([records, broken]) if n else records
        if not is_known.all():
            order = np.argsort(both.row, kind="stable")
            both, is_known = both.take(order), is_known[order]
            last_known = np.maximum.accumulate(np.where(is_known, np.arange(len(both)), -1))
            filled = np.where(last_known >= 0, both.episode[last_known], self._last_episode)
            both = replace(both, episode=filled)
        if len(both):
            self._last_episode = int(both.episode[-1])
        return both


class _Batch:
    """A batch with its columns as numbers, each worked out once."""

    def __init__(self, path: str, raw: RawBatch) -> None:
        self.raw = raw
        self.size = len(raw.rows)
        self._path = path
        self._numbers: dict[str, Numbers] = {}

    def evaluated(self, term: Term) -> tuple[FloatArray, tuple[tuple[str, BoolArray], ...]]:
        """Return a term's value in every row, NaN where missing, and what else is wrong."""
        names = sorted(name for _, name in reads(term))
        columns = {name: self._column(name) for name in names}
        if isinstance(term, Read):
            numbers = columns[term.name]
            return numbers.values, _told(numbers.is_text)
        frame = Frame(self.size, {("column", n): c.values for n, c in columns.items()})
        result = evaluate(term, frame)
        values: FloatArray = np.array(frame.full(result.values), np.float64)
        is_text = np.zeros(self.size, np.bool_)
        is_missing = np.zeros(self.size, np.bool_)
        for numbers in columns.values():
            is_text |= numbers.is_text
            is_missing |= np.isnan(numbers.values) & ~numbers.is_text
        has_fault = self._faulty(result.faults) & ~is_text & ~is_missing
        values[is_text | is_missing | has_fault] = np.nan
        wrong = _told(is_text)
        if has_fault.any():
            wrong = (*wrong, (reasons.NO_VALUE, has_fault))
        is_undefined = np.isnan(values) & ~is_text & ~is_missing & ~has_fault
        if is_undefined.any():
            wrong = (*wrong, (reasons.NOT_FINITE, is_undefined))
        return values, wrong

    def numbers(self, column: Any) -> Numbers:
        """Return a column as numbers."""
        return next(
            self._column(name) for name, found in self.raw.columns.items() if found is column
        )

    def text(self, terms: Sequence[Term], name: str, place: int) -> str:
        """Say what stands in the columns that some terms read."""
        names = sorted({column for term in terms for _, column in reads(term)})
        parts = [f"{n} = {text_at(self.raw.columns[n], place)}" for n in names]
        text = ", ".join(parts) or "a constant"
        return text if names == [name] else f"{name}: {text}"

    def wrong_type(self, name: str, error: ColumnTypeError) -> LogFileError:
        return LogFileError(
            f"{self._path}: the column `{name}` is of type {error}, which is no number and no text",
            "write each number to a column of its own",
        )

    def _column(self, name: str) -> Numbers:
        if name not in self._numbers:
            try:
                self._numbers[name] = numbers_of(self.raw.columns[name])
            except ColumnTypeError as error:
                raise self.wrong_type(name, error) from None
        return self._numbers[name]

    def _faulty(self, faults: Sequence[Fault]) -> npt.NDArray[np.bool_]:
        mask = np.zeros(self.size, np.bool_)
        for fault in faults:
            mask |= fault.rows
        return mask


def _told(is_text: BoolArray) -> tuple[tuple[str, BoolArray], ...]:
    return ((reasons.TEXT, is_text),) if is_text.any() else ()


def _set_cells(variable: Variable, values: FloatArray) -> IntArray:
    """Return the member nearest to each number, -1 where none is near.

    Numbers of single precision, as many logs have them, are still their members.
    """
    assert variable.numbers is not None
    order = np.argsort(variable.numbers)
    members = variable.numbers[order]
    tolerance = max(SET_TOLERANCE, SINGLE_PRECISION * float(np.abs(members).max()))
    if len(members) > 1:
        tolerance = min(tolerance, float(np.diff(members).min()) / 4)
    nearest = np.searchsorted((members[1:] + members[:-1]) / 2, values)
    is_near = np.abs(members[nearest] - values) <= tolerance
    return np.where(is_near, order[nearest], -1)
