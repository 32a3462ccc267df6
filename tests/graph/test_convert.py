"""Facts about conversions: converting there and back changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from mdpdsl.formats.npz import from_npz, to_npz
from mdpdsl.graph.convert import (
    from_networkx,
    from_scipy,
    to_networkx,
    to_pair_matrix,
    to_scipy,
)
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.build import (
    courier,
    pendulum,
    random_graph,
    riverswim,
    ruin,
    slippery_grid,
    weather,
)

#: By how much summing a row in another order may change the sum.
ROUNDING = 1e-12


def with_branch_rewards(graph: TransitionGraph) -> TransitionGraph:
    rewards = np.random.default_rng(7).normal(size=graph.n_branches)
    expected = np.add.reduceat(rewards * graph.probability, graph.successor_start[:-1])
    return replace(graph, reward=expected, branch_reward=rewards)


GRAPHS = {
    "riverswim": riverswim(),
    "weather": weather(),
    "grid with walls": slippery_grid(4, walls=5),
    "pendulum": pendulum(5),
    "courier": courier(),
    "ruin": ruin(9),
    "random": random_graph(12, 3, 4, np.random.default_rng(3)),
    "branch rewards": with_branch_rewards(riverswim()),
}


@pytest.fixture(params=GRAPHS)
def graph(request: pytest.FixtureRequest) -> TransitionGraph:
    return GRAPHS[request.param]


def assert_same_dynamics(left: TransitionGraph, right: TransitionGraph) -> None:
    for name in ("pair_start", "pair_action", "successor_start", "successor", "probability"):
        assert np.array_equal(getattr(left, name), getattr(right, name)), name
    assert np.array_equal(left.initial, right.initial)
    for name in ("reward", "branch_reward"):
        one, other = getattr(left, name), getattr(right, name)
        assert (one is None) == (other is None), name
        assert one is None or np.allclose(one, other, rtol=0, atol=ROUNDING), name


def test_a_file_gives_back_the_same_hash(graph: TransitionGraph, tmp_path: Path) -> None:
    to_npz(graph, tmp_path / "model.npz")
    back = from_npz(tmp_path / "model.npz")
    assert back.hash == graph.hash
    assert back.states.label(0) == graph.states.label(0)
    assert back.actions.labels == graph.actions.labels
    assert list(back.labels) == list(graph.labels)


def test_a_file_is_written_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.npz"
    to_npz(riverswim(), path)

    def full_disk(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="no space"):
        to_npz(weather(), path)
    assert from_npz(path).hash == riverswim().hash
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]


@pytest.mark.parametrize("content", [b"", b"not a zip", b"\x80\x04N."])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a transition graph"):
        from_npz(path)
    np.savez(path, numbers=np.arange(3))
    with pytest.raises(ValueError, match="not a transition graph"):
        from_npz(path)


def test_a_network_gives_back_the_same_graph(graph: TransitionGraph) -> None:
    back = from_networkx(to_networkx(graph))
    assert_same_dynamics(back, graph)
    if graph.branch_reward is None:
        assert back.hash == graph.hash


def test_a_network_carries_values_labels_and_probabilities() -> None:
    network = to_networkx(riverswim())
    assert network.nodes[5]["values"] == {"pos": 5}
    assert network.nodes[5]["labels"] == ("goal",)
    assert network.nodes[0]["initial"] == 1.0
    assert network.edges[2, 3, "right"] == {"action": "right", "probability": 0.35, "reward": 0.0}
    assert network.number_of_edges() == riverswim().n_branches


def test_a_network_made_by_hand_needs_only_actions_and_probabilities() -> None:
    network = nx.MultiDiGraph()
    network.add_edge("up", "down", action="flip", probability=0.25, reward=4.0)
    network.add_edge("up", "up", action="flip", probability=0.75)
    network.add_edge("down", "down", action="stay", probability=1.0)
    graph = from_networkx(network)
    assert graph.states.native(0) == {"s": "up"}
    assert graph.actions.labels == ("flip", "stay")
    assert graph.initial.tolist() == [0.5, 0.5]
    assert graph.reward is not None
    assert graph.reward.tolist() == [1.0, 0.0]
    assert graph.branch_reward is not None
    assert graph.branch_reward.tolist() == [0.0, 4.0, 0.0]


def test_an_edge_without_a_probability_is_named() -> None:
    network = nx.MultiDiGraph()
    network.add_edge("up", "down", action="flip")
    with pytest.raises(ValueError, match="'up' to 'down' has no probability"):
        from_networkx(network)


def test_matrices_per_action_give_back_the_same_graph(graph: TransitionGraph) -> None:
    matrices = to_scipy(graph)
    back = from_scipy(matrices.transitions, matrices.rewards, matrices.initial)
    assert_same_dynamics(back, replace(graph, branch_reward=None))


def test_a_row_of_an_action_that_is_not_available_is_empty_and_minus_infinity() -> None:
    graph = replace(courier(), reward=np.ones(courier().n_pairs))
    matrices = to_scipy(graph)
    assert matrices.rewards is not None
    for action, matrix in enumerate(matrices.transitions):
        available = graph.pair_state[graph.pair_action == action]
        row_sums = matrix.sum(axis=1)
        expected = np.isin(np.arange(graph.n_states), available)
        assert np.allclose(row_sums, expected)
        assert np.array_equal(matrices.rewards[:, action] == -np.inf, ~expected)


def test_dense_matrices_with_rewards_per_transition_are_read() -> None:
    ahead = np.array([[0.0, 1.0], [0.5, 0.5]])
    stay = csr_array(np.eye(2))
    rewards = [np.array([[0.0, 3.0], [2.0, 0.0]]), np.zeros((2, 2))]
    graph = from_scipy([ahead, stay], rewards, actions=["ahead", "stay"])
    assert graph.actions.labels == ("ahead", "stay")
    assert graph.reward is not None
    assert graph.reward.tolist() == [3.0, 0.0, 1.0, 0.0]
    assert graph.branch_reward is not None
    by_state = from_scipy([ahead, stay], [5.0, 6.0])
    assert by_state.reward is not None
    assert by_state.reward.tolist() == [5.0, 5.0, 6.0, 6.0]


def test_single_precision_rows_are_normalised_and_wrong_ones_refused() -> None:
    thirds = np.full((3, 3), 1 / 3, dtype=np.float32)
    from_scipy([thirds]).validate()
    with pytest.raises(ValueError, match=r"of a0 in \{'s': 0\} sum to 0.9, not 1"):
        from_scipy([np.array([[0.9, 0.0], [0.0, 1.0]])])


def test_a_stored_zero_is_not_a_branch() -> None:
    stored = csr_array((np.array([0.0, 1.0, 1.0]), np.array([0, 1, 0]), np.array([0, 2, 3])))
    graph = from_scipy([stored])
    assert graph.successor.tolist() == [1, 0]
    network = to_networkx(graph)
    network.add_edge(0, 0, action="a0", probability=0.0)
    assert from_networkx(network).hash == graph.hash


def test_a_state_without_any_action_is_refused() -> None:
    with pytest.raises(ValueError, match="has no action"):
        from_scipy([np.array([[1.0, 0.0], [0.0, 0.0]])])


def test_the_pair_matrix_is_a_copy_with_one_row_per_pair() -> None:
    graph = riverswim()
    before = graph.hash
    matrix = to_pair_matrix(graph)
    assert matrix.transitions.shape == (graph.n_pairs, graph.n_states)
    assert matrix.states.tolist() == graph.pair_state.tolist()
    matrix.transitions.data[:] = 0
    assert replace(graph).hash == before
