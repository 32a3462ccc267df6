"""Names and their positions, in files with and without errors."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpdsl.compile.model import Model, read_source, shipped_models
from mdpdsl.diagnostics import Source
from mdpdsl.editor.completion import complete
from mdpdsl.editor.document import Document, read_document
from mdpdsl.editor.meaning import meaning_at
from mdpdsl.editor.outline import outline

TEXT = """\
mdp weather
param n = 3
state sky in {sun, rain}
state level in {0, n}
state x in 0..n-1
action go, wait
noise w ~ {0: 0.5, 1: 0.5}
let far = (x) > n/2
init sky = sun, x = 0
on go when sky == sun and far -> 0.5: x' = max(x - 1, 0), sky' = rain | 0.5: stay
on wait -> x' = clip(x + round(w), 0, n-1)
reward on go when sky' == rain : (x')
label sun when sky == sun
explore { algorithm = kappa-dp  kappa = n }
log { time = t  x = n*count  next_x = after  sky = sky  action = move }
"""


def document() -> Document:
    return read_document(TEXT, "weather.mdp")


def uses(text: str, context: str) -> list[int]:
    """Return the lines on which a name is used, given some text that starts with it."""
    name = document().name_at(TEXT.index(context))
    assert name is not None
    assert name.text == text
    return [TEXT[: o.span.start].count("\n") + 1 for o in document().uses(name)]


def test_names_are_found_in_expressions_primes_and_parentheses() -> None:
    assert uses("x", "x in") == [5, 8, 9, 10, 10, 11, 11, 12, 15, 15]
    assert uses("n", "n = 3") == [2, 4, 5, 8, 11, 14, 15]
    assert uses("far", "far ->") == [8, 10]


def test_labels_columns_settings_and_functions_have_their_own_namespaces() -> None:
    assert uses("sun", "sun when") == [13]  # the label, not the member
    assert uses("sun", "sun, rain") == [3, 9, 10, 13]
    assert uses("count", "count") == [15]
    assert uses("kappa", "kappa = n") == [14]
    assert document().name_at(TEXT.index("kappa-dp")) is None  # a word, not a name
    assert uses("max", "max(") == [10]


def test_a_parameter_in_a_set_of_numbers_is_not_a_declaration() -> None:
    name = document().name_at(TEXT.index("n}\nstate x"))
    assert name is not None
    assert [o.span.start for o in document().declarations(name)] == [TEXT.index("n = 3")]


@pytest.mark.parametrize("name", shipped_models())
def test_every_name_of_a_shipped_model_is_known_and_located(name: str) -> None:
    text = read_source(name).text
    read = read_document(text, name)
    assert read.mistakes() == list(Model(read.source).checked.diagnostics)
    assert len(read.occurrences) > 5
    for occurrence in read.occurrences:
        assert text[occurrence.span.start : occurrence.span.end] == occurrence.text
        assert meaning_at(read, occurrence.span.start) is not None, occurrence
        if occurrence.space == "name" and occurrence.text != "action":
            assert read.declarations(occurrence), occurrence
    for before, after in pairwise(read.occurrences):
        assert before.span.end <= after.span.start  # no name is listed twice
    assert outline(read)[0].kind == "model"


def test_names_in_a_statement_that_cannot_be_parsed_are_still_found() -> None:
    broken = TEXT.replace("param n = 3", "param n = = 3") + "on go when x ==\n"
    read = read_document(broken, "weather.mdp")
    name = read.name_at(broken.rindex("x =="))
    assert name is not None
    assert [o.span.start for o in read.declarations(name)] == [broken.index("x in")]
    lost = read.name_at(broken.index("n-1"))
    assert lost is not None
    assert [o.span.start for o in read.declarations(lost)] == [broken.index("n = =")]


ENDING = """\
mdp m
state end in 0..3
action go
init end = 0
on go -> end' = end + 1
end when end == 3
"""


def test_end_is_a_keyword_before_when_and_a_name_elsewhere() -> None:
    read = read_document(ENDING, "m")
    name = read.name_at(ENDING.index("end in"))
    assert name is not None
    keyword = ENDING.index("end when")
    places = [o.span.start for o in read.uses(name)]
    assert len(places) == 5
    assert keyword not in places
    assert read.mistakes() == []
    hover = meaning_at(read, keyword)
    assert hover is not None
    assert "end when GUARD" in hover[0]
    entry = outline(read)[-1]
    assert (entry.name, entry.kind, entry.detail) == ("end", "rule", "when end == 3")


def test_end_is_found_in_statements_that_cannot_be_parsed() -> None:
    broken = ENDING.replace("0..3", "").replace("end == 3", "end == ")
    read = read_document(broken, "m")
    name = read.name_at(broken.index("end in"))
    assert name is not None
    places = [o.span.start for o in read.uses(name)]
    assert len(places) == 5
    assert broken.index("end when") not in places
    assert [o.span.start for o in read.declarations(name)] == [broken.index("end in")]
    assert [d.code for d in read.mistakes()] == ["E101", "E101"]


def test_mistakes_in_states_are_those_of_check() -> None:
    wrong = TEXT.replace("0.5: stay", "0.25: stay")
    read = read_document(wrong, "weather.mdp")
    assert [d.code for d in read.mistakes()] == ["W001"]
    found = read.mistakes_in_states()
    assert found == Model.diagnosed(Source(wrong, "weather.mdp"))
    assert [d.code for d in found] == ["W001", "E501"]


def test_the_points_of_a_model_count_cells_actions_and_points() -> None:
    text = "mdp m state x in [0, 1] bins 10 state y in 0..4 action a, b discretize "
    assert read_document(text + "center", "m").n_points == 100
    assert read_document(text + "uniform points 3", "m").n_points == 300
    assert read_document(text + "sample 7", "m").n_points == 700


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(shipped_models()), st.floats(0, 1), st.sampled_from(["", "\n", " ", "'"]))
def test_nothing_breaks_at_any_moment_of_typing(name: str, part: float, typed: str) -> None:
    text = read_source(name).text
    text = text[: int(part * len(text))] + typed
    read = read_document(text, name)
    read.mistakes()
    outline(read)
    meaning_at(read, len(text))
    suggestions, replaced = complete(read, len(text))
    assert replaced.end == len(text)
    assert len({s.text for s in suggestions}) == len(suggestions)
