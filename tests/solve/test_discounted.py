"""Discounted rewards: against all policies, against Storm, against themselves."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.discounted import solve_discounted
from mdpdsl.solve.solution import SolveOutcome, SolveStatus
from tests.graph.build import graph_from_rows, random_graph, slippery_grid
from tests.solve.small import best_worth, discounted_worth, small_graphs
from tests.solve.storm import storm_model, storm_values

METHODS = ("vi", "mpi", "pi", "lp")
TOLERANCE = 1e-6
#: The error of linear equations of a handful of states.
EXACT = 1e-9
STORM = 1e-8
REWARDED = [name for name in mdpdsl.shipped_models() if mdpdsl.load(name).graph.reward is not None]

discounts = st.sampled_from([0.0, 0.3, 0.9, 0.99, 0.999])


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60, deadline=None)
@given(small_graphs(), discounts)
def test_the_values_are_the_best_of_all_policies(
    method: str, graph: TransitionGraph, discount: float
) -> None:
    found = solve_discounted(graph, discount, method=method, tolerance=TOLERANCE)
    assert found.status is SolveStatus.OPTIMAL
    assert found.bound <= TOLERANCE
    error = np.abs(found.values - best_worth(graph, discount)).max()
    assert error <= found.bound + EXACT
    assert found.value == pytest.approx(float(graph.initial @ found.values))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40, deadline=None)
@given(small_graphs(), discounts)
def test_the_policy_attains_its_values(
    method: str, graph: TransitionGraph, discount: float
) -> None:
    found = solve_discounted(graph, discount, method=method, tolerance=TOLERANCE)
    worth = discounted_worth(graph, found.choice, discount)
    assert np.all(worth >= found.values - found.bound - EXACT)


@settings(max_examples=80, deadline=None)
@given(small_graphs(), discounts)
def test_policy_iteration_ends_by_itself_with_the_optimum(
    graph: TransitionGraph, discount: float
) -> None:
    found = solve_discounted(graph, discount, method="pi")
    assert found.variant == "linear equations"
    assert found.bound < 100 * EXACT  # rounding errors may add up over thousands of steps
    np.testing.assert_allclose(found.values, best_worth(graph, discount), rtol=0, atol=EXACT)


@settings(max_examples=40, deadline=None)
@given(small_graphs(), discounts, st.sampled_from(METHODS))
def test_the_least_is_the_largest_of_the_negative(
    graph: TransitionGraph, discount: float, method: str
) -> None:
    assert graph.reward is not None
    options: dict[str, Any] = {"method": method, "tolerance": TOLERANCE}
    least = solve_discounted(graph, discount, is_minimised=True, **options)
    largest = solve_discounted(graph, discount, reward=-graph.reward, **options)
    np.testing.assert_allclose(least.values, -largest.values, rtol=0, atol=2 * TOLERANCE)
    assert np.all(least.values <= best_worth(graph, discount) + 2 * TOLERANCE)


@settings(max_examples=60, deadline=None)
@given(small_graphs(), discounts, st.integers(0, 6), st.sampled_from(METHODS))
def test_a_bound_holds_wherever_solving_is_stopped(
    graph: TransitionGraph, discount: float, n_looks: int, method: str
) -> None:
    looks = iter(range(n_looks))
    found = solve_discounted(
        graph, discount, method=method, watch=lambda *_: next(looks, None) is not None
    )
    error = np.abs(found.values - best_worth(graph, discount)).max()
    assert error <= found.bound + EXACT


@pytest.mark.parametrize("name", REWARDED)
@pytest.mark.parametrize(("discount", "is_minimised"), [(0.9, False), (0.9, True), (0.99, False)])
def test_storm_finds_the_same(name: str, discount: float, is_minimised: bool) -> None:
    graph = mdpdsl.load(name).graph
    direction = "min" if is_minimised else "max"
    formula = f'R{{"r"}}{direction}=? [Cdiscount={discount}]'
    expected = storm_values(storm_model(graph), formula, STORM)
    for method in METHODS:
        # HiGHS needs half a minute for the largest of the models.
        if method == "lp" and graph.n_states > 1000:
            continue
        found = solve_discounted(
            graph, discount, is_minimised=is_minimised, method=method, tolerance=TOLERANCE
        )
        assert found.status is SolveStatus.OPTIMAL
        np.testing.assert_allclose(found.values, expected, rtol=0, atol=found.bound + 2 * STORM)


def test_frozen_lake_has_the_values_of_gymnasiums_own_table() -> None:
    table: Any = gymnasium.make("FrozenLake-v1").unwrapped.P  # type: ignore[attr-defined]
    values = np.zeros(16)
    for _ in range(5000):
        for state in range(16):
            values[state] = max(
                sum(p * (r + 0.99 * values[t] * (not done)) for p, t, r, done in table[state][a])
                for a in range(4)
            )
    found = solve_discounted(mdpdsl.load("frozen_lake").graph, 0.99)
    over = np.array([all(done for row in table[s].values() for *_, done in row) for s in table])
    np.testing.assert_allclose(found.values[~over], values[~over], rtol=0, atol=EXACT)
    assert found.value == pytest.approx(0.542025932, abs=1e-9)


def test_forest_has_the_values_that_mdp_toolbox_documents() -> None:
    found = solve_discounted(mdpdsl.load("forest").graph, 0.9)
    np.testing.assert_allclose(found.values, [26.244, 29.484, 33.484], rtol=0, atol=1e-9)


# Larger models, with sweeps and sparse equations


def shuffled(graph: TransitionGraph, seed: int) -> tuple[TransitionGraph, np.ndarray]:
    """Return the same model with its states in another order, and the new place of each."""
    place = np.random.default_rng(seed).permutation(graph.n_states)
    rows: list[dict[int, dict[int, float]]] = [{} for _ in place]
    reward = {}
    assert graph.reward is not None
    for pair in range(graph.n_pairs):
        state, action = int(place[graph.pair_state[pair]]), int(graph.pair_action[pair])
        successors, chances = graph.row(pair)
        rows[state][action] = dict(zip(place[successors].tolist(), chances.tolist(), strict=True))
        reward[state, action] = float(graph.reward[pair])
    return graph_from_rows(rows, reward=lambda s, a: reward[s, a]), place


@pytest.mark.parametrize("discount", [0.9, 0.999])
@pytest.mark.parametrize("kind", ["grid", "random"])
def test_methods_agree_on_models_of_thousands_of_states(kind: str, discount: float) -> None:
    rng = np.random.default_rng(0)
    graph = slippery_grid(60) if kind == "grid" else random_graph(4000, 3, 6, rng)
    reward = rng.normal(size=graph.n_pairs) if kind == "random" else graph.reward
    found = {
        method: solve_discounted(graph, discount, method=method, reward=reward, tolerance=1e-7)
        for method in ("vi", "mpi", "pi", "auto")
    }
    assert found["auto"].method == "mpi"
    for each in found.values():
        assert each.status is SolveStatus.OPTIMAL
        np.testing.assert_allclose(each.values, found["pi"].values, rtol=0, atol=2e-7)


def test_a_model_that_mixes_is_solved_by_whole_sweeps_and_a_maze_in_order() -> None:
    rng = np.random.default_rng(1)
    mixing = random_graph(3000, 3, 8, rng)
    reward = rng.random(mixing.n_pairs)
    quick = solve_discounted(mixing, 0.999, method="mpi", reward=reward)
    assert quick.variant == "whole sweeps"
    assert quick.iterations < 200
    maze = solve_discounted(slippery_grid(40, walls=7), 0.999, method="mpi")
    assert "ordered" in maze.variant


def test_the_numbering_of_states_does_not_matter() -> None:
    graph = slippery_grid(40, walls=7)
    other, place = shuffled(graph, 3)
    first, second = (solve_discounted(g, 0.999, method="mpi") for g in (graph, other))
    np.testing.assert_allclose(second.values[place], first.values, rtol=0, atol=2 * TOLERANCE)
    assert second.iterations < 3 * first.iterations


# Limits and errors


def test_rewards_of_any_size_are_solved_in_proportion() -> None:
    graph = mdpdsl.load("riverswim").graph
    assert graph.reward is not None
    small = solve_discounted(graph, 0.99)
    for method in METHODS:
        large = solve_discounted(graph, 0.99, method=method, reward=1e9 * graph.reward)
        assert large.status is SolveStatus.OPTIMAL
        np.testing.assert_allclose(large.values, 1e9 * small.values, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_tolerance_below_rounding_is_reported(method: str) -> None:
    graph = mdpdsl.load("inventory").graph
    found = solve_discounted(graph, 0.99, method=method, tolerance=1e-15)
    assert found.status is SolveStatus.PRECISION
    assert 1e-15 < found.bound < 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"discount": 1.0}, "below 1"),
        ({"discount": -0.1}, r"not in \[0, 1\)"),
        ({"discount": float("nan")}, r"not in \[0, 1\)"),
        ({"tolerance": 0.0}, "positive"),
        ({"method": "magic"}, "auto, vi, mpi, pi, lp"),
        ({"reward": np.zeros(3)}, "12 pairs"),
        ({"reward": np.full(12, np.inf)}, "finite"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    graph = mdpdsl.load("riverswim").graph
    with pytest.raises(SolveError, match=message):
        solve_discounted(graph, **options)


def test_a_model_without_rewards_or_dynamics_is_refused_with_a_remedy() -> None:
    with pytest.raises(SolveError, match="reward when"):
        solve_discounted(mdpdsl.load("weather").graph)
    with pytest.raises(SolveError, match="unknown"):
        solve_discounted(mdpdsl.load("pendulum_unknown").graph)


def test_a_single_absorbing_state_is_a_geometric_series() -> None:
    graph = graph_from_rows([{0: {0: 1.0}}], reward=lambda s, a: 2.0)
    for method in METHODS:
        found: SolveOutcome = solve_discounted(graph, 0.75, method=method)
        assert found.value == pytest.approx(8)
