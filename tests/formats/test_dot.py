"""Facts about DOT text: every state, pair and branch is there, and nothing breaks the quotes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mdpdsl.formats.dot import to_dot
from tests.graph.build import (
    countdown,
    enum_variable,
    graph_from_rows,
    named_actions,
    riverswim,
    ruin,
    weather,
)

GOLDEN_WEATHER = """\
digraph "weather" {
  rankdir=LR
  node [fontname="Helvetica", fontsize=11]
  edge [fontname="Helvetica", fontsize=9, arrowsize=0.7]
  s0 [label="sunny", shape=ellipse, penwidth=2]
  start0 [shape=none, label="", width=0]
  start0 -> s0
  s1 [label="rainy", shape=ellipse]
  p0 [shape=point, width=0.08, color="#0072B2", fontcolor="#0072B2"]
  s0 -> p0 [label="walk", arrowhead=none, color="#0072B2", fontcolor="#0072B2"]
  p0 -> s0 [label="0.8", color="#0072B2", fontcolor="#0072B2"]
  p0 -> s1 [label="0.2", color="#0072B2", fontcolor="#0072B2"]
"""


def test_states_actions_and_probabilities_are_written_in_order() -> None:
    assert to_dot(weather(), "weather").startswith(GOLDEN_WEATHER)


def test_every_branch_is_an_edge_and_every_pair_a_point() -> None:
    graph = riverswim()
    text = to_dot(graph)
    assert len(re.findall(r"^  p\d+ -> s\d+ ", text, re.MULTILINE)) == graph.n_branches
    assert text.count("shape=point") == graph.n_pairs
    assert 'label="right (+1)"' in text
    assert '"5\\ngoal"' in text


def test_an_uncertain_start_has_its_probabilities() -> None:
    graph = graph_from_rows([{0: {0: 1.0}}, {0: {1: 1.0}}], initial=np.array([0.25, 0.75]))
    assert 'start1 -> s1 [label="0.75"]' in to_dot(graph)


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "two\nlines", "\\N"])
def test_quotes_and_backslashes_cannot_end_a_label(name: str) -> None:
    graph = graph_from_rows(
        [{0: {1: 1.0}}, {0: {0: 1.0}}], [enum_variable("s", name, "b")], named_actions(name)
    )
    text = to_dot(graph, name)
    quoted = r'"(?:[^"\\]|\\["\\n])*"'
    assert all('"' not in re.sub(quoted, "", line) for line in text.splitlines())
    assert "\\\\" in text or '\\"' in text or "two lines" in text


def test_above_two_hundred_states_the_classes_are_written() -> None:
    text = to_dot(ruin(1000))
    assert 'label="998 states", shape=ellipse, penwidth=2' in text
    assert 'label="wealth = 0\\nclosed", shape=doublecircle' in text
    assert len(re.findall(r"^  c\d+ -> c\d+$", text, re.MULTILINE)) == 2
    assert "38 classes" in to_dot(countdown(300, 20))
