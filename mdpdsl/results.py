"""Run directories: what a run is, how far it is, what came of it; every write is atomic."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

FORMAT = 1


class RunError(Exception):
    """A run directory that cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class RunConfiguration:
    """Everything that determines a run."""

    model: str
    hash: str
    parameters: Mapping[str, Any]
    options: Mapping[str, Any]  # of loading the model
    settings: Mapping[str, Any]
    seed: int
    trials: int
    versions: Mapping[str, str]
    format: int = FORMAT
    command: str = "explore"
    system: Mapping[str, Any] | None = None  # of a live run: its environment, or who calls
    warm_start: Mapping[str, Any] | None = None  # the sources of counts that the run began with


def current_versions(*more: str) -> dict[str, str]:
    """Return the versions of what computes a run, and of more packages."""
    found = {}
    for name in ("mdpdsl", "numpy", "numba", "scipy", *more):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # not every command needs all of them
            continue
    return found


class RunDirectory:
    """A folder with `run.json`, `model.mdp`, a folder per trial, and `summary.json` in the end.

    A run of `estimate` has no trials: its arrays lie in the folder itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, configuration: RunConfiguration, source: str) -> RunDirectory:
        """Make a new run directory; refuse one that holds something else."""
        try:
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise RunError(f"{path} exists already; choose another --out, or --resume {path}")
            path.mkdir(parents=True, exist_ok=True)
            run = cls(path)
            write_text(path / "model.mdp", source)
            write_json(path / "run.json", asdict(configuration))
        except OSError as error:
            raise RunError(f"cannot write to {path}: {error.strerror}") from None
        return run

    @classmethod
    def open(cls, path: Path) -> tuple[RunDirectory, RunConfiguration]:
        """Open a run directory to go on with it or to read it."""
        try:
            record = json.loads((path / "run.json").read_text("utf-8"))
            if record.get("format") != FORMAT:
                raise RunError(f"{path} was written in format {record.get('format')}, not {FORMAT}")
            return cls(path), RunConfiguration(**record)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise RunError(f"{path} is not a run directory: {error}") from None

    def trial(self, index: int) -> Path:
        """Return the folder of a trial."""
        return self.path / f"trial-{index:03d}"


def new_folder(name: str) -> Path:
    """Return a folder for a run, named by the time, that does not exist yet."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = Path("runs") / f"{name}-{stamp}"
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{name}-{stamp}-{number}")
    return folder


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON file whole or not at all."""
    write_text(path, json.dumps(record, indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays whole or not at all, the same bytes for the same arrays."""
    with _replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with _replacing(path) as file:
        file.write(content)


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` once all is written; modes are the umask's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with partial.open("xb") as file:
            yield file
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
