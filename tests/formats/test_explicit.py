"""PRISM's explicit files: they read back as written, and errors show their line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import mdpdsl
from mdpdsl.formats.explicit import read_prism_files, write_explicit
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.solve.small import small_graphs

MODELS = [name for name in mdpdsl.shipped_models() if name != "pendulum_unknown"]
ARRAYS = ("pair_start", "pair_action", "successor_start", "successor")

TRA = "2 3 4\n0 0 0 0.5 a\n0 0 1 0.5 a\n0 1 1 1 b\n1 0 1 1 a\n"
STA = "(x,b)\n0:(3,false)\n1:(4,true)\n"
LAB = '0="init" 1="deadlock" 2="there"\n0: 0\n1: 2\n'


def assert_same(one: TransitionGraph, other: TransitionGraph) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.probability, other.probability, rtol=0, atol=1e-15)
    assert (one.reward is None) == (other.reward is None)
    if one.reward is not None and other.reward is not None:
        np.testing.assert_array_equal(one.reward, other.reward)
    for label in one.labels:
        np.testing.assert_array_equal(one.labels[label], other.labels[label])


def files(folder: Path, **texts: str) -> Path:
    for suffix, text in texts.items():
        (folder / f"m.{suffix}").write_text(text)
    return folder / "m.tra"


@pytest.mark.parametrize("name", MODELS)
def test_every_shipped_model_comes_back(name: str, tmp_path: Path) -> None:
    graph = mdpdsl.load(name).graph
    paths = write_explicit(graph, tmp_path / "m")
    assert paths[0] == tmp_path / "m.tra"
    again = read_prism_files(paths[0])
    assert_same(graph, again)
    np.testing.assert_array_equal(graph.initial > 0, again.initial > 0)


@settings(deadline=None, max_examples=50)
@given(small_graphs())
def test_any_graph_comes_back(
    tmp_path_factory: pytest.TempPathFactory, graph: TransitionGraph
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.tra"
    write_explicit(graph, path)
    again = read_prism_files(path)
    np.testing.assert_array_equal(again.pair_start, graph.pair_start)
    np.testing.assert_array_equal(again.successor, graph.successor)
    np.testing.assert_array_equal(again.reward, graph.reward)
    # Actions that occur in no common state may change their order, not their names.
    names = [graph.actions.labels[a] for a in graph.pair_action]
    assert sorted(names) == sorted(again.actions.labels[a] for a in again.pair_action)


def test_values_labels_and_starts_are_read(tmp_path: Path) -> None:
    graph = read_prism_files(files(tmp_path, tra=TRA, sta=STA, lab=LAB))
    assert [v.describe() for v in graph.states.variables] == ["x in 3..4", "b in bool"]
    assert graph.states.native(1) == {"x": 4, "b": True}
    assert graph.labels["there"].tolist() == [False, True]
    assert set(graph.labels) == {"there"}
    assert graph.initial.tolist() == [1, 0]


def test_states_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    swapped = "(x)\n0:(5)\n1:(2)\n"
    graph = read_prism_files(files(tmp_path, tra=TRA, sta=swapped, lab=LAB))
    assert graph.states.values("x").tolist() == [2, 5]
    assert graph.initial.tolist() == [0, 1]
    assert graph.labels["there"].tolist() == [True, False]
    assert graph.row(graph.pair(1, 0))[0].tolist() == [0, 1]


def test_a_chain_has_one_action(tmp_path: Path) -> None:
    graph = read_prism_files(files(tmp_path, tra="2 3\n0 0 0.25\n0 1 0.75\n1 1 1\n"))
    assert graph.actions.labels == ("step",)
    assert graph.probability.tolist() == [0.25, 0.75, 1.0]
    assert graph.initial.tolist() == [1, 0]


def test_choices_without_a_name_or_with_the_same_name_get_different_names(tmp_path: Path) -> None:
    tra = "1 3 3\n0 0 0 1 go\n0 1 0 1 go\n0 2 0 1\n"
    graph = read_prism_files(files(tmp_path, tra=tra))
    assert graph.actions.labels == ("go", "go_2", "a2")


def test_the_order_of_actions_agrees_with_every_state(tmp_path: Path) -> None:
    tra = "2 3 3\n0 0 1 1 b\n1 0 0 1 a\n1 1 1 1 b\n"
    assert read_prism_files(files(tmp_path, tra=tra)).actions.labels == ("a", "b")


def test_rewards_of_states_and_transitions_are_added(tmp_path: Path) -> None:
    srew = '# Reward structure "r"\n# State rewards\n2 1\n0 10\n'
    trew = "2 3 1\n0 0 1 4\n"
    graph = read_prism_files(files(tmp_path, tra=TRA, srew=srew, trew=trew))
    assert graph.branch_reward is not None
    assert graph.reward is not None
    assert graph.branch_reward.tolist() == [10, 14, 10, 0]
    assert graph.reward.tolist() == [12, 10, 0]


@pytest.mark.parametrize(
    ("suffix", "text", "line", "message"),
    [
        ("tra", "two states\n", 1, "numbers of states"),
        ("tra", TRA.replace("0 1 1 1 b", "0 1 x 1 b"), 4, "whole numbers"),
        ("tra", TRA.replace("0 1 1 1 b", "0 1 7 1 b"), 4, "the states are 0 to 1"),
        ("tra", TRA.replace("0 1 1 1 b", "0 1 1 1.5 b"), 4, "1.5 is not a probability"),
        ("tra", TRA.replace("0 1 1 1 b", "0 1 1 [0.5,1] b"), 4, "interval"),
        ("tra", TRA.replace("0 1 1 1 b", "0 1"), 4, "a transition must have the form"),
        ("tra", TRA.replace("0 1 1 1 b", "0 -1 1 1 b"), 4, "numbered from 0"),
        ("tra", TRA + "1 1 1 1 b\n", None, "announces 4 transitions, but there are 5"),
        ("tra", TRA.replace("0 0 0 0.5", "0 0 0 0.4"), None, "sum to 0.9, not 1"),
        ("tra", "3" + TRA[1:], None, "state 2 is missing"),
        ("tra", "", None, "numbers of states"),
        ("sta", "x,b\n", 1, "must list the variables"),
        ("sta", STA.replace("1:(4,true)", "1:(4)"), 3, "with 2 values"),
        ("sta", STA.replace("1:(4,true)", "0:(4,true)"), 3, "listed twice"),
        ("sta", STA.replace("1:(4,true)", "2:(4,true)"), 3, "state 2"),
        ("sta", STA.replace("1:(4,true)\n", ""), None, "state 1 is missing"),
        ("sta", STA.replace("(4,true)", "(3,false)"), None, "same values"),
        ("sta", STA.replace("4", "0.5"), None, "'0.5'"),
        ("lab", "goal\n", 1, "must list the labels"),
        ("lab", LAB + "0: 9\n", 4, "no label 9"),
        ("lab", LAB + "5: 2\n", 4, "0 to 1"),
        ("lab", LAB.replace("0: 0\n", ""), None, "no state is initial"),
        ("srew", "2 1\n0 much\n", 2, "a reward must be 1 whole number and a value"),
        ("trew", "2 3 1\n0 0 5\n", 2, "a reward must be 3 whole numbers"),
        ("srew", "2 1\n0 inf\n", 2, "not a finite number"),
    ],
)
def test_errors_show_their_line(
    suffix: str, text: str, line: int | None, message: str, tmp_path: Path
) -> None:
    path = files(tmp_path, **({"tra": TRA, "sta": STA, "lab": LAB} | {suffix: text}))
    with pytest.raises(mdpdsl.ModelError) as caught:
        read_prism_files(path)
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert (diagnostic.code, diagnostic.record()["line"]) == ("E603", line)


def test_a_state_without_transitions_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(mdpdsl.ModelError, match="has no action"):
        read_prism_files(files(tmp_path, tra="3" + TRA[1:]))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(mdpdsl.ModelError, match=r"cannot read .*none\.tra"):
        read_prism_files(tmp_path / "none.tra")
