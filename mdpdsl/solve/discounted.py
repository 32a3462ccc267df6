"""The largest (or least) discounted reward, with a certified bound."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.ends import absorb, own_choice
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import MOST_BRANCHES, Rows, first_best
from mdpdsl.solve.bellman import Certificate, certify, rounding_unit
from mdpdsl.solve.choose import chosen_method
from mdpdsl.solve.policy_iteration import ELIMINATED_STATES, policy_iteration
from mdpdsl.solve.solution import METHODS, Iterate, SolveOutcome, SolveStatus, Watch, keep_going

#: The default tolerance, times the largest reward if that exceeds 1.
TOLERANCE = 1e-6
DISCOUNT = 0.99
#: An iterate is idle if it lowers the bound by less than this. So many idle iterates, with a bound
#: within this factor of the rounding error, show that rounding allows no further progress.
PROGRESS, MOST_IDLE, NEAR_ROUNDING = 0.9, 1000, 4.0
#: Values at the start that are smaller than this need not have correct digits.
SMALLEST = 1e-200
#: The error, relative to the rewards, that is allowed in the start of policy iteration.
ROUGH = 1e-3


def solve_discounted(
    graph: TransitionGraph,
    discount: float = DISCOUNT,
    *,
    is_minimised: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    backend: str = "highs",
    reward: FloatArray | None = None,
    time_limit: float | None = None,
    watch: Watch = keep_going,
) -> SolveOutcome:
    """Find the values and a policy that maximise the expected sum of discount^t reward_t.

    `reward` [n_pairs] defaults to the graph's own. The method is one of auto, vi, mpi, pi and lp;
    `backend` names the solver for lp.
    """
    began = time.perf_counter()
    earned = checked_reward(graph, reward)
    check_options(method, tolerance)
    if graph.ends is not None:  # nothing is earned after an end
        absorbing, is_own = absorb(graph)
        whole = np.zeros(absorbing.n_pairs)
        whole[is_own] = earned
        outcome = solve_discounted(
            absorbing,
            discount,
            is_minimised=is_minimised,
            method=method,
            tolerance=tolerance,
            backend=backend,
            reward=whole,
            time_limit=time_limit,
            watch=watch,
        )
        values, lower, upper = (
            np.where(graph.ends, 0.0, numbers)
            for numbers in (outcome.values, outcome.lower, outcome.upper)
        )
        choice = own_choice(outcome.choice, is_own)
        return replace(outcome, values=values, lower=lower, upper=upper, choice=choice)
    if not 0 <= discount < 1:
        raise SolveError(
            f"the discount {discount:g} is not in [0, 1): an infinite sum of rewards needs a "
            "discount below 1, such as 0.99; for the probability of reaching a label, set `reach=`"
        )
    limit = tolerance or TOLERANCE * max(1.0, float(np.abs(earned).max()))
    rows = discounted_rows(graph, -earned if is_minimised else earned, discount)
    task = _Task(rows, discount, limit, watch, began, time_limit)
    chosen = chosen_method(rows, method)
    if chosen == "pi":
        found = _by_policies(task, *_first_policy(task))
    elif chosen == "lp":
        found = _by_program(task, graph, -earned if is_minimised else earned, backend)
    else:
        found = _by_sweeps(task, has_policy_sweeps=chosen == "mpi")
        if tolerance is None:
            found = _refined(task, found, graph.initial, has_policy_sweeps=chosen == "mpi")
    certificate = found.certificate
    values = 0.0 - certificate.values if is_minimised else certificate.values
    return SolveOutcome(
        status=found.status,
        method=chosen,
        variant=found.variant,
        values=values,
        lower=values - certificate.bound,
        upper=values + certificate.bound,
        choice=certificate.choice,
        value=float(graph.initial @ values),
        bound=certificate.bound,
        residual=certificate.residual,
        iterations=found.iterations,
        seconds=time.perf_counter() - began,
        message=found.message,
    )


def discounted_rows(graph: TransitionGraph, reward: FloatArray, discount: float) -> Rows:
    """Return the rows of  r + gamma P V."""
    return Rows(
        graph.pair_start.astype(np.uint32),
        graph.successor_start.astype(np.uint32),
        graph.successor.view(np.uint32),
        discount * graph.probability,
        np.ascontiguousarray(reward, dtype=np.float64),
    )


def checked_reward(graph: TransitionGraph, reward: FloatArray | None) -> FloatArray:
    """Return the rewards to solve for; raise SolveError if there are none."""
    check_dynamics(graph)
    if reward is None:
        reward = graph.reward
    if reward is None:
        raise SolveError(
            "the model has no rewards: add a line such as `reward when x == 3 : 1`, or ask for "
            "the reachability of a label (`reach=`)"
        )
    if reward.shape != (graph.n_pairs,) or not np.isfinite(reward).all():
        raise SolveError(f"give one finite reward for each of the {graph.n_pairs} pairs")
    return reward


def check_dynamics(graph: TransitionGraph) -> None:
    """Raise SolveError if the model has no dynamics, or more branches than an index can count."""
    if not graph.has_dynamics:
        raise SolveError("the dynamics of this model are unknown; estimate them from a log first")
    if graph.n_branches > MOST_BRANCHES:
        raise SolveError(
            f"the model has {graph.n_branches:,} branches; the limit is {MOST_BRANCHES:,}"
        )


def check_options(method: str, tolerance: float | None) -> None:
    """Raise SolveError if an option is invalid."""
    if method not in METHODS:
        raise SolveError(f"unknown method `{method}`; choose one of {', '.join(METHODS)}")
    if tolerance is not None and not (tolerance > 0 and math.isfinite(tolerance)):
        raise SolveError(f"the tolerance {tolerance:g} is not a positive number")


@dataclass(frozen=True)
class _Task:
    rows: Rows
    discount: float
    tolerance: float
    watch: Watch
    began: float
    time_limit: float | None

    def goes_on(self) -> bool:
        """Ask the watch whether to continue, without new progress."""
        return self.watch(0, math.inf)


@dataclass(frozen=True)
class _Found:
    status: SolveStatus
    certificate: Certificate
    iterations: int
    variant: str
    message: str = ""


def _by_sweeps(task: _Task, has_policy_sweeps: bool, start: FloatArray | None = None) -> _Found:
    from mdpdsl.solve.value_iteration import SweepRun

    run = SweepRun(task.rows, task.discount, task.tolerance, has_policy_sweeps, start)
    status, certificate, iterations = _settle(task, iter(run))
    return _Found(status, certificate, iterations, run.variant)


def _refined(task: _Task, found: _Found, initial: FloatArray, has_policy_sweeps: bool) -> _Found:
    """Continue until the value at the start is precise in units of its size, if rounding allows."""
    certificate = found.certificate
    needed = TOLERANCE * (abs(float(initial @ certificate.values)) - certificate.bound)
    if found.status is not SolveStatus.OPTIMAL or certificate.bound <= max(needed, SMALLEST):
        return found
    limit = max(needed, 4 * certificate.rounding, SMALLEST)
    again = _by_sweeps(replace(task, tolerance=limit), has_policy_sweeps, certificate.values)
    status = again.status if again.status is SolveStatus.STOPPED else SolveStatus.OPTIMAL
    return replace(again, status=status, iterations=found.iterations + again.iterations)


def _first_policy(task: _Task) -> tuple[IntArray, FloatArray, int]:
    """Return a first policy, values close to its own, and the iterations that this took.

    A greedy policy needs as many improvements as rewards are steps away. In a large model each of
    them is expensive, and a few sweeps give a better start.
    """
    rows = task.rows
    n_states = len(rows.pair_start) - 1
    if n_states <= ELIMINATED_STATES:
        return first_best(rows, rows.constant)[1], np.zeros(n_states), 0
    from mdpdsl.solve.value_iteration import SweepRun

    rough = max(task.tolerance, ROUGH * float(np.abs(rows.constant).max()))
    for iterate in SweepRun(rows, task.discount, rough, True):
        if iterate.bound <= rough or not task.watch(iterate.iterations, iterate.bound):
            break
    certificate = certify(rows, task.discount, iterate.values)
    return certificate.choice, certificate.values, iterate.iterations


def _by_policies(
    task: _Task, choice: IntArray, start: FloatArray | None = None, iterations_before: int = 0
) -> _Found:
    """Iterate policies to convergence; sweeps remove the error of an inexact linear solution."""
    variant = "linear equations"
    last = Iterate(np.zeros(len(choice)) if start is None else start, 0, math.inf)
    is_stopped = False

    def bound_of(values: FloatArray) -> float:
        return certify(task.rows, task.discount, values).bound

    for last in policy_iteration(task.rows, choice, bound_of, task.goes_on, start):
        if not task.watch(iterations_before + last.iterations, last.bound):
            is_stopped = True
            break
    iterations = iterations_before + last.iterations
    certificate = certify(task.rows, task.discount, last.values)
    status = _status(task, certificate)
    if status is None and not is_stopped:
        from mdpdsl.solve.value_iteration import SweepRun

        run = SweepRun(task.rows, task.discount, task.tolerance, True, last.values)
        status, certificate, more = _settle(task, iter(run))
        iterations += more
        variant = f"{variant}, then {run.variant}"
    return _Found(status or SolveStatus.STOPPED, certificate, iterations, variant)


def _by_program(task: _Task, graph: TransitionGraph, reward: FloatArray, backend: str) -> _Found:
    """Solve the program, then evaluate its policy exactly: solvers have absolute tolerances."""
    from mdpdsl.programs.reward import reward_program
    from mdpdsl.solve.backend import solve_program

    program, decode = reward_program(graph, reward, task.discount)
    solution = solve_program(program, backend, task.goes_on, task.time_limit)
    variant = f"{backend}, then linear equations"
    if solution is None or not solution.is_optimal:
        nothing = certify(task.rows, task.discount, np.zeros(graph.n_states))
        if solution is None or solution.status == "time limit":
            return _Found(SolveStatus.STOPPED, nothing, 0, variant)
        message = f"{backend} gave up: {solution.message or solution.status}"
        return _Found(SolveStatus.FAILED, nothing, solution.iterations, variant, message)
    optimum = decode(solution)
    found = _by_policies(task, optimum.choice, optimum.values, solution.iterations)
    return _Found(found.status, found.certificate, found.iterations, variant)


def _settle(task: _Task, iterates: Iterator[Iterate]) -> tuple[SolveStatus, Certificate, int]:
    """Iterate until the values are certified to be within the tolerance, or the watch stops it.

    Close to the rounding error, bounds may stop falling; then the best iterate is the result.
    """
    noise = rounding_unit(task.rows) / (1 - task.discount)
    best, n_idle = Iterate(np.zeros(0), 0, math.inf), 0
    for iterate in iterates:
        n_idle = 0 if iterate.bound < PROGRESS * best.bound else n_idle + 1
        best = iterate if iterate.bound < best.bound else best
        goes_on = task.watch(iterate.iterations, iterate.bound)
        size = float(np.abs(task.rows.constant).max() + np.abs(iterate.values).max())
        is_lost = n_idle > MOST_IDLE and best.bound <= NEAR_ROUNDING * noise * size
        is_near = iterate.bound <= task.tolerance
        if is_near or is_lost or not goes_on:
            values = iterate.values if is_near else best.values
            certificate = certify(task.rows, task.discount, values)
            status = _status(task, certificate)
            if status is None and is_lost:
                status = SolveStatus.PRECISION
            if status is not None or not goes_on:
                return status or SolveStatus.STOPPED, certificate, iterate.iterations
    raise AssertionError("sweeps never end by themselves")


def _status(task: _Task, certificate: Certificate) -> SolveStatus | None:
    """Return the status that a certificate ends the task with; None if more work would help."""
    if certificate.bound <= task.tolerance:
        return SolveStatus.OPTIMAL
    if certificate.rounding > task.tolerance / 2 and certificate.bound <= 3 * certificate.rounding:
        return SolveStatus.PRECISION
    return None
