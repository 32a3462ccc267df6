"""Summaries of trials: the failure rate, and means and errors over trials that did not fail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mdpdsl.explore.executor import TrialResult
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.representation import represented


@dataclass(frozen=True)
class Summary:
    """The figures of one algorithm; None if too few trials succeeded."""

    algorithm: str
    kappa: float
    horizon: str
    n_trials: int
    failure_rate: float
    worst: float | None
    average: float | None
    worst_sd: float | None
    average_sd: float | None
    worst_se: float | None
    average_se: float | None
    squared_error: float | None
    steps_per_second: float
    residual: float

    @property
    def label(self) -> str:
        """The name of the algorithm in tables, with the settings that distinguish its rows."""
        if self.algorithm in ("kappa-lp", "tracking"):
            return f"{self.algorithm} (kappa={self.kappa:g})"
        if self.algorithm != "kappa-dp":
            return self.algorithm
        horizon = "" if self.horizon == "inf" else f", H={self.horizon}"
        return f"kappa-dp (kappa={self.kappa:g}{horizon})"

    def _repr_html_(self) -> str | None:
        return represented("summary_html", self)


def summarize(settings: ExploreSettings, results: Sequence[TrialResult]) -> Summary:
    """Summarise the trials of one algorithm."""
    measured = [result.measures for result in results if result.measures is not None]
    worst = [m.worst for m in measured if m.worst is not None]
    average = [m.average for m in measured if m.average is not None]
    errors = [m.squared_error for m in measured if m.squared_error is not None]
    seconds = sum(result.seconds for result in results)
    n_steps = sum(m.step for m in measured)
    worst_sd, average_sd = _deviation(worst), _deviation(average)
    return Summary(
        algorithm=settings.algorithm,
        kappa=settings.kappa,
        horizon=settings.horizon_text,
        n_trials=len(results),
        failure_rate=sum(result.failed for result in results) / max(1, len(results)),
        worst=_mean(worst),
        average=_mean(average),
        worst_sd=worst_sd,
        average_sd=average_sd,
        worst_se=None if worst_sd is None else worst_sd / math.sqrt(len(worst)),
        average_se=None if average_sd is None else average_sd / math.sqrt(len(average)),
        squared_error=_mean(errors),
        steps_per_second=n_steps / seconds if seconds > 0 else 0.0,
        residual=max((result.residual for result in results), default=0.0),
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation between trials."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
