"""What `describe`, `show` and pictures say of a model that leaves something open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.formats.dot import to_dot
from mdpdsl.graph.shown_rows import shown_rows, simulated_or_possible
from mdpdsl.report.graph.picture import graph_figure, inline_svg
from tests.cli.run import quick, written

LAKE = """\
mdp lake
unknown slip in [0, 0.5]
unknown wind in [0, 1] = 0.25
state x in 0..3
action left, right, drift, wait
init x = 0
on right when x < 3 -> 1 - slip: x' = x + 1 | slip: stay
on right otherwise -> stay
on left -> 0.6: x' = max(x - 1, 0) | ?: stay | ?: x' = max(x - 2, 0) | ?: x' = 3
on drift -> wind: x' = 0 | 1 - wind: stay
on wait -> 0.9: stay | 0.1: x' = 0
reward when x' == 3 : 1
"""
#: The same with a value of everything.
TRUE = (
    LAKE.replace("0.5]\n", "0.5] = 0.2\n")
    .replace("?: stay", "?=0.2: stay")
    .replace("?: x' = max", "?=0.2: x' = max")
    .replace("?: x' = 3", "?=0: x' = 3")
)
PLAIN = "mdp m  state x in 0..3  action a  init x = 0  on a -> 0.5: x' = 0 | 0.5: x' = min(x+1, 3)"


def texts_of(model: Model) -> list[str]:
    """Return the texts in the picture of a model."""
    return [text.get_text() for text in graph_figure(model.graph).axes[0].texts]


def test_the_rows_are_counted_by_what_is_known_of_them() -> None:
    found = mdpdsl.describe(mdpdsl.loads(LAKE)).knowledge
    assert found is not None
    # In x = 0, drifting leads to x = 0 whatever the wind: a single successor is certain.
    assert (found.known, found.open, found.laws) == (1 + 4 + 1, 4, 3 + 3)
    assert found.missing == ["slip", "?"]
    shown = [(each.name, each.low, each.high, each.value) for each in found.unknowns]
    assert shown == [("slip", 0, 0.5, None), ("wind", 0, 1, 0.25)]


KNOWN = """\
mdp m
unknown idle in [0, 1]
state x in 0..3
action a, b
init x = 0
on a -> ?: x' = 1 | ?: x' = 1
on b -> x' = min(x + 1, 3)
"""


def test_nothing_is_missing_where_every_row_is_known() -> None:
    model = mdpdsl.loads(KNOWN)
    found = mdpdsl.describe(model).knowledge
    assert found is not None
    assert (found.known, found.missing) == (8, [])
    assert model.graph.has_truth
    assert mdpdsl.simulate(model, steps=5, seed=1).table().num_rows > 0


def test_only_what_the_rows_need_is_missing() -> None:
    law = "on b -> slip: x' = 3 | 1 - slip: stay"
    text = KNOWN.replace("on b -> x' = min(x + 1, 3)", law)
    model = mdpdsl.loads(text.replace("idle in", "slip in [0, 0.5]\nunknown idle in"))
    found = mdpdsl.describe(model).knowledge
    assert found is not None
    assert found.missing == ["slip"]


def test_branches_that_lead_to_one_state_are_named() -> None:
    found = mdpdsl.describe(mdpdsl.loads(LAKE)).knowledge
    assert found is not None
    # In x = 0 and x = 1 the branches meet at x = 0, and in x = 3 at x = 3.
    assert found.joined == 3
    assert found.example == (
        "in x = 0, `left`: several branches lead to x = 0 and cannot be told apart"
    )


def test_a_model_without_a_truth_has_no_complexity_but_classes() -> None:
    without, true = (mdpdsl.describe(mdpdsl.loads(text)) for text in (LAKE, TRUE))
    assert without.complexity is None
    assert true.complexity is not None
    assert (without.classes, without.unreachable) == (1, 0)
    assert without.branches > true.branches  # a truth of 0 is a branch that is possible
    assert true.knowledge is not None
    assert true.knowledge.missing == []


def test_a_file_that_leaves_nothing_open_says_nothing_of_knowledge() -> None:
    found = mdpdsl.describe(mdpdsl.loads(PLAIN))
    assert found.knowledge is None
    assert "knowledge" not in found.record()


def test_show_prints_what_is_known_and_what_is_missing(tmp_path: Path) -> None:
    shown = quick("show", written(tmp_path, LAKE)).stdout
    assert "6 known, 4 with `?`, 6 with unknown numbers" in shown
    assert "slip in [0, 0.5]; wind in [0, 1], simulated with 0.25" in shown
    assert "3 pairs; in x = 0, `left`: several branches lead to x = 0" in shown
    assert "missing: a value of slip, the probabilities of `?`" in shown
    assert "complexity" not in shown
    assert "parameters" not in shown
    record = quick("show", written(tmp_path, LAKE), "--json").json()
    assert record["complexity"] is None
    assert record["knowledge"] == {
        "known": 6,
        "open": 4,
        "laws": 6,
        "joined": 3,
        "unknowns": [
            {"name": "slip", "low": 0, "high": 0.5, "value": None},
            {"name": "wind", "low": 0, "high": 1, "value": 0.25},
        ],
        "missing": ["slip", "?"],
    }


def test_a_value_that_is_set_is_no_longer_missing(tmp_path: Path) -> None:
    shown = quick("show", written(tmp_path, LAKE), "--set", "slip=0.125")
    assert "slip in [0, 0.5], simulated with 0.125" in shown.stdout
    assert "missing: the probabilities of `?`" in shown.stdout


def test_everything_is_open_if_all_is_to_be_learned() -> None:
    found = mdpdsl.describe(mdpdsl.loads(LAKE, learn="all")).knowledge
    assert found is not None
    assert found.known == 0


# Pictures


@pytest.mark.parametrize("text", [LAKE, TRUE])
def test_an_unknown_probability_is_drawn_as_a_question_mark(text: str) -> None:
    model = mdpdsl.loads(text)
    drawn = texts_of(model)
    n_open = int(shown_rows(model.graph).is_open.sum())
    assert sum("?" in each for each in drawn if "not known" not in each) == n_open
    assert "0.6 + ?" in drawn  # a known share, in x = 0 of `left`
    assert {"0.9", "0.1"} <= set(drawn)
    assert not {"0.2", "0.8", "0.25", "0.75"} & set(drawn)
    assert any("10 pairs to learn" in each for each in drawn)


def test_the_reward_of_a_step_is_drawn_where_it_is_earned() -> None:
    assert "? (+1)" in texts_of(mdpdsl.loads(LAKE))


@pytest.mark.parametrize("text", [LAKE, TRUE])
def test_dot_has_every_possible_transition(text: str) -> None:
    graph = mdpdsl.loads(text).graph
    assert graph.knowledge is not None
    dot = to_dot(graph)
    assert dot.count('label="?"') + dot.count('label="0.6 + ?"') == graph.knowledge.is_open.sum()
    assert dot.count(" -> s") == len(graph.knowledge.successor) + 1
    assert 'label="0.9"' in dot
    for hidden in ("0.2", "0.8", "0.75", "0.25", "0.1333"):
        assert f'label="{hidden}"' not in dot


def test_a_picture_without_open_rows_is_as_before() -> None:
    graph = mdpdsl.loads(PLAIN).graph
    rows = shown_rows(graph)
    assert rows.graph is graph is simulated_or_possible(graph)
    assert not rows.has_open
    assert "?" not in "".join(texts_of(mdpdsl.loads(PLAIN)))


WIDE = """\
mdp wide
unknown slip in [0, 1]
state x in 0..29
state y in 0..{most}
action right, up
init x = 0, y = 0
on right -> 1 - slip: x' = min(x + 1, 29) | slip: y' = min(y + 1, {most})
on up -> ?: y' = min(y + 1, {most}) | ?: x' = max(x - 1, 0)
"""


@pytest.mark.parametrize("most", [3, 9])
def test_planes_and_classes_are_drawn_without_a_truth(most: int) -> None:
    model = mdpdsl.loads(WIDE.format(most=most))
    assert not model.graph.has_truth
    assert inline_svg(model.graph).startswith("<svg")
    notes = texts_of(model)
    if most == 3:
        assert any("a possible move of each action" in note for note in notes)
    assert to_dot(model.graph).startswith("digraph")


def test_possible_transitions_stand_in_for_a_truth() -> None:
    graph = mdpdsl.loads(LAKE).graph
    possible = simulated_or_possible(graph)
    assert graph.knowledge is not None
    np.testing.assert_array_equal(possible.successor, graph.knowledge.successor)
    true = mdpdsl.loads(TRUE).graph
    assert simulated_or_possible(true) is true
