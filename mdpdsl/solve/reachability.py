"""The maximal (or minimal) probability of reaching a goal, with certified bounds.

A graph search first finds the states with probability 0 or 1. For the maximum, the end components
of the others are collapsed. For the minimum there are none: if a policy can stay outside the goal
for ever, the probability is known to be 0. So every policy leaves the states that remain, and
`transient` bounds their values. The minimum is computed as the maximum of its negative.
"""

from __future__ import annotations

import time

import numpy as np

from mdpdsl.diagnostics import SolveError, did_you_mean
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import Rows, first_best, weight_matrix
from mdpdsl.solve.discounted import check_dynamics, check_options
from mdpdsl.solve.solution import SolveOutcome, Watch, keep_going, largest_error, value_at_start
from mdpdsl.solve.transient import TOLERANCE, Precision, Problem, Task, solve_rows


def solve_reachability(
    graph: TransitionGraph,
    goal: str | BoolArray,
    *,
    allowed: BoolArray | None = None,
    is_minimised: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    backend: str = "highs",
    time_limit: float | None = None,
    watch: Watch = keep_going,
) -> SolveOutcome:
    """Find the maximal (or minimal) probability of reaching a label, and a policy that attains it.

    `goal` is a label of the graph, or the states themselves [n_states]; `allowed` [n_states] are
    the states through which it must be reached, by default all. The tolerance is 1e-6 if none is
    given, and the value at the start is then also precise to six digits.
    """
    from mdpdsl.solve.arrivals import arrivals_of
    from mdpdsl.solve.qualitative import decided_for_least, decided_for_most, lost_states
    from mdpdsl.solve.quotient import components_among, lift_rows, quotient_of

    began = time.perf_counter()
    check_dynamics(graph)
    check_options(method, tolerance)
    is_goal = goal_states(graph, goal)
    is_lost = lost_states(graph, is_goal, allowed)
    arrivals = arrivals_of(graph)
    decide = decided_for_least if is_minimised else decided_for_most
    decided = decide(graph, is_goal, is_lost, arrivals)
    is_open = ~(decided.is_zero | decided.is_one)
    sign = -1.0 if is_minimised else 1.0
    components = None
    if not is_minimised and is_open.any():
        components = components_among(graph, is_open[graph.pair_state], is_open)
    known = decided.is_one.astype(np.float64)
    quotient = quotient_of(graph, is_open, terminal=sign * known, components=components)
    problem = Problem(
        quotient.rows,
        quotient.unit,
        least=min(sign, 0.0),
        most=max(sign, 0.0),
        is_one_signed=True,
    )
    precision = Precision(
        TOLERANCE if tolerance is None else tolerance,
        start=quotient.gathered(graph.initial) if tolerance is None else None,
        offset=sign * float(graph.initial @ known),
    )
    task = Task(problem, precision, watch, time_limit, backend)
    chosen, found = solve_rows(task, method)
    choice = decided.choice
    lift_rows(graph, quotient, arrivals, found.choice, choice)
    lower, upper = (found.upper, found.lower) if is_minimised else (found.lower, found.upper)
    lower, upper, values = (
        quotient.expanded(sign * side, known) for side in (lower, upper, found.values)
    )
    return SolveOutcome(
        status=found.status,
        method=chosen,
        variant=found.variant,
        values=values,
        lower=lower,
        upper=upper,
        choice=choice,
        value=value_at_start(graph, values),
        bound=largest_error(values, lower, upper),
        residual=residual(quotient.rows, found.values),
        iterations=found.iterations,
        seconds=time.perf_counter() - began,
        message=found.message,
    )


def goal_states(graph: TransitionGraph, goal: str | BoolArray) -> BoolArray:
    """Return the states of a label; raise SolveError if there is no such label."""
    if not isinstance(goal, str):
        return np.asarray(goal, dtype=np.bool_)
    if goal not in graph.labels:
        labels = ", ".join(graph.labels)
        known = f"the labels are {labels}" if labels else "it has none: add `label goal when …`"
        close = did_you_mean(goal, list(graph.labels))
        hint = f"{close} ({known})" if close and labels else known
        raise SolveError(f"the model has no label `{goal}`; {hint}")
    return np.asarray(graph.labels[goal], dtype=np.bool_)


def residual(rows: Rows, values: FloatArray) -> float:
    """Return the largest change of a Bellman step."""
    if len(values) == 0:
        return 0.0
    best, _ = first_best(rows, rows.constant + weight_matrix(rows) @ values)
    return float(np.abs(best - values).max())
