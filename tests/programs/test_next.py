"""The best next steps for U_kappa, after some visits."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.graph.complexity import complexity
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.allocation import next_allocation, optimal_allocation
from mdpdsl.programs.program import Status
from mdpdsl.programs.visitable import AllocationError
from tests.graph.build import graph_from_rows
from tests.programs.cone_oracle import least_mean
from tests.programs.models import graphs

ORACLE_TOLERANCE = 1e-5


@settings(deadline=None, max_examples=40)
@given(
    graphs,
    st.sampled_from([1.0, 1.5, 2.0, 10.0, np.inf]),
    st.sampled_from([0.01, 0.3, 0.9]),
    st.integers(0, 2**32 - 1),
)
def test_another_solver_finds_the_same_next_steps(
    graph: TransitionGraph, kappa: float, done: float, seed: int
) -> None:
    c = complexity(graph)
    assume(np.any(c > 0))
    n = graph.n_pairs
    visits = np.floor(1_000 * done * np.random.default_rng(seed).dirichlet(np.full(n, 0.5)))
    left = 1_000 - visits.sum()
    found = next_allocation(graph, c, visits, left, kappa)
    assert found.status is Status.OPTIMAL
    best = least_mean(graph, c, kappa, visits * n / left)
    assume(best is not None)
    assert best is not None
    if kappa == 1:
        shift = float(np.sum(c)) * np.log(left / n)
        assert abs(found.objective - best - shift) <= ORACLE_TOLERANCE * c.sum()
    else:
        assert abs(found.objective / (best * n / left) - 1) <= ORACLE_TOLERANCE


@pytest.mark.parametrize("kappa", [1.0, 3.0, np.inf])
def test_without_visits_so_far_it_is_the_allocation(kappa: float) -> None:
    graph = mdpdsl.load("queue").graph
    c, zero = complexity(graph), np.zeros(graph.n_pairs)
    first = next_allocation(graph, c, zero, 700, kappa, tolerance=1e-9)
    second = optimal_allocation(graph, c, kappa, tolerance=1e-9)
    assert (first.worst, first.average) == pytest.approx((second.worst, second.average), rel=1e-3)


def test_for_the_worst_case_all_pairs_are_filled_up_to_one_error() -> None:
    graph = graph_from_rows([{action: {0: 1.0} for action in range(3)}])
    c = np.array([0.8, 0.4, 0.4])
    found = next_allocation(graph, c, np.array([0.0, 90.0, 10.0]), 60, np.inf)
    # The second has enough; the others share 60: 0.8/u = 0.4/(10 + 60 - u), u = 46.67.
    assert 60 * found.occupancy == pytest.approx([140 / 3, 0, 40 / 3], abs=0.01)


def test_a_component_is_chosen_by_its_number() -> None:
    half = {0: 0.5, 1: 0.5}
    rows = [{0: half, 1: {2: 0.5, 3: 0.5}}, {0: half}, {0: {2: 0.5, 3: 0.5}}, {0: {2: 1.0}}]
    graph = graph_from_rows(rows)
    c = complexity(graph)
    for component, states in ((1, {0, 1}), (2, {2, 3})):
        found = next_allocation(graph, c, np.ones(5), 10, 2, component=component)
        assert set(graph.pair_state[found.occupancy > 0].tolist()) == states
    with pytest.raises(AllocationError, match="no component 3"):
        next_allocation(graph, c, np.ones(5), 10, 2, component=3)


def test_invalid_settings_are_refused() -> None:
    graph = mdpdsl.load("weather").graph
    with pytest.raises(AllocationError, match="kappa must be"):
        next_allocation(graph, complexity(graph), np.zeros(4), 10, 0.9)
    with pytest.raises(ValueError, match="steps must be positive"):
        next_allocation(graph, complexity(graph), np.zeros(4), 0, 2)


@pytest.mark.parametrize("kappa", [1.0, 1.2, 8.0, np.inf])
@pytest.mark.parametrize("steps", [3, 30, 300])
def test_a_few_steps_after_very_many_are_solved_as_well(kappa: float, steps: int) -> None:
    graph = graph_from_rows([{a: {0: 0.5, 1: 0.5} for a in range(2)}, {0: {0: 1.0}}])
    visits = np.array([1_000_000.0, 100_000.0, 550_000.0])
    found = next_allocation(graph, np.array([0.5, 0.5, 0.01]), visits, steps, kappa, tolerance=1e-9)
    assert found.status is Status.OPTIMAL
    # All that flow balance leaves free goes to the pair that was visited less.
    assert found.occupancy == pytest.approx([0, 2 / 3, 1 / 3], abs=1e-4)
