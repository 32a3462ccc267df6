"""The maximal (or minimal) probability of reaching the states of a label, with a certified bound.

A graph search first finds the states with probability 0 or 1. The others are bounded from both
sides at once (interval iteration, Haddad and Monmege 2014), by sweeps in place in a good order; or
they are solved by policy iteration or a linear program, and then verified: with e a bound on the
residual and w >= 1 + W w for the nearly optimal pairs,

    T(V + e w) <= V + e w   and   T(V - e w) >= V - e w

imply that V is exact up to e w, since the solution is unique. Both are checked numerically, for all
pairs.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.diagnostics import SolveError, did_you_mean
from mdpdsl.graph.ends import absorb, own_choice
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import Rows, first_best, weight_matrix
from mdpdsl.solve.bellman import rounding_unit
from mdpdsl.solve.choose import chosen_method
from mdpdsl.solve.discounted import TOLERANCE, check_dynamics, check_options
from mdpdsl.solve.policy_iteration import ELIMINATED_STATES, Continue, policy_iteration
from mdpdsl.solve.solution import SolveOutcome, SolveStatus, Watch, keep_going

#: Sweeps over the chosen pairs only, between two of interval iteration (modified policy iteration).
POLICY_SWEEPS = 10
#: Pairs within this margin of the best must satisfy w >= 1 + W w; if that fails, the next margin.
MARGINS = (1e-9, 1e-4, math.inf)


def solve_reachability(
    graph: TransitionGraph,
    goal: str | BoolArray,
    *,
    is_minimised: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    backend: str = "highs",
    time_limit: float | None = None,
    watch: Watch = keep_going,
) -> SolveOutcome:
    """Find the maximal (or minimal) probability of reaching a label, and a policy that attains it.

    `goal` is a label of the graph, or the states themselves [n_states].
    """
    from mdpdsl.solve.arrivals import arrivals_of
    from mdpdsl.solve.qualitative import decided_for_least, decided_for_most
    from mdpdsl.solve.quotient import lifted_choice, lifted_values, quotient_of

    began = time.perf_counter()
    check_dynamics(graph)
    check_options(method, tolerance)
    is_goal = goal_states(graph, goal)
    if graph.ends is not None:
        absorbing, is_own = absorb(graph)
        outcome = solve_reachability(
            absorbing,
            is_goal,
            is_minimised=is_minimised,
            method=method,
            tolerance=tolerance,
            backend=backend,
            time_limit=time_limit,
            watch=watch,
        )
        return replace(outcome, choice=own_choice(outcome.choice, is_own))
    arrivals = arrivals_of(graph)
    decide = decided_for_least if is_minimised else decided_for_most
    decided = decide(graph, is_goal, arrivals)
    quotient = quotient_of(graph, decided, is_minimised)
    rows = quotient.rows
    limit = TOLERANCE if tolerance is None else tolerance
    if quotient.n_groups == 0:
        nothing = np.zeros(0)
        found = _Found(SolveStatus.OPTIMAL, nothing, np.zeros(0, np.int64), 0.0, 0, "graph alone")
        chosen = "vi" if method == "auto" else method
    else:
        chosen = _verifiable_method(rows, chosen_method(rows, method))
        least = -1.0 if is_minimised else 0.0
        task = _Task(rows, limit, least, watch, time_limit)
        if chosen in ("vi", "mpi"):
            found = _by_intervals(task, POLICY_SWEEPS if chosen == "mpi" else 0)
        elif chosen == "pi":
            nowhere = np.zeros(quotient.n_groups)
            found = _by_policies(task, first_best(rows, rows.constant)[1], nowhere)
        else:
            found = _by_program(task, backend)
    values = lifted_values(quotient, decided, 0.0 - found.values if is_minimised else found.values)
    return SolveOutcome(
        status=found.status,
        method=chosen,
        variant=found.variant,
        values=values,
        choice=lifted_choice(graph, quotient, decided, arrivals, found.choice),
        value=float(graph.initial @ values),
        bound=found.bound,
        residual=_residual(rows, found.values),
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


def _verifiable_method(rows: Rows, method: str) -> str:
    """Return the method, or one with its own bounds if policies are too large to verify.

    Verification needs the largest number of steps that any policy takes. It may be 10^10, and then
    only elimination can compute it.
    """
    is_large = len(rows.pair_start) - 1 > ELIMINATED_STATES
    return "mpi" if is_large and method == "pi" else method


@dataclass(frozen=True)
class _Task:
    rows: Rows
    tolerance: float
    least: float  # the least possible value; the largest is this plus 1
    watch: Watch
    time_limit: float | None

    def goes_on(self) -> bool:
        """Ask the watch whether to continue, without new progress."""
        return self.watch(0, 0.5)


@dataclass(frozen=True, eq=False)
class _Found:
    status: SolveStatus
    values: FloatArray  # [n_groups]
    choice: IntArray  # [n_groups]  row index
    bound: float
    iterations: int
    variant: str
    message: str = ""


def _by_intervals(task: _Task, policy_sweeps: int, before: int = 0) -> _Found:
    from mdpdsl.kernels.solving import narrow, order_from, raise_lower, reordered

    rows, slack = task.rows, rounding_unit(task.rows)
    sources = np.flatnonzero(
        np.maximum.reduceat(np.abs(rows.constant), rows.pair_start[:-1].astype(np.int64)) > 0
    )
    order = order_from(rows, sources.astype(np.uint32))
    ordered, old_pair = reordered(rows, order)
    lower = np.full(len(order), task.least)
    upper = np.full(len(order), task.least + 1)
    choice = ordered.pair_start[:-1].copy()
    iterations, status = before, SolveStatus.STOPPED
    while True:
        gap, has_moved = narrow(ordered, lower, upper, choice, slack)
        iterations += 1
        if gap / 2 <= task.tolerance:
            status = SolveStatus.OPTIMAL
        elif not has_moved:
            status = SolveStatus.PRECISION
        if status is not SolveStatus.STOPPED or not task.watch(iterations, gap / 2):
            break
        if policy_sweeps:
            raise_lower(ordered, lower, choice, policy_sweeps, slack)
            iterations += policy_sweeps
    values, chosen = np.empty(len(order)), np.empty(len(order), np.int64)
    values[order] = lower / 2 + upper / 2
    chosen[order] = old_pair[choice]
    bound = float(np.max(upper - lower)) / 2 + slack
    return _Found(status, values, chosen, bound, iterations, "bounds from both sides")


def _by_policies(task: _Task, choice: IntArray, start: FloatArray, before: int = 0) -> _Found:
    """Iterate policies to convergence and verify the result, or else bound it from both sides."""
    rows = task.rows
    values, iterations, is_stopped = start, before, False
    for iterate in policy_iteration(rows, choice, lambda _: 0.5, task.goes_on, start):
        values, iterations = iterate.values, before + iterate.iterations
        if not task.watch(iterations, 0.5):
            is_stopped = True
            break
    values = np.clip(values, task.least, task.least + 1)
    greedy = first_best(rows, rows.constant + weight_matrix(rows) @ values)[1]
    can_verify = not is_stopped and len(choice) <= ELIMINATED_STATES
    bound = _verified_bound(rows, values, task.goes_on) if can_verify else None
    if bound is not None and bound <= task.tolerance:
        return _Found(
            SolveStatus.OPTIMAL, values, greedy, bound, iterations, "linear equations, verified"
        )
    if is_stopped or not task.goes_on():
        middle = np.full(len(choice), task.least + 0.5)
        return _Found(SolveStatus.STOPPED, middle, greedy, 0.5, iterations, "linear equations")
    return _by_intervals(task, POLICY_SWEEPS, iterations)


def _by_program(task: _Task, backend: str) -> _Found:
    from mdpdsl.programs.reward import affine_program
    from mdpdsl.solve.backend import solve_program

    rows = task.rows
    program, decode = affine_program(
        weight_matrix(rows), rows.constant, rows.pair_start.astype(np.int64), 1.0
    )
    solution = solve_program(program, backend, task.goes_on, task.time_limit)
    if solution is not None and solution.is_optimal:
        optimum = decode(solution)
        return _by_policies(task, optimum.choice, optimum.values, solution.iterations)
    middle = np.full(len(rows.pair_start) - 1, task.least + 0.5)
    greedy = first_best(rows, rows.constant)[1]
    if solution is None or solution.status == "time limit":
        return _Found(SolveStatus.STOPPED, middle, greedy, 0.5, 0, backend)
    message = f"{backend} gave up: {solution.message or solution.status}"
    return _Found(SolveStatus.FAILED, middle, greedy, 0.5, solution.iterations, backend, message)


def _verified_bound(rows: Rows, values: FloatArray, goes_on: Continue) -> float | None:
    """Return a bound on the error of values; None if none could be verified."""
    matrix, unit = weight_matrix(rows), rounding_unit(rows)
    worth = rows.constant + matrix @ values
    best, greedy = first_best(rows, worth)
    excess = 2 * (float(np.abs(best - values).max()) + 4 * unit)
    for margin in MARGINS:
        is_close = worth >= best[_states(rows)] - margin
        steps = _most_steps(rows, is_close, greedy, goes_on)
        if steps is None:
            continue
        upper, lower = values + excess * steps, values - excess * steps
        size = float(excess * steps.max())
        above = first_best(rows, rows.constant + matrix @ upper)[0]
        below = first_best(rows, rows.constant + matrix @ lower)[0]
        rounding = unit * (2 + size)
        if np.all(above + rounding <= upper) and np.all(below - rounding >= lower):
            return size
    return None


def _most_steps(
    rows: Rows, is_allowed: BoolArray, choice: IntArray, goes_on: Continue
) -> FloatArray | None:
    """Return  w >= 1 + W w  for all allowed pairs: about the most steps that any policy takes."""
    allowed = np.flatnonzero(is_allowed)
    matrix = weight_matrix(rows)[allowed]
    start = np.concatenate([[0], np.cumsum(is_allowed)])
    limited = Rows(
        start[rows.pair_start].astype(np.uint32),
        matrix.indptr.astype(np.uint32),
        matrix.indices.astype(np.uint32),
        matrix.data,
        np.full(len(allowed), 2.0),
    )
    try:
        for iterate in policy_iteration(limited, start[choice], lambda _: 0.0, goes_on):
            steps = iterate.values
            if np.isfinite(steps).all() and np.all(1 + matrix @ steps <= steps[_states(limited)]):
                return steps
    except np.linalg.LinAlgError:  # leaving is so unlikely that it is lost in rounding
        return None
    return None


def _states(rows: Rows) -> IntArray:
    """Return the state of every pair."""
    return np.repeat(np.arange(len(rows.pair_start) - 1), np.diff(rows.pair_start))


def _residual(rows: Rows, values: FloatArray) -> float:
    """Return the largest change of a Bellman step."""
    if len(values) == 0:
        return 0.0
    best, _ = first_best(rows, rows.constant + weight_matrix(rows) @ values)
    return float(np.abs(best - values).max())
