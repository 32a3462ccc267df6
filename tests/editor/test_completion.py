"""Completions are possible at the cursor."""

from __future__ import annotations

import pytest

from mdpdsl.compile.explore_block import SETTINGS
from mdpdsl.compile.scope import ARITY, CONSTANTS
from mdpdsl.editor import vocabulary
from mdpdsl.editor.completion import complete
from mdpdsl.editor.document import read_document
from mdpdsl.explore.algorithms import ALGORITHMS
from mdpdsl.syntax.words import KEYWORDS, STATEMENT_KEYWORDS

MODEL = """\
mdp m
param n = 3
state x in 0..n
state sky in {sun, rain}
action go, wait
action force in {-1, 1}
noise w ~ normal(0, 1)
let near = x < n
let moved = x' > x
"""


def suggested(typed: str, before: str = MODEL) -> list[str]:
    document = read_document(before + typed, "m")
    return [suggestion.text for suggestion in complete(document, len(before + typed))[0]]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("on ", ["go", "wait", "any"]),
        ("on go, wa", ["go", "wait"]),
        ("on go ", ["otherwise", "when"]),
        ("reward on ", ["go", "wait", "any"]),
        ("table ", ["go", "wait", "any"]),
        ("state y in [0, 1] ", ["bins", "clip", "edges", "wrap"]),
        ("noise v ~ ", ["normal", "uniform"]),
        ("init ", ["x", "sky", "any"]),
        ("init x = 0, ", ["x", "sky"]),
        ("init x ~ ", ["normal", "uniform"]),
        ("init sky = ", ["sun", "rain"]),
        ("states ", ["all"]),
        ("discretize ", ["center", "sample", "uniform"]),
        ("discretize uniform ", ["points"]),
        ("restart ", ["when"]),
        ("end ", ["when"]),
        ("end\n  wh", ["when"]),
        ("label a when near  end ", ["when"]),
        ("label end ", ["when"]),
        ("on end ", ["otherwise", "when"]),
        ("label ", []),
        ("param new", []),
        ("action new", []),
        ("explore { algorithm = ", list(ALGORITHMS)),
        ("explore { kappa = 2 ", [*SETTINGS, "and", "or"]),
        ("log { ", ["x", "sky", "action", "force", "episode", "time", "ended", "cut"]),
        ("# on ", []),
        ('mdp m "on ', []),
    ],
)
def test_these_and_no_others_are_suggested(typed: str, expected: list[str]) -> None:
    assert suggested(typed) == expected


@pytest.mark.parametrize(
    ("typed", "first", "missing"),
    [
        ("on go when ", ["x", "sky", "action", "force", "near"], {"w", "moved", "x'"}),
        ("on go when sky == ", ["sun", "rain"], {"w"}),
        ("on any when action == ", ["go", "wait"], {"w"}),
        ("on go -> ", ["stay", "x'", "sky'"], {"w", "moved"}),
        ("on go -> 0.5: ", ["stay", "x'", "sky'"], set()),
        ("on go -> x' = ", ["x", "sky", "action", "force", "w"], {"stay"}),
        ("on go -> sky' = ", ["sun", "rain"], {"stay"}),
        ("label l when ", ["x", "sky", "near"], {"w", "action", "force", "moved"}),
        ("restart when ", ["x", "sky", "near"], {"w", "force"}),
        ("end when ", ["x", "sky", "near"], {"w", "action", "force", "moved"}),
        ("end when sky == ", ["sun", "rain"], {"w", "force"}),
        ("reward : ", ["x", "sky", "action", "force", "near", "moved"], {"w"}),
        ("param q = ", ["n"], {"x", "w", "sun", "near"}),
        ("state y in ", ["n"], {"x", "w", "sun"}),
        ("x' = ", ["x", "sky", "action", "force", "w"], {"when"}),
        ("init any when ", ["x", "sky", "near"], {"w", "force"}),
    ],
)
def test_only_names_that_may_be_used_here_come_first(
    typed: str, first: list[str], missing: set[str]
) -> None:
    found = suggested(typed)
    assert found[: len(first)] == first
    assert not missing & set(found)


def test_a_new_line_starts_a_statement() -> None:
    found = suggested("")
    assert found[:2] == ["x'", "sky'"]
    assert set(STATEMENT_KEYWORDS) <= set(found)
    assert "x" not in found


def test_a_continued_line_does_not_start_a_statement() -> None:
    found = suggested("on go -> x' = x +\n  ")
    assert "x" in found
    assert not {"label", "param"} & set(found)


def test_after_a_syntax_error_everything_is_suggested() -> None:
    found = suggested("on go when = ")
    assert {"x", "w", "near", "when", "label"} <= set(found)


def test_a_line_may_contain_several_statements() -> None:
    assert suggested("label a when near  on ") == ["go", "wait", "any"]
    assert suggested("let z = action == go  init ") == ["x", "sky", "any"]


def test_the_words_of_the_language_all_have_a_meaning() -> None:
    assert vocabulary.STATEMENTS.keys() == set(STATEMENT_KEYWORDS)
    assert vocabulary.STATEMENTS.keys() | vocabulary.WORDS.keys() == KEYWORDS
    assert vocabulary.FUNCTIONS.keys() == ARITY.keys()
    assert vocabulary.CONSTANTS.keys() == CONSTANTS.keys()
    assert set(vocabulary.SETTINGS) == set(SETTINGS)
