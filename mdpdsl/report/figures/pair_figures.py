"""Figures of all pairs of a run, as means over its trials: visits, c, c/d_hat, error, radius.

d_hat = T/n is the share of visits to a pair, so c/d_hat = n c/T is the L(s,a) whose maximum and
mean are L_Worst and L_Avg (paper, section on evaluation metrics).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.estimate.run_result import RunResult
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PairFigure:
    """One figure of all pairs; NaN if it is undefined, infinite if a pair was never visited."""

    name: str
    title: str
    note: str
    values: FloatArray  # [n_pairs]
    is_summed: bool = False  # whether pairs are combined by their sum, or by the largest
    is_log: bool = True  # whether the colour scale is logarithmic


def pair_figures(run: RunResult) -> dict[str, PairFigure]:
    """Return the figures of a run by name."""
    reference, symbol = run.reference, run.reference.symbol
    is_outside = ~reference.measured
    visits = np.mean([trial.counts.visits for trial in run.trials], axis=0)
    c = np.where(is_outside, np.nan, reference.complexity)
    losses = np.mean([_losses(c, trial.counts.visits) for trial in run.trials], axis=0)
    errors = np.mean([reference.errors(trial.counts) for trial in run.trials], axis=0)
    errors = np.where(np.isnan(errors), np.inf, errors)
    errors = np.where(is_outside, np.nan, errors)
    found = [
        PairFigure("visits", "Visits T", _mean_note(run, "transitions counted"), visits, True),
        PairFigure(
            "complexity",
            f"Complexity {symbol}",
            f"{symbol} = 1 − ΣP², {_SOURCES[reference.source]}",
            np.where(_are_unknown(run), np.inf, c) if reference.is_estimated else c,
            is_log=False,
        ),
        PairFigure(
            "loss",
            f"Loss {symbol}/d̂",
            _mean_note(run, f"n{symbol}/T; its maximum is L_Worst and its mean L_Avg"),
            losses,
        ),
        PairFigure("error", "Estimation error", _mean_note(run, _ERRORS[reference.source]), errors),
    ]
    if run.sets is not None:
        named = f"{run.sets.kind}, δ = {run.sets.delta:g}, support {run.sets.support}"
        note = f"l₁ radius of the confidence set ({named})"
        found.append(PairFigure("radius", "Radius", note, run.sets.radius, is_log=False))
    return {figure.name: figure for figure in found}


def worst_pairs(run: RunResult, number: int) -> list[int]:
    """Return the pairs with the largest loss: unvisited pairs first, harder ones before others.

    Visited pairs that need no estimate (c = 0) are left out.
    """
    figures = pair_figures(run)
    losses, c = figures["loss"].values, run.reference.complexity
    measured = np.flatnonzero(run.reference.measured & (losses > 0))
    order = np.lexsort((measured, -c[measured], -losses[measured]))
    return [int(pair) for pair in measured[order][:number]]


_SOURCES = {
    "truth": "of the explored model",
    "log": "of the whole log",
    "estimate": "of the estimate, since the true model is unknown",
}
_ERRORS = {
    "truth": "‖P − P̂‖² relative to the explored model",
    "log": "‖P̂(log) − P̂‖² relative to the whole log",
    "estimate": "expected ‖P − P̂‖² = ĉ/T, since the true model is unknown",
}


def _losses(c: FloatArray, visits: IntArray) -> FloatArray:
    """Return n c/T of every pair, infinite if it was never visited."""
    n = float(visits.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = c * n / visits
    return np.where(visits == 0, np.where(np.isnan(c), np.nan, np.inf), losses)


def _are_unknown(run: RunResult) -> BoolArray:
    return np.asarray(np.all([trial.counts.visits == 0 for trial in run.trials], axis=0))


def _mean_note(run: RunResult, text: str) -> str:
    n = len(run.trials)
    return text if n == 1 else f"{text}; mean of {n} trials"
