"""Several rewards: every change of a graph carries all of them along."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import FormatError
from mdpdsl.formats.npz import from_npz, to_npz
from mdpdsl.graph.counts import counts_from
from mdpdsl.graph.ends import absorb, settle
from mdpdsl.graph.restrict import restrict
from mdpdsl.graph.reward_fields import all_rewards, chosen_rewards, mapped_rewards
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph

TRIP = """
mdp trip "A walk with two costs"
state x in 0..4
action walk, run
init x = 0
on walk -> 0.9: x' = min(x + 1, 4) | 0.1: stay
on run -> 0.7: x' = min(x + 2, 4) | 0.3: x' = max(x - 1, 0)
reward when x' == 4 : 10
reward default on run : -1
reward energy on run : 3
reward energy on walk : 1 + x
reward time when x' != x : 1
reward time when x' == x : 2
label goal when x == 4
"""


@pytest.fixture(scope="module")
def graph() -> TransitionGraph:
    found = mdpdsl.loads(TRIP).graph
    found.validate()
    return found


@pytest.fixture(scope="module")
def ended() -> TransitionGraph:
    found = mdpdsl.loads(f"{TRIP}end when x == 4\n").graph
    found.validate()
    return found


def expected(graph: TransitionGraph, by_branch: FloatArray) -> FloatArray:
    return np.asarray(np.add.reduceat(graph.probability * by_branch, graph.successor_start[:-1]))


def test_lines_of_one_name_add_up_and_no_name_is_the_default(graph: TransitionGraph) -> None:
    assert list(graph.rewards) == ["energy", "time"]
    assert list(graph.branch_rewards) == ["time"]
    walk, run = graph.pair(3, 0), graph.pair(3, 1)
    assert graph.reward is not None
    assert graph.reward[[walk, run]] == pytest.approx([9.0, 0.7 * 10 - 1])
    assert graph.rewards["energy"][[walk, run]].tolist() == [4.0, 3.0]
    assert graph.rewards["time"][[walk, run]] == pytest.approx([1.1, 1.0])
    assert graph.rewards["time"] == pytest.approx(expected(graph, graph.branch_rewards["time"]))


def test_a_reward_is_found_by_its_name(graph: TransitionGraph) -> None:
    assert graph.reward_of() is graph.reward_of(None) is graph.reward_of("default") is graph.reward
    assert graph.reward_of("energy") is graph.rewards["energy"]
    assert graph.reward_of("entropy") is None
    assert list(all_rewards(graph)) == ["default", "energy", "time"]


def test_a_model_may_have_named_rewards_only() -> None:
    found = mdpdsl.loads("mdp m state x in 0..1 action a on a -> stay reward cost : x").graph
    assert found.reward is None
    assert found.rewards["cost"].tolist() == [0, 1]


def test_without_dynamics_rewards_of_next_states_are_unknown() -> None:
    text = "\n".join(line for line in TRIP.splitlines() if not line.startswith("on "))
    found = mdpdsl.loads(text).graph
    assert found.reward is None
    assert list(found.rewards) == ["energy"]
    assert found.rewards["energy"].tolist() == [1, 3, 2, 3, 3, 3, 4, 3, 5, 3]


def test_the_hash_tells_named_rewards_apart_and_does_not_change_without(
    graph: TransitionGraph,
) -> None:
    plain = mdpdsl.loads("\n".join(s for s in TRIP.splitlines() if " energy" not in s))
    plain_graph = replace(plain.graph, rewards={}, branch_rewards={})
    without = replace(graph, rewards={}, branch_rewards={})
    assert plain_graph.hash == without.hash != graph.hash
    renamed = replace(graph, rewards={"other": graph.rewards["energy"]}, branch_rewards={})
    assert renamed.hash != replace(graph, rewards={"energy": graph.rewards["energy"]}).hash


@pytest.mark.parametrize(
    ("name", "hash_before"),
    [("riverswim", "de8bce0856533af1"), ("frozen_lake", "741b2ca3d0ef736c")],
)
def test_a_model_without_named_rewards_has_the_hash_it_had(name: str, hash_before: str) -> None:
    assert mdpdsl.load(name).graph.hash == hash_before


def test_an_npz_file_has_all_rewards(graph: TransitionGraph, tmp_path: Path) -> None:
    to_npz(graph, tmp_path / "trip.npz")
    again = from_npz(tmp_path / "trip.npz")
    assert again.hash == graph.hash
    assert list(again.rewards) == list(graph.rewards)
    assert again.branch_rewards["time"].tolist() == graph.branch_rewards["time"].tolist()


def test_a_damaged_npz_file_is_refused(graph: TransitionGraph, tmp_path: Path) -> None:
    to_npz(graph, tmp_path / "trip.npz")
    with np.load(tmp_path / "trip.npz") as file:
        arrays = {name: file[name] for name in file.files}
    for name, broken in {
        "reward.energy": arrays["reward.energy"][1:],
        "branch_reward.time": arrays["branch_reward.time"][1:],
        "reward.time": arrays["reward.time"] * np.nan,
    }.items():
        np.savez(tmp_path / "broken.npz", **{**arrays, name: broken})
        with pytest.raises(FormatError, match="damaged"):
            from_npz(tmp_path / "broken.npz")


def test_a_part_of_the_states_keeps_the_rewards_of_its_pairs(graph: TransitionGraph) -> None:
    stuck = replace(
        graph,
        probability=np.ones(graph.n_pairs),
        successor=graph.pair_state,
        successor_start=np.arange(graph.n_pairs + 1),
        branch_reward=None,
    )  # every state by itself
    assert list(stuck.rewards) == ["energy"]  # what depends on other branches is gone
    part = restrict(stuck, np.array([True, False, True, True, False]))
    assert part.rewards["energy"].tolist() == [1, 3, 3, 3, 4, 3]
    whole = restrict(graph, np.ones(5, np.bool_))
    assert whole is graph


def test_a_closed_part_keeps_the_rewards_of_its_branches(graph: TransitionGraph) -> None:
    text = f"{TRIP}state night in bool\nstates all\n".replace("init x = 0", "init any")
    twice = mdpdsl.loads(text)
    for night in (False, True):
        kept = twice.graph.states.values("night") == night
        part = restrict(twice.graph, kept)
        assert part.reward == pytest.approx(graph.reward)
        assert part.branch_reward == pytest.approx(graph.branch_reward)
        for name, of_pairs in graph.rewards.items():
            assert part.rewards[name].tolist() == of_pairs.tolist()
        assert part.branch_rewards["time"].tolist() == graph.branch_rewards["time"].tolist()


def test_ends_are_closed_and_absorb_with_all_rewards(ended: TransitionGraph) -> None:
    closed = ended.closed
    closed.validate()
    assert closed.rewards["energy"].tolist() == ended.rewards["energy"].tolist()
    assert closed.rewards["time"].tolist() == ended.rewards["time"].tolist()
    assert closed.branch_rewards == {}
    absorbing, is_own = absorb(ended)
    absorbing.validate()
    for name, of_pairs in ended.rewards.items():
        assert absorbing.rewards[name][is_own].tolist() == of_pairs.tolist()
        assert not absorbing.rewards[name][~is_own].any()
    by_branch = absorbing.branch_rewards["time"]
    assert expected(absorbing, by_branch) == pytest.approx(absorbing.rewards["time"])


def test_ends_found_in_data_keep_the_rewards_of_pairs(graph: TransitionGraph) -> None:
    arrivals = np.array([1, 5 + 4, 5 + 4])  # state 4 is where every episode ended
    counts = counts_from(np.array([0, 2, 4]), arrivals, np.array([3, 2, 1]), graph.n_pairs)
    found = settle(graph, counts, np.array([1, 0, 0, 0, 0])).graph
    assert found.n_pairs == 8
    assert found.reward is None
    assert list(found.rewards) == ["energy"]
    assert found.rewards["energy"].tolist() == graph.rewards["energy"][:8].tolist()


def test_all_rewards_can_be_changed_or_chosen_at_once(graph: TransitionGraph) -> None:
    double = replace(graph, **mapped_rewards(graph, lambda r: 2 * r, lambda r: 2 * r))
    assert double.branch_reward is not None
    assert double.rewards["energy"].tolist() == (2 * graph.rewards["energy"]).tolist()
    assert expected(double, double.branch_rewards["time"]) == pytest.approx(double.rewards["time"])
    pairs: BoolArray = np.arange(graph.n_pairs) < 2
    branches = np.repeat(pairs, np.diff(graph.successor_start))
    chosen = chosen_rewards(graph, pairs, branches)
    assert chosen["rewards"]["energy"].tolist() == [1, 3]
    assert len(chosen["branch_rewards"]["time"]) == branches.sum()


def test_the_default_reward_is_not_among_the_named_ones(graph: TransitionGraph) -> None:
    wrong = replace(graph, rewards={"default": graph.rewards["energy"]}, branch_rewards={})
    with pytest.raises(ValueError, match="field reward"):
        wrong.validate()
