"""The arrays of a Minari dataset, read episode by episode.

In HDF5 form an episode is a group with an array for each part of its observations and actions; in
Arrow or Parquet form it is a folder with a table, in which actions, rewards and ends are padded to
as many rows as there are observations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.logs.readers.log_file import LogFileError
from mdpdsl.logs.readers.minari_columns import Leaf
from mdpdsl.logs.readers.minari_paths import HDF5_NAME, METADATA_NAME

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive rows of one episode."""

    episode: int
    start: int  # time of the first row
    n_rows: int
    values: dict[Leaf, Array]  # [n, width]  n = n_rows, or one less where the last row has none


#: Yields pieces of episodes, given a folder, numbers of episodes, arrays, and the most rows.
Episodes = Callable[[Path, Sequence[int], Sequence[Leaf], int], Iterator[Piece]]


def _hdf5_episodes(
    folder: Path, numbers: Sequence[int], leaves: Sequence[Leaf], most_rows: int
) -> Iterator[Piece]:
    import h5py

    if not numbers:  # then the file is empty, which HDF5 does not allow
        return
    names = {leaf: "/".join((leaf.array, *map(_hdf5_key, leaf.keys))) for leaf in leaves}
    with h5py.File(folder / HDF5_NAME, "r") as file:
        for number in numbers:
            try:
                arrays = {
                    leaf: h5py.h5d.open(file.id, f"episode_{number}/{name}".encode())
                    for leaf, name in names.items()
                }
                n_rows = _rows_of(number, {leaf: a.shape[0] for leaf, a in arrays.items()})
                for start in range(0, n_rows, most_rows):
                    stop = min(start + most_rows, n_rows)
                    found = {leaf: _hdf5_rows(a, start, stop) for leaf, a in arrays.items()}
                    values = {
                        leaf: _as_rows(part, len(part), leaf, number)
                        for leaf, part in found.items()
                    }
                    yield Piece(number, start, stop - start, values)
            # HDF5 raises these for a missing name, a group in place of an array, and bad bytes.
            except (
                KeyError,
                TypeError,
                AttributeError,
                IndexError,
                RuntimeError,
                OSError,
            ) as error:
                raise _broken(number, error) from None


def _hdf5_rows(array: Any, start: int, stop: int) -> Array:
    """Return some rows of an array; reading all of them directly is twice as fast."""
    import h5py

    if start > 0 or stop < array.shape[0]:
        part: Array = h5py.Dataset(array)[start:stop]
        return part
    values = np.empty(array.shape, array.dtype)
    if values.size:
        array.read(h5py.h5s.ALL, h5py.h5s.ALL, values)
    return values


def _hdf5_key(key: str | int) -> str:
    return key if isinstance(key, str) else f"_index_{key}"


def _rows_of(number: int, lengths: Mapping[Leaf, int]) -> int:
    """Return the number of rows of an episode; raise LogFileError if its arrays do not match."""
    observed = {length for leaf, length in lengths.items() if leaf.is_observed}
    steps = {length for leaf, length in lengths.items() if not leaf.is_observed}
    n_rows = max(observed)
    # Without the last observation, only the last action is lost.
    if len(observed) > 1 or len(steps) > 1 or not steps <= {n_rows, n_rows - 1}:
        found = ", ".join(f"{length} {leaf.array}" for leaf, length in lengths.items())
        raise LogFileError(f"episode {number} is broken: it has {found}")
    return n_rows


def _tables(form: str) -> Episodes:
    """Return a reader of episodes in Arrow or Parquet form."""

    def episodes(
        folder: Path, numbers: Sequence[int], leaves: Sequence[Leaf], most_rows: int
    ) -> Iterator[Piece]:
        from pyarrow import dataset

        columns = {
            str(i): dataset.field(leaf.array, *map(str, leaf.keys)) for i, leaf in enumerate(leaves)
        }
        for number in numbers:
            try:
                table = dataset.dataset(
                    folder / str(number), format=form, ignore_prefixes=["_", ".", METADATA_NAME]
                )
                n_rows = table.count_rows()
                n_steps = _steps_of(folder / str(number), n_rows)
                start = 0
                for part in table.to_batches(columns, batch_size=most_rows, use_threads=False):
                    n_valued = min(part.num_rows, n_steps - start)  # the rest is padding
                    values = {}
                    for leaf, column in zip(leaves, part.columns, strict=True):
                        n = part.num_rows if leaf.is_observed else n_valued
                        values[leaf] = _as_rows(_numbers(column[:n]), n, leaf, number)
                    if part.num_rows:
                        yield Piece(number, start, part.num_rows, values)
                    start += part.num_rows
            # Arrow's errors are ValueErrors, KeyErrors, TypeErrors and OSErrors.
            except (KeyError, TypeError, AttributeError, ValueError, OSError) as error:
                raise _broken(number, error) from None

    return episodes


def _steps_of(folder: Path, n_rows: int) -> int:
    """Return the number of steps of an episode, whose table may be padded."""
    try:
        metadata = json.loads((folder / METADATA_NAME).read_bytes())
    except FileNotFoundError:
        return n_rows - 1
    n_steps = metadata.get("total_steps", n_rows - 1)
    if n_steps not in (n_rows, n_rows - 1):
        raise ValueError(f"it has {n_rows} observations, {n_steps} actions")
    return int(n_steps)


def _numbers(column: Any) -> Array:
    """Return a column of numbers, texts or lists as a flat array."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(column.type) or pa.types.is_list(column.type):
        column = column.flatten()
    found: Array = column.to_numpy(zero_copy_only=False)
    return found


def _as_rows(values: Array, n: int, leaf: Leaf, number: int) -> Array:
    """Return values as [n, width]; raise LogFileError if there are too few or too many."""
    if leaf.is_text:
        texts = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in values]
        values = np.array(texts, dtype=object)
    if values.size != n * leaf.width:
        raise LogFileError(
            f"episode {number} is broken: {values.size / max(n, 1):g} numbers in a row of "
            f"{'/'.join((leaf.array, *map(str, leaf.keys)))}, not {leaf.width} as its space says"
        )
    return values.reshape(n, leaf.width)


def _broken(number: int, error: Exception) -> LogFileError:
    text = str(error.args[0] if error.args else "").splitlines()
    return LogFileError(f"episode {number} is broken: {text[0] if text else type(error).__name__}")


#: Readers by Minari's name of each form.
FORMS: dict[str, Episodes] = {
    "hdf5": _hdf5_episodes,
    "arrow": _tables("arrow"),
    "parquet": _tables("parquet"),
}
