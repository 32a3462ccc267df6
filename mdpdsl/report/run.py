"""A run read back from its directory: what it was, what it counted, and how it went over time.

Figures are taken from the trials themselves, so that one trial of several (`RUN/trial-003`) or a
live run that a program made, which has no summary, is told like any other.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import ModelError, RunError
from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.explore.metrics import Measures, measure
from mdpdsl.explore.settings import WITH_KAPPA
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.reference import Reference, reference_of
from mdpdsl.representation import represented
from mdpdsl.runs.arrays import read_counts
from mdpdsl.runs.directory import COUNTS, RunDirectory
from mdpdsl.runs.models import resumed_model
from mdpdsl.runs.places import run_place, what_is_missing
from mdpdsl.runs.records import RunConfiguration

#: What `compare --save` writes beside the runs of its rows.
COMPARISON = "comparison.json"


@dataclass(frozen=True, eq=False)
class RunTrial:
    """One trial of a run; a log that was estimated, or a live system, is one trial, too."""

    index: int
    folder: Path
    counts: Counts
    metrics: Mapping[str, FloatArray]  # name -> [n_checkpoints]; none of an estimate
    final: Measures


@dataclass(frozen=True)
class RunFigures:
    """The measures at the end, means over the trials in which no pair was left unvisited."""

    n_trials: int
    failure_rate: float
    coverage: float  # the share of pairs visited, mean over trials
    transitions: float
    worst: float | None
    average: float | None
    worst_se: float | None
    average_se: float | None


class Run:
    """A finished run: `metrics` over time, `counts`, `estimate` and the model that it is about."""

    def __init__(
        self,
        directory: RunDirectory,
        configuration: RunConfiguration,
        summary: Mapping[str, Any],
        model: Model,
        trials: Sequence[RunTrial],
        reference: Reference,
    ) -> None:
        self.directory = directory
        self.configuration = configuration
        self.summary = summary  # what summary.json says; of a program's live run nothing
        self.model = model
        self.trials = tuple(trials)
        self.reference = reference

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self.directory.path

    @property
    def kind(self) -> str:
        """What was done: `explore`, `replay` (of a log), `live` or `estimate`."""
        return run_kind(self.configuration)

    @property
    def graph(self) -> TransitionGraph:
        """The graph over whose pairs everything was counted."""
        return self.model.graph

    @property
    def label(self) -> str:
        """Name the run as a row of a table."""
        settings = self.configuration.settings
        if self.kind == "estimate":
            return "log estimate"
        algorithm = str(settings["algorithm"])
        if algorithm not in WITH_KAPPA:
            return algorithm
        horizon = settings.get("horizon")
        depth = "" if horizon is None or algorithm != "kappa-dp" else f", H = {horizon}"
        return f"{algorithm}, κ = {settings['kappa']:g}{depth}"

    @property
    def counts(self) -> Counts:
        """The counts of the first trial; `trials` has all."""
        return self.trials[0].counts

    @cached_property
    def estimate(self) -> TransitionGraph:
        """The model estimated from the counts of the first trial."""
        from mdpdsl.estimate.empirical import estimated_graph

        prior = float(self.configuration.settings.get("prior", 0.0))
        return estimated_graph(self.counts, self.graph, prior)

    @property
    def optimum(self) -> Mapping[str, float] | None:
        """The least possible `worst` and `average`; None where they are not known."""
        return self.summary.get("optimum")

    @cached_property
    def metrics(self) -> dict[str, FloatArray]:
        """Measures over time: `step` [n_times], others [n_trials, n_times], NaN where none is."""
        if not all(trial.metrics for trial in self.trials):
            return {}
        steps = np.unique(np.concatenate([trial.metrics["step"] for trial in self.trials]))
        names = [name for name in self.trials[0].metrics if name != "step"]
        found = {name: np.full((len(self.trials), len(steps)), np.nan) for name in names}
        for row, trial in enumerate(self.trials):
            place = np.searchsorted(steps, trial.metrics["step"])
            for name in names:
                found[name][row, place] = trial.metrics[name]
        return {"step": steps, **found}

    @cached_property
    def figures(self) -> RunFigures:
        """The measures at the end."""
        finals = [trial.final for trial in self.trials]
        worst = [m.worst for m in finals if m.worst is not None]
        average = [m.average for m in finals if m.average is not None]
        n_measured = max(1, int(np.count_nonzero(self.reference.measured)))
        unvisited = np.array([m.unvisited for m in finals])
        return RunFigures(
            n_trials=len(finals),
            failure_rate=float(np.mean(unvisited > 0)),
            coverage=float(1 - np.mean(unvisited) / n_measured),
            transitions=float(np.mean([t.counts.n_transitions for t in self.trials])),
            worst=_mean(worst),
            average=_mean(average),
            worst_se=_standard_error(worst),
            average_se=_standard_error(average),
        )

    def ratio(self, name: str) -> float | None:
        """Return how many times the optimum `worst` or `average` is."""
        value, least = getattr(self.figures, name), (self.optimum or {}).get(name)
        return None if value is None or not least else value / least

    def __repr__(self) -> str:
        return f"<Run {self.label} of {self.model.name} in {self.path}>"

    def _repr_html_(self) -> str | None:
        return represented("run_html", self)


class Runs(Sequence[Run]):
    """Several runs, compared in a table where a notebook shows them."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, place: int) -> Run: ...

    @overload
    def __getitem__(self, place: slice) -> Runs: ...

    def __getitem__(self, place: int | slice) -> Run | Runs:
        return Runs(self._runs[place]) if isinstance(place, slice) else self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<Runs: {', '.join(run.label for run in self)}>"

    def _repr_html_(self) -> str | None:
        return represented("runs_html", self)


