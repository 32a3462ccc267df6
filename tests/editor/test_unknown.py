"""The editor knows what a file leaves open: unknown numbers, and `?` for probabilities."""

from __future__ import annotations

import pytest

from mdpdsl.editor.completion import complete
from mdpdsl.editor.document import Document, read_document
from mdpdsl.editor.meaning import meaning_at
from mdpdsl.editor.outline import outline
from mdpdsl.editor.positions import Positions
from mdpdsl.editor.protocol import completion_items, symbol

TEXT = """\
mdp lake
param most = 0.5
unknown slip in [0, most] = most/2                # how icy it is
unknown sd in [0.1, 2]
state x in 0..3
state v in [-1, 1] bins 5
action left, right, wait
noise w ~ normal(0, sd)
noise z ~ normal(0, 1)
let grip = 1 - slip
init x = 0, v = 0
on right -> grip: x' = min(x + 1, 3) | slip: stay
on left -> 0.2: stay | ?=most: x' = max(x - 1, 0) | ?=(0.8 - most): x' = 0
on wait -> v' = v + w + z
"""


def document() -> Document:
    return read_document(TEXT, "lake.mdp")


def lines_of(context: str) -> list[int]:
    """Return the lines on which a name is used, given some text that starts with it."""
    name = document().name_at(TEXT.index(context))
    assert name is not None
    return [TEXT[: use.span.start].count("\n") + 1 for use in document().uses(name)]


def hover(context: str) -> str:
    found = meaning_at(document(), TEXT.index(context))
    assert found is not None
    return found[0]


def suggested(typed: str) -> list[str]:
    read = read_document(TEXT + typed, "lake.mdp")
    suggestions, span = complete(read, len(TEXT + typed))
    completion_items(suggestions, Positions(read.text, "utf-16"), span)
    return [suggestion.text for suggestion in suggestions]


def test_an_unknown_number_is_declared_and_used() -> None:
    assert document().mistakes() == []
    assert lines_of("slip in") == [3, 10, 12]
    assert lines_of("sd in") == [4, 8]
    name = document().name_at(TEXT.index("slip: stay"))
    assert name is not None
    assert [o.span.start for o in document().declarations(name)] == [TEXT.index("slip in")]


def test_names_are_found_in_ranges_and_in_truths() -> None:
    assert lines_of("most = 0.5") == [2, 3, 3, 13, 13]


def test_a_hover_shows_the_range_and_the_value_for_simulation() -> None:
    assert hover("slip: stay") == (
        "```mdp\nunknown slip in [0, most] = most/2\n```\n"
        "unknown number in [0, 0.5]; simulated with 0.25\n\nhow icy it is"
    )
    assert "unknown number in [0.1, 2]; to simulate, give it a value with `--set sd=…`" in hover(
        "sd in"
    )


def test_a_hover_says_what_depends_on_an_unknown_number() -> None:
    assert hover("grip: x'").endswith("let, a real number; depends on the unknown number `slip`")
    assert hover("w + z").endswith(
        "noise, drawn anew at each step; depends on the unknown number `sd`"
    )
    assert "standard deviation 1" in hover("z\n")


def test_the_outline_lists_unknown_numbers() -> None:
    entries = {entry.name: entry for entry in outline(document())}
    assert entries["slip"].kind == "unknown"
    assert entries["slip"].detail == "in [0, most] = most/2"
    assert symbol(entries["sd"], Positions(TEXT, "utf-16")).detail == "in [0.1, 2]"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("unknown ", []),
        ("unknown fri", []),
        ("unknown friction ", ["in"]),
        ("unknown friction\n  i", ["in"]),
        ("unknown friction in ", []),
    ],
)
def test_a_declaration_is_completed(typed: str, expected: list[str]) -> None:
    assert suggested(typed) == expected


@pytest.mark.parametrize(
    ("typed", "is_there"),
    [
        ("on right -> ", True),
        ("on right -> 1 - ", True),
        ("on right -> 0.5: stay | ", True),
        ("on right -> x' = ", True),
        ("x' = ", True),
        ("let y = ", True),
        ("noise u ~ normal(", True),
        ("table left { (", True),
        ("on right -> ?=", False),
        ("on right -> 0.5: stay | ?=", False),
        ("on right when ", False),
        ("reward : ", False),
        ("label l when ", False),
        ("init x = ", False),
        ("init v ~ normal(", False),
        ("param q = ", False),
        ("unknown q in [", False),
        ("unknown q in [0, 1] = ", False),
        ("table left { ?=(", False),
        ("noise u ~ {0: ", False),
    ],
)
def test_unknown_numbers_are_suggested_where_they_may_be_read(typed: str, is_there: bool) -> None:
    assert ("slip" in suggested(typed)) == is_there


def test_a_new_line_may_declare_an_unknown_number() -> None:
    assert "unknown" in suggested("")
    assert "unknown" not in suggested("label l ")


NAMED = """\
mdp m
state unknown in 0..3
action go
init unknown = 0
on go when unknown < 3 -> ?: unknown' = unknown + 1 | ?: stay
on go otherwise -> stay
unknown other in [0, 1]
label unknown when unknown == 3
"""


def test_unknown_is_a_keyword_before_a_name_and_in_and_a_name_elsewhere() -> None:
    read = read_document(NAMED, "m")
    assert {mistake.code for mistake in read.mistakes()} == {"W007"}  # nothing reads `other`
    name = read.name_at(NAMED.index("unknown in"))
    assert name is not None
    places = [use.span.start for use in read.uses(name)]
    assert len(places) == 6
    assert NAMED.index("unknown other") not in places
    found = meaning_at(read, NAMED.index("unknown other"))
    assert found is not None
    assert "unknown NAME in [LOW, HIGH] [= VALUE]" in found[0]


def test_unknown_numbers_are_found_in_statements_that_cannot_be_parsed() -> None:
    broken = TEXT.replace("slip in [0, most]", "slip in [0 most]") + "on go -> slip: = 1\n"
    read = read_document(broken, "lake.mdp")
    name = read.name_at(broken.rindex("slip:"))
    assert name is not None
    assert [o.span.start for o in read.declarations(name)] == [broken.index("slip in")]


def test_an_invalid_unknown_number_says_so() -> None:
    text = TEXT.replace("[0, most]", "[1, 0]")
    found = meaning_at(read_document(text, "m"), text.index("slip in"))
    assert found is not None
    assert "unknown number, invalid" in found[0]
