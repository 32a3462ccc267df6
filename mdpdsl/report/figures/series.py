"""Measures of a run over time: the mean over its trials as a line, their range as a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdpdsl.estimate.metrics import BOUNDS
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.graph.space import FloatArray


@dataclass(frozen=True)
class SeriesKind:
    """A measure that is drawn over time."""

    name: str
    title: str
    note: str
    is_log: bool

    @property
    def is_share(self) -> bool:
        """Whether the values are shares, from 0 to 1."""
        return self.name == "coverage"


@dataclass(frozen=True, eq=False)
class Series:
    """The mean of a measure over trials, with its least and largest value."""

    label: str
    step: FloatArray  # [n]
    middle: FloatArray  # [n]
    low: FloatArray  # [n]
    high: FloatArray  # [n]
    optimum: float | None = None
    is_dashed: bool = False

    @property
    def has_band(self) -> bool:
        """Whether the trials differ."""
        return bool(np.any(self.high > self.low))


KINDS = (
    SeriesKind("worst", "L_Worst over time", "the largest n·c/T of any pair", True),
    SeriesKind("average", "L_Avg over time", "the mean of n·c/T over all pairs", True),
    SeriesKind("coverage", "Pairs visited over time", "share of all pairs", False),
)

#: Two lines for each run: what some policy achieves, and, dashed, what no policy exceeds.
VALUE_BOUNDS = SeriesKind(
    "value-bounds",
    "Value bounds over time",
    "what some policy is guaranteed to achieve, and what no policy exceeds",
    False,
)


def series_of(run: RunResult, kind: SeriesKind, label: str) -> Series | None:
    """Return a measure of a run over time; None if there is nothing to draw.

    A trial has no L before it has visited every pair, and a mean over a few trials says little, so
    the line starts when half of the trials have a value.
    """
    metrics = run.metrics
    if not metrics:
        return None
    if kind.name == "coverage":
        n_pairs = max(1, int(np.count_nonzero(run.reference.measured)))
        values = 1 - metrics["unvisited"] / n_pairs
    else:
        values = metrics[kind.name]
    optimum = None if run.optimum is None else run.optimum.get(kind.name)
    return _series(label, metrics["step"], values, optimum)


def bounds_of_runs(
    runs: Sequence[RunResult], labels: Sequence[str]
) -> tuple[list[Series], list[int]]:
    """Return the value bounds of runs over time, and the position of the run of each line.

    Infinite values are not drawn.
    """
    lines, places = [], []
    for place, (run, label) in enumerate(zip(runs, labels, strict=True)):
        for name in BOUNDS:
            values = run.metrics.get(name)
            if values is None:
                continue
            text = name if len(runs) == 1 else f"{label}, {name}"
            finite = np.where(np.isfinite(values), values, np.nan)
            line = _series(text, run.metrics["step"], finite, run.true_value, name == "possible")
            if line is not None:
                lines.append(line)
                places.append(place)
    return lines, places


def _series(
    label: str,
    step: FloatArray,
    values: FloatArray,
    optimum: float | None,
    is_dashed: bool = False,
) -> Series | None:
    """Return the mean and the range of values, [n_trials, n_times], where half are known."""
    is_known = np.mean(~np.isnan(values), axis=0) >= 0.5
    if not is_known.any():
        return None
    values = values[:, is_known]
    middle = np.nanmean(values, axis=0)
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    return Series(label, step[is_known], middle, low, high, optimum, is_dashed)


def shown_optima(kind: SeriesKind, lines: Sequence[Series | None]) -> list[float]:
    """Return the optima to draw, each once; 0 has no place on a logarithmic scale."""
    known = {line.optimum for line in lines if line is not None and line.optimum is not None}
    return sorted(value for value in known if value or not kind.is_log)


def unique_labels(runs: Sequence[RunResult]) -> list[str]:
    """Return a unique label for every run."""
    labels = [run.label for run in runs]
    if len(set(labels)) == len(labels):
        return labels
    named = [
        f"{label} ({run.path.name})" if labels.count(label) > 1 and run.path else label
        for label, run in zip(labels, runs, strict=True)
    ]
    if len(set(named)) == len(named):
        return named
    return [f"{i}: {label}" for i, label in enumerate(named, 1)]
