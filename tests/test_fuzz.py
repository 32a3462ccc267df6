"""A short run of `tests/fuzz.py`; the long ones are run by hand."""

from __future__ import annotations

import pytest

from mdpdsl.compile.expand import Expansion
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import Source
from mdpdsl.syntax.parse import parse
from tests import fuzz

NUMBER = 1_200
SEED = 20_250


def test_every_broken_model_gets_diagnostics_or_a_sound_graph() -> None:
    failures = list(fuzz.fuzz(range(NUMBER), SEED))
    if failures:
        first = fuzz.describe(fuzz.minimise(failures[0]), SEED)
        pytest.fail(f"{len(failures)} of {NUMBER} inputs fail, the first:\n{first}")


def test_the_inputs_are_neither_all_broken_nor_all_well_formed() -> None:
    texts = [fuzz.make_input(SEED, index) for index in range(200)]
    n_parsed = sum(not parse(Source(text, "input")).diagnostics for text in texts)
    n_built = 0
    for text in texts:
        found = Model.diagnosed(Source(text, "input"), most_states=fuzz.MOST_STATES)
        n_built += not any(diagnostic.is_error for diagnostic in found)
    assert 40 < n_parsed < 180
    assert 10 < n_built < 150


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
