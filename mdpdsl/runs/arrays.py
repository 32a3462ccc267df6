"""Arrays of a run on disk: counts of transitions, measures over time."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mdpdsl.files import write_arrays
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray

#: Errors that reading a damaged file may raise.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, TypeError)

_NAMES = ("successor_start", "successor", "count")


def count_arrays(counts: Counts) -> dict[str, npt.NDArray[np.generic]]:
    """Return the arrays that a file of counts has."""
    return {name: getattr(counts, name) for name in _NAMES}


def save_counts(counts: Counts, path: Path) -> None:
    """Write counts to a file."""
    write_arrays(path, count_arrays(counts))


def read_counts(path: Path, n_pairs: int, n_states: int) -> Counts:
    """Read a file of counts over a model's pairs; raise ValueError if it has others."""
    try:
        # NumPy leaves a damaged archive open if it opened the file itself.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in _NAMES}
    except DAMAGE as error:
        raise ValueError(f"{path} does not hold counts that mdpdsl wrote") from error
    counts = Counts(**arrays)
    start, n_entries = counts.successor_start, len(counts.count)
    if len(start) != n_pairs + 1 or len(counts.successor) != n_entries:
        raise ValueError(
            f"{path} has counts of {len(start) - 1:,} pairs; the model has {n_pairs:,}"
        )
    is_ordered = start[0] == 0 and start[-1] == n_entries and not np.any(np.diff(start) < 0)
    is_inside = not np.any((counts.successor < 0) | (counts.successor >= n_states))
    if not (is_ordered and is_inside and np.all(counts.count > 0)):
        raise ValueError(f"{path} is damaged: its counts are not those of transitions")
    return counts


def read_metrics(path: Path) -> Mapping[str, FloatArray]:
    """Read measures over time, name -> [n_times]; empty if there is no file."""
    if not path.exists():
        return {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            return {name: np.asarray(saved[name], np.float64) for name in saved.files}
    except DAMAGE as error:
        raise ValueError(f"{path} is damaged: {error}") from error
