"""The domains and distributions in a model file, with their expressions evaluated."""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.compile.checked import Spread
from mdpdsl.compile.expressions import constant_value
from mdpdsl.compile.scope import FIXED, Definition
from mdpdsl.compile.terms import BOOL, INT, REAL, Constant, Type
from mdpdsl.compile.typecheck import Scope
from mdpdsl.diagnostics import did_you_mean
from mdpdsl.graph.space import SET_TOLERANCE, Variable
from mdpdsl.syntax import ast

#: Larger integers are not exact as floating-point numbers.
LARGEST_INTEGER = 2**53
#: More cells than this along one axis must be a typing error.
MOST_CELLS = 1_000_000
#: So must larger bounds; up to this one, widths and squares stay finite.
LARGEST_REAL = 1e100
PROBABILITY_TOLERANCE = 1e-9


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


def spread(scope: Scope, distribution: ast.Distribution) -> Spread | None:
    """Evaluate a distribution of numbers."""
    if isinstance(distribution, ast.DiscreteDistribution):
        values = [fixed_number(scope, value) for value, _ in distribution.weights]
        probabilities = weights(scope, distribution)
        if probabilities is None or any(value is None for value in values):
            return None
        return Spread("discrete", values=np.array(values, float), probabilities=probabilities)
    family, span = distribution.family.text, distribution.family.span
    if family not in ("normal", "uniform"):
        help_text = did_you_mean(family, ("normal", "uniform"))
        help_text = (
            help_text or "use `normal(mean, sd)`, `uniform(low, high)` or `{value: probability, …}`"
        )
        scope.report("E206", f"unknown distribution `{family}`", span, help_text)
        return None
    if len(distribution.arguments) != 2:
        needs = "mean, standard deviation" if family == "normal" else "low, high"
        given = len(distribution.arguments)
        scope.report(
            "E206", f"`{family}` takes 2 arguments ({needs}), not {given}", distribution.span
        )
        return None
    a, b = (fixed_number(scope, argument) for argument in distribution.arguments)
    if a is None or b is None:
        return None
    if max(abs(a), abs(b)) > LARGEST_REAL:
        scope.report(
            "E402",
            "the distribution is too wide",
            distribution.span,
            f"use numbers between {-LARGEST_REAL:g} and {LARGEST_REAL:g}",
        )
        return None
    if family == "normal" and b < 0:
        scope.report(
            "E402", f"the standard deviation {b:g} is negative", distribution.arguments[1].span
        )
        return None
    if family == "uniform" and b < a:
        scope.report(
            "E401",
            f"the interval from {a:g} to {b:g} is reversed",
            distribution.span,
            f"write `uniform({b:g}, {a:g})`",
        )
        return None
    if b == (0 if family == "normal" else a):
        return Spread("discrete", values=np.array([a]), probabilities=np.ones(1))
    return Spread(family, a, b)


def initial_spread(
    scope: Scope, item: ast.InitItem, variable: Variable, value_type: Type
) -> Spread | None:
    """Evaluate the initial distribution of a variable; an enumeration's values are indices."""
    if isinstance(item.value, ast.NamedDistribution):
        if variable.kind != "real":
            scope.report(
                "E403",
                f"`{variable.name}` is not real, so it cannot have a continuous distribution",
                item.value.span,
                "list its values: `~ {value: probability, …}`",
            )
            return None
        return spread(scope, item.value)
    if isinstance(item.value, ast.DiscreteDistribution):
        expressions = [value for value, _ in item.value.weights]
        probabilities = weights(scope, item.value)
    else:
        expressions, probabilities = [item.value], np.ones(1)
    values = [_initial_value(scope, value, variable, value_type) for value in expressions]
    known = [value for value in values if value is not None]
    if probabilities is None or len(known) < len(values):
        return None
    return Spread("discrete", values=np.array(known), probabilities=probabilities)


def _initial_value(
    scope: Scope, expression: ast.Expr, variable: Variable, value_type: Type
) -> float | None:
    term = scope.term(expression, FIXED, value_type)
    if term is None:
        return None
    value, fault = constant_value(term)
    if fault is not None or not math.isfinite(value):
        scope.report("E507", fault.message if fault else "not a finite number", expression.span)
        return None
    if variable.kind == "enum":
        member = _member_name(scope, float(value))
        return float(variable.members.index(member)) if member in variable.members else None
    is_outside = variable.indices(np.array([float(value)]))[0] < 0
    if variable.edges is not None and not variable.wraps:
        is_outside = not variable.edges[0] <= value <= variable.edges[-1]
    if is_outside:
        scope.report(
            "E402",
            f"{variable.name} = {value:g} is out of range",
            expression.span,
            f"the model declares {variable.describe()}",
        )
        return None
    return float(value)


def _member_name(scope: Scope, symbol: float) -> str:
    return next(name for name, number in scope.symbols.items() if number == int(symbol))


def weights(scope: Scope, distribution: ast.DiscreteDistribution) -> np.ndarray | None:
    """Evaluate the probabilities of a discrete distribution; report invalid ones."""
    found = []
    for _, expression in distribution.weights:
        probability = fixed_number(scope, expression)
        if probability is not None and not 0 <= probability <= 1:
            scope.report(
                "E502", f"the probability {probability:g} is outside [0, 1]", expression.span
            )
            probability = None
        found.append(probability)
    known = [p for p in found if p is not None]
    if len(known) < len(found):
        return None
    total = math.fsum(known)
    if abs(total - 1) > PROBABILITY_TOLERANCE:
        scope.report("E501", f"probabilities sum to {total:.10g}, not 1", distribution.span)
        return None
    return np.array(known) / total


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
