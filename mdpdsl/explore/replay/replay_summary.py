"""Summaries of replays: how many steps explorers did in a log, and what they had learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mdpdsl.explore.executor import TrialResult
from mdpdsl.explore.replay.queues import LogQueues
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.summary import Summary, summarize


@dataclass(frozen=True)
class ReplaySummary:
    """The figures of one algorithm in a log, means over its trials."""

    summary: Summary
    steps_done: float
    least_steps: int  # of all trials
    share_of_log: float
    coverage: float  # share of the pairs to learn in the log that were visited
    restarts: float
    distance_to_log: float
    ended: str | None  # why, None if trials ended in different ways


@dataclass(frozen=True)
class ReplayRow:
    """One algorithm at its own end, and after a number of steps that all algorithms did."""

    own: ReplaySummary
    common: ReplaySummary


def summarize_replay(
    settings: ExploreSettings, results: Sequence[TrialResult], log: LogQueues
) -> ReplaySummary:
    """Summarise the trials of one algorithm."""
    ends = [result.replay for result in results if result.replay is not None]
    unvisited = [result.measures.unvisited for result in results if result.measures is not None]
    n, n_pairs = len(ends), max(1, len(log.measured))
    steps = [end.steps for end in ends]
    texts = {end.text for end in ends}
    return ReplaySummary(
        summary=summarize(settings, results),
        steps_done=sum(steps) / n,
        least_steps=min(steps),
        share_of_log=sum(steps) / (n * log.n_transitions),
        coverage=1 - sum(unvisited) / (n * n_pairs),
        restarts=sum(end.restarts for end in ends) / n,
        distance_to_log=sum(end.distance for end in ends) / n,
        ended=texts.pop() if len(texts) == 1 else None,
    )
