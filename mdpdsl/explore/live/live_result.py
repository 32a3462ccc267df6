"""What a live run has found so far, and its record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.estimate.empirical import estimated_graph
from mdpdsl.estimate.estimate_records import end_records, example_records, unseen_records
from mdpdsl.estimate.metrics import Measures
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.value_bounds import bounds_of, trial_bounds
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.ends import Settled
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.rejections import Rejections
from mdpdsl.representation import represented
from mdpdsl.runs.directory import LIVE_LOG
from mdpdsl.runs.records import ExploreRecord, RunConfiguration, TrialRecord


@dataclass(frozen=True, eq=False)
class LiveResult:
    """What a live run has found so far."""

    run: Path | None  # the folder; None if nothing was saved
    is_finished: bool  # otherwise it was stopped
    steps: int  # of the system, rejected ones included
    transitions: int  # counted in these steps
    warm_transitions: int  # of the warm start
    episodes: int
    settled: Settled  # all transitions, those of the warm start included, and the ends they show
    measures: Measures  # with the estimated complexities
    history: tuple[Measures, ...]
    rejected: Rejections
    clipped: dict[str, int]
    seconds: float
    system_seconds: float  # the part of it spent in the system
    timed_steps: int  # the steps done in that time
    residual: float
    estimate_missing: str | None  # why there is no estimate.npz
    rewards_missing: str | None  # why it has no rewards
    settings: ExploreSettings

    @property
    def spaces(self) -> TransitionGraph:
        """The states and pairs, with the ends found."""
        return self.settled.graph

    @property
    def counts(self) -> Counts:
        """The counts of all transitions."""
        return self.settled.counts

    def estimate(self) -> TransitionGraph:
        """Return the model estimated from all counts."""
        return estimated_graph(self.counts, self.spaces, self.settings.prior)

    def _repr_html_(self) -> str | None:
        return represented("live_html", self)


def live_record(model: Model, configuration: RunConfiguration, result: LiveResult) -> ExploreRecord:
    """Return the record of a live run: the truth is not known, so L uses the estimated c.

    A run has failed if it left out a pair that it could have tried; others may be out of reach.
    """
    measures, system = result.measures, configuration.system
    assert system is not None
    failed = len(result.settled.untried) > 0
    visits = np.where(result.spaces.to_learn, result.counts.visits, 1)  # known: never missing
    trial = TrialRecord(
        trial=0,
        failed=failed,
        unvisited=measures.unvisited,
        worst=measures.worst,
        average=measures.average,
        seconds=result.seconds,
        seed=configuration.seed,
        **trial_bounds(measures),
    )
    bounds = bounds_of(model, configuration) if result.is_finished else None
    timed = result.seconds > 0
    return ExploreRecord(
        seed=configuration.seed,
        trials=[trial],
        truth=False,
        warm_start=configuration.warm_start,
        failure_rate=float(failed),
        worst=measures.worst,
        average=measures.average,
        worst_se=None,
        average_se=None,
        optimum=None,
        optimum_reason="the truth about a live system is not known",
        ratio=None,
        utility_optimum=None,
        steps_per_second=result.timed_steps / result.seconds if timed else None,
        residual=result.residual,
        versions=configuration.versions,
        estimate_missing=result.estimate_missing,
        rewards_missing=result.rewards_missing,
        finished=result.is_finished,
        transitions=result.transitions,
        log=None if result.run is None else str(result.run / LIVE_LOG),
        env=system.env,
        env_arguments=system.arguments,
        total_transitions=result.counts.n_transitions,
        episodes=result.episodes,
        rejected=result.rejected.counts,
        examples=example_records(result.rejected),
        clipped=result.clipped,
        ends=end_records(result.settled),
        unvisited=unseen_records(result.spaces, visits),
        system_share=result.system_seconds / result.seconds if timed else None,
        **({} if bounds is None else bounds.record([measures], result.counts, result.settled)),
    )
