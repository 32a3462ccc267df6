"""The domains in a model file, and the ranges of unknown numbers, evaluated."""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.compile.checked import Unknown
from mdpdsl.compile.expressions import constant_value
from mdpdsl.compile.parameters import Override, constant_of, point_hint
from mdpdsl.compile.scope import FIXED, Definition
from mdpdsl.compile.terms import BOOL, INT, REAL, Constant, Type
from mdpdsl.compile.typecheck import Scope
from mdpdsl.diagnostics import Diagnostic
from mdpdsl.graph.space import SET_TOLERANCE, Variable
from mdpdsl.syntax import ast
from mdpdsl.syntax.format import format_statement

#: Larger integers are not exact as floating-point numbers.
LARGEST_INTEGER = 2**53
#: More cells than this along one axis must be a typing error.
MOST_CELLS = 1_000_000
#: So must larger bounds; up to this one, widths and squares stay finite.
LARGEST_REAL = 1e100


def fixed_number(scope: Scope, expression: ast.Expr, wanted: Type = REAL) -> float | None:
    """Evaluate a finite number that must be known before the model runs; report any error."""
    term = scope.term(expression, FIXED, wanted)
    if term is None:
        return None
    value, fault = constant_value(term)
    if fault is not None:
        scope.report("E507", fault.message, fault.span)
        return None
    if not math.isfinite(value):
        scope.report("E402", "expected a finite number", expression.span)
        return None
    if wanted == INT and abs(value) >= LARGEST_INTEGER:
        scope.report(
            "E402",
            "this integer is too large to be exact",
            expression.span,
            "integers are exact up to 2^53",
        )
        return None
    return float(value)


def variable(scope: Scope, name: ast.Ident, domain: ast.Domain) -> tuple[Variable, Type] | None:
    """Return a variable and the type of its values."""
    match domain:
        case ast.BoolDomain():
            return Variable(name.text, "bool", 2), BOOL
        case ast.RangeDomain():
            return _integer_range(scope, name.text, domain)
        case ast.SetDomain() if is_enumeration(scope, domain):
            members = [item.name for item in domain.items if isinstance(item, ast.Name)]
            for position, item in enumerate(domain.items):
                if members[position] in members[:position]:
                    scope.report("E202", f"`{members[position]}` is listed twice", item.span)
                    return None
            kind = Type("enum", frozenset(members))
            return Variable(name.text, "enum", len(members), members=tuple(members)), kind
        case ast.SetDomain():
            return _number_set(scope, name.text, domain)
        case ast.RealDomain():
            return _real(scope, name.text, domain)


def is_enumeration(scope: Scope, domain: ast.SetDomain) -> bool:
    """Return whether a set lists new names rather than numbers."""
    return all(
        isinstance(item, ast.Name)
        and (item.name not in scope.definitions or _is_member(scope.definitions[item.name]))
        for item in domain.items
    )


def unknown_number(
    scope: Scope, statement: ast.Unknown, override: Override | None
) -> Unknown | None:
    """Evaluate the range of an unknown number, and its truth for simulation, if it has one."""
    name = statement.name.text
    low, high = fixed_number(scope, statement.low), fixed_number(scope, statement.high)
    value = None if statement.value is None else fixed_number(scope, statement.value)
    if low is None or high is None or (value is None) != (statement.value is None):
        return None
    if max(abs(low), abs(high)) > LARGEST_REAL:
        limits = f"use numbers between {-LARGEST_REAL:g} and {LARGEST_REAL:g}"
        scope.report("E402", "the range is too wide", statement.span, limits)
        return None
    if low >= high:
        hint = f"write `[{high:g}, {low:g}]`" if low > high else f"write `param {name} = {low:g}`"
        message = f"the range from {low:g} to {high:g} has no room for an unknown number"
        scope.report("E401", message, statement.low.span.to(statement.high.span), hint)
        return None
    if value is not None and not low <= value <= high:
        assert statement.value is not None
        message = f"the value {value:g} of `{name}` is outside its range [{low:g}, {high:g}]"
        scope.report("E402", message, statement.value.span, "widen the range, or change the value")
        return None
    if override is not None:
        given = constant_of(name, override)
        if given is None or not given.type.is_number or not low <= given.value <= high:
            message = f"`{name}` must be a number from {low:g} to {high:g}, not `{override}`"
            hint = point_hint(override)
            help_text = f"{hint}the model declares {format_statement(statement)}"
            scope.diagnostics.append(Diagnostic("E602", message, None, help_text))
            return None
        value = given.value
    return Unknown(name, low, high, value, statement.span)


def _is_member(definition: Definition) -> bool:
    return definition.kind == "member"


