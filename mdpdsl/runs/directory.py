"""The folder of a run: its layout and file names; creating and opening it.

    run.json          everything that determines the run
    model.mdp         the text of its model; model.npz if the model was read, not built
    summary.json      the results, written last
    trial-000/        a folder per trial: state.npz to resume it, counts, metrics, the estimate
    log.npz           the log of a replay
    log.csv           the observations of a live system; progress.json has the time it took
    warm_start.npz    the counts that the run started with

Runs of `estimate` and of live systems have no trials: their arrays are in the folder itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdpdsl.diagnostics import RunError
from mdpdsl.files import write_json, write_text
from mdpdsl.runs.lock import LOCK, FolderLock
from mdpdsl.runs.records import FORMAT, RunConfiguration, decoded, encoded

RUN, MODEL, EXPLORED, SUMMARY = "run.json", "model.mdp", "model.npz", "summary.json"
COUNTS, ESTIMATE, METRICS = "counts.npz", "estimate.npz", "metrics.npz"
STATE, EPISODES = "state.npz", "episodes.json"
RADII, INTERVALS, REJECTED = "radii.npz", "intervals.npz", "rejected.json"
REPLAYED_LOG, LIVE_LOG, PROGRESS = "log.npz", "log.csv", "progress.json"
WARM_START = "warm_start.npz"
COMPARISON = "comparison.json"
#: Files that other verbs add to a run if no path is given.
PLAN, REPORT = "plan.csv", "report.html"

#: Files that a resumed run writes anew.
RESULTS = (COUNTS, ESTIMATE, RADII, INTERVALS, METRICS, REJECTED, SUMMARY)

#: The folder of runs that were not given a name.
RUNS = Path("runs")


class RunDirectory:
    """The folder of a run; while it is open for writing, no other process can write there."""

    def __init__(self, path: Path, lock: FolderLock | None = None) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, path: Path, configuration: RunConfiguration, source: str) -> RunDirectory:
        """Make a new folder and lock it; raise RunError if there is something in it already."""
        try:
            lock = lock_new_folder(path)
            run = cls(path, lock)
            try:
                write_text(path / MODEL, source)
                write_json(path / RUN, encoded(configuration))
            except BaseException:
                run.close()
                raise
        except OSError as error:
            raise RunError(f"cannot write to {path}: {error.strerror}") from None
        return run

    @classmethod
    def open(cls, path: Path, *, to_write: bool = False) -> tuple[RunDirectory, RunConfiguration]:
        """Open a run to read it, or lock it to write to it."""
        try:
            record = json.loads((path / RUN).read_text("utf-8"))
            if record.get("format") != FORMAT:
                raise RunError(f"{path} was written in format {record.get('format')}, not {FORMAT}")
            configuration = decoded(RunConfiguration, record)
            lock = FolderLock(path) if to_write else None
        except FileNotFoundError:
            reason = f"it has no {RUN}" if path.is_dir() else "there is no such folder"
            raise RunError(f"{path} is not a run directory: {reason}") from None
        except (OSError, ValueError, AttributeError) as error:
            raise RunError(f"{path} is not a run directory: {error}") from None
        return cls(path, lock), configuration

    def close(self) -> None:
        """Let other processes write."""
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def trial(self, index: int) -> Path:
        """Return the folder of a trial."""
        return self.path / f"trial-{index:03d}"

    def array_folders(self, configuration: RunConfiguration) -> list[Path]:
        """Return the folders with arrays: those of the trials, or that of the run."""
        if not configuration.has_trials:
            return [self.path]
        return [self.trial(index) for index in range(configuration.trials)]

    def summary(self) -> dict[str, Any] | None:
        """Read the results; None if the run is not finished. Raise ValueError if damaged."""
        path = self.path / SUMMARY
        if not path.exists():
            return None
        found = json.loads(path.read_text("utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"{path} is not a summary")
        return found

    def write_summary(self, record: Mapping[str, Any]) -> None:
        """Write the results, which marks the run as finished."""
        write_json(self.path / SUMMARY, record)


def require_new(path: Path, hint: str = "choose another folder") -> None:
    """Raise RunError if a new folder has something in it already."""
    if path.exists() and (not path.is_dir() or any(p.name != LOCK for p in path.iterdir())):
        raise RunError(f"{path} exists already; {hint}")


def lock_new_folder(path: Path) -> FolderLock:
    """Make a folder, and lock it before anything is written."""
    if path.exists() and not path.is_dir():
        require_new(path)
    path.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(path)
    try:
        require_new(path)
    except BaseException:
        lock.release()
        raise
    return lock


def new_folder(name: str) -> Path:
    """Return a path for a new run, with the time in its name."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = RUNS / f"{name}-{stamp}"
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{name}-{stamp}-{number}")
    return folder


def is_run(path: Path) -> bool:
    """Return whether a folder holds a run."""
    return (path / RUN).is_file()
