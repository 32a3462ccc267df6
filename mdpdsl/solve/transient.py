"""Certified values of affine rows that every good policy leaves: the core of several objectives.

The rows are those of  V(s) = max_a [c + W V],  with W >= 0 and row sums of at most 1. What a row
lacks to 1 leaves the states for good. The optimum V* is the largest value of a policy that leaves
them with probability 1 (a *proper* one), and it is assumed that either every policy is proper, or
that some are and every other one loses without end: in each set of states in which a policy can
stay, its average constant is negative (Bertsekas and Tsitsiklis 1991). Then:

* T u <= u  implies  V* <= u.  For a proper policy, V = c + W V and u >= c + W u, so that
  V - u <= W (V - u) <= W^n (V - u), which vanishes.
* T l >= l  implies  V* >= l.  Take the pairs that attain T l. If they could stay in a closed set
  with stationary distribution m, then  m l <= m c + m l,  so m c >= 0, which is excluded. So this
  policy is proper, and its own value is at least l, as above. It is the policy returned.

Where l is not above a number that is known to bound V* from below anyway, T l >= l is not needed:
follow the policy until such a state is reached. Likewise for u.

Bounds are guessed around approximate values and then proved by sweeps (`proved_sweeps`), or follow
from the equations of an optimal policy (`verified`). Each proof includes the rounding errors of the
rows and of their sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.affine_rows import Rows, first_best, weight_matrix
from mdpdsl.solve.choose import chosen_method
from mdpdsl.solve.policy_iteration import ELIMINATED_STATES, policy_iteration
from mdpdsl.solve.solution import SolveStatus, Watch, keep_going

#: The tolerance if none is given.
TOLERANCE = 1e-6
#: Values at the start that are smaller than this need not have correct digits.
SMALLEST = 1e-200
#: The size of the values that a program is scaled by is estimated with so many sweeps.
SIZING_SWEEPS = 100


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of n_groups unknowns without self-loops, and what is known about them."""

    rows: Rows
    unit: float  # relative error of a row's sum, with that of its coefficients
    least: float = -math.inf  # known bounds of every value
    most: float = math.inf
    is_one_signed: bool = False  # constants and values have one sign, so that sums lose no digits
    spread: FloatArray | None = None  # [n]  constants are known to be within this
    proper: IntArray | None = None  # [n_groups]  rows of a proper policy; None if all are proper

    @property
    def n_groups(self) -> int:
        """The number of unknowns."""
        return len(self.rows.pair_start) - 1


@dataclass(frozen=True, eq=False)
class Precision:
    """When bounds are close enough: in units of the value's size, but at least of `floor`.

    With `start`, the share of each unknown in the value at the start, that value must also be
    precise in units of its own size, as far as rounding allows; `offset` is the rest of it.
    """

    tolerance: float
    floor: float = 1.0
    start: FloatArray | None = None  # [n_groups]
    offset: float = 0.0

    def is_met(self, lower: FloatArray, upper: FloatArray, floor: float) -> bool:
        """Return whether all bounds are close enough."""
        if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
            return False
        size = np.maximum(floor, np.minimum(np.abs(lower), np.abs(upper)))
        return bool(np.all((upper - lower) / 2 <= self.tolerance * size))

    def floor_at_start(self, lower: FloatArray, upper: FloatArray) -> float | None:
        """Return a floor that makes the value at the start precise; None if it is already.

        There is none either if the value may be 0 for all that is known, or almost is.
        """
        if self.start is None:
            return None
        low, high = (float(self.start @ side) + self.offset for side in (lower, upper))
        size = min(abs(low), abs(high)) or max(abs(low), abs(high)) / 4
        if low < 0 < high or high - low <= 2 * self.tolerance * size or size < SMALLEST:
            return None
        return min(self.floor, size)


@dataclass(frozen=True, eq=False)
class Task:
    """A problem, and how precisely, how long and with what to solve it."""

    problem: Problem
    precision: Precision
    watch: Watch = keep_going
    time_limit: float | None = None
    backend: str = "highs"

    def goes_on(self) -> bool:
        """Ask the watch whether to continue, without new progress."""
        return self.watch(0, math.inf)


@dataclass(frozen=True, eq=False)
class Found:
    """Bounds of the values, and the rows of a policy that attains the lower ones."""

    status: SolveStatus
    values: FloatArray  # [n_groups]
    lower: FloatArray  # [n_groups]
    upper: FloatArray  # [n_groups]
    choice: IntArray  # [n_groups]
    iterations: int = 0
    variant: str = "graph alone"
    message: str = ""


