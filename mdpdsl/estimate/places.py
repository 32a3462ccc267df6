"""Where a run keeps its arrays, and what to say where it has none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from mdpdsl.results import RunConfiguration, RunDirectory, RunError

ESTIMATE, COUNTS = "estimate.npz", "counts.npz"


@dataclass(frozen=True)
class RunPlace:
    """A run directory and the folder in it that has the arrays: its own, or a trial's."""

    run: RunDirectory
    configuration: RunConfiguration
    folder: Path


def run_place(path: Path) -> RunPlace:
    """Find the arrays of a run; of several trials those of the first, unless the path has one."""
    if path.is_file():
        path = path.parent
    if (path / "run.json").exists():
        run, configuration = RunDirectory.open(path)
        # A live run is one trial, which keeps its arrays beside its log.
        has_own = configuration.trials == 0 or configuration.system is not None
        return RunPlace(run, configuration, path if has_own else run.trial(0))
    if path.name.startswith("trial-") and (path.parent / "run.json").exists():
        run, configuration = RunDirectory.open(path.parent)
        if not path.is_dir():
            found = sorted(each.name for each in run.path.glob("trial-*"))
            listed = f"there are {found[0]} to {found[-1]}" if found else "no trial has begun"
            raise RunError(f"{run.path} has no {path.name}; {listed}")
        return RunPlace(run, configuration, path)
    reason = "it has no run.json" if path.is_dir() else "there is no such folder"
    raise RunError(f"{path} is not a run directory: {reason}")


def place_of_arrays(path: Path) -> RunPlace | None:
    """Return the run that a path is in; None for a file of its own."""
    if path.suffix != ".npz":
        return run_place(path)
    folder = path.parent
    if path.name == ESTIMATE and path.is_file() and (folder / COUNTS).exists():
        homes = (folder, folder.parent) if folder.name.startswith("trial-") else (folder,)
        for home in homes:
            if (home / "run.json").exists():
                run, configuration = RunDirectory.open(home)
                return RunPlace(run, configuration, folder)
    return None


def what_is_missing(place: RunPlace, file: str) -> tuple[str, str]:
    """Say why a run has no estimate or counts, and what to do."""
    run, command = place.run.path, place.configuration.command
    try:
        summary = json.loads((run / "summary.json").read_text("utf-8"))
    except (OSError, ValueError):
        summary = None
    if summary is None:
        again = (
            f"`mdpdsl explore --resume {run}` goes on" if command == "explore" else "run it anew"
        )
        return f"the run {run} was not finished, so it has no {file}", again
    reason = summary.get("estimate_missing") or "the file is gone"
    return (
        f"the run {run} has no {file}: {reason}",
        f"`mdpdsl plan {run}` works from the counts alone; fewer cells, or a log with the pairs "
        "that were never seen, give an estimate",
    )
