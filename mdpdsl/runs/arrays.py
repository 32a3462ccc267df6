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
from mdpdsl.graph.ends import Settled, open_counts, settle
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: Errors that reading a damaged file may raise.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, TypeError)

_NAMES = ("successor_start", "successor", "count")


def count_arrays(counts: Counts) -> dict[str, npt.NDArray[np.generic]]:
    """Return the arrays that a file of counts has."""
    return {name: getattr(counts, name) for name in _NAMES}


def save_counts(counts: Counts, path: Path) -> None:
    """Write counts to a file."""
    write_arrays(path, count_arrays(counts))


def save_settled(settled: Settled, path: Path) -> None:
    """Write counts over a graph with the ends that the data show, and what changed it."""
    write_arrays(
        path,
        {
            **count_arrays(settled.counts),
            "starts": settled.starts,
            "says_ends": np.array(settled.says_ends),
            "found_ends": settled.found,
            "mixed_ends": settled.mixed,
        },
    )


def read_settled(path: Path, spaces: TransitionGraph) -> Settled:
    """Read counts and the ends that they show; raise ValueError if they are of other spaces."""
    S, nothing = spaces.n_states, np.empty(0, np.int64)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            kept = {name: saved[name] for name in saved.files if name not in _NAMES}
    except DAMAGE as error:
        raise ValueError(f"{path} does not hold counts that mdpdsl wrote") from error
    starts = kept.get("starts", np.zeros(S, np.int64))
    found, mixed = kept.get("found_ends", nothing), kept.get("mixed_ends", nothing)
    states = np.concatenate([found, mixed])
    if len(starts) != S or np.any((states < 0) | (states >= S)):
        raise ValueError(f"{path} has counts of other states than the model's {S:,}")
    n_lost = int(np.count_nonzero(np.isin(spaces.pair_state, found)))
    counts = read_counts(path, spaces.n_pairs - n_lost, S + len(mixed))
    says_ends = bool(kept.get("says_ends", False))
    return settle(spaces, open_counts(counts, spaces, found, mixed), starts, says_ends)


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


def read_starts(path: Path) -> IntArray | None:
    """Return how many episodes started in each state; None if a file of counts does not say."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
        return saved["starts"] if "starts" in saved.files else None


def read_metrics(path: Path) -> Mapping[str, FloatArray]:
    """Read measures over time, name -> [n_times]; empty if there is no file."""
    if not path.exists():
        return {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            return {name: np.asarray(saved[name], np.float64) for name in saved.files}
    except DAMAGE as error:
        raise ValueError(f"{path} is damaged: {error}") from error
