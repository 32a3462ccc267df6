"""HiGHS through arrays; the loaded model is kept if the next program has the same matrix.

Without a basis to start from, a solve depends only on the program. With one, the whole model is
passed again and the basis set: on the planning program of Pendulum this took 7 ms, while changing
2,500 coefficients one by one took 14 ms. If the matrix is the same, costs and bounds are changed in
place, which took 5 ms.
"""

from __future__ import annotations

import time
from typing import Any

import highspy
import numpy as np

from mdpdsl.programs.program import Basis, LinearProgram, Solution, Status

_STATUS = {
    highspy.HighsModelStatus.kOptimal: Status.OPTIMAL,
    highspy.HighsModelStatus.kModelEmpty: Status.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: Status.UNBOUNDED,
    highspy.HighsModelStatus.kTimeLimit: Status.TIME_LIMIT,
}
#: Tighter than HiGHS's own 1e-7, which is absolute.
TOLERANCE = 1e-9
#: Below this many nonzeros presolve costs more than it saves (Pendulum: 15 ms against 8 ms).
PRESOLVE_FROM = 100_000


class Highs:
    """The simplex method of HiGHS, called directly."""

    name = "highs"

    def __init__(self) -> None:
        self._solver = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)  # a forked process has only one
        self._loaded: LinearProgram | None = None

    def solve(
        self,
        program: LinearProgram,
        start: Basis | None = None,
        *,
        time_limit: float | None = None,
    ) -> Solution:
        """Solve a program, starting from an earlier basis if one is given."""
        began = time.perf_counter()
        is_warm = start is not None and start.backend == self.name
        self._load(program, keeps_model=is_warm)
        if start is not None and is_warm:
            # HiGHS rejects a basis of another shape, and the solve starts cold.
            self._solver.setBasis(start.content)
        has_presolve = not is_warm and program.matrix.nnz >= PRESOLVE_FROM
        found = self._run(time_limit, TOLERANCE, has_presolve)
        if found not in _STATUS:
            # Infeasible or unbounded, unknown, or an error: retry from scratch, presolve reversed.
            self._load(program, keeps_model=False)
            found = self._run(time_limit, 100 * TOLERANCE, not has_presolve)
        return self._solution(program, found, time.perf_counter() - began)

    def _load(self, program: LinearProgram, *, keeps_model: bool) -> None:
        """Load a program; with `keeps_model`, reuse the loaded model if the matrix is the same."""
        solver, last = self._solver, self._loaded
        self._loaded = program
        if keeps_model and last is not None and _has_same_matrix(program, last):
            columns = np.arange(program.n_columns, dtype=np.int32)
            solver.changeColsCost(len(columns), columns, program.objective)
            solver.changeColsBounds(len(columns), columns, program.lower, program.upper)
            changed = np.flatnonzero(
                (program.row_lower != last.row_lower) | (program.row_upper != last.row_upper)
            )
            for row in changed.tolist():
                low, high = float(program.row_lower[row]), float(program.row_upper[row])
                solver.changeRowBounds(row, low, high)
            return
        solver.passModel(_highs_model(program))

    def _run(self, time_limit: float | None, tolerance: float, has_presolve: bool) -> Any:
        solver = self._solver
        # HiGHS limits the total time of this instance, so add what it has used already.
        limit = float("inf") if time_limit is None else solver.getRunTime() + time_limit
        solver.setOptionValue("time_limit", limit)
        solver.setOptionValue("presolve", "on" if has_presolve else "off")
        solver.setOptionValue("primal_feasibility_tolerance", tolerance)
        solver.setOptionValue("dual_feasibility_tolerance", tolerance)
        outcome = solver.run()
        if outcome == highspy.HighsStatus.kError:
            # Another instance in this process may have started with more threads.
            solver.setOptionValue("threads", 0)
            solver.run()
        return solver.getModelStatus()

    def _solution(self, program: LinearProgram, found: Any, seconds: float) -> Solution:
        solver = self._solver
        status = _STATUS.get(found, Status.FAILED)
        iterations = int(solver.getInfo().simplex_iteration_count)
        if status is not Status.OPTIMAL:
            message = str(solver.modelStatusToString(found))
            return Solution(status, iterations=iterations, seconds=seconds, message=message)
        solution = solver.getSolution()
        values = np.array(solution.col_value)
        return Solution(
            status=status,
            objective=float(program.objective @ values),
            values=values,
            row_dual=np.array(solution.row_dual),
            column_dual=np.array(solution.col_dual),
            basis=Basis(self.name, solver.getBasis()),
            iterations=iterations,
            seconds=seconds,
        )


def _has_same_matrix(one: LinearProgram, other: LinearProgram) -> bool:
    a, b = one.matrix, other.matrix
    return a is b or (
        a.shape == b.shape
        and np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.data, b.data)
    )


def _highs_model(program: LinearProgram) -> Any:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = program.n_columns, program.n_rows
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = program.objective
    lp.col_lower_, lp.col_upper_ = program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    matrix = program.matrix.tocsr()
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = matrix.indptr
    lp.a_matrix_.index_ = matrix.indices
    lp.a_matrix_.value_ = matrix.data
    return lp
