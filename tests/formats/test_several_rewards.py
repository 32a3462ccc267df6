"""Formats with several rewards: Storm reads them, and they come back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.formats.drn import to_drn
from mdpdsl.formats.explicit import explicit_texts, read_prism_files, write_explicit
from mdpdsl.formats.mdp import model_text
from mdpdsl.formats.prism import to_prism
from mdpdsl.formats.quantecon import quantecon_arrays
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.restrict import restrict
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.formats.storm_reads import read_drn, read_prism
from tests.graph.test_rewards import TRIP
from tests.solve.small import small_graphs
from tests.solve.storm import storm_values

PRECISION = 1e-9
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def trip() -> TransitionGraph:
    return mdpdsl.loads(f"{TRIP}end when x == 4\n").graph


@st.composite
def rewarded_graphs(draw: st.DrawFn) -> TransitionGraph:
    """Draw a graph with one or two named rewards, and sometimes without the default one."""
    graph = draw(small_graphs())
    graph = restrict(graph, reachable_states(graph))
    names = draw(st.sampled_from([("energy",), ("energy", "time"), ("reward", "F")]))
    number = st.integers(-3, 3).map(float)
    rewards = {name: np.array([draw(number) for _ in range(graph.n_pairs)]) for name in names}
    has_default = draw(st.booleans())
    return replace(graph, rewards=rewards, reward=graph.reward if has_default else None)


def best_sums(graph: TransitionGraph, reward: FloatArray, steps: int) -> FloatArray:
    """Return the largest expected sum of the next rewards by state."""
    P, values = graph.transition_matrix(), np.zeros(graph.n_states)
    for _ in range(steps):
        values = np.maximum.reduceat(reward + P @ values, graph.pair_start[:-1])
    return values


@pytest.mark.parametrize("kind", ["drn", "prism"])
def test_storm_finds_the_same_values_for_every_reward(
    trip: TransitionGraph, kind: str, tmp_path: Path
) -> None:
    storm = (
        read_drn(tmp_path, to_drn(trip)) if kind == "drn" else read_prism(tmp_path, to_prism(trip))
    )
    absorbing, _ = absorb(trip)
    assert set(storm.reward_models) == {"reward", "energy", "time"}
    for theirs, ours in (("reward", "default"), ("energy", "energy"), ("time", "time")):
        reward = absorbing.reward_of(ours)
        assert reward is not None
        found = storm_values(storm, f'R{{"{theirs}"}}max=? [C<=7]', PRECISION)
        best = best_sums(absorbing, reward, 7)
        if kind == "prism":  # a builder numbers states in its own order
            found, best = np.sort(found), np.sort(best)
        np.testing.assert_allclose(found, best, rtol=0, atol=TOLERANCE)


@settings(deadline=None, max_examples=25)
@given(rewarded_graphs())
def test_storm_reads_any_graph_with_several_rewards(
    tmp_path_factory: pytest.TempPathFactory, graph: TransitionGraph
) -> None:
    folder = tmp_path_factory.getbasetemp()
    by_drn, by_prism = read_drn(folder, to_drn(graph)), read_prism(folder, to_prism(graph))
    assert set(by_drn.reward_models) == set(by_prism.reward_models)
    taken = "reward" if graph.reward is None else "reward_2"
    names = {"energy": "energy", "time": "time", "F": "F", "reward": taken}
    if graph.reward is not None:
        names["default"] = "reward"
    for name in (*graph.rewards, *(["default"] if graph.reward is not None else [])):
        reward = graph.reward_of(name)
        assert reward is not None
        if not reward.any():  # Storm has no rewards of pairs then
            continue
        np.testing.assert_allclose(
            by_drn.reward_models[names[name]].state_action_rewards, reward, rtol=1e-15
        )
        theirs = by_prism.reward_models[names[name]].state_action_rewards
        np.testing.assert_allclose(np.sort(theirs), np.sort(reward), rtol=1e-15)


@settings(deadline=None, max_examples=25)
@given(rewarded_graphs())
def test_explicit_files_and_texts_come_back_with_all_rewards(
    tmp_path_factory: pytest.TempPathFactory, graph: TransitionGraph
) -> None:
    folder = tmp_path_factory.mktemp("explicit")
    if "reward" in graph.rewards:  # to PRISM, that is the name of the default reward
        graph = replace(graph, rewards={"cost": graph.rewards["reward"]})
    write_explicit(graph, folder / "any")
    again = read_prism_files(folder / "any.tra")
    built = mdpdsl.loads(model_text(graph, "any")).graph
    for found in (again, built):
        assert list(found.rewards) == list(graph.rewards)
        assert (found.reward is None) == (graph.reward is None)
    for name in ("default", *graph.rewards):
        np.testing.assert_array_equal(built.reward_of(name), graph.reward_of(name))
        np.testing.assert_array_equal(again.reward_of(name), graph.reward_of(name))


def test_the_default_reward_alone_has_files_without_a_number(trip: TransitionGraph) -> None:
    alone = replace(trip, rewards={}, branch_rewards={})
    assert [s for s in explicit_texts(alone) if "rew" in s] == [".srew", ".trew"]
    numbered = [s for s in explicit_texts(trip) if "rew" in s]
    assert numbered == ["1.srew", "1.trew", "2.srew", "2.trew", "3.srew", "3.trew"]
    headers = [explicit_texts(trip)[s].splitlines()[0] for s in numbered[::2]]
    assert headers == [f'# Reward structure "{name}"' for name in ("reward", "energy", "time")]


def test_numbered_files_without_a_name_are_numbered_rewards(tmp_path: Path) -> None:
    (tmp_path / "m.tra").write_text("1 1 1\n0 0 0 1 a\n")
    for number in (1, 2):
        (tmp_path / f"m{number}.trew").write_text(f"1 1 1\n0 0 0 {number}\n")
    graph = read_prism_files(tmp_path / "m.tra")
    assert graph.reward is not None
    assert graph.reward.tolist() == [1]
    assert {name: of.tolist() for name, of in graph.rewards.items()} == {"reward_2": [2]}


def test_files_without_a_number_come_before_numbered_ones(tmp_path: Path) -> None:
    (tmp_path / "m.tra").write_text("1 1 1\n0 0 0 1 a\n")
    (tmp_path / "m.trew").write_text('# Reward structure "r"\n1 1 1\n0 0 0 5\n')
    (tmp_path / "m1.trew").write_text("1 1 1\n0 0 0 1\n")
    graph = read_prism_files(tmp_path / "m.tra")
    assert graph.reward is not None
    assert graph.reward.tolist() == [5]
    assert graph.rewards == {}


def test_a_text_has_rewards_of_next_states_under_their_names(trip: TransitionGraph) -> None:
    text = model_text(trip, "trip")
    assert "reward time on walk when x == 0 and x' == 1 : 1" in text
    again = mdpdsl.loads(text).graph
    assert again.hash == trip.hash


def test_names_of_rewards_are_changed_where_a_language_does_not_allow_them() -> None:
    graph = mdpdsl.loads("mdp m state x in 0..1 action a on a -> stay reward größe : x").graph
    text = to_prism(graph)
    assert "// reward `größe` is gr_e" in text
    assert 'rewards "gr_e"' in text
    odd = replace(graph, rewards={"on": graph.rewards["größe"], "default_": graph.rewards["größe"]})
    again = mdpdsl.loads(model_text(odd, "odd")).graph
    assert list(again.rewards) == ["on_", "default_"]


def test_a_state_with_a_named_reward_is_no_end(tmp_path: Path) -> None:
    text = """mdp m state x in 0..1 action a init x = 0 on a -> x' = 1
        label terminal when x == 1 reward cost when x == 1 : 1"""
    write_explicit(mdpdsl.loads(text).graph, tmp_path / "m")
    assert read_prism_files(tmp_path / "m.tra").ends is None


def test_formats_with_one_reward_have_the_default_one(trip: TransitionGraph) -> None:
    assert quantecon_arrays(trip).R.tolist() == np.asarray(absorb(trip)[0].reward).tolist()
    only = replace(trip, reward=None, branch_reward=None)
    assert not quantecon_arrays(only).R.any()
