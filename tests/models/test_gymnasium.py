"""The shipped copies of Gymnasium's environments against Gymnasium itself."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import mdpdsl
from mdpdsl.formats.toy_text import to_toy_text
from mdpdsl.graph.analysis import communicating_classes, reachable_states
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph

gymnasium = pytest.importorskip("gymnasium")

MODELS = Path(__file__).parents[2] / "models"
TOLERANCE = 1e-12

#: model -> the environment it copies, and the states that an episode can visit.
TABLES: dict[str, tuple[str, dict[str, str], int]] = {
    "frozen_lake": ("FrozenLake-v1", {}, 16),
    "frozen_lake_8x8": ("FrozenLake-v1", {"map_name": "8x8"}, 64),
    "cliff_walking": ("CliffWalking-v1", {}, 38),
    "taxi": ("Taxi-v4", {}, 404),
}


def load(name: str, **params: Any) -> TransitionGraph:
    return mdpdsl.load(MODELS / f"{name}.mdp", **params).graph


def merged(table: Any) -> dict[tuple[int, int, int, bool], tuple[float, float]]:
    """Return the chance and the reward of each (state, action, next state, terminated)."""
    found: dict[tuple[int, int, int, bool], tuple[float, float]] = {}
    for state, choices in table.items():
        for action, row in choices.items():
            for chance, target, reward, ended in row:
                key = (int(state), int(action), int(target), bool(ended))
                before, paid = found.get(key, (0.0, 0.0))
                found[key] = (before + float(chance), paid + float(chance) * float(reward))
    return {key: (p, paid / p) for key, (p, paid) in found.items() if p > 0}


def assert_same_entries(ours: Any, theirs: Any) -> None:
    ours, theirs = merged(ours), merged(theirs)
    assert ours.keys() == theirs.keys()
    for key, entry in theirs.items():
        np.testing.assert_allclose(ours[key], entry, rtol=0, atol=TOLERANCE, err_msg=str(key))


def acting(table: Any, graph: TransitionGraph) -> Any:
    """Return the rows of a table in which episodes continue."""
    assert graph.ends is not None
    return {state: row for state, row in table.items() if not graph.ends[state]}


@pytest.mark.parametrize("name", TABLES)
def test_transitions_rewards_and_ends_equal_gymnasiums_table(name: str) -> None:
    environment, options, _ = TABLES[name]
    theirs = gymnasium.make(environment, **options).unwrapped.P
    graph = load(name)
    ours = to_toy_text(graph)
    assert list(ours) == list(theirs)
    assert_same_entries(acting(ours, graph), acting(theirs, graph))


@pytest.mark.parametrize("name", TABLES)
def test_the_rows_of_ends_are_restored(name: str) -> None:
    """Gymnasium's own lakes have these rows; its cliff and taxi would drive on."""
    environment, options, _ = TABLES[name]
    theirs = gymnasium.make(environment, **options).unwrapped.P
    graph = load(name)
    assert graph.ends is not None
    ours = to_toy_text(graph)
    for state in np.flatnonzero(graph.ends).tolist():
        assert ours[state] == {a: [(1.0, state, 0.0, True)] for a in range(graph.n_actions)}
    if name.startswith("frozen_lake"):
        assert_same_entries(ours, theirs)


@pytest.mark.parametrize(("environment", "options"), [(e, o) for e, o, _ in TABLES.values()])
def test_a_table_into_a_model_and_back_is_the_same(environment: str, options: Any) -> None:
    """Entry by entry, but for the rows of states in which every episode has ended."""
    env = gymnasium.make(environment, **options).unwrapped
    graph = mdpdsl.from_arrays(env.P, initial=env.initial_state_distrib).graph
    ours = to_toy_text(graph)
    assert list(ours) == list(env.P)
    assert_same_entries(acting(ours, graph), acting(env.P, graph))
    np.testing.assert_array_equal(graph.initial[: len(env.P)], env.initial_state_distrib)


@pytest.mark.parametrize("name", TABLES)
def test_the_shipped_model_and_the_environment_are_worth_the_same(name: str) -> None:
    environment, options, _ = TABLES[name]
    env = gymnasium.make(environment, **options).unwrapped
    there = mdpdsl.from_arrays(env.P, initial=env.initial_state_distrib).graph
    values = [graph.initial @ discounted_values(graph) for graph in (load(name), there)]
    assert values[0] == pytest.approx(values[1], abs=1e-9)


def discounted_values(graph: TransitionGraph, discount: float = 0.95) -> FloatArray:
    absorbing, _ = absorb(graph)
    P, reward = absorbing.transition_matrix(), absorbing.reward
    assert reward is not None
    values = np.zeros(graph.n_states)
    for _ in range(600):
        values = np.maximum.reduceat(reward + discount * (P @ values), absorbing.pair_start[:-1])
    return values


