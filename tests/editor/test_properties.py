"""Properties and named rewards in an editor: their meaning, their names and what completes them."""

from __future__ import annotations

import pytest

from mdpdsl.editor.completion import complete
from mdpdsl.editor.document import read_document
from mdpdsl.editor.meaning import meaning_at
from mdpdsl.editor.outline import outline
from mdpdsl.editor.property_words import in_words
from mdpdsl.syntax.property_parse import parse_query

MODEL = """\
mdp m
param n = 3
state x in 0..n
state sky in {sun, rain}
action go, wait
noise w ~ normal(0, 1)
let near = x < n
let moved = x' > x
reward energy on go : 1
reward energy on wait : 2
reward : 3
label goal when x == n
label hole when sky == rain
"""
TEXT = f"""\
{MODEL}property safe = Pmax=? [ !"hole" U<=n ("goal") ]  # important
property cost = R{{"energy"}}min>=3 [ F "goal" & near ]
property quick = P<0.1 [ G<=5 !"end" ]
"""


def suggested(typed: str) -> list[str]:
    document = read_document(MODEL + typed, "m")
    return [suggestion.text for suggestion in complete(document, len(MODEL + typed))[0]]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("reward ", ["energy", "on", "otherwise", "when"]),
        ("reward energy ", ["on", "otherwise", "when"]),
        ("reward energy on ", ["go", "wait", "any"]),
        ("property ", []),
        ("property p ", []),
        (
            "property p = ",
            ["Pmax=?", "Pmin=?", "P>=", "Rmax=?", "Rmin=?", 'R{"energy"}max=?'],
        ),
        ("property p = Pmax=? ", []),
        ('property p = Pmax=? [ F "g', ["goal", "hole", "init", "end", "deadlock"]),
        ('property p = R{"', ["energy"]),
        ('property p = R{"energy"}', ["max", "min"]),
        ('property p = R{"energy"}max=? [ ', ["F", "C<=", "Cdiscount=", "S"]),
        ("property p = Pmax=? [ F<=", ["n"]),
        ("property p = P>=", ["n"]),
        ('property p = Pmax=? [ "goal" ', ["U", "W", "R"]),
        ("property p = Pmax=? [ F  # on ", []),
        ('property p = Pmax=? [ F "goal" ]\non ', ["go", "wait", "any"]),
        ('property p = Pmax=? [ F "goal"\non ', ["go", "wait", "any"]),
    ],
)
def test_these_and_no_others_are_suggested(typed: str, expected: list[str]) -> None:
    assert suggested(typed) == expected


@pytest.mark.parametrize(
    ("typed", "first", "missing"),
    [
        ("property p = Pmax=? [ ", ["F", "G", "X", '"goal"', '"hole"', "x"], {"moved", "w", "U"}),
        ("property p = Pmax=? [ F ", ['"goal"', '"hole"', "x", "sky", "near"], {"moved", "F"}),
        ("property p = Pmax=? [ F\n  ne", ['"goal"', '"hole"', "x", "sky", "near"], {"F"}),
        ("property p = Pmax=? [ F sky = ", ["sun", "rain"], {"moved"}),
        ("property p = Pmax=? [ F sky != ", ["sun", "rain"], {"moved"}),
    ],
)
def test_labels_and_variables_are_suggested(
    typed: str, first: list[str], missing: set[str]
) -> None:
    found = suggested(typed)
    assert found[: len(first)] == first
    assert not missing & set(found)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ('Pmax=? [ F "a" ]', 'the largest probability of reaching `"a"`'),
        ("Pmin=? [ F<=1 b ]", "the least probability of reaching `b` within 1 step"),
        ("Pmin=? [ G[0, 9] b ]", "the least probability that `b` always holds for 9 steps"),
        ("Pmax=? [ X b ]", "the largest probability of `b` after one step"),
        ("Pmax>=0.5 [ b W c ]", "whether the largest probability of `b` until `c`, or for ever is "
         "at least 0.5"),
        ("P<p [ b R<k c ]", "whether under every policy the probability of `c` until `b` holds as "
         "well, or for ever in fewer than k steps is less than p"),
        ("Rmax=? [ C<=20 ]", "the largest expected sum of the reward within 20 steps"),
        ('R{"e"}min=? [ Cdiscount=0.9 ]', "the least expected sum of the reward `e`, discounted by "
         "0.9 at each step"),
        ("R>3 [ S ]", "whether under every policy the long-run average of the reward is more than "
         "3"),
    ],
)  # fmt: skip
def test_a_property_is_described_in_words(query: str, words: str) -> None:
    assert in_words(parse_query(query)) == words


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("safe =", 'the largest probability of reaching `"goal"` within n steps'),
        ("safe =", "important"),
        ("cost", "whether the least expected sum of the reward `energy` until"),
        ('hole" U', "label hole when sky == rain"),
        ('goal")', "label goal when x == n"),
        ('energy"}', "reward energy on go : 1\nreward energy on wait : 2"),
        ("energy on go", "its lines add up"),
        ("near ]", "let near = x < n"),
        ('end" ]', "the states in which an episode is over"),
        ("property safe", "in PRISM's syntax"),
    ],
)
def test_a_hover_explains(at: str, expected: str) -> None:
    found = meaning_at(read_document(TEXT, "m"), TEXT.index(at) + 1)
    assert found is not None
    assert expected in found[0]


def test_labels_rewards_and_properties_are_found_where_they_are_used() -> None:
    document = read_document(TEXT, "m")

    def lines(context: str) -> list[int]:
        name = document.name_at(TEXT.index(context) + 1)
        assert name is not None
        return [TEXT[: o.span.start].count("\n") + 1 for o in document.uses(name)]

    assert lines("goal when") == [12, 14, 15]
    assert lines("energy on go") == [9, 10, 15]
    assert lines("n = 3") == [2, 3, 7, 12, 14]
    assert lines("cost") == [15]
    for occurrence in document.occurrences:
        assert TEXT[occurrence.span.start : occurrence.span.end] == occurrence.text


def test_the_outline_lists_properties_and_named_rewards() -> None:
    found = [(e.name, e.kind, e.detail) for e in outline(read_document(TEXT, "m"))]
    assert ("reward energy", "rule", "on go : 1") in found
    assert ("safe", "property", 'Pmax=? [ !"hole" U<=n "goal" ]') in found


def test_a_broken_property_leaves_the_rest_of_the_file_alone() -> None:
    document = read_document(TEXT.replace("U<=n", "U<="), "m")
    assert [d.code for d in document.mistakes()] == ["E101"]
    assert document.formatted() is None
    assert "cost" in document.checked.properties
