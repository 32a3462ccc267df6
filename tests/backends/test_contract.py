"""The contract of backends, on programs with known answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from mdpdsl.graph.space import FloatArray
from mdpdsl.programs.program import (
    Backend,
    BackendError,
    Block,
    LinearProgram,
    Status,
    backend_names,
    load_backend,
)

#: evi plans within confidence sets and solves no linear programs.
LINEAR = [name for name in backend_names() if name != "evi"]
TOLERANCE = 1e-7
INF = np.inf


def program(
    objective: list[float],
    matrix: list[list[float]],
    row_bounds: list[tuple[float, float]],
    bounds: list[tuple[float, float]],
) -> LinearProgram:
    rows = np.array(row_bounds, float).reshape(-1, 2)
    columns = np.array(bounds, float)
    shape = (len(rows), len(columns))
    return LinearProgram(
        name="test",
        objective=np.array(objective, float),
        matrix=csr_array(np.array(matrix, float).reshape(shape)),
        row_lower=rows[:, 0],
        row_upper=rows[:, 1],
        lower=columns[:, 0],
        upper=columns[:, 1],
        columns=(Block("x", 0, len(columns)),),
        rows=(Block("row", 0, len(rows)),),
    )


@dataclass(frozen=True)
class Known:
    """A program with its optimum; duals only if they are unique."""

    program: LinearProgram
    objective: float
    values: list[float] | None = None
    row_dual: list[float] | None = None
    column_dual: list[float] | None = None


FREE = (-INF, INF)
POSITIVE = (0.0, INF)
KNOWN = {
    # max 3x + 2y, x + y <= 4, x + 3y <= 6, x <= 3: x = 3, y = 1, both in the basis.
    "textbook": Known(
        program([3, 2], [[1, 1], [1, 3]], [(-INF, 4), (-INF, 6)], [(0, 3), POSITIVE]),
        11,
        [3, 1],
        column_dual=None,
    ),
    "upper row": Known(
        program([5, 4], [[6, 4], [1, 2]], [(-INF, 24), (-INF, 6)], [POSITIVE, POSITIVE]),
        21,
        [3, 1.5],
        [0.75, 0.5],
        [0, 0],
    ),
    "lower row": Known(
        program([-2, -3], [[1, 1]], [(4, INF)], [POSITIVE, POSITIVE]), -8, [4, 0], [-2], [0, -1]
    ),
    "column bounds": Known(
        program([1, -1], [[1, 1]], [(-INF, 10)], [(0, 2), (1, 5)]), 1, [2, 1], [0], [1, -1]
    ),
    "equality": Known(
        program([1, 2], [[1, 1]], [(3, 3)], [POSITIVE, POSITIVE]), 6, [0, 3], [2], [-1, 0]
    ),
    "ranged row": Known(program([-1], [[2]], [(3, 5)], [FREE]), -1.5, [1.5], [-0.5], [0]),
    "free variables": Known(
        program([1, 1], [[1, 1], [1, -1]], [(-INF, 4), (0, 0)], [FREE, FREE]),
        4,
        [2, 2],
        [1, 0],
        [0, 0],
    ),
    "an empty row that holds": Known(
        program([1], [[0], [1]], [(-1, 1), (-INF, 3)], [POSITIVE]), 3, [3], [0, 1], [0]
    ),
    "a row without bounds": Known(
        program([1], [[1], [1]], [FREE, (-INF, 3)], [POSITIVE]), 3, [3], [0, 1], [0]
    ),
    "no rows": Known(program([1, -1], [], [], [(0, 2), (0, 2)]), 2, [2, 0], [], [1, -1]),
    "a column in no row": Known(
        program([1, 1], [[1, 0]], [(-INF, 1)], [POSITIVE, (0, 7)]), 8, [1, 7], [1], [0, 1]
    ),
    "a fixed column": Known(
        program([1, 1], [[1, 1]], [(-INF, 4)], [(1, 1), POSITIVE]), 4, [1, 3], [1], [0, 0]
    ),
    # Three rows meet in the optimum: many bases, one vertex.
    "degenerate": Known(
        program(
            [1, 1],
            [[1, 0], [0, 1], [1, 1]],
            [(-INF, 1), (-INF, 1), (-INF, 2)],
            [POSITIVE, POSITIVE],
        ),
        2,
        [1, 1],
    ),
    "many optima": Known(program([1, 1], [[1, 1]], [(1, 1)], [POSITIVE, POSITIVE]), 1),
    "badly scaled": Known(
        program([1, 1e6], [[1e-4, 1e4]], [(-INF, 1)], [POSITIVE, POSITIVE]),
        1e4,
        [1e4, 0],
        [1e4],
        [0, -9.9e7],
    ),
    "nothing to gain": Known(program([0, 0], [[1, 1]], [(1, 1)], [POSITIVE, POSITIVE]), 0),
}
UNSOLVED = {
    "rows against bounds": (program([1], [[1]], [(2, INF)], [(0, 1)]), Status.INFEASIBLE),
    "rows against rows": (
        program([1, 1], [[1, 1], [1, 1]], [(3, INF), (-INF, 2)], [POSITIVE, POSITIVE]),
        Status.INFEASIBLE,
    ),
    "an empty row that cannot hold": (
        program([1], [[0], [1]], [(1, 2), (-INF, 3)], [POSITIVE]),
        Status.INFEASIBLE,
    ),
    "crossed bounds": (program([1], [[1]], [(-INF, 5)], [(2, 1)]), Status.INFEASIBLE),
    "a ray": (program([1, 0], [[1, -1]], [(0, 0)], [POSITIVE, POSITIVE]), Status.UNBOUNDED),
    "a free column": (program([-1], [[1]], [(-INF, 3)], [FREE]), Status.UNBOUNDED),
    "no rows": (program([1], [], [], [POSITIVE]), Status.UNBOUNDED),
}


@pytest.fixture(params=LINEAR)
def backend(request: pytest.FixtureRequest) -> Backend:
    return load_backend(request.param)


def largest(values: Any) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def check_optimality(program: LinearProgram, x: FloatArray, y: FloatArray, z: FloatArray) -> None:
    """Feasibility, stationarity and complementary slackness, with the signs of program.py."""
    scale = 1 + largest(program.objective) + largest(x) + largest(y)
    tolerance = TOLERANCE * scale
    rows = program.matrix @ x
    assert (x >= program.lower - tolerance).all()
    assert (x <= program.upper + tolerance).all()
    assert (rows >= program.row_lower - tolerance).all()
    assert (rows <= program.row_upper + tolerance).all()
    assert largest(program.objective - program.matrix.T @ y - z) <= tolerance
    for value, dual, low, high in (
        *zip(rows, y, program.row_lower, program.row_upper, strict=True),
        *zip(x, z, program.lower, program.upper, strict=True),
    ):
        if dual > tolerance:
            assert value == pytest.approx(high, abs=tolerance)
        if dual < -tolerance:
            assert value == pytest.approx(low, abs=tolerance)


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_optimum_is_found_with_its_duals(backend: Backend, name: str) -> None:
    known = KNOWN[name]
    solution = backend.solve(known.program)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(known.objective, rel=TOLERANCE, abs=TOLERANCE)
    assert solution.values is not None
    assert solution.row_dual is not None
    assert solution.column_dual is not None
    check_optimality(known.program, solution.values, solution.row_dual, solution.column_dual)
    for found, expected in (
        (solution.values, known.values),
        (solution.row_dual, known.row_dual),
        (solution.column_dual, known.column_dual),
    ):
        if expected is not None:
            assert found == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.parametrize("name", UNSOLVED)
def test_a_program_without_optimum_has_a_status_and_no_numbers(backend: Backend, name: str) -> None:
    unsolved, expected = UNSOLVED[name]
    solution = backend.solve(unsolved)
    assert solution.status is expected
    assert solution.objective is None
    assert solution.values is None
    assert solution.message


def test_a_solver_that_gives_up_is_run_again_in_another_way() -> None:
    """With no iterations allowed the simplex method gives up, and presolve solves a small one."""
    backend: Any = load_backend("highs")
    backend._solver.setOptionValue("simplex_iteration_limit", 0)
    known = KNOWN["equality"]
    assert backend.solve(known.program).objective == pytest.approx(known.objective)
    failed = backend.solve(random_program(0))
    assert failed.status is Status.FAILED
    assert failed.values is None
    assert "limit" in failed.message


def random_program(seed: int, n: int = 25, m: int = 15) -> LinearProgram:
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((m, n)) < 0.4, rng.normal(size=(m, n)), 0.0)
    inside = rng.random(n)
    rows = matrix @ inside
    bounds = [(float(r - rng.random()), float(r + rng.random())) for r in rows]
    objective = rng.normal(size=n).tolist()
    return program(objective, matrix.tolist(), bounds, [(0.0, 1.0)] * n)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_agree_with_scipy(backend: Backend, seed: int) -> None:
    from scipy.optimize import linprog

    given = random_program(seed)
    solution = backend.solve(given)
    A = given.matrix.toarray()
    reference = linprog(
        -given.objective,
        A_ub=np.vstack([A, -A]),
        b_ub=np.concatenate([given.row_upper, -given.row_lower]),
        bounds=list(zip(given.lower.tolist(), given.upper.tolist(), strict=True)),
        method="highs-ipm",
    )
    assert reference.fun is not None
    assert solution.objective == pytest.approx(-reference.fun, abs=1e-6)
    assert solution.values is not None
    assert solution.row_dual is not None
    assert solution.column_dual is not None
    check_optimality(given, solution.values, solution.row_dual, solution.column_dual)


def test_earlier_programs_make_no_difference(backend: Backend) -> None:
    given = KNOWN["many optima"].program
    first = load_backend(backend.name).solve(given)
    for other in (random_program(0), UNSOLVED["a ray"][0], random_program(1)):
        backend.solve(other)
    again = backend.solve(given)
    assert first.values is not None
    assert again.values is not None
    assert first.values.tobytes() == again.values.tobytes()


@pytest.mark.parametrize("changed", ["objective", "bounds", "rows", "matrix", "shape"])
def test_a_warm_start_changes_no_optimum(backend: Backend, changed: str) -> None:
    given = random_program(3)
    basis = backend.solve(given).basis
    other = {
        "objective": replace(given, objective=given.objective[::-1].copy()),
        "bounds": replace(given, upper=given.upper * 0.7),
        "rows": replace(given, row_upper=given.row_upper - 0.05),
        "matrix": replace(given, matrix=given.matrix * 1.1),
        "shape": random_program(4, n=30, m=10),
    }[changed]
    warm, cold = backend.solve(other, basis), load_backend(backend.name).solve(other)
    assert warm.status is cold.status is Status.OPTIMAL
    assert warm.objective == pytest.approx(cold.objective, abs=1e-8)


def test_a_time_limit_is_reported_and_does_not_persist(backend: Backend) -> None:
    hard = random_program(5, n=1500, m=700)
    assert backend.solve(hard, time_limit=1e-4).status is Status.TIME_LIMIT
    easy = KNOWN["textbook"]
    assert backend.solve(easy.program, time_limit=60).objective == pytest.approx(easy.objective)


def test_evi_says_what_it_can_and_cannot_solve() -> None:
    with pytest.raises(BackendError, match="use highs or pyomo-highs"):
        load_backend("evi").solve(KNOWN["textbook"].program)


def test_an_unknown_backend_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(BackendError, match="did you mean `highs`"):
        load_backend("high")
    with pytest.raises(BackendError, match="one of evi, highs, pyomo-highs"):
        load_backend("gurobi")
