"""Policy iteration for the long-run average of components (Howard 1960), by elimination.

A policy is made to have one closed class in each component: the best of those it has, which all
other states then head for. Its gain g and values h solve  h + g = r + P h  with h = 0 in one state.
The bounds of `gains` follow for any h: from the policy's own pairs and from the best ones. The
linear program, if a backend is given, finds the first policy.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import connected_components

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.kernels.affine_rows import first_best, weight_matrix
from mdpdsl.kernels.reaching import attract
from mdpdsl.kernels.solving import predecessors
from mdpdsl.solve.gains import GainBounds, GainProblem
from mdpdsl.solve.policy_iteration import BETTER, DENSE_STATES
from mdpdsl.solve.solution import Watch

#: Sweeps that find the first policy.
FIRST_SWEEPS = 20


def iterate_policies(
    bounds: GainBounds,
    tolerance: float,
    watch: Watch,
    backend: str | None,
    time_limit: float | None,
) -> tuple[bool, str]:
    """Improve policies until none is better; return False if stopped, and a backend's complaint."""
    problem = bounds.problem
    rows, matrix = problem.rows, weight_matrix(problem.rows)
    heading = _Heading(problem)
    if backend is None:
        values = bounds.values
        for _ in range(FIRST_SWEEPS):
            values = values / 2 + bounds.certify(values)[0] / 2
        choice = bounds.choice
    else:
        first = _by_program(problem, heading, backend, watch, time_limit)
        if not isinstance(first, np.ndarray):
            return first
        choice = first
    seen: set[bytes] = set()
    while choice.tobytes() not in seen:
        seen.add(choice.tobytes())
        try:
            choice = _with_one_class(problem, matrix, choice, heading)
            values = _evaluated(matrix[choice], rows.constant[choice], problem.component_of)[0]
        except (np.linalg.LinAlgError, RuntimeError):
            return True, ""  # a class is so hard to leave that rounding hides it
        worth = rows.constant + matrix @ values
        best, greedy = first_best(rows, worth)
        bounds.iterations += 1
        bounds.note(values, worth[choice] - values, best - values, choice)
        if not bounds.is_open(tolerance).any():
            break
        if not watch(bounds.iterations, bounds.widest):
            return False, ""
        scale = np.abs(rows.constant).max() + np.abs(values).max()
        choice = np.where(best > worth[choice] + BETTER * scale, greedy, choice)
    return True, ""


def _by_program(
    problem: GainProblem,
    heading: _Heading,
    backend: str,
    watch: Watch,
    time_limit: float | None,
) -> IntArray | tuple[bool, str]:
    """Return the policy of the linear program, or why there is none."""
    from mdpdsl.programs.average_reward import average_program
    from mdpdsl.solve.backend import solve_program

    rows = problem.rows
    program, decode = average_program(
        weight_matrix(rows), rows.constant, rows.pair_start.astype(np.int64), problem.component_of
    )
    solution = solve_program(program, backend, lambda: watch(0, math.inf), time_limit)
    if solution is None or solution.status == "time limit":
        return False, ""
    if not solution.is_optimal:
        return True, f"{backend} gave up: {solution.message or solution.status}"
    found = decode(solution)
    return heading.to(found.is_visited, found.choice)


class _Heading:
    """Ways to a set of states, by any pairs."""

    def __init__(self, problem: GainProblem) -> None:
        self._arrivals = predecessors(problem.rows)
        counts = np.diff(problem.rows.pair_start)
        self._state_of = np.repeat(np.arange(problem.n_states, dtype=np.uint32), counts)

    def to(
        self, is_goal: BoolArray, choice: IntArray, is_allowed: BoolArray | None = None
    ) -> IntArray:
        """Return a policy that heads for the goal from everywhere else."""
        choice = choice.copy()
        self.found(is_goal, is_allowed, choice)
        return choice

    def found(
        self, is_goal: BoolArray, is_allowed: BoolArray | None, choice: IntArray
    ) -> BoolArray:
        """Return the states that can reach the goal by allowed pairs; write how to `choice`."""
        if is_allowed is None:
            is_allowed = np.ones(len(self._state_of), np.bool_)
        found: BoolArray = attract(*self._arrivals, self._state_of, is_allowed, is_goal, choice)
        return found


def _with_one_class(
    problem: GainProblem, matrix: csr_array, choice: IntArray, heading: _Heading
) -> IntArray:
    """Return a policy with one closed class in each component, the best of those it has."""
    of, n_components = problem.component_of, len(problem.start) - 1
    P, r = csr_array(matrix[choice]), problem.rows.constant[choice]
    class_of, is_recurrent = _classes(P)
    recurrent = np.flatnonzero(is_recurrent)
    members, first = np.unique(class_of[recurrent], return_index=True)
    owner = of[recurrent[first]]  # the component of each closed class
    if len(members) == n_components:
        return choice
    number = np.searchsorted(members, class_of[recurrent])
    _, gain = _evaluated(P[recurrent][:, recurrent], r[recurrent], number)
    order = np.lexsort((np.arange(len(members)), -gain, owner))
    best = members[order[np.unique(owner[order], return_index=True)[1]]]
    is_other = is_recurrent & ~np.isin(class_of, best)
    chosen = np.zeros(len(problem.rows.constant), np.bool_)
    chosen[choice] = True
    strays = heading.found(is_other, chosen, choice.copy())
    return heading.to(~strays, choice)


def _evaluated(P: csr_array, r: FloatArray, part_of: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return values h and the gain g of each part, each with one closed class.

    The value of the first closed state of a part is 0; its column in I - P holds the gain instead.
    """
    n = len(r)
    recurrent = np.flatnonzero(_classes(P)[1])
    reference = recurrent[np.unique(part_of[recurrent], return_index=True)[1]]
    is_free = np.ones(n)
    is_free[reference] = 0.0
    everyone = np.arange(n)
    gains = csr_array((np.ones(n), (everyone, reference[part_of])), shape=(n, n))
    system = csr_array((eye_array(n, format="csr") - P).multiply(is_free[None, :]) + gains)
    if n <= DENSE_STATES:
        solution = np.linalg.solve(system.toarray(), r)
    else:
        from scipy.sparse.linalg import splu

        solution = np.asarray(splu(system.tocsc()).solve(r))
    gain = solution[reference]
    values = solution.copy()
    values[reference] = 0.0
    return np.asarray(values, dtype=np.float64), np.asarray(gain, dtype=np.float64)


def _classes(P: csr_array) -> tuple[IntArray, BoolArray]:
    """Return the class of every state of a chain, and whether it is closed."""
    entries = P.tocoo()
    class_of = np.asarray(connected_components(P, connection="strong")[1], dtype=np.int64)
    origin, target = class_of[entries.row], class_of[entries.col]
    is_closed = np.ones(int(class_of.max()) + 1, np.bool_)
    is_closed[origin[origin != target]] = False
    return class_of, is_closed[class_of]
