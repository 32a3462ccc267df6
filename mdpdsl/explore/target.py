"""What an explorer explores: a simulated system, or a log that is replayed.

A target decides which settings are allowed, runs trials, and turns their results into a run.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import stored_keys
from mdpdsl.compile.system import RawSystem
from mdpdsl.compile.truth import require_truth
from mdpdsl.diagnostics import MdpdslWarning, SettingsError
from mdpdsl.estimate.reference import Reference, truth_reference
from mdpdsl.estimate.saved import what_is_left_out
from mdpdsl.explore.algorithms import EPISODIC, strategy_for, third_party_explorer
from mdpdsl.explore.contradicted import contradicted_text
from mdpdsl.explore.executor import TrialResult, run_trials
from mdpdsl.explore.feasible import require_explorable
from mdpdsl.explore.optimum import Limits, best_utility, exploration_limits
from mdpdsl.explore.result import ExploreRun, explore_trial
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.explore.summary import Summary, summarize
from mdpdsl.explore.trial_progress import trials_progress
from mdpdsl.explore.value_bounds import ValueBounds, bounds_of, trial_bounds
from mdpdsl.graph.counts import Counts
from mdpdsl.progress import Progress, shown
from mdpdsl.runs.labels import explorer_label
from mdpdsl.runs.records import (
    ExploreRecord,
    RunConfiguration,
    RunOptions,
    TrialRecord,
    WarmStartRecord,
)
from mdpdsl.simulate.failures import SimulationError
from mdpdsl.simulate.simulate_model import simulated_system
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    from mdpdsl.compile.family import Family


@dataclass(frozen=True)
class Trials:
    """How trials are run."""

    seed: int
    number: int
    jobs: int | None = None
    executor: Executor | None = None
    progress: bool | Progress | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be."""
        for name, value, least in (("seed", self.seed, 0), ("trials", self.number, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SettingsError(
                    f"`{name}=` must be a whole number from {least} on, not {value!r}"
                )
        if self.jobs is not None and self.jobs < 1:
            raise SettingsError(f"`jobs=` must be 1 or more, not {self.jobs}")


class Target(Protocol):
    """What the trials of a run explore."""

    @property
    def model(self) -> Model:
        """The model whose pairs are counted."""

    def settings(self, given: Mapping[str, object], *rows: Mapping[str, object]) -> ExploreSettings:
        """Return the settings of a run: given ones, else the model's, else the defaults."""

    def require(self, settings: ExploreSettings, explorer: object | None = None) -> None:
        """Raise SettingsError if an explorer cannot run; warn if it will have difficulties."""

    def options(self) -> RunOptions:
        """Return how the model was made, and what is replayed."""

    def run(
        self,
        settings: ExploreSettings,
        trials: Trials,
        folder: Any = None,
        explorer: object | None = None,
        bounds: ValueBounds | None = None,
    ) -> list[TrialResult]:
        """Run trials; if they are stopped, some are unfinished or missing."""

    def result(
        self,
        configuration: RunConfiguration,
        settings: ExploreSettings,
        results: Sequence[TrialResult],
    ) -> ExploreRun:
        """Return the results of trials."""


def configuration_of(
    target: Target,
    settings: ExploreSettings,
    trials: Trials,
    warm_start: WarmStartRecord | None = None,
    property: str | None = None,
) -> RunConfiguration:
    """Return everything that determines a run."""
    options = target.options()
    more = () if options.log is None else ("pyarrow",)
    return RunConfiguration(
        model=target.model.name,
        hash=target.model.graph.hash,
        parameters=dict(target.model.parameters),
        options=options,
        settings=asdict(settings),
        seed=trials.seed,
        trials=trials.number,
        versions=current_versions(*more),
        warm_start=warm_start,
        property=property,
    )


@dataclass(frozen=True, eq=False)
class SimulatedTarget:
    """A simulated model: the truth is known, and so is the best possible result."""

    model: Model
    warm_start: Counts | None = None

    @cached_property
    def limits(self) -> Limits:
        """The best possible result."""
        return exploration_limits(self.model.graph)

    def settings(self, given: Mapping[str, object], *rows: Mapping[str, object]) -> ExploreSettings:
        """Return the settings of a run."""
        return settings_from(self.model.checked.explore, given, *rows)

    def require(self, settings: ExploreSettings, explorer: object | None = None) -> None:
        """Refuse a model that cannot be explored; warn if it is hard to explore."""
        graph = self.model.graph
        require_algorithm(settings, graph.n_states, explorer)
        require_numbers(self.model, settings)
        require_truth(self.model, "simulate", "explore a log or a live system")
        found = [require_explorable(graph, settings.simulate)]
        if settings.algorithm in EPISODIC:
            from mdpdsl.explore.floor import require_floor, slow_oracle

            found += [require_floor(graph, settings), slow_oracle(graph, settings)]
        self.system(settings)
        warn(*(warning for warning in found if warning is not None))

    def system(self, settings: ExploreSettings) -> RawSystem | None:
        """Return the continuous system that the settings simulate; None for the finite model."""
        return simulated_system(self.model, settings.simulate)

    def options(self) -> RunOptions:
        """Return how the model was made."""
        return RunOptions(**self.model.options, **stored_keys(self.model))  # type: ignore[arg-type]

    def run(
        self,
        settings: ExploreSettings,
        trials: Trials,
        folder: Any = None,
        explorer: object | None = None,
        bounds: ValueBounds | None = None,
    ) -> list[TrialResult]:
        """Run trials against the simulated system."""
        label = explorer_label(settings.algorithm, settings.kappa, settings.horizon)
        graph = self.model.graph
        with shown(trials.progress, label) as update:
            limits = None if update is None else self.limits
            total = settings.steps * trials.number
            try:
                return run_trials(
                    graph,
                    settings,
                    seed=trials.seed,
                    trials=trials.number,
                    jobs=trials.jobs,
                    system=self.system(settings),
                    folder_of=folder,
                    progress=trials_progress(update, total, int(graph.to_learn.sum()), limits),
                    executor=trials.executor,
                    warm_start=self.warm_start,
                    bounds=bounds,
                    family=explored_law(self.model, settings),
                    **third_party(explorer),
                )
            except SimulationError as error:
                raise SimulationError(
                    f"the continuous system failed under {label} in {error}"
                ) from None

    def result(
        self,
        configuration: RunConfiguration,
        settings: ExploreSettings,
        results: Sequence[TrialResult],
    ) -> ExploreRun:
        """Return the trials, measured against the truth and compared with the optimum."""
        graph = self.model.graph
        summary, limits = summarize(settings, results), self.limits
        optimum = limits.record()
        ratio = {
            "worst": limits.ratio_worst(summary.worst),
            "average": limits.ratio_average(summary.average),
        }
        record = explore_record(
            configuration,
            summary,
            results,
            [trial_record(result, configuration.seed) for result in results],
            self.model,
            results[-1].counts,
            settings,
            truth=True,
            optimum=optimum,
            optimum_reason=limits.reason,
            ratio=None if optimum is None else ratio,
            utility_optimum=best_utility(graph, settings.kappa) if limits.reason is None else None,
            squared_error=summary.squared_error,
            **stored_keys(self.model),
        )
        counts = {result.index: result.counts for result in results}
        contradicted = contradicted_text(graph, list(counts.values()))
        warn(*([] if contradicted is None else [contradicted]))
        return explore_run(
            self.model, configuration, settings, results, counts, truth_reference(graph), record,
            warm_start=self.warm_start,
        )  # fmt: skip


def third_party(explorer: object | None) -> dict[str, Any]:
    """Return the argument for an explorer that is not one of ours."""
    return {} if explorer is None else {"explorer": explorer}


def warn(*messages: str) -> None:
    """Issue warnings, each message once."""
    for message in dict.fromkeys(messages):
        warnings.warn(message, MdpdslWarning, stacklevel=3)


def require_algorithm(settings: ExploreSettings, n_states: int, explorer: object | None) -> None:
    """Raise SettingsError if an algorithm is unknown, or the oracle it needs is missing."""
    if explorer is not None or third_party_explorer(settings.algorithm) is not None:
        return
    strategy_for(settings, n_states)
    if settings.algorithm in EPISODIC:
        from mdpdsl.explore.algorithms.oracle_episodes import oracle_of

        oracle_of(settings)


def require_numbers(model: Model, settings: ExploreSettings) -> None:
    """Raise SettingsError if a model has no unknown numbers, and they are to be explored for."""
    if settings.purpose is not None and not model.checked.unknowns:
        raise SettingsError(
            f"{model.name} has no unknown numbers to explore for; declare one, as in "
            "`unknown slip in [0, 0.5]`, or leave out `purpose=`"
        )


def explored_law(model: Model, settings: ExploreSettings) -> Family | None:
    """Return the rows as functions of the unknown numbers, if these are explored for."""
    if settings.purpose is None:
        return None
    from mdpdsl.explore.algorithms.designed_law import law_of

    return law_of(model)


def explore_record(
    configuration: RunConfiguration,
    summary: Summary,
    results: Sequence[TrialResult],
    trials: Sequence[TrialRecord],
    model: Model,
    counts: Counts,
    settings: ExploreSettings,
    **rest: Any,
) -> ExploreRecord:
    """Return the record of a run; `rest` has the fields of its kind."""
    is_finished = len(results) == configuration.trials and all(r.is_finished for r in results)
    bounds = bounds_of(model, configuration)
    if bounds is not None and is_finished:
        rest |= bounds.record([r.history[-1] for r in results], counts)
    return ExploreRecord(
        seed=configuration.seed,
        trials=trials,
        warm_start=configuration.warm_start,
        failure_rate=summary.failure_rate,
        worst=summary.worst,
        average=summary.average,
        worst_se=summary.worst_se,
        average_se=summary.average_se,
        steps_per_second=summary.steps_per_second,
        residual=summary.residual,
        versions=configuration.versions,
        finished=is_finished,
        **what_is_left_out(counts, model, model.graph, settings.prior),
        **rest,
    )


def explore_run(
    model: Model,
    configuration: RunConfiguration,
    settings: ExploreSettings,
    results: Sequence[TrialResult],
    counts: Mapping[int, Counts],
    reference: Reference,
    record: ExploreRecord,
    **more: Any,
) -> ExploreRun:
    """Return the result of a run."""
    trials = [explore_trial(r.index, counts[r.index], r.history) for r in results if r.history]
    return ExploreRun(
        model=model,
        configuration=configuration,
        trials=tuple(trials),
        reference=reference,
        sets=None,
        settled=None,
        path=None,
        settings=settings,
        summary=record,
        **more,
    )


def trial_record(result: TrialResult, seed: int | None) -> TrialRecord:
    """Return the record of one trial."""
    measures = result.measures
    return TrialRecord(
        trial=result.index,
        failed=result.failed,
        unvisited=measures.unvisited if measures else None,
        worst=measures.worst if measures else None,
        average=measures.average if measures else None,
        seconds=result.seconds,
        seed=seed,
        squared_error=measures.squared_error if measures else None,
        transitions=measures.transitions if measures else None,
        **trial_bounds(measures),
    )
