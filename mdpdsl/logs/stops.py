"""What the rows of a log say about the end of their episode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.compile.terms import Read, Term
from mdpdsl.graph.space import BoolArray
from mdpdsl.logs.batches import Batch
from mdpdsl.logs.sources import ColumnSources
from mdpdsl.logs.values import ColumnTypeError, flags_of


@dataclass(frozen=True, eq=False)
class Stops:
    """Which rows of a batch say that their episode ended, or was cut."""

    ended: BoolArray  # [n]
    cut: BoolArray  # [n]  not where it ended
    is_unclear: BoolArray  # [n]

    @property
    def any(self) -> BoolArray:
        """Whether the episode ended or was cut, [n]."""
        return self.ended | self.cut


def stops_of(batch: Batch, sources: ColumnSources) -> Stops | None:
    """Return which rows say that their episode ended or was cut; None if no row can say so."""
    if not sources.has_stops:
        return None
    ended, unclear = _flags(batch, sources.ended)
    cut = np.zeros(batch.size, np.bool_)
    for term in sources.cut:
        found, wrong = _flags(batch, term)
        cut, unclear = cut | found, unclear | wrong
    return Stops(ended, cut & ~ended, unclear)


def _flags(batch: Batch, term: Term | None) -> tuple[BoolArray, BoolArray]:
    """Return in which rows a flag is set, and in which it is unclear."""
    if term is None:
        return np.zeros(batch.size, np.bool_), np.zeros(batch.size, np.bool_)
    if isinstance(term, Read):
        try:
            return flags_of(batch.raw.columns[term.name])
        except ColumnTypeError as error:
            raise batch.wrong_type(term.name, error) from None
    return batch.flags(term)
