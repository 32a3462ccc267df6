"""Whole-array evaluation against Python's own arithmetic, row by row."""

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.scope import UPDATE, Definition
from mdpdsl.compile.terms import BOOL, INT, REAL, Read, Type
from mdpdsl.compile.typecheck import Scope
from mdpdsl.diagnostics import Source, Span
from mdpdsl.syntax.parse import parse_expression
from tests.compile.naive import NaiveModel

ROWS = {
    "i": np.array([-3.0, -1.0, 0.0, 1.0, 2.0, 7.0]),
    "j": np.array([2.0, 0.0, -1.0, 3.0, 1.0, 5.0]),
    "x": np.array([0.5, -1.25, 0.0, 2.0, 1e-3, 40.0]),
    "b": np.array([True, False, True, True, False, False]),
}
# fmt: off
FUNCTIONS_OF_ONE = [
    "abs", "sign", "floor", "ceil", "round", "sqrt", "exp", "log", "sin", "cos", "tan", "asin",
    "acos", "atan", "tanh",
]
# fmt: on
TYPES: dict[str, Type] = {"i": INT, "j": INT, "x": REAL, "b": BOOL}

numbers = st.recursive(
    st.sampled_from(["i", "j", "x", "2", "0.5", "(-3)", "pi"]),
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from(["+", "-", "*", "/", "%", "^"]), part).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(
            st.sampled_from(FUNCTIONS_OF_ONE),
            part,
        ).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["min", "max", "atan2", "mod"]), part, part).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        st.tuples(part, part, part).map(lambda t: f"(if {t[0]} < {t[1]} then {t[2]} else {t[0]})"),
        st.tuples(part, part, part).map(
            lambda t: f"(if b and 1/{t[0]} > {t[1]} or {t[2]} <= 0 then {t[0]} else -{t[2]})"
        ),
        st.tuples(part, st.sampled_from(["clip", "wrap"])).map(lambda t: f"{t[1]}({t[0]}, -1, 4)"),
    ),
    max_leaves=6,
)


def python_value(text: str, row: int) -> float | None:
    """Evaluate with Python's own operators; None if they raise an error."""
    naive = NaiveModel("mdp none")
    env = {name: values[row].item() for name, values in ROWS.items()}
    env |= {name: int(env[name]) for name in ("i", "j")}
    try:
        value = naive.value(parse_expression(Source(text, "text")), env)
        return None if isinstance(value, complex) or not math.isfinite(value) else float(value)
    except (ZeroDivisionError, ValueError, OverflowError):
        return None


@settings(max_examples=400, deadline=None)
@given(numbers)
def test_arrays_and_python_agree_on_values_and_on_faults(text: str) -> None:
    scope = Scope()
    for name, kind in TYPES.items():
        read = Read("state", name, type=kind, span=Span(0, 0))
        scope.definitions[name] = Definition("state", Span(0, 0), read)
    term = scope.infer(parse_expression(Source(text, "text")), UPDATE)
    assert term is not None
    frame = Frame(6, {("state", name): values for name, values in ROWS.items()})
    result = evaluate(term, frame)
    values = np.broadcast_to(result.values, (6,))
    spoilt = np.zeros(6, bool)
    for fault in result.faults:
        spoilt |= np.broadcast_to(fault.rows, (6,))
    for row in range(6):
        expected = python_value(text, row)
        if expected is None:
            assert spoilt[row] or not math.isfinite(values[row])
            continue
        assume(abs(expected) < 1e9)  # rounding of huge numbers decides jumps of floor and sin
        assert not spoilt[row]
        if term.type == INT:
            assert values[row] == round(values[row])
        if not any(name in text for name in ("floor", "ceil", "round", "sign", "%", "mod", "if")):
            assert math.isclose(values[row], expected, rel_tol=1e-6, abs_tol=1e-6)


def test_a_fault_in_a_branch_that_is_not_taken_does_not_count() -> None:
    scope = Scope()
    read = Read("state", "x", type=REAL, span=Span(0, 0))
    scope.definitions["x"] = Definition("state", Span(0, 0), read)
    frame = Frame(3, {("state", "x"): np.array([0.0, 1.0, 4.0])})

    def spoilt(text: str) -> list[bool]:
        term = scope.infer(parse_expression(Source(text, "text")), UPDATE)
        assert term is not None
        rows = np.zeros(3, bool)
        for fault in evaluate(term, frame).faults:
            rows |= np.broadcast_to(fault.rows, (3,))
        return rows.tolist()

    assert spoilt("1/x") == [True, False, False]
    assert spoilt("if x == 0 then 0 else 1/x") == [False] * 3
    assert spoilt("if x == 0 then 1/x else 0") == [True, False, False]
    assert spoilt("x != 0 and 1/x > 0") == [False] * 3
    assert spoilt("x == 0 or 1/x > 0") == [False] * 3
    assert spoilt("x == 0 and 1/x > 0") == [True, False, False]
    assert spoilt("sqrt(1 - x)") == [False, False, True]
    assert spoilt("if x > 2 then 0 else if x > 0 then 1/(x - 1) else 0") == [False, True, False]