def open_runs(*paths: str | Path) -> Runs:
    """Read runs; what `compare --save` wrote stands for the runs of all its rows."""
    return Runs([open_run(folder) for folder in run_folders(paths)])


def open_run(path: str | Path) -> Run:
    """Read a finished run from its folder, or one trial of it; raise RunError or ModelError."""
    try:
        place = run_place(Path(path))
        run, configuration = place.run, place.configuration
        summary = _summary(run.path)
        one = place.folder if Path(path).name.startswith("trial-") else None
        folders = [one] if one is not None else _folders(run, configuration)
        is_live = configuration.system is not None
        if (summary is None and not is_live) or not (folders[0] / COUNTS).exists():
            raise RunError("; ".join(what_is_missing(place, COUNTS)))
        model = resumed_model(run, configuration)
        if model.graph.hash != configuration.hash:
            raise RunError(
                f"{path}: the model builds to another hash than when the run started; versions "
                "differ, run it anew"
            )
        reference = reference_of(run.path, configuration, model.graph)
        trials = [
            _trial(folder, index, configuration, model.graph, reference)
            for index, folder in enumerate(folders)
        ]
    except (ValueError, KeyError, OSError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        if isinstance(error, ModelError):
            raise
        raise RunError(f"{path} cannot be read: {error}") from None
    if reference.is_estimated:
        reference = reference.with_complexity(
            np.mean([estimated_complexity(trial.counts) for trial in trials], axis=0)
        )
    return Run(run, configuration, summary or {}, model, trials, reference)


def run_folders(paths: Sequence[str | Path]) -> list[Path]:
    """Return the runs that paths name: a comparison stands for those of its rows."""
    found: list[Path] = []
    for path in map(Path, paths):
        if not (path / COMPARISON).exists():
            found.append(path)
            continue
        try:
            rows = json.loads((path / COMPARISON).read_text("utf-8"))["rows"]
            found += [path / str(row) for row in rows]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path / COMPARISON} cannot be read: {error}") from None
    return found


def run_kind(configuration: RunConfiguration) -> str:
    """Say what a run did."""
    return configuration.kind


def _folders(run: RunDirectory, configuration: RunConfiguration) -> list[Path]:
    if configuration.trials == 0 or configuration.system is not None:
        return [run.path]
    return [run.trial(index) for index in range(configuration.trials)]


def _summary(folder: Path) -> dict[str, Any] | None:
    path = folder / "summary.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text("utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no summary")
    return found


def _trial(
    folder: Path,
    index: int,
    configuration: RunConfiguration,
    graph: TransitionGraph,
    reference: Reference,
) -> RunTrial:
    counts = read_counts(folder / COUNTS, graph.n_pairs, graph.n_states)
    metrics: dict[str, FloatArray] = {}
    path = folder / "metrics.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as saved:
            metrics = {name: np.asarray(saved[name], np.float64) for name in saved.files}
    if not metrics or len(metrics["step"]) == 0:
        c = estimated_complexity(counts) if reference.is_estimated else reference.complexity
        kappa = float(configuration.settings.get("kappa", 1.0))
        measured = reference.measured
        n = counts.n_transitions
        return RunTrial(
            index, folder, counts, {}, measure(n, counts.visits[measured], c[measured], kappa)
        )
    last = {name: float(column[-1]) for name, column in metrics.items()}
    final = Measures(
        step=int(last["step"]),
        unvisited=int(last["unvisited"]),
        worst=_known(last["worst"]),
        average=_known(last["average"]),
        utility=_known(last["utility"]),
    )
    return RunTrial(index, folder, counts, metrics, final)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _standard_error(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
