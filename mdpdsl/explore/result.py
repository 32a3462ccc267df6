"""The result of exploring: an `ExploreRun` in memory, and in the folder of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import StoredModel
from mdpdsl.diagnostics import ModelError, RunError, SolveError
from mdpdsl.estimate.learned_numbers import fitted_law, has_laws
from mdpdsl.estimate.log_estimate import Estimate, open_estimate
from mdpdsl.estimate.metrics import Measures, history_arrays, measure
from mdpdsl.estimate.reference import (
    Reference,
    estimate_reference,
    log_reference,
    truth_reference,
)
from mdpdsl.estimate.run_result import RunResult, RunTrial
from mdpdsl.estimate.saved import save_estimated_graph, stored_sets, with_data_starts
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.files import write_arrays, write_json
from mdpdsl.formats.npz import save_graph
from mdpdsl.graph.counts import Counts
from mdpdsl.logs.order import LoggedTransitions, load_transitions, save_transitions
from mdpdsl.runs.arrays import DAMAGE, read_counts, read_metrics, read_settled, save_counts
from mdpdsl.runs.directory import (
    COUNTS,
    EPISODES,
    EXPLORED,
    METRICS,
    REPLAYED_LOG,
    WARM_START,
    RunDirectory,
)
from mdpdsl.runs.places import RunPlace, is_trial, run_place, what_is_missing
from mdpdsl.runs.records import ExploreRecord, RunConfiguration, decoded, encoded
from mdpdsl.runs.run_models import resumed_model


@dataclass(frozen=True, eq=False, repr=False)
class ExploreRun(RunResult):
    """A run of an explorer: its trials, how good they are, and the estimate they give."""

    settings: ExploreSettings
    summary: ExploreRecord | None  # None for a live run that is not finished
    logged: LoggedTransitions | None = None  # the log that was replayed
    warm_start: Counts | None = None

    @property
    def is_finished(self) -> bool:
        """Whether all trials are done; otherwise the run was stopped."""
        return self.summary is not None and self.summary.finished

    @property
    def steps(self) -> int:
        """The number of steps of a trial."""
        return self.settings.steps

    @property
    def worst(self) -> float | None:
        """L_Worst, the mean over the trials that left no pair to learn unvisited."""
        return self.figures.worst

    @property
    def average(self) -> float | None:
        """L_Avg, the mean over the trials that left no pair to learn unvisited."""
        return self.figures.average

    @property
    def guaranteed(self) -> float | None:
        """What some policy achieves, with confidence 1 - delta: the mean over trials.

        None if the run has no property; `metrics` has the values of every trial over time.
        """
        return self.figures.guaranteed

    @property
    def possible(self) -> float | None:
        """What no policy exceeds, with confidence 1 - delta: the mean over trials."""
        return self.figures.possible

    @cached_property
    def true_value(self) -> float | None:
        """The true optimum of the run's property; None if it is not known."""
        asked = self.configuration.property
        if asked is None or self.kind != "explore" or self.settings.simulate != "model":
            return None
        from mdpdsl.solve.solve_model import solve

        try:
            return solve(self.model, asked).value
        except SolveError:
            return None

    @property
    def failure_rate(self) -> float:
        """The share of trials that left out a pair to learn, in a live run one it could try."""
        return self.figures.failure_rate

    @property
    def optimum(self) -> Mapping[str, float] | None:
        """The least possible `worst` and `average`; None if they are not known."""
        return None if self.summary is None else self.summary.optimum

    @property
    def optimum_reason(self) -> str | None:
        """Why no optimum is known."""
        return None if self.summary is None else self.summary.optimum_reason

    @property
    def rejected(self) -> Mapping[str, int]:
        """Observations of a live system that could not be counted, by reason."""
        return {} if self.summary is None else self.summary.rejected or {}

    @property
    def speed(self) -> float | None:
        """Steps per second."""
        return None if self.summary is None else self.summary.steps_per_second

    def record(self) -> dict[str, Any]:
        """Return the results as `--json` prints them."""
        if self.summary is None:
            raise RunError(f"{self.path} was not finished, so it has no results yet")
        configuration = self.configuration
        return {
            "model": configuration.model,
            "hash": configuration.hash,
            "parameters": dict(configuration.parameters),
            **asdict(self.settings),
            "horizon": self.settings.horizon_text,
            **encoded(self.summary),
            **self._about_numbers(),
            "run": None if self.path is None else str(self.path),
        }

    def _about_numbers(self) -> dict[str, Any]:
        """Return what the first trial says of unknown numbers; nothing if there are none."""
        if not has_laws(self.graph) or self.numbers is None:
            return {}
        return {
            "numbers": self.numbers.parameters.records(),
            "notes": list(self.numbers.notes),
            "design_ratio": _finite(self.design_ratio),
        }

    @property
    def design_text(self) -> str | None:
        """How near the run came to the best design, in words."""
        from mdpdsl.explore.design_ratio import design_text

        return design_text(self.design_ratio)

    @cached_property
    def design_ratio(self) -> float | None:
        """The criterion of a run for parameters over its optimum at the truth, mean over trials."""
        from mdpdsl.explore.design_ratio import design_ratio

        return design_ratio(self)

    def save(self, path: str | Path, *, overwrite: bool = False) -> ExploreRun:
        """Write a folder that `mdpdsl.open_run` reads; return the result with its path.

        A live run cannot be saved afterwards: `out` keeps every observation from the start.
        """
        if self.kind == "live":
            raise RunError("a live run is saved while it runs; give `out=` when you start it")
        with RunDirectory.create(
            Path(path), self.configuration, self.model.source.text, overwrite=overwrite
        ) as run:
            save_start(run, self.model, self.logged, self.warm_start)
            return save_results(run, self)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def save_start(
    run: RunDirectory,
    model: Model,
    logged: LoggedTransitions | None = None,
    warm_start: Counts | None = None,
) -> None:
    """Write what a run needs, besides its configuration, to start and to be resumed."""
    if isinstance(model, StoredModel):
        save_graph(model, run.path / EXPLORED)
    if warm_start is not None:
        save_counts(warm_start, run.path / WARM_START)
    if logged is not None:
        save_transitions(logged, run.path / REPLAYED_LOG)


