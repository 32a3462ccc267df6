"""Every objective on the shipped models, against Storm.

The probability of reaching a single label and discounted rewards are not repeated here: all methods
are compared with Storm in `test_reachability` and `test_discounted`.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.graph.objectives import Average, Cumulative, Next, Objective, Total, Until
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.solution import SolveOutcome, SolveStatus
from mdpdsl.solve.solve_objective import solve_objective
from tests.graph.build import graph_from_rows
from tests.solve.storm import storm_model, storm_values

#: Values agree to this, in units of their size, but at least 1.
TOLERANCE = 1e-6
#: The precision asked of Storm, which has a fixed one of 1e-6 of the value for averages.
STORM = 1e-8
#: Methods of objectives without a limit of steps; linear programs are too slow for some models.
METHODS = ("auto", "vi", "mpi")
DIRECTIONS = ("max", "min")
REWARDS = ("sizes", "shifted")
STEPS = (0, 1, 7, 100)
#: Totals that depend on policies which take more than 10^12 steps: rounding errors are too large.
TOO_LONG = {
    *itertools.product(["double_integrator", "four_rooms", "thermostat"], REWARDS, ["max"]),
    ("four_rooms", "sizes", "min"),
}


@functools.cache
def shipped(name: str, rewards: str = "own") -> tuple[TransitionGraph, Any]:
    """Return a model with some rewards, and the same model for Storm.

    Rewards are its `own` ones, or at random if it has none; their sizes, so that none is negative
    but some may be 0 (`sizes`); or shifted so that the least is 1 (`shifted`).
    """
    graph = mdpdsl.load(name).graph
    own = graph.reward
    if own is None:
        own = np.random.default_rng(0).random(graph.n_pairs)
    reward = {"own": own, "sizes": np.abs(own), "shifted": own - own.min() + 1}[rewards]
    graph = replace(graph, reward=reward, branch_reward=None)
    return graph, storm_model(graph)


MODELS = [name for name in mdpdsl.shipped_models() if mdpdsl.load(name).graph.has_dynamics]
LABELLED = [(name, label) for name in MODELS for label in mdpdsl.load(name).graph.labels]
#: A label, and another one to reach before it.
BETWEEN = [
    (name, *labels)
    for name in MODELS
    for labels in itertools.permutations(mdpdsl.load(name).graph.labels, 2)
]


def check(
    graph: TransitionGraph,
    objective: Objective,
    direction: str,
    expected: FloatArray,
    method: str = "auto",
) -> None:
    """Compare values and bounds in every state with those of Storm."""
    options: dict[str, Any] = {"is_minimised": direction == "min", "method": method}
    found = solve_objective(graph, objective, **options)
    assert found.status is SolveStatus.OPTIMAL
    agree(found, expected)


def agree(found: SolveOutcome, expected: FloatArray) -> None:
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found.values[~finite], expected[~finite])
    optimum, margin = expected[finite], TOLERANCE * np.maximum(1, np.abs(expected[finite]))
    assert np.all(np.abs(found.values[finite] - optimum) <= margin)
    assert np.all(found.lower[finite] <= optimum + margin)
    assert np.all(found.upper[finite] >= optimum - margin)


@pytest.mark.parametrize(("name", "avoided", "label"), BETWEEN)
def test_storm_reaches_labels_past_others_as_often(name: str, avoided: str, label: str) -> None:
    graph, model = shipped(name)
    goal, allowed = graph.labels[label], ~graph.labels[avoided]
    for direction in DIRECTIONS:
        formula = f'P{direction}=? [ !"{avoided}" U "{label}" ]'
        expected = storm_values(model, formula, STORM)
        for method in METHODS:
            check(graph, Until(goal, allowed), direction, expected, method)
        for steps in STEPS:
            expected = storm_values(model, formula.replace("U", f"U<={steps}"), STORM)
            check(graph, Until(goal, allowed, steps), direction, expected)


@pytest.mark.parametrize(("name", "label"), LABELLED)
def test_storm_reaches_labels_as_often_within_some_steps(name: str, label: str) -> None:
    graph, model = shipped(name)
    goal = graph.labels[label]
    for direction in DIRECTIONS:
        for steps in STEPS:
            expected = storm_values(model, f'P{direction}=? [ F<={steps} "{label}" ]', STORM)
            check(graph, Until(goal, steps=steps), direction, expected)
        expected = storm_values(model, f'P{direction}=? [ X "{label}" ]', STORM)
        check(graph, Next(goal), direction, expected)


@pytest.mark.parametrize("rewards", REWARDS)
@pytest.mark.parametrize(("name", "label"), LABELLED)
def test_storm_earns_as_much_until_a_label(name: str, label: str, rewards: str) -> None:
    graph, model = shipped(name, rewards)
    assert graph.reward is not None
    objective = Total(graph.reward, graph.labels[label])
    for direction in DIRECTIONS:
        if (name, rewards, direction) in TOO_LONG:
            continue
        expected = storm_values(model, f'R{{"r"}}{direction}=? [ F "{label}" ]', STORM)
        for method in METHODS:
            check(graph, objective, direction, expected, method)


@pytest.mark.parametrize("name", MODELS)
def test_storm_earns_as_much_in_some_steps(name: str) -> None:
    graph, model = shipped(name)
    assert graph.reward is not None
    for direction in DIRECTIONS:
        for steps in STEPS:
            expected = storm_values(model, f'R{{"r"}}{direction}=? [ C<={steps} ]', STORM)
            check(graph, Cumulative(graph.reward, steps), direction, expected)


@pytest.mark.parametrize("name", MODELS)
def test_storm_earns_as_much_on_average(name: str) -> None:
    # Storm does not end on averages of 0 or less, as its precision is relative to them.
    graph, model = shipped(name, "shifted")
    assert graph.reward is not None
    for direction in DIRECTIONS:
        expected = storm_values(model, f'R{{"r"}}{direction}=? [ LRA ]', STORM)
        for method in METHODS:
            check(graph, Average(graph.reward), direction, expected, method)


def test_what_costs_nothing_costs_nothing_however_long_it_takes() -> None:
    # To wait is free but moves on with a chance of 1e-15 only; to hurry has a cost.
    rows = [{0: {0: 1 - 1e-15, 1: 1e-15}, 1: {1: 1.0}}, {0: {0: 0.5, 2: 0.5}}, {0: {2: 1.0}}]
    graph = graph_from_rows(
        rows,
        reward=lambda state, action: float(action),
        labels={"end": np.array([False, False, True])},
    )
    assert graph.reward is not None
    expected = storm_values(storm_model(graph), 'R{"r"}min=? [ F "end" ]', STORM)
    np.testing.assert_array_equal(expected, np.zeros(3))
    for method in METHODS:
        found = solve_objective(
            graph, Total(graph.reward, graph.labels["end"]), is_minimised=True, method=method
        )
        np.testing.assert_array_equal(found.upper, expected)
        assert found.choice[0] == 0


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_bounds_follow_even_the_longest_way(direction: str) -> None:
    # Every state may end at once, at a cost of 1, or move on, and the last one has to pay as well.
    n = 2_000
    ways = [{0: {n: 1.0}, 1: {state + 1: 1.0}} for state in range(n)]
    graph = graph_from_rows(
        [*ways, {0: {n: 1.0}}],
        reward=lambda state, action: float(state < n and (action == 0 or state == n - 1)),
        labels={"end": np.arange(n + 1) == n},
    )
    assert graph.reward is not None
    model, objective = storm_model(graph), Total(graph.reward, graph.labels["end"])
    expected = storm_values(model, f'R{{"r"}}{direction}=? [ F "end" ]', STORM)
    np.testing.assert_array_equal(expected, np.arange(n + 1) < n)
    for method in METHODS:
        check(graph, objective, direction, expected, method)
