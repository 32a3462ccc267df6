"""Minari datasets as logs: episode after episode, in HDF5, Arrow or Parquet form.

An episode of T steps has T + 1 rows, one for each observation; the last one has no action, reward
or end. The spaces are read with Minari, the arrays without it: it reads every array of an episode,
images included, and a model needs two or three.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mdpdsl.diagnostics import did_you_mean
from mdpdsl.logs.readers import minari_paths
from mdpdsl.logs.readers.log_file import LogFile, LogFileError, RawBatch
from mdpdsl.logs.readers.minari_columns import Columns, Leaf, columns_of
from mdpdsl.logs.readers.minari_episodes import FORMS, Array, Episodes, Piece

#: Local ids named in a message.
_MOST_NAMED = 10
_INSTALL = 'pip install "mdpdsl[minari]"'
#: Columns that the reader adds.
_EPISODE, _TIME = "episode", "time"


def open_dataset(folder: Path) -> LogFile:
    """Open the data folder of a dataset; raise LogFileError, also for an id that is not found."""
    try:
        from minari.dataset.minari_storage import MinariStorage
    except ImportError:
        raise LogFileError(
            f"{folder}: reading Minari datasets needs the package minari, which is not installed",
            _INSTALL,
        ) from None
    if minari_paths.is_id(str(folder)):
        raise _unknown(str(folder))
    n_episodes, episodes = _checked(folder)
    try:
        storage = MinariStorage.read(folder)
        columns = columns_of(storage.observation_space, storage.action_space)
    except ImportError as error:
        raise LogFileError(f"cannot read {folder}: {error}", _INSTALL) from None
    except Exception as error:  # Minari, NumPy and Gymnasium read the metadata and raise any kind
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LogFileError(
            f"cannot read {folder}: its {minari_paths.METADATA_NAME} gives no spaces: {text}"
        ) from None
    if not columns.observed:
        raise LogFileError(
            f"{folder}: the {'; '.join(columns.refused)}, which a model cannot read",
            "make a dataset whose observations are the few numbers that matter",
        )
    reader = _Reader(folder, columns, range(n_episodes), episodes)
    return LogFile(
        str(folder),
        (_EPISODE, _TIME, *columns.places),
        reader.read,
        own_episodes=_EPISODE,
        is_in_order=True,
        place=reader.place,
    )


def _unknown(text: str) -> LogFileError:
    """Return the error for an id without a local dataset: what there is, and how to get it."""
    dataset = text.removeprefix(minari_paths.PREFIX)
    if minari_paths.dataset_at(Path(dataset).expanduser()) is not None:
        return LogFileError(
            f"{text} is a path, not the id of a dataset",
            f"leave `{minari_paths.PREFIX}` out to read a folder",
        )
    there = minari_paths.local_ids()
    named = ", ".join(there[:_MOST_NAMED]) + (", …" if len(there) > _MOST_NAMED else "")
    hints = [did_you_mean(dataset, there)]
    versions = [name for name in there if name.rpartition("-v")[0] == dataset]
    if versions:
        hints = [f"give its version: {' or '.join(minari_paths.PREFIX + v for v in versions)}"]
    elif dataset:
        hints.append(f"if it is a public one, download it with `minari download {dataset}`")
    return LogFileError(
        f"there is no local Minari dataset `{dataset}` in {minari_paths.datasets_root()}; "
        + (f"there are {named}" if there else "there are none at all"),
        "; ".join(hint for hint in hints if hint) or "an id looks like namespace/name-v0",
    )


def _checked(folder: Path) -> tuple[int, Episodes]:
    """Return the number of episodes by the metadata, and how to read them; raise LogFileError."""
    path = folder / minari_paths.METADATA_NAME
    try:
        metadata = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise LogFileError(
            f"{folder} has no {path.name}, which describes its arrays",
            "copy the whole folder of the dataset, or download it again",
        ) from None
    except (OSError, ValueError) as error:
        raise LogFileError(f"cannot read {path}: {error}") from None
    if not isinstance(metadata, dict):
        raise LogFileError(f"cannot read {path}: it is not a JSON object")
    form, n_episodes = metadata.get("data_format"), metadata.get("total_episodes")
    if form not in FORMS:
        raise LogFileError(
            f"{path}: data_format is {json.dumps(form)}, which cannot be read",
            f"use one of {', '.join(FORMS)}",
        )
    if not isinstance(n_episodes, int) or n_episodes < 0:
        raise LogFileError(
            f"{path}: total_episodes is {json.dumps(n_episodes)}, not a number of episodes"
        )
    if form == "hdf5" and not (folder / minari_paths.HDF5_NAME).is_file():
        raise LogFileError(
            f"{folder} has no {minari_paths.HDF5_NAME}",
            "copy the whole folder of the dataset, or download it again",
        )
    return n_episodes, FORMS[form]


@dataclass(eq=False)
class _Reader:
    """Reads a dataset, and remembers where its episodes begin."""

    folder: Path
    columns: Columns
    numbers: Sequence[int]
    episodes: Episodes
    _starts: list[int] = field(default_factory=list)  # first row of each episode read
    _started: list[int] = field(default_factory=list)  # number of each episode read

    def read(self, names: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        """Yield batches of whole short episodes, or of parts of a long one."""
        self._starts, self._started = [], []
        places = {name: self.columns.places[name] for name in names if name in self.columns.places}
        leaves = list(dict.fromkeys(leaf for leaf, _ in places.values()))
        if not any(leaf.is_observed for leaf in leaves):  # they say how many rows there are
            leaves.append(self.columns.places[self.columns.observed[0]][0])
        held: list[Piece] = []
        n_done = n_held = 0
        problem = None
        pieces = self.episodes(self.folder, self.numbers, leaves, batch_rows)
        while True:
            try:
                piece = next(pieces, None)
            except LogFileError as error:  # the episodes before are good
                problem, piece = error, None
            if held and (piece is None or n_held + piece.n_rows > batch_rows):
                yield _batch(held, n_done, names, places)
                n_done += n_held
                held, n_held = [], 0
            if piece is None:
                break
            if piece.start == 0:
                self._starts.append(n_done + n_held + 1)
                self._started.append(piece.episode)
            held.append(piece)
            n_held += piece.n_rows
        if problem is not None:
            raise problem

    def place(self, row: int) -> str:
        """Return the episode and the time of a row."""
        i = bisect.bisect_right(self._starts, row) - 1
        return f"episode {self._started[i]}, time {row - self._starts[i]}"


def _batch(
    pieces: Sequence[Piece],
    n_before: int,
    names: Sequence[str],
    places: dict[str, tuple[Leaf, int]],
) -> RawBatch:
    import pyarrow as pa

    sizes = [piece.n_rows for piece in pieces]
    n_rows = sum(sizes)
    joined = {leaf: _joined(pieces, leaf, n_rows) for leaf in {leaf for leaf, _ in places.values()}}
    columns = {}
    for name in names:
        if name in places:
            leaf, index = places[name]
            values, is_missing = joined[leaf]
            mask = is_missing if is_missing.any() else None
            columns[name] = pa.array(np.ascontiguousarray(values[:, index]), mask=mask)
        elif name == _EPISODE:
            columns[name] = pa.array(np.repeat([piece.episode for piece in pieces], sizes))
        else:
            columns[name] = pa.array(
                np.concatenate([np.arange(p.start, p.start + p.n_rows) for p in pieces])
            )
    return RawBatch(columns, n_before + 1 + np.arange(n_rows))


def _joined(
    pieces: Sequence[Piece], leaf: Leaf, n_rows: int
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return the rows of an array in several pieces, and which of them are missing."""
    found = [piece.values[leaf] for piece in pieces]
    kind = np.result_type(*{part.dtype for part in found})
    values = np.full((n_rows, leaf.width), None if leaf.is_text else 0, kind)
    is_missing = np.zeros(n_rows, np.bool_)
    end = 0
    for piece, part in zip(pieces, found, strict=True):
        values[end : end + len(part)] = part
        end += piece.n_rows
        is_missing[end - piece.n_rows + len(part) : end] = True
    return values, is_missing
