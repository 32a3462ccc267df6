"""The best use of the remaining steps."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.graph.complexity import complexity
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.allocation import optimal_allocation, remaining_allocation
from mdpdsl.programs.objective import allocation_objective, remaining_budget
from mdpdsl.programs.program import Status
from tests.graph.build import graph_from_rows
from tests.programs.cone_oracle import least_mean
from tests.programs.models import graphs

ORACLE_TOLERANCE = 1e-5


@settings(deadline=None, max_examples=60)
@given(
    graphs,
    st.sampled_from([1.0, 2.0, 5.0, 16.0]),
    st.sampled_from([0.01, 0.3, 0.9]),
    st.integers(0, 2**32 - 1),
)
def test_another_solver_finds_the_same_use_of_the_steps_left(
    graph: TransitionGraph, power: float, done: float, seed: int
) -> None:
    c = complexity(graph)
    assume(np.any(c > 0))
    rng = np.random.default_rng(seed)
    n = graph.n_pairs
    visits = np.floor(1_000 * done * rng.dirichlet(np.full(n, 0.5)))
    left = 1_000 - visits.sum()
    found = remaining_allocation(graph, c, visits, left, power)
    assert found.status is Status.OPTIMAL
    best = least_mean(graph, c ** (power / (power + 1)), power + 1, visits * n / left)
    assume(best is not None)
    assert best is not None
    needed = c > 0
    expected = float(np.sum((c / (visits + left * found.occupancy))[needed] ** power))
    assert found.objective == pytest.approx(expected, rel=1e-9)
    root = expected ** (1 / power)
    assert abs(root / (best * n / left) - 1) <= ORACLE_TOLERANCE


def test_without_visits_so_far_it_is_the_allocation_itself() -> None:
    graph = mdpdsl.load("queue").graph
    c = complexity(graph)
    zero = np.zeros(graph.n_pairs)
    first = remaining_allocation(graph, c, zero, 500, 1, tolerance=1e-10)
    second = optimal_allocation(graph, np.sqrt(c), 2, tolerance=1e-10, losses=c)
    assert first.occupancy == pytest.approx(second.occupancy, abs=1e-6)
    assert (first.worst, first.average) == pytest.approx((second.worst, second.average), rel=1e-4)


def test_steps_go_where_visits_are_missing() -> None:
    graph = graph_from_rows([{action: {0: 1.0} for action in range(3)}])
    c = np.array([0.5, 0.5, 0.5])
    found = remaining_allocation(graph, c, np.array([60.0, 10.0, 0.0]), 50, 1)
    # Filled up to one level where it is below: (10 + 0 + 50) / 2 = 30.
    assert 50 * found.occupancy == pytest.approx([0, 20, 30], abs=0.05)


def test_a_start_from_the_last_solution_needs_fewer_steps() -> None:
    graph = mdpdsl.load("mountain_car").graph
    c = complexity(graph)
    visits = np.random.default_rng(0).integers(1, 200, graph.n_pairs).astype(float)
    first = remaining_allocation(graph, c, visits, 50_000, 2)
    again = remaining_allocation(graph, c, visits + 5, 45_000, 2, start=first.center)
    cold = remaining_allocation(graph, c, visits + 5, 45_000, 2)
    assert again.iterations < cold.iterations
    assert again.objective == pytest.approx(cold.objective, rel=1e-5)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(1, 20), st.booleans())
def test_the_gradient_is_the_slope_of_the_objective(
    seed: int, kappa: float, has_visits: bool
) -> None:
    rng = np.random.default_rng(seed)
    c, x = rng.uniform(0.1, 1, 6), rng.uniform(0.5, 2, 6)
    if has_visits:
        objective = remaining_budget(c, rng.uniform(1, 9, 6), 12, kappa)
    else:
        objective = allocation_objective(c, kappa)
    way = rng.normal(size=6)
    slope = (objective.log_mean(x + 1e-6 * way) - objective.log_mean(x - 1e-6 * way)) / 2e-6
    assert slope == pytest.approx(-objective.gradient(x) @ way, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(("left", "power"), [(0, 2), (10, 0.5), (10, np.inf)])
def test_invalid_settings_are_refused(left: float, power: float) -> None:
    graph = mdpdsl.load("weather").graph
    with pytest.raises(ValueError, match="must be"):
        remaining_allocation(graph, complexity(graph), np.zeros(4), left, power)