def save_results(run: RunDirectory, result: ExploreRun) -> ExploreRun:
    """Write the results of a run into its folder; return the result with its path."""
    saved = replace(result, path=run.path)
    for trial in result.trials:
        folder = run.trial(trial.index)
        save_counts(trial.counts, folder / COUNTS)
        write_arrays(folder / METRICS, dict(trial.metrics))
        law = fitted_law(result.model.checked, result.graph, trial.counts)
        save_estimated_graph(
            folder, trial.counts, result.model, result.graph, result.prior, law=law
        )
        if (folder / EPISODES).exists():
            assert result.summary is not None
            _write_gaps(folder / EPISODES, result.summary.utility_optimum)
    run.write_summary(saved.record())
    return saved


def _write_gaps(path: Path, optimum: float | None) -> None:
    """Add U* and the gap U* - U, which the paper's theorem bounds, to a record of episodes."""
    episodes = json.loads(path.read_text("utf-8"))["episodes"]
    for episode in episodes:
        if "utility" not in episode:  # stages of a design for unknown numbers
            return
        known = optimum is not None and episode["utility"] is not None
        episode["gap"] = optimum - episode["utility"] if known else None
    write_json(path, {"utility_optimum": optimum, "episodes": episodes})


def explore_trial(index: int, counts: Counts, history: Sequence[Measures]) -> RunTrial:
    """Return a trial of a run, given its measures over time."""
    return RunTrial(index, counts, history_arrays(history), history[-1])


def read_run(path: Path) -> ExploreRun | Estimate:
    """Read a run of any kind, or one trial of it; raise RunError or ModelError."""
    place = run_place(path)
    try:
        if place.configuration.kind == "estimate":
            return open_estimate(place.run, place.configuration)
        return open_explore_run(place, place.folder if is_trial(path) else None)
    except (RunError, ModelError):
        raise
    except (OSError, *DAMAGE) as error:
        raise RunError(f"{path} cannot be read: {error}") from None


def open_explore_run(place: RunPlace, one: Path | None) -> ExploreRun:
    """Read a run of an explorer, or one trial of it; raise RunError, ModelError or ValueError."""
    run, configuration = place.run, place.configuration
    record = run.summary()
    folders = [one] if one is not None else run.array_folders(configuration)
    is_live = configuration.system is not None
    if (record is None and not is_live) or not (folders[0] / COUNTS).exists():
        raise RunError("; ".join(what_is_missing(place, COUNTS)))
    model = resumed_model(run, configuration)
    graph = model.graph
    if graph.hash != configuration.hash:
        raise RunError(
            f"{run.path}: the model now builds to another hash than when the run started; the "
            "versions differ, so run it again"
        )
    settled = None
    if is_live:
        settled = with_data_starts(model, read_settled(folders[0] / COUNTS, graph))
        counts = [settled.counts]
    else:
        counts = [read_counts(folder / COUNTS, graph.n_pairs, graph.n_states) for folder in folders]
    logged = _logged(run) if configuration.options.log is not None else None
    if is_live:
        assert settled is not None
        reference = estimate_reference(counts, settled.graph)
    elif logged is not None:
        reference = log_reference(logged, graph)
    else:
        reference = truth_reference(graph)
    trials = [
        _trial(index, folder, each, configuration, reference)
        for index, (folder, each) in enumerate(zip(folders, counts, strict=True))
    ]
    return ExploreRun(
        model=model,
        configuration=configuration,
        trials=tuple(trials),
        reference=reference,
        sets=None if settled is None else stored_sets(run.path, settled, configuration.settings),
        settled=settled,
        path=run.path,
        settings=ExploreSettings(**configuration.settings),
        summary=None if record is None else decoded(ExploreRecord, record),
        logged=logged,
    )


def _logged(run: RunDirectory) -> LoggedTransitions:
    try:
        return load_transitions(run.path / REPLAYED_LOG)
    except (OSError, *DAMAGE):
        raise RunError(f"{run.path} has no readable {REPLAYED_LOG}; start a new run") from None


def _trial(
    index: int,
    folder: Path,
    counts: Counts,
    configuration: RunConfiguration,
    reference: Reference,
) -> RunTrial:
    metrics = read_metrics(folder / METRICS)
    if metrics and len(metrics["step"]):
        last = {name: float(column[-1]) for name, column in metrics.items()}
        final = Measures(
            step=int(last["step"]),
            unvisited=int(last["unvisited"]),
            worst=_known(last["worst"]),
            average=_known(last["average"]),
            utility=_known(last["utility"]),
            guaranteed=_known(last.get("guaranteed", np.nan)),
            possible=_known(last.get("possible", np.nan)),
        )
        return RunTrial(index, counts, metrics, final)
    c, measured = reference.complexity, reference.measured
    kappa = float(configuration.settings.get("kappa", 1.0))
    n = counts.n_transitions
    final = measure(n, counts.visits[measured], c[measured], kappa, n)
    return RunTrial(index, counts, {}, final)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