def solve_rows(task: Task, method: str) -> tuple[str, Found]:
    """Solve rows by a method; return the one chosen, and what it found."""
    problem = task.problem
    if problem.n_groups == 0:
        none = np.zeros(0)
        found = Found(SolveStatus.OPTIMAL, none, none, none, np.zeros(0, dtype=np.int64))
        return "vi" if method == "auto" else method, found
    if problem.spread is None and not problem.rows.constant.any():
        zeros, choice = np.zeros(problem.n_groups), _first_policy(problem)
        found = Found(SolveStatus.OPTIMAL, zeros, zeros, zeros, choice, variant="nothing to earn")
        return "vi" if method == "auto" else method, found
    from mdpdsl.solve.proved_sweeps import ProvedSweeps

    chosen = chosen_method(problem.rows, method)
    if chosen == "pi" and problem.n_groups > ELIMINATED_STATES:
        chosen = "mpi"  # policies that large cannot be verified by elimination
    if chosen in ("vi", "mpi"):
        return chosen, ProvedSweeps(task, has_policy_sweeps=chosen == "mpi").run()
    if chosen == "pi":
        return chosen, _by_policies(task, _first_policy(problem), np.zeros(problem.n_groups))
    return chosen, _by_program(task)


def _first_policy(problem: Problem) -> IntArray:
    """Return a proper policy."""
    if problem.proper is not None:
        return problem.proper
    return first_best(problem.rows, problem.rows.constant)[1]


def _by_policies(
    task: Task, choice: IntArray, start: FloatArray, before: int = 0, variant: str = ""
) -> Found:
    """Iterate policies to convergence and verify the result, or else prove bounds by sweeps."""
    from mdpdsl.solve.proved_sweeps import ProvedSweeps
    from mdpdsl.solve.verified import verified_bounds

    problem, precision = task.problem, task.precision
    values, iterations, is_stopped, known = start, before, False, None
    try:
        for iterate in policy_iteration(
            problem.rows, choice, lambda _: math.inf, task.goes_on, start
        ):
            values, iterations = iterate.values, before + iterate.iterations
            if not task.watch(iterations, math.inf):
                is_stopped = True
                break
    except (np.linalg.LinAlgError, RuntimeError):
        values = start  # a policy leaves so seldom that rounding hides it
    values = np.clip(np.where(np.isfinite(values), values, 0.0), problem.least, problem.most)
    if not is_stopped and problem.n_groups <= ELIMINATED_STATES:
        known = verified_bounds(problem, values, task.goes_on)
    if known is not None and precision.is_met(known[0], known[1], precision.floor):
        lower, upper, best = known
        if precision.floor_at_start(lower, upper) is None:
            values, variant = np.clip(values, lower, upper), variant + "linear equations, verified"
            return Found(SolveStatus.OPTIMAL, values, lower, upper, best, iterations, variant)
    sweeps = ProvedSweeps(task, has_policy_sweeps=True, start=values, known=known)
    sweeps.iterations, sweeps.variant = iterations, f"{variant}linear equations, then sweeps"
    if is_stopped or not task.goes_on():
        return sweeps.found(SolveStatus.STOPPED)
    return sweeps.run()


def _by_program(task: Task) -> Found:
    """Solve the linear program, then evaluate its policy: solvers have absolute tolerances."""
    from dataclasses import replace

    from mdpdsl.programs.reward import affine_program
    from mdpdsl.solve.backend import solve_program
    from mdpdsl.solve.proved_sweeps import ProvedSweeps

    problem, backend = task.problem, task.backend
    rows = problem.rows
    rough = ProvedSweeps(task, has_policy_sweeps=True)
    scale = rough.size_after(SIZING_SWEEPS)
    program, decode = affine_program(
        weight_matrix(rows), rows.constant, rows.pair_start.astype(np.int64), scale
    )
    solution = solve_program(program, backend, task.goes_on, task.time_limit)
    if solution is not None and solution.is_optimal:
        optimum = decode(solution)
        return _by_policies(
            task, optimum.choice, optimum.values, solution.iterations, f"{backend}, then "
        )
    if solution is None or solution.status == "time limit":
        return replace(rough.found(SolveStatus.STOPPED), variant=backend)
    message = f"{backend} gave up: {solution.message or solution.status}"
    return replace(rough.found(SolveStatus.FAILED), variant=backend, message=message)
