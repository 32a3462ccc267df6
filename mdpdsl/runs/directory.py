"""The folder of a run: its layout and file names; creating and opening it.

    run.json          everything that determines the run
    model.mdp         the text of its model; model.npz if the model was read, not built
    summary.json      the results, written last
    trial-000/        a folder per trial: state.npz to resume it, counts, metrics, the estimate
    log.npz           the log of a replay
    log.csv           the observations of a live system; progress.json has the time it took
    warm_start.npz    the counts that the run started with
    numbers.npz       estimates of the model's unknown numbers; steps.npz the raw values behind them

Runs of `estimate` and of live systems have no trials: their arrays are in the folder itself.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
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
NUMBERS, STEPS = "numbers.npz", "steps.npz"
REPLAYED_LOG, LIVE_LOG, PROGRESS = "log.npz", "log.csv", "progress.json"
WARM_START = "warm_start.npz"
COMPARISON = "comparison.json"
#: Files that other verbs add to a run if no path is given.
PLAN, REPORT = "plan.csv", "report.html"

#: Files that a resumed run writes anew.
RESULTS = (COUNTS, ESTIMATE, RADII, INTERVALS, NUMBERS, STEPS, METRICS, REJECTED, SUMMARY)

#: The folder of runs that were not given a name.
RUNS = Path("runs")


class NewFolder:
    """A folder that a run makes: locked while it is written, gone again if nothing came of it.

    An earlier run that may be replaced is put aside first. It is removed when the new folder is
    kept, and put back when that is discarded.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        """Make and lock the folder; raise RunError if there is something in it already."""
        self.path = path
        self._aside: Path | None = None
        self._missing = _first_missing(path)
        require_new(path, overwrite=overwrite)
        try:
            if _has_content(path):
                self._put_aside()
            path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(path)
        except OSError as error:
            self._put_back()
            raise RunError(f"cannot write to {path}: {error.strerror}") from None
        except BaseException:
            self._put_back()
            raise
        try:
            require_new(path)  # another process may have been faster
        except BaseException:
            self._lock.release()
            raise

    def keep(self) -> None:
        """Let others write, and remove what the folder replaces."""
        self._lock.release()
        if self._aside is not None:
            shutil.rmtree(self._aside, ignore_errors=True)
            self._aside = None

    def discard(self) -> None:
        """Remove the folder, and the folders above it that were made for it."""
        if self._missing is None and self._aside is None:  # it was there, and empty
            for inside in self.path.iterdir():
                _remove(inside)
        else:
            _remove(self.path)
        self._lock.release()
        if self._missing is not None:
            above = self.path.parent
            with suppress(OSError):  # others may have written there
                while self._missing in (above, *above.parents):
                    above.rmdir()
                    above = above.parent
        self._put_back()

    def _put_aside(self) -> None:
        with FolderLock(self.path):  # nobody may be writing there
            whole = self.path.resolve()
            aside = whole.with_name(f".{whole.name}-{os.getpid()}-{secrets.token_hex(4)}")
            whole.rename(aside)
            self._aside = aside
        (aside / LOCK).unlink(missing_ok=True)

    def _put_back(self) -> None:
        if self._aside is not None:
            with suppress(OSError):
                self.path.rmdir()
            self._aside.rename(self.path)
            self._aside = None


class RunDirectory:
    """The folder of a run; while it is open for writing, no other process can write there."""

    def __init__(self, path: Path, lock: FolderLock | NewFolder | None = None) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(
        cls, path: Path, configuration: RunConfiguration, source: str, *, overwrite: bool = False
    ) -> RunDirectory:
        """Make a new folder and lock it; raise RunError if there is something in it already."""
        run = cls(path, NewFolder(path, overwrite=overwrite))
        try:
            write_json(path / RUN, encoded(configuration))
            write_text(path / MODEL, source)
        except OSError as error:
            run.close()
            raise RunError(f"cannot write to {path}: {error.strerror}") from None
        except BaseException:
            run.close()
            raise
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
        """Let other processes write; remove a new run that has neither results nor progress."""
        lock, self._lock = self._lock, None
        if isinstance(lock, NewFolder):
            if (self.path / SUMMARY).exists() or self._can_be_resumed():
                lock.keep()
            else:
                lock.discard()
        elif lock is not None:
            lock.release()

    def _can_be_resumed(self) -> bool:
        """Return whether a trial or a live system has made a step."""
        trials = self.path.glob(f"trial-*/{STATE}")
        return any(True for _ in trials) or (self.path / LIVE_LOG).exists()

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


def require_new(path: Path, hint: str | None = None, *, overwrite: bool = False) -> None:
    """Raise RunError if a new folder has something in it that may not be replaced."""
    if path.exists() and not path.is_dir():
        raise RunError(f"{path} exists already, and is a file; choose another folder")
    if not _has_content(path) or _is_half_made(path):
        return
    is_ours = is_run(path) or (path / COMPARISON).is_file()
    if not overwrite:
        other = hint or "choose another folder"
        replace = ", or `overwrite=` it" if is_ours else ""
        raise RunError(f"{path} exists already; {other}{replace}")
    if not is_ours:
        raise RunError(
            f"{path} is not the folder of a run, so it is not replaced; choose another folder, or "
            "remove it yourself"
        )


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


def _has_content(path: Path) -> bool:
    return path.is_dir() and any(inside.name != LOCK for inside in path.iterdir())


def _is_half_made(path: Path) -> bool:
    """Return whether a process was killed while it wrote an estimate."""
    if not is_run(path) or (path / SUMMARY).exists():
        return False
    try:
        return bool(json.loads((path / RUN).read_text("utf-8"))["command"] == "estimate")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _first_missing(path: Path) -> Path | None:
    """Return the topmost folder that has to be made for a path."""
    missing = None
    for folder in (path, *path.parents):
        if folder.exists():
            break
        missing = folder
    return missing


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
