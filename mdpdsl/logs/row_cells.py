"""The cell of a variable in each row of a batch: quickly if no row is bad, otherwise checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mdpdsl.compile.terms import Read, Term
from mdpdsl.graph.space import SET_TOLERANCE, BoolArray, FloatArray, IntArray, Variable
from mdpdsl.kernels import binning
from mdpdsl.logs import rejections as reasons
from mdpdsl.logs.batches import Batch
from mdpdsl.logs.seen_values import SeenValues
from mdpdsl.logs.values import has_texts, lookup

#: The numbers of a batch, how many are out of range, and how many are finite.
_Noted = tuple[FloatArray | IntArray, int, int]
#: How far a single-precision number may be from a member of a set, relative to the largest.
SINGLE_PRECISION = 1e-6
#: One number in this many shows whether some may be far out of range.
FEW = 16


@dataclass(frozen=True, eq=False)
class Cells:
    """The cell of a variable in each row, and the rows without one by reason."""

    index: IntArray  # [n]  -1 where there is none
    wrong: tuple[tuple[str, BoolArray], ...]
    is_missing: BoolArray  # [n]
    n_clipped: int
    term: Term
    name: str


class CellReader:
    """Finds the cells of one variable; `symbols` numbers the names of the model.

    Where rows are whole transitions, `next_term` gives the next values of the variable.
    """

    def __init__(
        self, variable: Variable, symbols: Mapping[str, int], next_term: Term | None = None
    ) -> None:
        self._variable, self._next_term = variable, next_term
        self._noted: tuple[Batch, dict[bool, _Noted]] | None = None  # by whether they are next
        self._seen = {is_next: SeenValues(variable.name, is_next) for is_next in (False, True)}
        self._members = {member: float(i) for i, member in enumerate(variable.members)}
        self._places = np.full(len(symbols) + 1, -1.0)  # symbol -> index of the member
        if variable.kind == "enum":
            for place, member in enumerate(variable.members):
                self._places[symbols[member]] = place
        if variable.numbers is not None:
            self._order = np.argsort(variable.numbers)
            self._sorted = variable.numbers[self._order]
            self._tolerance = _tolerance(self._sorted)

    @property
    def seen(self) -> list[SeenValues]:
        """The numbers of all batches so far."""
        self._keep_noted()
        return list(self._seen.values())

    def add(
        self, batch: Batch, term: Term, stride: int, may_miss: bool, code: IntArray
    ) -> int | None:
        """Add stride times the cell to each row's code; return how many numbers were clipped.

        Return None if some row may have no cell: `checked` finds out which.
        """
        variable = self._variable
        column = batch.raw.columns[term.name] if isinstance(term, Read) else None
        values: FloatArray | IntArray | None
        if variable.kind == "enum" and column is not None and has_texts(column):
            values = lookup(column, self._members)
        else:
            values = batch.clean_values(term)
            if values is None:
                return None
            if term.type.kind == "enum":
                values = self._symbols_to_places(values.astype(np.float64))
        if variable.kind == "real":
            assert variable.edges is not None
            n_bad, n_clipped = binning.add_real_cells(
                values, variable.edges, variable.wraps, stride, code
            )
            if n_bad == 0:
                n_outside = self._n_far(values) if variable.wraps else int(n_clipped)
                self._note(batch, term, values, n_outside, len(values))
            return None if n_bad else int(n_clipped)
        if variable.kind == "set":
            n_bad = binning.add_set_cells(
                values, self._sorted, self._order, self._tolerance, stride, may_miss, code
            )
        else:
            n_bad = binning.add_whole_cells(
                values, float(variable.low), variable.size, stride, may_miss, code
            )
        if n_bad == 0:
            self._note(batch, term, values, 0, len(values))
        return None if n_bad else 0

    def checked(self, batch: Batch, term: Term, prefix: str, outside: str) -> Cells:
        """Find the cell in every row, and why some rows have none."""
        variable = self._variable
        name = prefix + variable.name
        column = batch.raw.columns[term.name] if isinstance(term, Read) else None
        if variable.kind == "enum" and column is not None and has_texts(column):
            numbers = batch.numbers(column)
            values = lookup(column, self._members)
            values = np.where((values >= 0) | numbers.is_text, values, numbers.values)
            is_missing = np.isnan(values)
            index = variable.indices(values)
            wrong = ((outside, (index < 0) & ~is_missing),)
            return Cells(index, wrong, is_missing, 0, term, name)
        values, faults = batch.evaluated(term)
        is_missing = np.isnan(values)
        for _, mask in faults:
            is_missing = is_missing & ~mask
        if term.type.kind == "enum":
            values = self._symbols_to_places(values)
        is_infinite = np.isinf(values)
        index, n_clipped = self._indices(values)
        is_number = np.isfinite(values)
        n_outside = n_clipped + int(np.count_nonzero((index < 0) & is_number))
        if variable.wraps:
            n_outside = self._n_far(values[is_number])
        self._note(batch, term, values, n_outside, int(np.count_nonzero(is_number)))
        if not faults and (len(index) == 0 or index.min() >= 0):
            return Cells(index, (), is_missing, n_clipped, term, name)
        for _, mask in faults:
            index = np.where(mask, -1, index)
        faults = (*faults, (reasons.NOT_FINITE, is_infinite))
        has_reason = is_missing.copy()
        for _, mask in faults:
            has_reason |= mask
        faults = (*faults, (outside, (index < 0) & ~has_reason))
        return Cells(index, faults, is_missing, n_clipped, term, name)

    def _note(
        self,
        batch: Batch,
        term: Term,
        values: FloatArray | IntArray,
        n_outside: int,
        n_numbers: int,
    ) -> None:
        """Remember the numbers of a batch; of two readings of a batch, the second counts."""
        if self._variable.kind == "enum" or n_numbers == 0:
            return
        if self._noted is None or self._noted[0] is not batch:
            self._keep_noted()
            self._noted = batch, {}
        self._noted[1][term is self._next_term] = values, n_outside, n_numbers

    def _keep_noted(self) -> None:
        if self._noted is not None:
            for is_next, noted in self._noted[1].items():
                self._seen[is_next].note(*noted)
        self._noted = None

    def _n_far(self, values: FloatArray | IntArray) -> int:
        """Return how many numbers are more than a full turn out of the range of a circle."""
        assert self._variable.edges is not None
        low, high = float(self._variable.edges[0]), float(self._variable.edges[-1])
        low, high = 2 * low - high, 2 * high - low
        some = values[::FEW]  # of most logs no number is far out
        if not ((some < low) | (some > high)).any():
            return 0
        return int(np.count_nonzero((values < low) | (values > high)))

    def _indices(self, values: FloatArray) -> tuple[IntArray, int]:
        variable = self._variable
        if variable.kind == "real":
            assert variable.edges is not None
            index = np.empty(len(values), np.int64)
            n_clipped = binning.real_cells(values, variable.edges, variable.wraps, index)
            return index, int(n_clipped)
        if variable.kind == "set":
            nearest = np.searchsorted((self._sorted[1:] + self._sorted[:-1]) / 2, values)
            is_near = np.abs(self._sorted[nearest] - values) <= self._tolerance
            return np.where(is_near, self._order[nearest], -1), 0
        return variable.indices(values), 0

    def _symbols_to_places(self, values: FloatArray) -> FloatArray:
        """Turn numbers of symbols into the indices of the variable's members."""
        last = len(self._places) - 1
        return self._places[np.where(np.isfinite(values), values, last).astype(np.int64)]


def _tolerance(members: FloatArray) -> float:
    """Return how close a number must be to a member of a set to count as that member.

    Many logs have single precision, which must be close enough.
    """
    tolerance = max(SET_TOLERANCE, SINGLE_PRECISION * float(np.abs(members).max()))
    if len(members) > 1:
        tolerance = min(tolerance, float(np.diff(members).min()) / 4)
    return tolerance
