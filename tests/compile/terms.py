"""Random typed terms with all functions of the language, and with lets used several times."""

from __future__ import annotations

from math import inf

from hypothesis import strategies as st

from mdpdsl.compile.terms import (
    BOOL,
    REAL,
    Apply,
    Choose,
    Constant,
    Logic,
    Named,
    Read,
    Term,
    Type,
    reads,
)
from mdpdsl.diagnostics import Span

SPAN = Span(0, 0)
COLOUR = Type("enum", frozenset({"red", "green"}))
#: The variables that terms read, as (kind, name).
NUMBERS = (("state", "x"), ("state", "n"), ("action", "u"), ("noise", "w"), ("next", "x"))
TRUTHS = (("state", "b"),)
COLOURS = (("state", "colour"),)
# fmt: off
OF_ONE = (
    "negative", "abs", "sign", "floor", "ceil", "round", "sqrt", "exp", "log", "sin", "cos", "tan",
    "asin", "acos", "atan", "tanh",
)
OF_TWO = ("+", "-", "*", "/", "%", "mod", "^", "atan2")
OF_THREE = ("clip", "wrap")
OF_ANY = ("min", "max")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
#: Numbers around which functions behave differently.
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, 2.5, -3.0, 7.0, 1e-3, 1e9, 1e300, inf)
# fmt: on


def apply(function: str, *arguments: Term) -> Term:
    kind = BOOL if function in (*COMPARISONS, "not") else REAL
    return Apply(function, arguments, type=kind, span=SPAN)


def constant(value: float) -> Term:
    return Constant(value, type=REAL, span=SPAN)


def read(kind: str, name: str, of_type: Type = REAL) -> Term:
    return Read(kind, name, type=of_type, span=SPAN)


def named(name: str, definition: Term) -> Term:
    return Named(name, definition, reads(definition), type=definition.type, span=SPAN)


@st.composite
def real_terms(draw: st.DrawFn) -> Term:
    """Draw a term of real type; every `let` drawn on the way may be used again later."""
    real_lets: list[Term] = []
    bool_lets: list[Term] = []

    def real(depth: int) -> Term:
        kind = draw(st.integers(0, 9)) if depth > 0 else draw(st.integers(0, 2))
        if kind == 0:
            return constant(draw(st.sampled_from(SPECIAL)))
        if kind == 1:
            return read(*draw(st.sampled_from(NUMBERS)))
        if kind == 2 and real_lets:
            return draw(st.sampled_from(real_lets))
        if kind == 3:
            return apply(draw(st.sampled_from(OF_ONE)), real(depth - 1))
        if kind in (4, 5):
            return apply(draw(st.sampled_from(OF_TWO)), real(depth - 1), real(depth - 1))
        if kind == 6:
            arguments = [real(depth - 1) for _ in range(3)]
            return apply(draw(st.sampled_from(OF_THREE)), *arguments)
        if kind == 7:
            arguments = [real(depth - 1) for _ in range(draw(st.integers(1, 4)))]
            return apply(draw(st.sampled_from(OF_ANY)), *arguments)
        if kind == 8:
            cases = [(truth(depth - 1), real(depth - 1)) for _ in range(draw(st.integers(1, 3)))]
            return Choose(tuple(cases), real(depth - 1), type=REAL, span=SPAN)
        if kind == 9:
            real_lets.append(named(f"r{len(real_lets)}", real(depth - 1)))
            return real_lets[-1]
        return read("state", "x")

    def truth(depth: int) -> Term:
        kind = draw(st.integers(0, 6)) if depth > 0 else draw(st.integers(0, 2))
        if kind == 0:
            return Constant(float(draw(st.booleans())), type=BOOL, span=SPAN)
        if kind == 1 and bool_lets:
            return draw(st.sampled_from(bool_lets))
        if kind == 3:
            return apply(draw(st.sampled_from(COMPARISONS)), real(depth - 1), real(depth - 1))
        if kind == 4:
            operands = tuple(truth(depth - 1) for _ in range(draw(st.integers(2, 3))))
            return Logic(draw(st.sampled_from(["and", "or"])), operands, type=BOOL, span=SPAN)
        if kind == 5:
            return apply("not", truth(depth - 1))
        if kind == 6:
            if draw(st.booleans()):
                member = Constant(float(draw(st.integers(0, 1))), type=COLOUR, span=SPAN)
                operator = draw(st.sampled_from(["==", "!="]))
                return apply(operator, read("state", "colour", COLOUR), member)
            bool_lets.append(named(f"b{len(bool_lets)}", truth(depth - 1)))
            return bool_lets[-1]
        return read("state", "b", BOOL)

    return real(draw(st.integers(1, 5)))
