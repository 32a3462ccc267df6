"""Measures of a run over time: the mean over its trials as a line, their range as a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdpdsl.estimate.run_result import RunResult
from mdpdsl.graph.space import FloatArray


@dataclass(frozen=True)
class SeriesKind:
    """A measure that is drawn over time."""

    name: str
    title: str
    note: str
    is_log: bool


@dataclass(frozen=True, eq=False)
class Series:
    """The mean of a measure over trials, with its least and largest value."""

    label: str
    step: FloatArray  # [n]
    middle: FloatArray  # [n]
    low: FloatArray  # [n]
    high: FloatArray  # [n]
    optimum: float | None = None

    @property
    def has_band(self) -> bool:
        """Whether the trials differ."""
        return bool(np.any(self.high > self.low))


KINDS = (
    SeriesKind("worst", "L_Worst over time", "the largest n·c/T of any pair", True),
    SeriesKind("average", "L_Avg over time", "the mean of n·c/T over all pairs", True),
    SeriesKind("coverage", "Pairs visited over time", "share of all pairs", False),
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
    is_known = np.mean(~np.isnan(values), axis=0) >= 0.5
    if not is_known.any():
        return None
    values = values[:, is_known]
    middle = np.nanmean(values, axis=0)
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    optimum = None if run.optimum is None else run.optimum.get(kind.name)
    return Series(label, metrics["step"][is_known], middle, low, high, optimum)


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
