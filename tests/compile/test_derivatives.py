"""Derivatives of terms against central differences, and parts of terms evaluated beforehand."""

from __future__ import annotations

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.derivatives import Derivatives
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.rewriting import KNOWN, Known
from mdpdsl.compile.terms import Term, reads
from mdpdsl.graph.space import FloatArray

EXPRESSIONS = [
    "a*x + b",
    "a*b - x/(1 + a^2)",
    "-(a + b)*(a - b)",
    "x^a + a^3 + (1 + a)^b",
    "abs(a - b)*sqrt(1 + a^2*x^2)",
    "exp(-a*x) + log(2 + a + b)",
    "sin(a*x)*cos(b) + tan(a/3) + tanh(a*b*x)",
    "asin(a/4) + acos(b/4) + atan(a*x) + atan2(a + 2, b - 3)",
    "min(a*x, b, 1) + max(a, b*x)",
    "clip(a*x, b - 1, b + 1) + wrap(a*x, -1, 1) + mod(7*a, 2 + b)",
    "if x > 1 then a*x else if x > 0.5 then b^2 else 3",
    "floor(3*a) + round(b) + sign(a)*b",
    "twice + twice*a",
]


def term_of(expression: str) -> Term:
    model = mdpdsl.loads(
        f"""\
mdp one
unknown a in [-1, 1]
unknown b in [-1, 1]
state x in [-9, 9] bins 2
action go
noise w ~ normal(0, 1)
let once = a*x + b
let twice = once*once
x' = {expression} + w
"""
    )
    return model.checked.equations["x"]


def value(term: Term, a: float, b: float, x: FloatArray) -> FloatArray:
    names = {("unknown", "a"): a, ("unknown", "b"): b, ("noise", "w"): 0.25}
    values = {key: np.asarray(number) for key, number in names.items()}
    frame = Frame(len(x), {**values, ("state", "x"): x})
    return np.array(frame.full(evaluate(term, frame).values), float)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_derivatives_agree_with_differences(expression: str) -> None:
    term, x = term_of(expression), np.linspace(0.2, 2, 7)
    a, b, h = 0.313, 0.577, 1e-6
    along_a, along_b = Derivatives("a")(term), Derivatives("b")(term)
    expected_a = (value(term, a + h, b, x) - value(term, a - h, b, x)) / (2 * h)
    expected_b = (value(term, a, b + h, x) - value(term, a, b - h, x)) / (2 * h)
    for found, expected in ((along_a, expected_a), (along_b, expected_b)):
        slope = np.zeros(7) if found is None else value(found, a, b, x)
        assert slope == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_a_term_that_does_not_read_a_number_has_no_derivative() -> None:
    assert Derivatives("b")(term_of("a*x")) is None
    assert Derivatives("a")(term_of("floor(9*x)*b")) is None


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_known_parts_are_evaluated_once_and_change_nothing(expression: str) -> None:
    term, x = term_of(expression), np.linspace(0.2, 2, 7)
    known = Known(Frame(7, {("state", "x"): x, ("noise", "w"): np.asarray(0.25)}))
    rewritten = known(term)
    assert {kind for kind, _ in reads(rewritten)} <= {"unknown", KNOWN}
    numbers = {("unknown", "a"): np.asarray(0.3), ("unknown", "b"): np.asarray(-0.2)}
    frame = Frame(7, {**known.values, **numbers})
    found = frame.full(evaluate(rewritten, frame).values)
    assert np.array_equal(found, value(term, 0.3, -0.2, x), equal_nan=True)
