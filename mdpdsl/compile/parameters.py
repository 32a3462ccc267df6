"""Parameters overridden on the command line or in a call of `load`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from mdpdsl.compile.expressions import fold
from mdpdsl.compile.scope import FIXED, Definition
from mdpdsl.compile.terms import BOOL, INT, REAL, Constant, Term, Type, accepts
from mdpdsl.compile.typecheck import Scope
from mdpdsl.diagnostics import Diagnostic, ModelError, Source, Span, did_you_mean
from mdpdsl.syntax.parse import parse_expression

#: A Python value, or text in the language (`"1e-3"`, `"pi/2"`, `"true"`).
Override = bool | int | float | str


def override_parameters(
    scope: Scope, overrides: Mapping[str, Override], unknowns: Sequence[str] = ()
) -> bool:
    """Replace defaults by given values; report names that do not exist and wrong types.

    The values of unknown numbers are left to those who know their ranges.
    """
    is_good = True
    params = [name for name, d in scope.definitions.items() if d.kind == "param"]
    for name, given in overrides.items():
        if name in unknowns:
            continue
        if name not in params:
            scope.diagnostics.append(_unknown(name, [*params, *unknowns]))
            is_good = False
            continue
        default = scope.definition_term(name)
        if default is None:
            is_good = False
            continue
        value = constant_of(name, given)
        if value is None or not accepts(default.type, value.type):
            is_good = False
            listed = ", ".join(f"{p} ({_type_word(scope, p)})" for p in params)
            message = f"parameter `{name}` must be {default.type}, not `{given}`"
            help_text = f"{point_hint(given)}the model's parameters are {listed}"
            scope.diagnostics.append(Diagnostic("E602", message, None, help_text))
            continue
        replaced = Constant(value.value, type=default.type, span=default.span)
        scope.override(name, replaced)
    return is_good


def _unknown(name: str, params: list[str]) -> Diagnostic:
    listed = f"the model's parameters are {', '.join(params)}"
    help_text = f"{did_you_mean(name, params) or ''} {listed}".strip()
    if not params:
        help_text = "the model has no parameters"
    return Diagnostic("E601", f"unknown parameter `{name}`", None, help_text)


def constant_of(name: str, given: Override) -> Constant | None:
    """Return a given value as a constant; None if it is not a finite number or a truth value."""
    if isinstance(given, str):
        return _parsed(name, given)
    span = Span(0, 0)
    if isinstance(given, bool):
        return Constant(float(given), type=BOOL, span=span)
    if not isinstance(given, int | float | np.integer | np.floating):
        return None
    number = float(given)
    is_finite = number - number == 0
    is_whole = is_finite and number.is_integer()
    return Constant(number, type=INT if is_whole else REAL, span=span) if is_finite else None


def point_hint(given: Override) -> str:
    """Return the beginning of a help for a value with a decimal comma; empty for others."""
    if isinstance(given, str) and re.fullmatch(r"\s*[-+]?\d+,\d+\s*", given):
        return f"write a decimal point: `{given.strip().replace(',', '.')}`; "
    return ""


def _parsed(name: str, text: str) -> Constant | None:
    """Parse a value written in the language, with numbers, functions and constants only."""
    try:
        expression = parse_expression(Source(text, f"--set {name}"))
    except ModelError:
        return None
    term: Term | None = Scope().infer(expression, FIXED)
    term = fold(term) if term is not None else None
    if not isinstance(term, Constant) or term.value - term.value != 0:
        return None
    return term


def _type_word(scope: Scope, name: str) -> str:
    definition: Definition = scope.definitions[name]
    term = scope.definition_term(name) if definition else None
    kind: Type | None = term.type if term else None
    return {"int": "integer", "real": "real", "bool": "true or false"}[kind.kind] if kind else "?"
