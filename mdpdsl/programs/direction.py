"""The answer of a planning program: a target occupancy and the policy that attains it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.programs.program import Solution, Status
from mdpdsl.programs.uncertain import OptimisticKernel


class ProgramError(SolveError):
    """A program is too large or was not solved; the message says what would help."""

    status = 1


@dataclass(frozen=True, eq=False)
class Direction:
    """The direction psi of a Frank-Wolfe step (paper, algorithm FW-general)."""

    occupancy: FloatArray  # [n_pairs]  psi, sums to 1
    policy: FloatArray  # [n_pairs]  pi = psi / sum_a psi, sums to 1 within a state
    kernel: OptimisticKernel  # p~, under which psi is stationary


@dataclass(frozen=True)
class ProgramSize:
    """The size of a program, known before it is built."""

    rows: int
    columns: int
    nonzeros: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.columns:,} columns, {self.nonzeros:,} nonzeros"


#: A larger program is out of reach of a simplex method and may exhaust the memory.
MOST_NONZEROS = 20_000_000


def require_buildable(size: ProgramSize, form: str) -> None:
    """Raise ProgramError if a program would be too large to build."""
    if size.nonzeros > MOST_NONZEROS:
        smaller = "the compact formulation or " if form == "full" else ""
        raise ProgramError(
            f"the {form} planning program would have {size}, more than the limit of "
            f"{MOST_NONZEROS:,} nonzeros: use {smaller}the backend evi, which builds no program"
        )


def policy_of(occupancy: FloatArray, pair_start: IntArray) -> FloatArray:
    """Return pi(a|s) = psi(s,a) / sum_b psi(s,b), uniform in states that psi never visits.

    Such states exist only if eta = 0. The alternative, the action with the best reduced cost,
    which an optimist believes to lead to psi, did worse: on Pendulum it left pairs unvisited.
    """
    start = np.unique(pair_start)  # of the states that are no ends
    counts = np.diff(start)
    share = np.repeat(np.add.reduceat(occupancy, start[:-1]), counts)
    policy = np.repeat(1.0 / counts, counts)
    np.divide(occupancy, share, out=policy, where=share > 0)
    return policy


def solved_values(solution: Solution, eta: float) -> FloatArray:
    """Return the values of a solution; raise ProgramError if it has none."""
    if solution.values is not None:
        return solution.values
    reason = {
        Status.INFEASIBLE: (
            f"no occupancy gives every pair a share of at least 2 eta = {2 * eta:g}; "
            "choose a smaller `eta=`, or `auto`"
        ),
        Status.TIME_LIMIT: "the solver ran out of time; allow more time, or use the backend evi",
    }.get(solution.status, solution.message or "the solver gave up; try another backend")
    raise ProgramError(f"the planning program has no solution ({solution.status}): {reason}")
