"""Gymnasium's toy-text tables as graphs and back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import assume, given, settings

import mdpdsl
from mdpdsl.formats.gym import JSON_FORMAT, read_toy_text, toy_text_json
from mdpdsl.formats.loops import TERMINAL, absorbing_states
from mdpdsl.formats.toy_text import (
    from_toy_text,
    terminal_states,
    to_toy_text,
)
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.load import from_gym_P
from tests.formats.ended_graphs import best_values, ended_graphs
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
    assert graph.states.n_twins == 1
    assert graph.states.label(2) == "1 (end)"
    assert graph.ends is not None
    assert graph.ends.tolist() == graph.labels[TERMINAL].tolist() == [False, False, True]
    assert to_toy_text(graph) == {
        0: {0: [(0.5, 1, 0.0, False), (0.5, 1, 1.0, True)]},
        1: {0: [(1.0, 0, 2.0, False)]},
    }


def test_a_state_in_which_episodes_start_is_no_end_though_others_end_there() -> None:
    table = {0: {0: [(1.0, 1, 1.0, True)]}, 1: {0: [(1.0, 0, 2.0, False)]}}
    assert from_toy_text(table, [1.0, 0.0]).n_states == 2
    graph = from_toy_text(table, [0.5, 0.5])
    assert graph.ends is not None
    assert graph.ends.tolist() == [False, False, True]
    assert graph.initial.tolist() == [0.5, 0.5, 0.0]


def test_a_row_that_does_nothing_but_end_is_an_end_however_it_is_entered() -> None:
    table = {
        0: {0: [(0.5, 1, 1.0, False), (0.5, 0, 0.0, False)], 1: [(1.0, 1, 0.0, True)]},
        1: {0: [(1.0, 1, 0.0, True)], 1: [(1.0, 1, 0.0, True)]},
    }
    graph = from_toy_text(table, [0.5, 0.5])
    assert graph.ends is not None
    assert graph.ends.tolist() == [False, True]
    assert graph.initial.tolist() == [1.0, 0.0]


def test_a_loop_without_terminated_is_no_end() -> None:
    table = {0: {0: [(1.0, 1, 1.0, False)]}, 1: {0: [(1.0, 1, 0.0, False)]}}
    graph = from_toy_text(table)
    assert graph.ends is None
    assert graph.n_pairs == 2


def test_rows_of_ended_states_do_not_count() -> None:
    """What a table has behind an end leads nowhere: state 2 is only entered from there."""
    table = {
        0: {0: [(1.0, 1, 1.0, True)]},
        1: {0: [(1.0, 2, 5.0, True)]},
        2: {0: [(1.0, 0, 0.0, False)]},
    }
    graph = from_toy_text(table, [1.0, 0.0, 0.0])
    assert graph.ends is not None
    assert graph.ends.tolist() == [False, True, False]
    assert graph.states.n_twins == 0


def test_an_end_needs_no_row() -> None:
    graph = from_toy_text({0: {0: [(1.0, 1, 1.0, True)]}, 1: {}})
    assert graph.ends is not None
    assert graph.ends.tolist() == [False, True]


@settings(deadline=None, max_examples=100)
@given(small_graphs())
def test_a_graph_without_ends_ends_in_a_table_where_nothing_more_happens(
    graph: TransitionGraph,
) -> None:
    ends = absorbing_states(graph)
    assume(not ends.all())
    again = from_toy_text(to_toy_text(graph), np.ones(graph.n_states) / graph.n_states)
    if ends.any():
        np.testing.assert_array_equal(again.ends, ends)
    else:
        assert again.ends is None
    np.testing.assert_array_equal(again.reward, np.asarray(graph.reward)[~ends[graph.pair_state]])


@settings(deadline=None, max_examples=100)
@given(ended_graphs())
def test_a_graph_with_ends_into_a_table_and_back_is_the_identity(graph: TransitionGraph) -> None:
    table = to_toy_text(graph)
    # A row that does nothing but end is read as an end, although the graph has a step there.
    acting = set(graph.pair_state.tolist())
    assume(not any(_does_nothing(state, table[state]) for state in acting))
    again = from_toy_text(table, graph.initial[: len(table)], graph.actions.labels)
    assert to_toy_text(again) == table
    assert again.n_states == graph.n_states
    values, found = graph.initial @ best_values(graph), again.initial @ best_values(again)
    assert found == pytest.approx(values, abs=1e-9)


def _does_nothing(state: int, choices: Any) -> bool:
    entries = [entry for row in choices.values() for entry in row]
    return all(entry[1:] == (state, 0.0, True) for entry in entries)


@settings(deadline=None, max_examples=50)
@given(ended_graphs())
def test_a_json_file_keeps_ends_and_twins(
    tmp_path_factory: pytest.TempPathFactory, graph: TransitionGraph
) -> None:
    path = tmp_path_factory.getbasetemp() / "ended.json"
    path.write_text(toy_text_json(graph, "ended"), encoding="utf-8")
    assert read_toy_text(path)[0].hash == graph.hash


def test_a_file_of_version_1_ends_where_its_label_says(tmp_path: Path) -> None:
    table = {0: {0: [(1.0, 1, 1.0, False)]}, 1: {0: [(1.0, 1, 0.0, False)]}}
    graph = replace(from_toy_text(table), labels={TERMINAL: np.array([True, True])})
    record = json.loads(toy_text_json(graph, "old"))
    for key in ("ends", "twins"):
        del record[key]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(record))
    found = read_toy_text(path)[0]
    assert found.ends is not None
    assert found.ends.tolist() == [False, True]  # the first state can be left
    assert found.n_pairs == 1


@pytest.mark.parametrize("name", MODELS)
def test_a_json_file_is_the_same_model_again(name: str, tmp_path: Path) -> None:
    graph = mdpdsl.load(name).graph
    path = tmp_path / "model.json"
    path.write_text(toy_text_json(graph, name), encoding="utf-8")
    again, found = read_toy_text(path)
    assert found == name
    # It has one reward, and nothing that is not known.
    assert again.hash == replace(graph, rewards={}, branch_rewards={}, knowledge=None).hash


def test_a_table_that_others_wrote_as_json_is_read(tmp_path: Path) -> None:
    environment: Any = gymnasium.make("FrozenLake-v1").unwrapped
    plain = {
        state: {action: [[float(p), int(t), float(r), bool(e)] for p, t, r, e in row]}
        for state, choices in environment.P.items()
        for action, row in list(choices.items())[:1]
    }
    (tmp_path / "lake.json").write_text(json.dumps(plain))
    graph, name = read_toy_text(tmp_path / "lake.json")
    assert (graph.n_pairs, name) == (11, "lake")
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
        ({0: {0: [(1.0, 1, 0, False)]}, 1: {}}, r"P\[1\] has no actions, and episodes continue"),
        ({0: {0: [(1.0, 0, 0, False)]}, 1: {}}, r"P\[1\] has no actions, and no episode ends"),
        ({0: {0: [(1.0, 0, 0, True)]}}, "every state is an end"),
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
