"""The optimum that runs are measured against, where it takes no longer than a run may wait."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from mdpdsl.estimate.metrics import utility
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.transition_graph import TransitionGraph

#: Beyond these the two optima take more than a few seconds; `mdpdsl allocate` takes the time.
MOST_STATES = 10_000
MOST_MULTIPLICATIONS = 2e8


@dataclass(frozen=True)
class Limits:
    """The least possible L_Worst and L_Avg; None, with the reason, where they are not known."""

    worst: float | None
    average: float | None
    reason: str | None = None

    def record(self) -> dict[str, float] | None:
        """Return the limits for JSON."""
        found = asdict(self)
        return None if found.pop("reason") is not None else found

    def ratio_worst(self, worst: float | None) -> float | None:
        """Return how many times the least L_Worst this one is."""
        return _ratio(worst, self.worst)

    def ratio_average(self, average: float | None) -> float | None:
        """Return how many times the least L_Avg this one is."""
        return _ratio(average, self.average)


def exploration_limits(graph: TransitionGraph) -> Limits:
    """Find the optimum of a graph that is known, unless it is infinite or the graph too large."""
    from mdpdsl.programs.allocation import optimum
    from mdpdsl.programs.normal_equations import NormalEquations
    from mdpdsl.programs.occupancy import flow_rows
    from mdpdsl.programs.visitable import AllocationError

    too_large = "the model is large; `mdpdsl allocate MODEL --kappa inf` finds the optimum"
    if graph.n_states > MOST_STATES:
        return Limits(None, None, too_large)
    if NormalEquations(flow_rows(graph)).multiplications > MOST_MULTIPLICATIONS:
        return Limits(None, None, too_large)
    try:
        found = optimum(graph, squared_l2_complexity(graph))
    except AllocationError as error:
        return Limits(None, None, str(error))
    return Limits(found.worst, found.average)


def best_utility(graph: TransitionGraph, kappa: float) -> float | None:
    """Return the largest U_kappa that any policy reaches in the long run; None if not finite."""
    from mdpdsl.programs.allocation import optimal_allocation

    c = squared_l2_complexity(graph)
    d = optimal_allocation(graph, c, kappa).occupancy
    needed = c > 0
    return utility(d[needed], c[needed], kappa) if (d[needed] > 0).all() else None


def _ratio(value: float | None, least: float | None) -> float | None:
    return None if value is None or not least else value / least
