"""A short run of `tests/fuzz.py`; the long ones are run by hand.

`MDPDSL_FUZZ=10000` sets the number of inputs that leave something open.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mdpdsl.compile.expand import Expansion
from mdpdsl.compile.model import Model, loads
from mdpdsl.compile.properties import question, questions_of_file
from mdpdsl.diagnostics import Diagnostic, ModelError, Source
from mdpdsl.syntax.parse import parse
from tests import fuzz

NUMBER = 1_200
N_OPEN = int(os.environ.get("MDPDSL_FUZZ", "600"))
SEED = 20_250
PROPERTIES_MODEL = """
mdp m
param n = 3
state x in 0..n
state b in bool
state c in {red, green}
action go, wait
init any
let far = x > 1
on any -> x' = min(x + 1, n)
reward : x
reward energy on go : 1
label goal when x == n
"""


def test_every_broken_model_gets_diagnostics_or_a_sound_graph() -> None:
    failures = list(fuzz.fuzz(range(NUMBER), SEED))
    if failures:
        first = fuzz.describe(fuzz.minimise(failures[0]), SEED)
        pytest.fail(f"{len(failures)} of {NUMBER} inputs fail, the first:\n{first}")


def test_every_broken_model_that_leaves_something_open_gets_diagnostics_or_a_sound_graph() -> None:
    failures = list(fuzz.fuzz(range(N_OPEN), SEED, fuzz.make_open_input))
    if failures:
        first = fuzz.describe(fuzz.minimise(failures[0]), SEED)
        pytest.fail(f"{len(failures)} of {N_OPEN} inputs fail, the first:\n{first}")


def test_many_inputs_leave_something_open_and_still_build() -> None:
    n_open = n_true = 0
    for index in range(300):
        source = Source(fuzz.make_open_input(SEED, index), "input")
        try:
            model = Model(source, most_states=fuzz.MOST_STATES)
            knowledge = model.graph.knowledge
        except ModelError:
            continue
        n_open += knowledge is not None
        n_true += knowledge is not None and knowledge.has_truth
    assert n_open > 60
    assert 20 < n_true < n_open - 20


def test_the_inputs_are_neither_all_broken_nor_all_well_formed() -> None:
    texts = [fuzz.make_input(SEED, index) for index in range(200)]
    n_parsed = sum(not parse(Source(text, "input")).diagnostics for text in texts)
    n_built = 0
    for text in texts:
        found = Model.diagnosed(Source(text, "input"), most_states=fuzz.MOST_STATES)
        n_built += not any(diagnostic.is_error for diagnostic in found)
    assert 40 < n_parsed < 180
    assert 10 < n_built < 150


def test_every_broken_property_gets_diagnostics_with_a_place_in_its_text() -> None:
    model = loads(PROPERTIES_MODEL)
    n_good = 0
    for index in range(NUMBER):
        text = fuzz.make_query(SEED, index)
        found: tuple[Diagnostic, ...] = ()
        try:
            question(model, model.graph, text)
            n_good += 1
        except ModelError as error:
            found = error.diagnostics
        for diagnostic in found:
            rendered = diagnostic.render()
            assert diagnostic.is_error
            assert "__ANON" not in rendered
            assert diagnostic.span is None or 0 <= diagnostic.span.start <= len(text), rendered
    assert NUMBER / 10 < n_good < NUMBER


def test_every_broken_file_of_properties_gets_diagnostics(tmp_path: Path) -> None:
    model = loads(PROPERTIES_MODEL)
    for index in range(NUMBER // 4):
        queries = [fuzz.make_query(SEED, 7 * index + i) for i in range(3)]
        path = tmp_path / "some.props"
        path.write_text("const int k = 3;\n" + ";\n".join(queries), encoding="utf-8")
        found: tuple[Diagnostic, ...] = ()
        try:
            questions_of_file(model, model.graph, path)
        except ModelError as error:
            found = error.diagnostics
        assert all("some.props" in diagnostic.render() for diagnostic in found)


def test_the_same_number_makes_the_same_input() -> None:
    assert fuzz.make_input(3, 14) == fuzz.make_input(3, 14)
    assert fuzz.make_input(3, 14) != fuzz.make_input(3, 15)


def test_an_exception_of_the_compiler_is_a_failure_and_is_made_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(model: Model) -> Expansion:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(Model, "_expansion", property(broken))
    text = "# first\nmdp m\nstate x in 0..1\nparam unused = 3\naction a\non a -> stay\n# last\n"
    failure = fuzz.failure_of(7, text)
    assert failure is not None
    assert "broken on purpose" in failure.trace
    small = fuzz.minimise(failure)
    assert small.kind == failure.kind
    assert "state" in small.text
    assert "unused" not in small.text


def test_a_hang_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(model: Model) -> Expansion:
        while True:
            pass

    monkeypatch.setattr(fuzz, "HANG_SECONDS", 1)
    monkeypatch.setattr(Model, "_expansion", property(endless))
    failure = fuzz.failure_of(0, "mdp m\nstate x in 0..1\naction a\non a -> stay\n")
    assert failure is not None
    assert failure.kind == "HangError"
