"""The optimum that runs are compared with, if it can be found within seconds.

Pairs whose rows are known need no visits: they have c = 0, and no part in the mean of L_Avg.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from mdpdsl.estimate.metrics import utility
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.transition_graph import TransitionGraph

#: Larger models take more than a few seconds, which only `allocate` spends.
MOST_STATES = 10_000
MOST_MULTIPLICATIONS = 2e8


@dataclass(frozen=True)
class Limits:
    """The least possible L_Worst and L_Avg; None, with the reason, if they are not known."""

    worst: float | None
    average: float | None
    reason: str | None = None

    def record(self) -> dict[str, float] | None:
        """Return the limits for JSON."""
        found = asdict(self)
        return None if found.pop("reason") is not None else found

    def ratio_worst(self, worst: float | None) -> float | None:
        """Return the ratio of an L_Worst to the least possible."""
        return _ratio(worst, self.worst)

    def ratio_average(self, average: float | None) -> float | None:
        """Return the ratio of an L_Avg to the least possible."""
        return _ratio(average, self.average)


def exploration_limits(graph: TransitionGraph) -> Limits:
    """Return the optimum of a known graph, unless it is infinite or the graph too large."""
    from mdpdsl.programs.allocation import optimum
    from mdpdsl.programs.normal_equations import NormalEquations
    from mdpdsl.programs.occupancy import flow_rows
    from mdpdsl.programs.visitable import AllocationError

    too_large = "the model is large; `allocate` with `kappa=` inf finds the optimum"
    if graph.n_states > MOST_STATES:
        return Limits(None, None, too_large)
    if NormalEquations(flow_rows(graph.closed)).multiplications > MOST_MULTIPLICATIONS:
        return Limits(None, None, too_large)
    learned = graph.to_learn
    if not learned.any():
        return Limits(None, None, "every row of the model is known, so there is nothing to learn")
    try:
        found = optimum(graph, np.where(learned, squared_l2_complexity(graph), 0.0))
    except AllocationError as error:
        return Limits(None, None, str(error))
    return Limits(found.worst, found.average * (graph.n_pairs / int(learned.sum())))


def best_utility(graph: TransitionGraph, kappa: float) -> float | None:
    """Return the largest long-run U_kappa of any policy; None if it is not finite."""
    from mdpdsl.programs.allocation import optimal_allocation

    c = np.where(graph.to_learn, squared_l2_complexity(graph), 0.0)
    d = optimal_allocation(graph, c, kappa).occupancy
    needed = c > 0
    return utility(d[needed], c[needed], kappa) if (d[needed] > 0).all() else None


def _ratio(value: float | None, least: float | None) -> float | None:
    return None if value is None or not least else value / least
