"""Finding a run from a path: its folder, one of its trials, or a file in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mdpdsl.diagnostics import RunError
from mdpdsl.runs.directory import COUNTS, ESTIMATE, RUN, RunDirectory, is_run
from mdpdsl.runs.records import RunConfiguration


@dataclass(frozen=True)
class RunPlace:
    """The folder of a run, and the one with its arrays: the same, or that of a trial."""

    run: RunDirectory
    configuration: RunConfiguration
    folder: Path


def run_place(path: Path) -> RunPlace:
    """Find the arrays of a run; of several trials, those of the first unless the path names one."""
    if path.is_file():
        path = path.parent
    if is_run(path):
        run, configuration = RunDirectory.open(path)
        return RunPlace(run, configuration, run.array_folders(configuration)[0])
    if is_trial(path):
        run, configuration = RunDirectory.open(path.parent)
        if not path.is_dir():
            found = sorted(each.name for each in run.path.glob("trial-*"))
            listed = f"there are {found[0]} to {found[-1]}" if found else "no trial has begun"
            raise RunError(f"{run.path} has no {path.name}; {listed}")
        return RunPlace(run, configuration, path)
    reason = f"it has no {RUN}" if path.is_dir() else "there is no such folder"
    raise RunError(f"{path} is not a run directory: {reason}")


def is_trial(path: Path) -> bool:
    """Return whether a path names a trial of a run."""
    return path.name.startswith("trial-") and is_run(path.parent)


def place_of_arrays(path: Path) -> RunPlace | None:
    """Return the run that a path belongs to; None for a file outside of runs."""
    if path.suffix != ".npz":
        return run_place(path)
    folder = path.parent
    if path.name == ESTIMATE and path.is_file() and (folder / COUNTS).exists():
        homes = (folder, folder.parent) if folder.name.startswith("trial-") else (folder,)
        for home in homes:
            if is_run(home):
                run, configuration = RunDirectory.open(home)
                return RunPlace(run, configuration, folder)
    return None


def what_is_missing(place: RunPlace, file: str) -> tuple[str, str]:
    """Return why a run has no estimate or counts, and what to do."""
    run, command = place.run.path, place.configuration.command
    try:
        summary = place.run.summary()
    except (OSError, ValueError):
        summary = None
    if summary is None:
        again = (
            f"`mdpdsl explore --resume {run}` continues it"
            if command == "explore"
            else "run it again"
        )
        return f"the run {run} was not finished, so it has no {file}", again
    reason = summary.get("estimate_missing") or "the file is gone"
    return (
        f"the run {run} has no {file}: {reason}",
        f"`mdpdsl plan {run}` needs only the counts; for an estimate, use fewer cells, or a log "
        "with the pairs that were never seen",
    )
