"""A log as what an explorer explores: it is read, replayed, and measured against itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import LogError, LogProblem, RunError, SettingsError
from mdpdsl.estimate.estimate_logs import whole_space
from mdpdsl.estimate.estimate_records import unseen_records
from mdpdsl.estimate.reference import log_reference
from mdpdsl.explore.algorithms import EPISODIC
from mdpdsl.explore.contradicted import contradicted_text
from mdpdsl.explore.executor import TrialResult, run_trials
from mdpdsl.explore.replay.queues import LogQueues, log_queues, settled_log
from mdpdsl.explore.replay.replay_summary import ReplaySummary, summarize_replay
from mdpdsl.explore.result import ExploreRun
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.explore.target import (
    Trials,
    explore_record,
    explore_run,
    explored_law,
    require_algorithm,
    require_numbers,
    third_party,
    trial_record,
    warn,
)
from mdpdsl.explore.trial_progress import trials_progress
from mdpdsl.explore.value_bounds import ValueBounds
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.count import LogCounts, count_logs
from mdpdsl.logs.order import LoggedTransitions, TransitionOrder
from mdpdsl.logs.reading_options import USUAL, ReadingOptions
from mdpdsl.progress import Progress, shown
from mdpdsl.runs.labels import explorer_label
from mdpdsl.runs.records import FileRecord, LogRecord, RunConfiguration, RunOptions, TrialRecord

#: The actions that explorers may choose in a replay.
OFFERS = ("logged", "all")
#: Why a replay has no optimum.
NO_OPTIMUM = "a log does not show the truth"


@dataclass(frozen=True, eq=False)
class ReplayedTarget:
    """A log in place of a system: the truth is not known, and the whole log is the reference."""

    model: Model
    logged: LoggedTransitions
    queues: LogQueues
    log: LogRecord
    most_steps: int | None = None  # for all explorers, if fewer than they ask for

    def settings(self, given: Mapping[str, object], *rows: Mapping[str, object]) -> ExploreSettings:
        """Return the settings of a replay: as many steps as the log has, unless fewer are given.

        The steps in the model's `explore` block are for simulated runs, and are not used.
        """
        chosen = settings_from(self.model.checked.explore, given, *rows)
        n = self.queues.n_transitions
        steps = n if given.get("steps") is None else min(n, chosen.steps)
        return replace(chosen, steps=steps, simulate="model")

    def require(self, settings: ExploreSettings, explorer: object | None = None) -> None:
        """Refuse an unknown explorer; warn if one is slow."""
        require_algorithm(settings, self.queues.graph.n_states, explorer)
        require_numbers(self.model, settings)
        if settings.algorithm in EPISODIC:
            from mdpdsl.explore.floor import slow_oracle

            warning = slow_oracle(self.queues.graph, settings)
            warn(*([] if warning is None else [warning]))

    def options(self) -> RunOptions:
        """Return how the model was made, and the log."""
        graph = self.model.graph
        whole = graph.n_states == graph.states.product.size
        made = self.model.options
        return RunOptions(whole, made.get("max_states"), log=self.log, learn=made.get("learn"))

    def run(
        self,
        settings: ExploreSettings,
        trials: Trials,
        folder: Any = None,
        explorer: object | None = None,
        bounds: ValueBounds | None = None,
    ) -> list[TrialResult]:
        """Run trials on the log."""
        label = explorer_label(settings.algorithm, settings.kappa, settings.horizon)
        queues = replace(self.queues, most_steps=self.most_steps)
        n_steps = min(settings.steps, self.most_steps or settings.steps)
        with shown(trials.progress, label) as update:
            return run_trials(
                queues.graph,
                settings,
                seed=trials.seed,
                trials=trials.number,
                jobs=trials.jobs,
                system=queues,
                folder_of=folder,
                progress=trials_progress(update, n_steps * trials.number, len(queues.measured)),
                executor=trials.executor,
                bounds=bounds,
                family=explored_law(self.model, settings),
                **third_party(explorer),
            )

    def summary(self, settings: ExploreSettings, results: Sequence[TrialResult]) -> ReplaySummary:
        """Return the figures of trials on the log."""
        return summarize_replay(settings, results, self.queues)

    def result(
        self,
        configuration: RunConfiguration,
        settings: ExploreSettings,
        results: Sequence[TrialResult],
    ) -> ExploreRun:
        """Return the trials, measured against the whole log."""
        graph, found = self.model.graph, self.summary(settings, results)
        counts = {r.index: self.queues.model_counts(r.counts) for r in results}
        record = explore_record(
            configuration,
            found.summary,
            results,
            [self._trial_record(result) for result in results],
            self.model,
            counts[results[-1].index],
            settings,
            truth=False,
            optimum=None,
            optimum_reason=NO_OPTIMUM,
            ratio=None,
            utility_optimum=None,
            transitions=self.queues.n_transitions,
            pairs_in_log=self.log.pairs_in_log,
            pairs_unseen=self.log.pairs_unseen,
            steps_done=found.steps_done,
            share_of_log=found.share_of_log,
            coverage=found.coverage,
            restarts=found.restarts,
            distance_to_log=found.distance_to_log,
            ended=found.ended,
            log=self.log,
        )
        reference = log_reference(self.logged, graph)
        return explore_run(
            self.model, configuration, settings, results, counts, reference, record,
            logged=self.logged,
        )  # fmt: skip

    def _trial_record(self, result: TrialResult) -> TrialRecord:
        graph, end, measures = self.model.graph, result.replay, result.measures
        assert end is not None
        assert measures is not None
        pair = None
        if end.pair is not None:
            pair = {
                "state": graph.states.native(int(graph.pair_state[end.pair])),
                "action": graph.actions.labels[graph.pair_action[end.pair]],
                "in_log": end.in_log,
            }
        return replace(
            trial_record(result, None),
            squared_error=None,
            transitions=None,
            steps=end.steps,
            share_of_log=end.steps / self.queues.n_transitions,
            ended=end.text,
            ended_pair=pair,
            restarts=end.restarts,
            distance_to_log=end.distance,
        )


def read_replayed_log(
    model: Model,
    logs: Sequence[Any],
    *,
    offer: str | None = None,
    separate_files: bool = False,
    time_step: float | None = None,
    reading: ReadingOptions = USUAL,
    progress: bool | Progress | None = None,
) -> ReplayedTarget:
    """Read logs to replay; warn about rows left out; raise LogError if nothing is left."""
    chosen = OFFERS[0] if offer is None else offer
    if chosen not in OFFERS:
        raise SettingsError(f"there is no offer `{chosen}`; there are {', '.join(OFFERS)}")
    spaces = whole_space(model)
    order = TransitionOrder(spaces.graph)
    with shown(progress, "reading", "rows") as update:
        read = count_logs(
            spaces.checked,
            spaces.graph,
            logs,
            are_files_separate=separate_files,
            time_step=time_step,
            progress=None if update is None else lambda rows: update(rows, None, "rows"),
            order=order,
            options=reading,
        )
    logged = order.transitions()
    if logged.n_transitions == 0:
        raise LogError([_nothing(read)])
    known, logged = settled_log(spaces, logged, read.has_stops)
    queues = log_queues(known.graph, logged, offers_all=chosen == "all")
    record = _log_record(read, logged, queues, known.graph, separate_files, chosen, reading)
    warn(*_log_warnings(record), *_contradictions(known.graph, logged))
    return ReplayedTarget(known, logged, queues, record)


def resumed_replay(
    model: Model, logged: LoggedTransitions, log: LogRecord, path: Path
) -> ReplayedTarget:
    """Return the log of a resumed run, which its folder keeps."""
    if logged.hash != log.hash:
        raise RunError(f"{path}: its log is not the one that the run started with; start a new run")
    queues = log_queues(model.graph, logged, offers_all=log.offer == "all")
    return ReplayedTarget(model, logged, queues, log)


def _log_record(
    read: LogCounts,
    logged: LoggedTransitions,
    queues: LogQueues,
    graph: TransitionGraph,
    separate_files: bool,
    offer: str,
    reading: ReadingOptions,
) -> LogRecord:
    return LogRecord(
        files=[FileRecord(file.path, file.bytes, file.rows) for file in read.files],
        problems=list(read.problems),
        rows=read.rows,
        rejected=read.rejected.counts,
        clipped=read.clipped,
        in_order=read.was_sorted,
        time_step=read.time_step,
        separate_files=separate_files,
        transitions=logged.n_transitions,
        episodes=len(logged.episode),
        hash=logged.hash,
        offer=offer,
        pairs_in_log=len(queues.logged),
        pairs_unseen=int(np.count_nonzero(np.diff(logged.queue_start) == 0)),
        unseen=unseen_records(graph, np.diff(logged.queue_start)),
        reading=reading.changed,
    )


def _log_warnings(log: LogRecord) -> list[str]:
    """Return warnings about what is not replayed."""
    found = [f"{p.message} ({p.help})" if p.help else p.message for p in log.problems]
    found += [f"rejected, {reason}: {number:,}" for reason, number in log.rejected.items()]
    found += [
        f"{number:,} values of {name} were out of range, and count as its end cells"
        for name, number in log.clipped.items()
    ]
    if log.rejected:
        found.append("`mdpdsl estimate` shows examples of what was rejected")
    return found


def _contradictions(graph: TransitionGraph, logged: LoggedTransitions) -> list[str]:
    """Return a warning if a log has transitions that the model file calls impossible."""
    if graph.knowledge is None:
        return []
    whole = log_reference(logged, graph).target
    assert whole is not None
    found = contradicted_text(graph, [whole])
    return [] if found is None else [found]


def _nothing(read: LogCounts) -> LogProblem:
    """Return the problem that logs have no transition, with the reasons."""
    reasons = [f"{reason}: {number:,}" for reason, number in read.rejected.counts.items()]
    message = f"the log has no transition to replay: {read.rows:,} rows were read"
    if reasons:
        return LogProblem(f"{message} ({'; '.join(reasons)})", "`mdpdsl estimate` shows examples")
    return LogProblem(message, "consecutive rows of an episode make a transition")