@pytest.mark.parametrize("name", TABLES)
def test_the_initial_distribution_equals_gymnasiums(name: str) -> None:
    environment, options, _ = TABLES[name]
    expected = gymnasium.make(environment, **options).unwrapped.initial_state_distrib
    np.testing.assert_allclose(load(name).initial, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", TABLES)
def test_actions_are_in_gymnasiums_order(name: str) -> None:
    orders = {
        "frozen_lake": ("left", "down", "right", "up"),
        "frozen_lake_8x8": ("left", "down", "right", "up"),
        "cliff_walking": ("up", "right", "down", "left"),
        "taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
    }
    assert load(name).actions.labels == orders[name]


@pytest.mark.parametrize("name", TABLES)
def test_states_that_can_be_visited_are_one_communicating_class(name: str) -> None:
    graph = load(name)
    assert graph.ends is not None
    visited = reachable_states(graph)
    assert visited.sum() == TABLES[name][2]
    classes = communicating_classes(graph.closed)
    assert len(set(classes.class_of[visited[~graph.ends]].tolist())) == 1


def test_pendulum_moves_as_gymnasiums_does_from_every_cell() -> None:
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset()
    graph = load("pendulum")
    theta, omega = (graph.states.values(v.name) for v in graph.states.variables)
    angle_edges, speed_edges = (v.edges for v in graph.states.variables)
    assert angle_edges is not None
    assert speed_edges is not None
    expected = np.zeros((graph.n_pairs, graph.n_states))
    for pair in range(graph.n_pairs):
        state, torque = graph.pair_state[pair], float(graph.pair_action[pair] - 2)
        env.state = np.array([theta[state], omega[state]])
        env.step(np.array([torque]))
        angle = _wrapped_cells(env.state[0], 0.12, angle_edges)
        speed = _clipped_cells(env.state[1], 0.1, speed_edges)
        expected[pair] = np.outer(angle, speed).ravel()
    _assert_rows_equal(graph, expected)


def test_mountain_car_moves_as_gymnasiums_does_from_every_cell() -> None:
    env = gymnasium.make("MountainCar-v0").unwrapped
    env.reset()
    graph = load("mountain_car")
    place, speed = (graph.states.values(v.name) for v in graph.states.variables)
    place_edges, speed_edges = (v.edges for v in graph.states.variables)
    assert place_edges is not None
    assert speed_edges is not None
    expected = np.zeros((graph.n_pairs, graph.n_states))
    for pair in range(graph.n_pairs):
        state, action = graph.pair_state[pair], int(graph.pair_action[pair])
        if place[state] >= 0.5:
            expected[pair] = graph.initial
            continue
        env.state = (place[state], speed[state])
        env.step(action)
        x = _clipped_cells(float(env.state[0]), 0.05, place_edges)
        v = _clipped_cells(float(env.state[1]), 0.02, speed_edges)
        expected[pair] = np.outer(x, v).ravel()
    _assert_rows_equal(graph, expected)


def test_cart_pole_moves_as_gymnasiums_does_with_its_time_step() -> None:
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset()
    graph = load("cart_pole", tau=0.02)
    variables = graph.states.variables
    edges = [v.edges for v in variables if v.edges is not None]
    deviations = (0.1, 0.1, 0.0, 0.2)
    pairs = np.arange(graph.n_pairs)[::83]
    matrix = graph.transition_matrix()
    for pair in pairs:
        state = int(graph.pair_state[pair])
        cells = [int(graph.states.cells(v.name)[state]) for v in variables]
        axes = [_points(e[c], e[c + 1], 3) for e, c in zip(edges, cells, strict=True)]
        expected = np.zeros(graph.states.product.size)
        points = list(itertools.product(*axes))
        for point in points:
            env.state = np.array(point)
            env.steps_beyond_terminated = None
            env.step(int(graph.pair_action[pair]))
            row = np.ones(1)
            for mean, deviation, edge in zip(env.state, deviations, edges, strict=True):
                row = np.outer(row, _clipped_cells(float(mean), deviation, edge)).ravel()
            expected += row / len(points)
        actual = matrix[[pair]].toarray()[0]
        np.testing.assert_allclose(actual, expected[graph.states.codes], rtol=0, atol=1e-9)


def _points(low: float, high: float, number: int) -> FloatArray:
    return low + (high - low) * (np.arange(number) + 0.5) / number


def _clipped_cells(mean: float, deviation: float, edges: FloatArray) -> FloatArray:
    """Return the probability of each cell for a normal value that saturates at the ends."""
    inner = edges[1:-1]
    below = ndtr((inner - mean) / deviation) if deviation else (mean < inner).astype(float)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


def _wrapped_cells(mean: float, deviation: float, edges: FloatArray) -> FloatArray:
    """Return the probability of each cell for a normal value on a circle."""
    turns = 2 * np.pi * np.arange(-3, 4)[:, None]
    below = np.asarray(ndtr((edges + turns - mean) / deviation))
    return np.asarray(np.diff(below, axis=1).sum(axis=0))


def _assert_rows_equal(graph: TransitionGraph, expected: FloatArray) -> None:
    actual = graph.transition_matrix().toarray()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)
