"""Gymnasium's toy-text tables as graphs and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings

import mdpdsl
from mdpdsl.formats.gym import (
    JSON_FORMAT,
    TERMINAL,
    from_toy_text,
    read_toy_text,
    terminal_states,
    to_toy_text,
    toy_text_json,
)
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.load import from_gym_P
from tests.solve.small import small_graphs

MODELS = [name for name in mdpdsl.shipped_models() if name != "pendulum_unknown"]


def merged(table: Any) -> dict[tuple[int, int], dict[int, tuple[float, float, bool]]]:
    """Return a table by pair and next state; entries with the same state are added."""
    found: dict[tuple[int, int], dict[int, tuple[float, float, bool]]] = {}
    for state in table:
        for action, row in table[state].items():
            by_target: dict[int, tuple[float, float, bool]] = {}
            for p, target, reward, ends in row:
                before = by_target.get(int(target), (0.0, float(reward), bool(ends)))
                assert before[1:] == (float(reward), bool(ends))
                by_target[int(target)] = (before[0] + float(p), *before[1:])
            found[int(state), int(action)] = {t: e for t, e in by_target.items() if e[0] > 0}
    return found


@pytest.mark.parametrize("identifier", ["FrozenLake-v1", "FrozenLake8x8-v1"])
def test_frozen_lake_into_a_model_and_back_is_the_identity(identifier: str) -> None:
    environment: Any = gymnasium.make(identifier).unwrapped
    model = from_gym_P(environment.P, environment.initial_state_distrib)
    assert merged(to_toy_text(model.graph)) == merged(environment.P)
    np.testing.assert_array_equal(model.graph.initial, environment.initial_state_distrib)


def test_a_frozen_lake_with_other_settings_is_the_same_too() -> None:
    environment: Any = gymnasium.make("FrozenLake-v1", is_slippery=False).unwrapped
    graph = from_toy_text(environment.P)
    assert merged(to_toy_text(graph)) == merged(environment.P)
    assert graph.n_branches == graph.n_pairs


@pytest.mark.parametrize("identifier", ["Taxi-v4", "CliffWalking-v1"])
def test_episodes_end_where_the_environment_ends_them(identifier: str) -> None:
    """The rows of terminal states are left out; everything else is kept."""
    environment: Any = gymnasium.make(identifier).unwrapped
    graph = from_toy_text(environment.P, environment.initial_state_distrib)
    ends = terminal_states(graph)
    ours, theirs = merged(to_toy_text(graph)), merged(environment.P)
    # Only a number may differ: that of the twin of a state that is entered both ways.
    for pair, row in theirs.items():
        if ends[pair[0]]:
            assert ours[pair] == {pair[0]: (1.0, 0.0, True)}
            continue
        for target, entry in row.items():
            mine = next(t for t, e in ours[pair].items() if e == entry)
            assert mine == target or (mine >= len(environment.P) and entry[2])


def test_entries_with_the_same_state_are_added_with_the_mean_of_their_rewards() -> None:
    row = [(0.25, 1, 4.0, False), (0.5, 0, 1.0, False), (0.25, 1, 0.0, False)]
    graph = from_toy_text({0: {0: row}, 1: {0: [(1.0, 0, 0.0, False)]}})
    assert graph.successor.tolist() == [0, 1, 0]
    assert graph.probability.tolist() == [0.5, 0.5, 1.0]
    assert graph.branch_reward is not None
    assert graph.branch_reward.tolist() == [1.0, 2.0, 0.0]


def test_a_state_entered_both_ways_gets_a_twin() -> None:
    table = {
        0: {0: [(0.5, 1, 1.0, True), (0.5, 1, 0.0, False)]},
        1: {0: [(1.0, 0, 2.0, False)]},
    }
    graph = from_toy_text(table, [1.0, 0.0])
    assert graph.n_states == 3
    assert graph.labels[TERMINAL].tolist() == [False, False, True]
    assert merged(to_toy_text(graph)) == {
        (0, 0): {1: (0.5, 0.0, False), 2: (0.5, 1.0, True)},
        (1, 0): {0: (1.0, 2.0, False)},
        (2, 0): {2: (1.0, 0.0, True)},
    }


@settings(deadline=None, max_examples=100)
@given(small_graphs())
def test_a_graph_into_a_table_and_back_is_the_identity(graph: TransitionGraph) -> None:
    """If ends are loops without reward, which `terminal_states` finds, nothing is lost."""
    again = from_toy_text(to_toy_text(graph), graph.initial, graph.actions.labels)
    names = ("pair_start", "pair_action", "successor_start", "successor", "probability", "reward")
    for name in names:
        np.testing.assert_array_equal(getattr(again, name), getattr(graph, name))


@pytest.mark.parametrize("name", MODELS)
def test_a_json_file_is_the_same_model_again(name: str, tmp_path: Path) -> None:
    graph = mdpdsl.load(name).graph
    path = tmp_path / "model.json"
    path.write_text(toy_text_json(graph, name), encoding="utf-8")
    again, found = read_toy_text(path)
    assert (again.hash, found) == (graph.hash, name)


def test_a_table_that_others_wrote_as_json_is_read(tmp_path: Path) -> None:
    environment: Any = gymnasium.make("FrozenLake-v1").unwrapped
    plain = {
        state: {action: [[float(p), int(t), float(r), bool(e)] for p, t, r, e in row]}
        for state, choices in environment.P.items()
        for action, row in list(choices.items())[:1]
    }
    (tmp_path / "lake.json").write_text(json.dumps(plain))
    graph, name = read_toy_text(tmp_path / "lake.json")
    assert (graph.n_pairs, name) == (16, "lake")
    (tmp_path / "keyed.json").write_text(json.dumps({"P": plain, "initial_state_distrib": None}))
    assert read_toy_text(tmp_path / "keyed.json")[0].hash == graph.hash


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "no transitions"),
        ({0: {0: []}}, r"P\[0\]\[0\] is not a list"),
        ({0: {0: [(1.0, 0, 0.0)]}}, r"P\[0\]\[0\] has the entry"),
        ({0: {0: [(1.0, 5, 0.0, False)]}}, "leads to 5, but the states are 0 to 0"),
        ({0: {0: [(1.5, 0, 0.0, False)]}}, "probability 1.5"),
        ({0: {0: [(0.5, 0, 0.0, False)]}}, "sum to 0.5, not 1"),
        ({1: {0: [(1.0, 1, 0.0, False)]}}, "must be numbered from 0"),
        ({"x": {}}, "the key 'x'"),
        ({0: {0: [(1.0, 0, float("nan"), False)]}}, "reward nan"),
        ({0: {0: [(1.0, 1, 0, True)]}, 1: {}}, r"P\[1\] has no actions"),
        (7, "int, not a list or a mapping"),
    ],
)
def test_errors_in_a_table_show_their_place(table: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_toy_text(table)


def test_a_start_may_be_one_state() -> None:
    table = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)]}}
    assert from_gym_P(table, 1).graph.initial.tolist() == [0, 1]
    with pytest.raises(ValueError, match="start 2 is not a state"):
        from_gym_P(table, 2)
    with pytest.raises(ValueError, match="has 3 states, but P has 2"):
        from_gym_P(table, [1, 0, 0])


@pytest.mark.parametrize(
    "text",
    ["{", "7", '{"P": 3}', json.dumps({"format": JSON_FORMAT, "P": [[[[1, 0, 0, False]]]]})],
)
def test_a_damaged_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.json"):
        read_toy_text(path)
