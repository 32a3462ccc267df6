"""Solve a graph for any objective: the best values with certified bounds, and a policy."""

from __future__ import annotations

from typing import Any

from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Next, Objective, Total, Until
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.solution import SolveOutcome, Watch, keep_going, until_late


def solve_objective(
    graph: TransitionGraph,
    objective: Objective,
    *,
    is_minimised: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    backend: str = "highs",
    time_limit: float | None = None,
    watch: Watch = keep_going,
) -> SolveOutcome:
    """Find the maximal (or minimal) value of an objective in every state, and a policy for it.

    The method is one of auto, vi, mpi, pi and lp; objectives over a limited number of steps have
    only one. The tolerance is in units of a value's size, but at least 1 (for discounted rewards it
    is absolute); it is 1e-6 if none is given, and the value at the start is then also precise to
    six digits where rounding allows it. After `time_limit` seconds, or when the watch returns
    False, the result has the bounds that hold by then.
    """
    common: dict[str, Any] = {
        "is_minimised": is_minimised,
        "method": method,
        "tolerance": tolerance,
        "watch": until_late(watch, time_limit),
    }
    solver: dict[str, Any] = {"backend": backend, "time_limit": time_limit}
    match objective:
        case Next():
            from mdpdsl.solve.next_state import solve_next

            del common["watch"]
            return solve_next(graph, objective, **common)
        case Until(steps=None):
            from mdpdsl.solve.reachability import solve_reachability

            return solve_reachability(
                graph, objective.goal, allowed=objective.allowed, **common, **solver
            )
        case Until(steps=int(steps)):
            from mdpdsl.solve.bounded_until import solve_bounded_until

            return solve_bounded_until(
                graph, objective.goal, steps, allowed=objective.allowed, **common
            )
        case Total():
            from mdpdsl.solve.total import solve_total

            return solve_total(graph, objective.reward, objective.goal, **common, **solver)
        case Cumulative():
            from mdpdsl.solve.cumulative import solve_cumulative

            return solve_cumulative(graph, objective.reward, objective.steps, **common)
        case Discounted():
            from mdpdsl.solve.discounted import solve_discounted

            return solve_discounted(
                graph, objective.discount, reward=objective.reward, **common, **solver
            )
        case Average():
            from mdpdsl.solve.average import solve_average

            return solve_average(graph, objective.reward, **common, **solver)
        case _:
            raise TypeError(f"unknown objective {objective!r}")
