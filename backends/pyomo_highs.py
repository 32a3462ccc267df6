"""Pyomo: a program as a model that people can read and change, solved by HiGHS.

Each block of a program becomes a set, and a variable or constraint indexed by it, with names such
as `d[state, action]` or `flow[state]`. This is the reference for the other backends.
"""

from __future__ import annotations

import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.gc_manager import PauseGC
from pyomo.contrib.solver.common.results import TerminationCondition
from pyomo.contrib.solver.solvers.highs import Highs as PyomoHighsSolver
from pyomo.core.expr import LinearExpression

from mdpdsl.programs.program import BackendError, Basis, Block, LinearProgram, Solution, Status

_STATUS = {
    TerminationCondition.convergenceCriteriaSatisfied: Status.OPTIMAL,
    TerminationCondition.provenInfeasible: Status.INFEASIBLE,
    TerminationCondition.locallyInfeasible: Status.INFEASIBLE,
    TerminationCondition.unbounded: Status.UNBOUNDED,
    TerminationCondition.maxTimeLimit: Status.TIME_LIMIT,
}
_FORMATS = {"lp": "cpxlp", "mps": "mps"}
TOLERANCE = 1e-9
#: A Pyomo model takes about 2 kB per variable or constraint.
MOST_COMPONENTS = 2_000_000


class PyomoHighs:
    """Pyomo and its interface to HiGHS; every solve starts afresh."""

    name = "pyomo-highs"

    def solve(
        self,
        program: LinearProgram,
        start: Basis | None = None,
        *,
        time_limit: float | None = None,
    ) -> Solution:
        """Solve a program; a starting basis is ignored."""
        # Garbage collection over so many small objects takes longer than the solver.
        with PauseGC():
            return self._solve(program, time_limit)

    def _solve(self, program: LinearProgram, time_limit: float | None) -> Solution:
        began = time.perf_counter()
        model, variables, constraints = pyomo_model(program)
        found, loader = _run(model, time_limit, "choose", TOLERANCE)
        if found not in _STATUS:
            found, loader = _run(model, time_limit, "off", 100 * TOLERANCE)
        status = _STATUS.get(found, Status.FAILED)
        seconds = time.perf_counter() - began
        if status is not Status.OPTIMAL:
            return Solution(status, seconds=seconds, message=str(found.name))
        values, duals, reduced = (
            loader.get_vars(),
            loader.get_duals(),
            loader.get_reduced_costs(),
        )
        x = np.array([values[v] for v in variables], dtype=np.float64)
        row_dual = np.array([0.0 if c is None else duals[c] for c in constraints])
        return Solution(
            status=status,
            objective=float(program.objective @ x),
            values=x,
            row_dual=row_dual,
            column_dual=np.array([reduced[v] for v in variables], dtype=np.float64),
            seconds=time.perf_counter() - began,
        )

    def write(self, program: LinearProgram, path: Path, file_format: str) -> None:
        """Write a program to a file in the format `lp` or `mps`, with readable names."""
        model, _, _ = pyomo_model(program)
        options = {"symbolic_solver_labels": True}
        with redirect_stdout(sys.stderr):  # Pyomo warns on standard output
            try:
                model.write(str(path), format=_FORMATS[file_format], io_options=options)
            except RuntimeError:  # two names are equal in the format's character set
                model.write(str(path), format=_FORMATS[file_format])


def pyomo_model(program: LinearProgram) -> tuple[Any, list[Any], list[Any]]:
    """Return a ConcreteModel with the program's variables and constraints, in its order.

    Pyomo has no constraint for a row without entries; if such a row holds, it is None.
    """
    if program.n_columns + program.n_rows > MOST_COMPONENTS:
        raise BackendError(
            f"{program.n_columns:,} columns and {program.n_rows:,} rows are too many for Pyomo; "
            "use the backend highs"
        )
    model = pyo.ConcreteModel(name=program.name)
    variables: list[Any] = []
    for block in program.columns:
        variables += _variables(model, block, program)
    constraints: list[Any] = []
    for block in program.rows:
        constraints += _constraints(model, block, program, variables)
    # Costs of zero are kept, so that a model without rows loses no variable.
    model.objective = pyo.Objective(
        expr=LinearExpression(
            constant=0.0, linear_coefs=program.objective.tolist(), linear_vars=variables
        ),
        sense=pyo.maximize,
    )
    return model, variables, constraints


def _labels(block: Block) -> list[tuple[Any, ...]]:
    return [block.label(i) for i in range(block.stop - block.start)]


def _index_set(model: Any, block: Block, labels: list[tuple[Any, ...]]) -> Any:
    index = pyo.Set(initialize=labels, dimen=len(labels[0]) if labels else 1)
    model.add_component(f"{block.name}_index", index)
    return index


def _variables(model: Any, block: Block, program: LinearProgram) -> list[Any]:
    labels = _labels(block)
    part = slice(block.start, block.stop)
    lower = [_bound(b) for b in program.lower[part].tolist()]
    upper = [_bound(b) for b in program.upper[part].tolist()]
    bounds = dict(zip(labels, zip(lower, upper, strict=True), strict=True))
    variable = pyo.Var(_index_set(model, block, labels), bounds=lambda _, *key: bounds[key])
    model.add_component(block.name, variable)
    return [variable[label] for label in labels]


def _constraints(
    model: Any, block: Block, program: LinearProgram, variables: list[Any]
) -> list[Any]:
    labels = _labels(block)
    starts = program.matrix.indptr[block.start : block.stop + 1].tolist()
    first = starts[0]
    columns = program.matrix.indices[first : starts[-1]].tolist()
    values = program.matrix.data[first : starts[-1]].tolist()
    lower = program.row_lower[block.start : block.stop].tolist()
    upper = program.row_upper[block.start : block.stop].tolist()
    place = {label: i for i, label in enumerate(labels)}

    def rule(_: Any, *key: Any) -> Any:
        i = place[key]
        part = slice(starts[i] - first, starts[i + 1] - first)
        low, high = lower[i], upper[i]
        if starts[i] == starts[i + 1]:
            return pyo.Constraint.Feasible if low <= 0 <= high else pyo.Constraint.Infeasible
        if low == -np.inf and high == np.inf:
            return pyo.Constraint.Skip
        body = LinearExpression(
            constant=0.0,
            linear_coefs=values[part],
            linear_vars=[variables[column] for column in columns[part]],
        )
        if low == high:
            return body == low
        return pyo.inequality(_bound(low), body, _bound(high))

    constraint = pyo.Constraint(_index_set(model, block, labels), rule=rule)
    model.add_component(block.name, constraint)
    made = dict(constraint.items())
    return [made.get(label if len(label) > 1 else label[0]) for label in labels]


def _bound(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _run(model: Any, time_limit: float | None, presolve: str, tolerance: float) -> tuple[Any, Any]:
    solver = PyomoHighsSolver()
    results = solver.solve(
        model,
        threads=1 if presolve == "choose" else None,  # one number per process, or HiGHS fails
        time_limit=time_limit,
        load_solutions=False,
        raise_exception_on_nonoptimal_result=False,
        solver_options={
            "presolve": presolve,
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
        },
    )
    return results.termination_condition, results.solution_loader
