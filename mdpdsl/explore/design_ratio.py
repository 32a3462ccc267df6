"""How near a run for unknown numbers came to the best experiment of as many steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.compile.family import Family
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.programs.design import criterion_of, range_weights
from mdpdsl.programs.visitable import AllocationError

if TYPE_CHECKING:
    from mdpdsl.explore.result import ExploreRun


def design_ratio(run: ExploreRun) -> float | None:
    """Return the mean over trials of phi(T)/phi* at the true values of the unknown numbers.

    phi is tr(W (sum T F)^-1) for the criterion a, and det(sum T F)^(-1/k) for d; phi* is its
    certified least value over occupancies, with as many visits. If rows have unknown probabilities
    as well, both losses count, with the weight of the run. None unless the run simulated a model
    for this purpose; infinite if a trial did not show all numbers.
    """
    from mdpdsl.solve.allocate_numbers import experiment_design, open_needs

    settings = run.settings
    if settings.purpose != "parameters" or run.kind != "explore" or run.warm_start is not None:
        return None
    try:
        best = experiment_design(run.model, criterion=settings.criterion, mix=settings.mix)
    except AllocationError:
        return None
    family = Family(run.model.checked, run.model.graph)
    F, weights = family.information(best.theta), range_weights(family.low, family.high)
    graph = run.model.graph
    assert graph.knowledge is not None
    needs = open_needs(graph, graph.knowledge)
    needed = (needs > 0) & (best.mix is not None)

    def phi(visits: FloatArray | IntArray) -> float:
        of_numbers = criterion_of(visits, F, weights, settings.criterion) / best.units[0]
        with np.errstate(divide="ignore"):
            of_rows = float(np.sum(needs[needed] / visits[needed]))
        return of_numbers + (best.mix or 0.0) * of_rows / best.units[1]

    n = float(np.mean([trial.counts.n_transitions for trial in run.trials]))
    found = [phi(trial.counts.visits) for trial in run.trials]
    return float(np.mean(found) / phi(n * best.occupancy))


def design_text(ratio: float | None) -> str | None:
    """Say how near a run came to the best design; None if that is not known."""
    if ratio is None:
        return None
    if not np.isfinite(ratio):
        return "the visits do not show all numbers"
    return f"{ratio:.2f} times the best"
