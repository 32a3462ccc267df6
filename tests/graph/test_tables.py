"""Tables and descriptions of models with ends."""

from __future__ import annotations

import numpy as np

import mdpdsl
from mdpdsl.graph.describe import pair_text, state_text, states_and_ends
from mdpdsl.graph.tables import pair_csv, pair_table, state_table, transition_table
from tests.graph.build import riverswim
from tests.graph.twins import settled

ENDING = """
mdp m
state x in 0..3
action a, b
init x = 0
on a -> x' = min(x + 1, 3)
on b -> 0.5: x' = max(x - 1, 0) | 0.5: x' = 3
end when x == 1
end when x == 3
"""


def test_a_state_table_says_which_states_are_ends() -> None:
    model = mdpdsl.loads(ENDING, all_states=True)
    table = state_table(model.graph, {"value": np.arange(4.0)})
    assert table.column_names == ["x", "end", "value"]
    assert table["end"].to_pylist() == [False, True, False, True]
    assert mdpdsl.load("riverswim").states.table().column_names == ["pos"]
    assert model.states.table().column_names == ["x", "end"]


def test_a_variable_keeps_its_name_beside_the_column_of_ends() -> None:
    text = "mdp m state end in 0..2 action a init end = 0 on a -> end' = 2 - end end when end == 2"
    graph = mdpdsl.loads(text).graph
    assert state_table(graph, {}).to_pydict() == {"end": [0, 2], "end_": [False, True]}


def test_tables_of_pairs_have_no_row_for_an_end() -> None:
    graph = mdpdsl.loads(ENDING, all_states=True).graph
    table = pair_table(graph, {"number": np.arange(graph.n_pairs)})
    assert table["x"].to_pylist() == [0, 0, 2, 2]
    assert table["action"].to_pylist() == ["a", "b", "a", "b"]
    text = pair_csv(graph, {"number": np.arange(4.0)})
    assert text == "x,action,number\n0,a,0.0\n0,b,1.0\n2,a,2.0\n2,b,3.0\n"


def test_a_table_of_transitions_keeps_a_state_and_its_twin_apart() -> None:
    graph = settled(riverswim(4), {3: 0.25})
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
    columns = {"probability": graph.probability}
    table = transition_table(graph, pair, graph.successor.astype(np.int64), columns)
    assert table.column_names == ["pos", "action", "next_pos", "ended", "probability"]
    rows = table.filter((table["next_pos"].to_numpy() == 3) & (table["pos"].to_numpy() == 2))
    assert rows["ended"].to_pylist() == [False, True]
    into, ending = rows["probability"].to_pylist()
    assert ending / (into + ending) == 0.25
    assert state_table(graph, {})["end"].to_pylist() == [False] * 4 + [True]
    assert state_table(graph, {}).column(0).to_pylist() == [0, 1, 2, 3, 3]


def test_twins_are_described_as_ends() -> None:
    graph = settled(riverswim(4), {3: 0.5})
    assert [state_text(graph, s) for s in (3, 4)] == ["pos = 3", "pos = 3 (end)"]
    assert pair_text(graph, graph.n_pairs - 1) == "right in pos = 3"
    assert states_and_ends(graph) == "5 states, 1 of them an end"
    assert (
        states_and_ends(mdpdsl.loads(ENDING, all_states=True).graph) == "4 states, 2 of them ends"
    )
    assert states_and_ends(riverswim(4)) == "4 states"
