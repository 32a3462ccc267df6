"""How near a run for unknown numbers came to the best experiment of as many steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.compile.family import Family
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.programs.design import range_weights
from mdpdsl.programs.visitable import AllocationError

if TYPE_CHECKING:
    from mdpdsl.explore.result import ExploreRun


def design_ratio(run: ExploreRun) -> float | None:
    """Return the mean over trials of phi(T)/phi* at the true values of the unknown numbers.

    phi is tr(W (sum T F)^-1) for the criterion a, and det(sum T F)^(-1/k) for d; phi* is its
    certified least value over occupancies, with as many visits. None unless the run simulated a
    model for this purpose alone: rows with `?` have a part in the best design.
    """
    from mdpdsl.solve.allocate_numbers import experiment_design

    settings = run.settings
    if settings.purpose != "parameters" or run.kind != "explore" or run.warm_start is not None:
        return None
    try:
        best = experiment_design(run.model, criterion=settings.criterion, mix=0.0)
    except AllocationError:
        return None
    family = Family(run.model.checked, run.model.graph)
    F, weights = family.information(best.theta), range_weights(family.low, family.high)
    found = [_phi(trial.counts.visits, F, weights, settings.criterion) for trial in run.trials]
    n = float(np.mean([trial.counts.n_transitions for trial in run.trials]))
    least = _phi(n * best.occupancy, F, weights, settings.criterion)
    return float(np.mean(found) / least)


def _phi(
    visits: FloatArray | IntArray, F: FloatArray, weights: FloatArray, criterion: str
) -> float:
    """Return the criterion of visits, [n_pairs]; infinite if they do not show all numbers."""
    scale = np.sqrt(weights)
    M = np.tensordot(visits.astype(np.float64), F, axes=1) / np.outer(scale, scale)
    values = np.linalg.eigvalsh(M)
    if values[0] <= 1e-12 * max(values[-1], 1e-300):
        return float("inf")
    if criterion == "d":
        return float(np.exp(-np.mean(np.log(values))))
    return float(np.sum(1 / values))