def _integer_range(
    scope: Scope, name: str, domain: ast.RangeDomain
) -> tuple[Variable, Type] | None:
    low = fixed_number(scope, domain.low, INT)
    high = fixed_number(scope, domain.high, INT)
    if low is None or high is None:
        return None
    if high < low:
        scope.report(
            "E401",
            f"the range {low:.0f}..{high:.0f} is empty{_with_parameters(scope, domain)}",
            domain.span,
            "the second number must not be smaller than the first",
        )
        return None
    return Variable(name, "int", int(high) - int(low) + 1, low=int(low)), INT


def _with_parameters(scope: Scope, domain: ast.RangeDomain) -> str:
    """Name the parameters in the bounds of a range, with their values."""
    pending: list[ast.Expr] = [domain.low, domain.high]
    names: list[str] = []
    while pending:
        expression = pending.pop()
        pending += ast.children(expression)
        if isinstance(expression, ast.Name) and expression.name not in names:
            names.append(expression.name)
    named = []
    for name in names:
        definition = scope.definitions.get(name)
        if definition is not None and definition.kind == "param":
            term = scope.definition_term(name)
            named += [f"{name} = {term.value:g}"] if isinstance(term, Constant) else []
    return f" with {', '.join(named)}" if named else ""


def _number_set(scope: Scope, name: str, domain: ast.SetDomain) -> tuple[Variable, Type] | None:
    numbers = [fixed_number(scope, item) for item in domain.items]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    for position, item in enumerate(domain.items):
        if any(abs(known[position] - other) <= SET_TOLERANCE for other in known[:position]):
            scope.report("E202", f"{known[position]:g} is listed twice", item.span)
            return None
    terms = [scope.infer(item, FIXED) for item in domain.items]
    is_whole = all(term is not None and term.type == INT for term in terms)
    found = Variable(name, "set", len(known), numbers=np.array(known))
    return found, INT if is_whole else REAL


def _real(scope: Scope, name: str, domain: ast.RealDomain) -> tuple[Variable, Type] | None:
    low, high = fixed_number(scope, domain.low), fixed_number(scope, domain.high)
    kinds = [option.kind for option in domain.options]
    for position, option in enumerate(domain.options):
        clash = {"wrap": "clip", "clip": "wrap", "bins": "edges", "edges": "bins"}[option.kind]
        if option.kind in kinds[:position] or clash in kinds[:position]:
            scope.report(
                "E403",
                f"`{option.kind}` conflicts with an option before it",
                option.span,
                "use either `wrap` or `clip`, and either `bins` or `edges`",
            )
            return None
    if low is None or high is None:
        return None
    if max(abs(low), abs(high)) > LARGEST_REAL:
        scope.report(
            "E402",
            "the interval is too wide",
            domain.span,
            f"use bounds between {-LARGEST_REAL:g} and {LARGEST_REAL:g}",
        )
        return None
    if high <= low:
        scope.report(
            "E401",
            f"the interval [{low:g}, {high:g}] is empty",
            domain.span,
            "write the smaller number first",
        )
        return None
    edges: np.ndarray | None = None
    cells = next((o for o in domain.options if o.kind in ("bins", "edges")), None)
    if cells is None:
        scope.report(
            "E403",
            f"the real variable `{name}` has no cells",
            domain.span,
            "divide it into cells: add `bins 10`, or `edges [0, 0.5, 1]`",
        )
    elif cells.kind == "bins":
        edges = _bins(scope, cells, low, high)
    else:
        edges = _edges(scope, cells, low, high)
    if edges is None:
        return None
    found = Variable(name, "real", len(edges) - 1, edges=edges, wraps="wrap" in kinds)
    return found, REAL


def _bins(scope: Scope, option: ast.RealOption, low: float, high: float) -> np.ndarray | None:
    number = fixed_number(scope, option.values[0], INT)
    if number is None:
        return None
    if number < 1:
        scope.report("E402", f"{number:.0f} bins are too few", option.span, "use one or more")
        return None
    if number > MOST_CELLS:
        scope.report(
            "E701",
            f"{number:,.0f} bins are too many for one variable",
            option.span,
            f"use at most {MOST_CELLS:,}",
        )
        return None
    return np.linspace(low, high, int(number) + 1)


def _edges(scope: Scope, option: ast.RealOption, low: float, high: float) -> np.ndarray | None:
    numbers = [fixed_number(scope, value) for value in option.values]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    if len(known) < 2 or known[0] != low or known[-1] != high:
        scope.report(
            "E401",
            f"the edges must run from {low:g} to {high:g}",
            option.span,
            "the first and last edges must be the ends of the interval",
        )
        return None
    for before, after, value in zip(known, known[1:], option.values[1:], strict=False):
        if after <= before:
            scope.report(
                "E401", f"the edges must ascend: {after:g} comes after {before:g}", value.span
            )
            return None
    return np.array(known)
