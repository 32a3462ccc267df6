"""Rows of a log as states and pairs of a model, with their episodes and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray

ARRAYS = ("source", "episode", "time", "state", "pair", "file", "row")


@dataclass(frozen=True, eq=False)
class Records:
    """Rows in the order they were read.

    Rows of one episode have the same source and episode. Files whose episodes may continue in each
    other share source 0; a negative source has no times, only the order of its rows. A row without
    an action in which the episode ended has the state n_states + s. A pair may have flags, and what
    is in its place without an action says why (see `kernels.counting`).
    """

    source: StateArray  # [n]
    episode: IntArray  # [n]
    time: FloatArray  # [n]
    state: StateArray  # [n]  -1 where the row has none
    pair: StateArray  # [n]  with flags; NO_PAIR, NO_ACTION, STOPPED, AT_END
    file: StateArray  # [n]
    row: IntArray  # [n]
    is_clean: bool = False  # whether every row has a state, and no row a NO_PAIR
    real: FloatArray | None = None  # [n, n_real]  numbers of real state variables, if asked for

    def __len__(self) -> int:
        return len(self.row)

    def take(self, where: slice | BoolArray | IntArray) -> Records:
        """Return some of the rows."""
        real = None if self.real is None else self.real[where]
        return records_from({n: getattr(self, n)[where] for n in ARRAYS}, self.is_clean, real)


@dataclass(frozen=True, eq=False)
class WholeSteps:
    """Rows that are transitions, with the state each led to."""

    pair: IntArray  # [n]
    arrival: IntArray  # [n]  n_states + s where the episode ended in s
    is_stop: BoolArray  # [n]  whether the episode ended or was cut there
    before: FloatArray | None = None  # [n, n_real]  numbers of real state variables, if asked for
    after: FloatArray | None = None  # [n, n_real]

    def take(self, where: BoolArray) -> WholeSteps:
        """Return some of the rows."""
        before = None if self.before is None else self.before[where]
        after = None if self.after is None else self.after[where]
        return WholeSteps(self.pair[where], self.arrival[where], self.is_stop[where], before, after)


def joined(parts: Sequence[Records]) -> Records:
    """Return the rows of several batches."""
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    numbers = [part.real for part in parts if part.real is not None]
    real = np.concatenate(numbers) if len(numbers) == len(parts) else None
    return records_from(arrays, all(part.is_clean for part in parts), real)


def records_from(
    arrays: Mapping[str, npt.NDArray[Any]], is_clean: bool, real: FloatArray | None = None
) -> Records:
    """Build records from arrays by name."""
    return Records(**arrays, is_clean=is_clean, real=real)
