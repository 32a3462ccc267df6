"""Reaching a label: against all policies, against Storm, and with tempting loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.analysis import maximal_end_components
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.arrivals import arrivals_of
from mdpdsl.solve.qualitative import decided_for_least, decided_for_most
from mdpdsl.solve.reachability import solve_reachability
from mdpdsl.solve.solution import SolveStatus
from tests.graph.build import graph_from_rows, random_graph, ruin, slippery_grid
from tests.solve.small import best_chance, chance, small_graphs
from tests.solve.storm import storm_model, storm_values

METHODS = ("vi", "mpi", "pi", "lp")
TOLERANCE = 1e-6
EXACT = 1e-9
STORM = 1e-8
#: An optimal probability is this close to 0 or 1 only if it is 0 or 1.
DECIDED = 1e-9
LABELLED = [
    (name, label)
    for name in mdpdsl.shipped_models()
    for label in mdpdsl.load(name).graph.labels
    if mdpdsl.load(name).graph.has_dynamics
]


@pytest.mark.parametrize("is_minimised", [False, True])
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60, deadline=None)
@given(small_graphs())
def test_chances_are_the_best_of_all_policies_and_the_policy_has_them(
    method: str, is_minimised: bool, graph: TransitionGraph
) -> None:
    goal = graph.labels["goal"]
    found = solve_reachability(graph, "goal", is_minimised=is_minimised, method=method)
    assert found.status is SolveStatus.OPTIMAL
    assert found.bound <= TOLERANCE
    expected = best_chance(graph, goal, is_minimised)
    assert np.abs(found.values - expected).max() <= found.bound + EXACT
    assert found.value == pytest.approx(float(graph.initial @ found.values))
    attained = chance(graph, found.choice, goal)
    assert np.abs(attained - expected).max() <= 2 * found.bound + EXACT


@settings(max_examples=150, deadline=None)
@given(small_graphs(), st.booleans())
def test_the_graph_decides_exactly_what_is_0_and_1(
    graph: TransitionGraph, is_minimised: bool
) -> None:
    goal = graph.labels["goal"]
    decide = decided_for_least if is_minimised else decided_for_most
    decided = decide(graph, goal, np.zeros_like(goal), arrivals_of(graph))
    expected = best_chance(graph, goal, is_minimised)
    np.testing.assert_array_equal(decided.is_zero, expected < DECIDED)
    np.testing.assert_array_equal(decided.is_one, expected > 1 - DECIDED)
    attained = chance(graph, decided.choice, goal)
    settled = decided.is_one if not is_minimised else decided.is_zero
    np.testing.assert_allclose(attained[settled], expected[settled], rtol=0, atol=EXACT)


@settings(max_examples=60, deadline=None)
@given(small_graphs(), st.booleans(), st.integers(0, 4), st.sampled_from(METHODS))
def test_a_bound_holds_wherever_solving_is_stopped(
    graph: TransitionGraph, is_minimised: bool, n_looks: int, method: str
) -> None:
    looks = iter(range(n_looks))
    found = solve_reachability(
        graph,
        "goal",
        is_minimised=is_minimised,
        method=method,
        watch=lambda *_: next(looks, None) is not None,
    )
    expected = best_chance(graph, graph.labels["goal"], is_minimised)
    assert np.abs(found.values - expected).max() <= found.bound + EXACT


@pytest.mark.parametrize(("name", "label"), LABELLED)
def test_storm_finds_the_same(name: str, label: str) -> None:
    graph = mdpdsl.load(name).graph
    model = storm_model(graph)
    for direction in ("max", "min"):
        expected = storm_values(model, f'P{direction}=? [F "{label}"]', STORM)
        for method in METHODS:
            found = solve_reachability(
                graph, label, is_minimised=direction == "min", method=method, tolerance=TOLERANCE
            )
            assert found.status is SolveStatus.OPTIMAL
            np.testing.assert_allclose(found.values, expected, rtol=0, atol=found.bound + 2 * STORM)


# End components


def loop_beside_a_gamble() -> TransitionGraph:
    """Return two states to and fro between which one may go for ever; the second may gamble.

    Values of 1/2 in both satisfy the Bellman equation, and so does any more; going to and fro looks
    as good as gambling.
    """
    rows = [
        {0: {0: 1.0}, 1: {1: 1.0}},
        {0: {0: 1.0}, 2: {2: 0.5, 3: 0.5}},
        {0: {2: 1.0}},
        {0: {3: 1.0}},
    ]
    return graph_from_rows(rows, labels={"goal": np.arange(4) == 2})


@pytest.mark.parametrize("method", METHODS)
def test_a_loop_that_looks_as_good_is_left_in_the_end(method: str) -> None:
    graph = loop_beside_a_gamble()
    found = solve_reachability(graph, "goal", method=method)
    np.testing.assert_allclose(found.values, [0.5, 0.5, 1, 0], rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(found.choice[:2], [graph.pair(0, 1), graph.pair(1, 2)])


def test_end_components_among_some_pairs_leave_the_others_out() -> None:
    graph = loop_beside_a_gamble()
    components = maximal_end_components(graph)
    inside = [graph.pair(0, 0), graph.pair(0, 1), graph.pair(1, 0), graph.pair(2, 0)]
    np.testing.assert_array_equal(np.flatnonzero(components.is_inside), [*inside, graph.pair(3, 0)])
    assert components.component_of[0] == components.component_of[1]
    is_allowed = np.ones(graph.n_pairs, dtype=bool)
    is_allowed[graph.pair(1, 0)] = False
    fewer = maximal_end_components(graph, is_allowed)
    assert fewer.is_inside[graph.pair(0, 0)]
    assert not fewer.is_inside[graph.pair(0, 1)]


def test_a_chance_of_leaving_beyond_rounding_is_still_a_chance() -> None:
    rows = [{0: {0: 1.0, 1: 1e-20, 2: 3e-20}}, {0: {1: 1.0}}, {0: {2: 1.0}}]
    graph = graph_from_rows(rows, labels={"goal": np.arange(3) == 1})
    for method in METHODS:
        for is_minimised in (False, True):
            found = solve_reachability(graph, "goal", method=method, is_minimised=is_minimised)
            np.testing.assert_allclose(found.values, [0.25, 1, 0], rtol=0, atol=TOLERANCE)


def test_the_way_to_a_sure_goal_does_not_wait_for_a_miracle() -> None:
    # The first action may get there at once, with a chance of 1e-14; the second in two steps.
    rows = [{0: {0: 1 - 1e-14, 2: 1e-14}, 1: {1: 1.0}}, {0: {2: 1.0}}, {0: {2: 1.0}}]
    graph = graph_from_rows(rows, labels={"goal": np.arange(3) == 2})
    found = solve_reachability(graph, "goal")
    assert found.value == 1
    assert found.choice[0] == graph.pair(0, 1)


def test_a_sure_goal_beyond_the_smallest_numbers_is_still_headed_for() -> None:
    n = 6
    rows: list[dict[int, dict[int, float]]] = [
        {0: {s: 1.0}, 1: {s: 1.0, s + 1: 1e-100}} for s in range(n)
    ]
    graph = graph_from_rows([*rows, {0: {n: 1.0}}], labels={"goal": np.arange(n + 1) == n})
    found = solve_reachability(graph, "goal")
    np.testing.assert_array_equal(found.values, 1)
    np.testing.assert_array_equal(found.choice[:n], [graph.pair(s, 1) for s in range(n)])


@settings(max_examples=80, deadline=None)
@given(small_graphs(), st.booleans())
def test_policy_iteration_ends_by_itself_and_is_verified(
    graph: TransitionGraph, is_minimised: bool
) -> None:
    found = solve_reachability(graph, "goal", method="pi", is_minimised=is_minimised)
    assert found.variant in ("linear equations, verified", "graph alone")
    assert found.bound < EXACT


# Larger models


@pytest.mark.parametrize("method", ["vi", "mpi", "pi"])
def test_a_gambler_is_ruined_as_often_as_the_closed_form_says(method: str) -> None:
    n = 300
    found = solve_reachability(ruin(n), "ruined", method=method, tolerance=1e-5)
    assert found.status is SolveStatus.OPTIMAL
    expected = 1 - np.arange(n) / (n - 1)
    assert np.abs(found.values - expected).max() <= found.bound + EXACT


def test_methods_agree_on_a_model_of_thousands_of_states() -> None:
    graph = random_graph(4000, 3, 5, np.random.default_rng(0))
    goal, trap = np.arange(4000) < 5, np.arange(4000) >= 3980
    rows: list[dict[int, dict[int, float]]] = []
    for state in range(graph.n_states):
        row = {}
        for pair in range(graph.pair_start[state], graph.pair_start[state + 1]):
            successors, chances = graph.row(pair)
            row[int(graph.pair_action[pair])] = dict(
                zip(successors.tolist(), chances.tolist(), strict=True)
            )
        rows.append({0: {state: 1.0}} if goal[state] or trap[state] else row)
    graph = graph_from_rows(rows, labels={"goal": goal})
    for is_minimised in (False, True):
        found = [
            solve_reachability(graph, "goal", is_minimised=is_minimised, method=method)
            for method in ("vi", "mpi", "pi")
        ]
        for each in found:
            assert each.status is SolveStatus.OPTIMAL
            np.testing.assert_allclose(
                each.values, found[0].values, rtol=0, atol=each.bound + found[0].bound
            )


def test_a_tolerance_below_rounding_is_reported() -> None:
    found = solve_reachability(slippery_grid(5), "edge", method="vi", tolerance=1e-18)
    assert found.status in (SolveStatus.PRECISION, SolveStatus.OPTIMAL)
    walk = solve_reachability(ruin(30), "rich", method="vi", tolerance=1e-18)
    assert walk.status is SolveStatus.PRECISION
    expected = np.arange(30) / 29
    assert np.abs(walk.values - expected).max() <= walk.bound


def test_an_unknown_label_gets_the_list() -> None:
    with pytest.raises(SolveError, match="did you mean `goal`") as caught:
        solve_reachability(mdpdsl.load("frozen_lake").graph, "gaol")
    assert "hole, goal" in str(caught.value)
    with pytest.raises(SolveError, match="it has none: add `label"):
        solve_reachability(mdpdsl.load("forest").graph, "goal")
