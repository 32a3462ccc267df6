"""A batch of a log: its columns as numbers, each converted once, and terms over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdpdsl.compile.expressions import Fault, Frame, evaluate
from mdpdsl.compile.terms import Read, Term, reads
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.logs import rejections as reasons
from mdpdsl.logs.readers.log_file import LogFileError, RawBatch
from mdpdsl.logs.values import ColumnTypeError, Numbers, numbers_of, text_at, whole_numbers_of


class Batch:
    """A batch whose columns are converted to numbers when they are first needed."""

    def __init__(self, path: str, raw: RawBatch) -> None:
        self.raw = raw
        self.size = len(raw.rows)
        self.columns_read: dict[str, Numbers] = {}
        self._path = path

    def evaluated(self, term: Term) -> tuple[FloatArray, tuple[tuple[str, BoolArray], ...]]:
        """Return a term's value in every row, NaN where missing, and other faults by reason."""
        names = sorted(name for _, name in reads(term))
        columns = {name: self._column(name) for name in names}
        if isinstance(term, Read):
            numbers = columns[term.name]
            return numbers.values, _text_faults([numbers])
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
        wrong = _text_faults(list(columns.values()))
        if has_fault.any():
            wrong = (*wrong, (reasons.NO_VALUE, has_fault))
        is_undefined = np.isnan(values) & ~is_text & ~is_missing & ~has_fault
        if is_undefined.any():
            wrong = (*wrong, (reasons.NOT_FINITE, is_undefined))
        return values, wrong

    def flags(self, term: Term) -> tuple[BoolArray, BoolArray]:
        """Return in which rows a condition holds, and in which that is unclear.

        Nothing is equal to a missing value, or less or greater than it.
        """
        columns = {name: self._column(name) for _, name in reads(term)}
        frame = Frame(self.size, {("column", n): c.values for n, c in columns.items()})
        result = evaluate(term, frame)
        values: FloatArray = np.array(frame.full(result.values), np.float64)
        is_set = values == 1
        is_unclear = self._faulty(result.faults) | (~is_set & (values != 0) & ~np.isnan(values))
        for numbers in columns.values():
            is_unclear |= numbers.is_text
        return is_set & ~is_unclear, is_unclear

    def clean_values(self, term: Term) -> FloatArray | IntArray | None:
        """Return a term's value in every row; None if some row has none.

        For a term that is just a column, whole numbers stay whole, and a missing one is NO_NUMBER
        or NaN.
        """
        if isinstance(term, Read) and not self._has_format(term.name):
            whole = whole_numbers_of(self.raw.columns[term.name])
            if whole is not None:
                return whole
        columns = {name: self._column(name) for _, name in reads(term)}
        if any(numbers.has_text for numbers in columns.values()):
            return None
        if isinstance(term, Read):
            return columns[term.name].values
        frame = Frame(self.size, {("column", n): c.values for n, c in columns.items()})
        result = evaluate(term, frame)
        if self._faulty(result.faults).any():
            return None
        values: FloatArray = np.array(frame.full(result.values), np.float64)
        return None if np.isnan(values).any() else values

    def numbers(self, column: Any) -> Numbers:
        """Return a column as numbers."""
        return next(
            self._column(name) for name, found in self.raw.columns.items() if found is column
        )

    def text(self, terms: Sequence[Term], name: str, place: int) -> str:
        """Describe the values in the columns that some terms read."""
        names = sorted({column for term in terms for _, column in reads(term)})
        parts = [f"{n} = {text_at(self.raw.columns[n], place)}" for n in names]
        text = ", ".join(parts) or "a constant"
        return text if names == [name] else f"{name}: {text}"

    def wrong_type(self, name: str, error: ColumnTypeError) -> LogFileError:
        """Return the error for a column that cannot be read."""
        return LogFileError(
            f"{self._path}: the column `{name}` is of type {error}, not of numbers or texts",
            "write each number to a column of its own",
        )

    def _has_format(self, name: str) -> bool:
        """Return whether the numbers of a column are written by a format, as in 20260304."""
        return self.raw.options.time_format is not None and name in self.raw.times

    def _column(self, name: str) -> Numbers:
        if name not in self.columns_read:
            try:
                raw = self.raw
                self.columns_read[name] = numbers_of(
                    raw.columns[name], raw.options, is_time=name in raw.times
                )
            except ColumnTypeError as error:
                raise self.wrong_type(name, error) from None
        return self.columns_read[name]

    def _faulty(self, faults: Sequence[Fault]) -> BoolArray:
        mask = np.zeros(self.size, np.bool_)
        for fault in faults:
            mask |= fault.rows
        return mask


def _text_faults(columns: Sequence[Numbers]) -> tuple[tuple[str, BoolArray], ...]:
    """Return the rows that have texts in place of numbers, by what these texts look like."""
    if not any(numbers.has_text for numbers in columns):
        return ()
    found: dict[str, BoolArray] = {}
    for reason, mask in (pair for numbers in columns for pair in numbers.odd):
        found[reason] = found[reason] | mask if reason in found else mask
    is_text = np.logical_or.reduce([numbers.is_text for numbers in columns])
    return (*found.items(), (reasons.TEXT, is_text))  # last, as it says least
