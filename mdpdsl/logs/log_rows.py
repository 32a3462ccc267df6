"""Rows of a log as states and pairs of a model, with their episodes and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray

#: In `Records.pair`: no pair, and no pair because no action is given.
NO_PAIR, NO_ACTION = -1, -2
ARRAYS = ("source", "episode", "time", "state", "pair", "file", "row")


@dataclass(frozen=True, eq=False)
class Records:
    """Rows in the order they were read.

    Rows of one episode have the same source and episode. Files whose episodes may continue in each
    other share source 0; a negative source has no times, only the order of its rows.
    """

    source: StateArray  # [n]
    episode: IntArray  # [n]
    time: FloatArray  # [n]
    state: StateArray  # [n]  -1 where the row has none
    pair: StateArray  # [n]  NO_PAIR, NO_ACTION
    file: StateArray  # [n]
    row: IntArray  # [n]
    is_clean: bool = False  # whether every row has a state, and a pair or NO_ACTION

    def __len__(self) -> int:
        return len(self.row)

    def take(self, where: slice | BoolArray | IntArray) -> Records:
        """Return some of the rows."""
        return records_from({n: getattr(self, n)[where] for n in ARRAYS}, self.is_clean)


def joined(parts: Sequence[Records]) -> Records:
    """Return the rows of several batches."""
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    return records_from(arrays, all(part.is_clean for part in parts))


def records_from(arrays: Mapping[str, npt.NDArray[Any]], is_clean: bool) -> Records:
    """Build records from arrays by name."""
    return Records(**arrays, is_clean=is_clean)
