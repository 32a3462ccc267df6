"""HiGHS fed with arrays; the model stays loaded, so that a program like the last starts warm."""

from __future__ import annotations

import time
from typing import Any

import highspy
import numpy as np

from mdpdsl.programs.program import Basis, LinearProgram, Solution, Status

_STATUS = {
    highspy.HighsModelStatus.kOptimal: Status.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: Status.UNBOUNDED,
    highspy.HighsModelStatus.kTimeLimit: Status.TIME_LIMIT,
}


class Highs:
    """The simplex method of HiGHS, directly."""

    name = "highs"

    def __init__(self) -> None:
        self._solver = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)

    def solve(
        self,
        program: LinearProgram,
        start: Basis | None = None,
        *,
        time_limit: float | None = None,
    ) -> Solution:
        """Solve a program, from an earlier basis if one is given."""
        solver = self._solver
        began = time.perf_counter()
        solver.setOptionValue("time_limit", float("inf") if time_limit is None else time_limit)
        solver.setOptionValue("presolve", "choose" if start is None else "off")
        solver.passModel(_highs_model(program))
        if start is not None and start.backend == self.name:
            solver.setBasis(start.content)
        solver.run()
        found = solver.getModelStatus()
        if found == highspy.HighsModelStatus.kUnboundedOrInfeasible:
            solver.setOptionValue("presolve", "off")
            solver.run()
            found = solver.getModelStatus()
        status = _STATUS.get(found, Status.FAILED)
        seconds = time.perf_counter() - began
        information = solver.getInfo()
        iterations = int(information.simplex_iteration_count)
        if status is not Status.OPTIMAL:
            message = str(solver.modelStatusToString(found))
            return Solution(status, iterations=iterations, seconds=seconds, message=message)
        solution = solver.getSolution()
        return Solution(
            status=status,
            objective=float(information.objective_function_value),
            values=np.asarray(solution.col_value),
            row_dual=np.asarray(solution.row_dual),
            column_dual=np.asarray(solution.col_dual),
            basis=Basis(self.name, solver.getBasis()),
            iterations=iterations,
            seconds=seconds,
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
