"""The shipped copies of Gymnasium's environments against Gymnasium itself."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import mdpdsl
from mdpdsl.graph.analysis import communicating_classes, reachable_states
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


def gymnasium_tables(env: Any) -> tuple[FloatArray, FloatArray]:
    """Return P and the reward of each step, both [state, action, next state]."""
    table = env.unwrapped.P
    shape = (len(table), len(table[0]), len(table))
    probability, paid = np.zeros(shape), np.zeros(shape)
    for state, actions in table.items():
        for action, outcomes in actions.items():
            for chance, target, reward, _ in outcomes:
                probability[state, action, target] += chance
                paid[state, action, target] += chance * reward
    return probability, _ratio(paid, probability)


def model_tables(graph: TransitionGraph) -> tuple[FloatArray, FloatArray]:
    """Return the same two arrays for a graph in which every action is available everywhere."""
    assert graph.n_pairs == graph.n_states * graph.n_actions
    shape = (graph.n_states, graph.n_actions, graph.n_states)
    probability, reward = np.zeros(shape), np.zeros(shape)
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
    where = (graph.pair_state[pair], graph.pair_action[pair], graph.successor)
    assert graph.reward is not None
    probability[where] = graph.probability
    each = graph.reward[pair] if graph.branch_reward is None else graph.branch_reward
    reward[where] = each
    return probability, reward


@pytest.mark.parametrize("name", TABLES)
def test_transitions_and_rewards_equal_gymnasiums_table(name: str) -> None:
    environment, options, _ = TABLES[name]
    probability, reward = gymnasium_tables(gymnasium.make(environment, **options))
    graph = load(name)
    our_probability, our_reward = model_tables(graph)
    np.testing.assert_allclose(our_probability, probability, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(our_reward, reward, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(our_probability > 0, probability > 0)


@pytest.mark.parametrize("name", TABLES)
def test_expected_rewards_equal_gymnasiums(name: str) -> None:
    environment, options, _ = TABLES[name]
    probability, reward = gymnasium_tables(gymnasium.make(environment, **options))
    expected = (probability * reward).sum(axis=2).ravel()
    actual = load(name).reward
    assert actual is not None
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


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
def test_episodic_states_that_can_be_visited_are_one_communicating_class(name: str) -> None:
    graph = load(name, episodic=True)
    visited = reachable_states(graph)
    classes = communicating_classes(graph)
    assert visited.sum() == TABLES[name][2]
    assert len(set(classes.class_of[visited].tolist())) == 1


@pytest.mark.parametrize("name", TABLES)
def test_episodes_change_only_where_they_end(name: str) -> None:
    table, episodic = load(name), load(name, episodic=True)
    probability, reward = model_tables(table)
    again, reward_again = model_tables(episodic)
    over = table.labels["delivered" if name == "taxi" else "goal"].copy()
    if "hole" in table.labels:
        over |= table.labels["hole"]
    np.testing.assert_array_equal(again[~over], probability[~over])
    np.testing.assert_array_equal(reward_again[~over], reward[~over])
    restart = np.broadcast_to(table.initial, again[over].shape)
    np.testing.assert_allclose(again[over], restart, rtol=0, atol=TOLERANCE)
    assert not reward_again[over].any()


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
    fallen = graph.labels["fallen"]
    pairs = np.flatnonzero(~fallen[graph.pair_state])[::83]
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


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


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
