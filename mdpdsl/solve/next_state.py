"""The probability that the next state is in a goal: one step, and its rounding error."""

from __future__ import annotations

import time

import numpy as np

from mdpdsl.graph.ends import absorb, own_choice
from mdpdsl.graph.objectives import Next
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.bellman import ROUNDING
from mdpdsl.solve.discounted import check_dynamics, check_options
from mdpdsl.solve.solution import SolveOutcome, SolveStatus, value_at_start


def solve_next(
    graph: TransitionGraph,
    objective: Next,
    *,
    is_minimised: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
) -> SolveOutcome:
    """Find the largest (or least) probability of P [ X goal ]; an end stays where it is."""
    began = time.perf_counter()
    check_dynamics(graph)
    check_options(method, tolerance)
    absorbing, is_own = absorb(graph)
    worth = absorbing.transition_matrix() @ objective.goal.astype(np.float64)
    signed = -worth if is_minimised else worth
    start = absorbing.pair_start[:-1]
    best = np.maximum.reduceat(signed, start)
    is_best = signed == best[absorbing.pair_state]
    places = np.where(is_best, np.arange(absorbing.n_pairs), absorbing.n_pairs)
    choice = np.minimum.reduceat(places, start)
    values = np.clip(np.abs(best), 0.0, 1.0)
    error = ROUNDING * (3 + int(np.diff(absorbing.successor_start).max()))
    return SolveOutcome(
        status=SolveStatus.OPTIMAL,
        method="vi" if method == "auto" else method,
        variant="one step",
        values=values,
        lower=np.maximum(values - error, 0.0),
        upper=np.minimum(values + error, 1.0),
        choice=own_choice(choice, is_own),
        value=value_at_start(graph, values),
        bound=error,
        residual=0.0,
        iterations=1,
        seconds=time.perf_counter() - began,
    )
