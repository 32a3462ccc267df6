"""The distributions in a model file, with their expressions evaluated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from mdpdsl.compile.checked import Spread, Unknown
from mdpdsl.compile.domains import LARGEST_REAL, fixed_number
from mdpdsl.compile.expressions import Frame, constant_value, evaluate
from mdpdsl.compile.scope import FIXED, SPREAD
from mdpdsl.compile.terms import REAL, Term, Type, reads
from mdpdsl.compile.typecheck import Scope
from mdpdsl.diagnostics import did_you_mean
from mdpdsl.graph.space import Variable
from mdpdsl.syntax import ast

#: How far the probabilities of a distribution may be from a sum of 1.
PROBABILITY_TOLERANCE = 1e-9
#: The corners of the ranges of unknown numbers at which a distribution is checked.
MOST_CORNERS = 64


def noise_spread(
    scope: Scope, distribution: ast.Distribution, unknowns: tuple[Unknown, ...]
) -> tuple[Spread | None, tuple[Term, Term] | None]:
    """Evaluate the distribution of a noise; with its terms if it depends on unknown numbers."""
    if isinstance(distribution, ast.DiscreteDistribution) or len(distribution.arguments) != 2:
        return spread(scope, distribution), None
    mark = scope.mark()
    typed = [scope.term(argument, SPREAD, REAL) for argument in distribution.arguments]
    first, second = typed
    is_named = distribution.family.text in ("normal", "uniform")
    if is_named and unknowns and (first is None or second is None):
        return None, None  # as was reported: here, unknown numbers are not the mistake
    if first is None or second is None or not is_named or not reads(first) | reads(second):
        scope.rewind(mark)
        return spread(scope, distribution), None
    terms = first, second
    valid = {each.name for each in unknowns}
    names = {name for _, name in reads(first) | reads(second)}
    if not names <= valid:
        return None, None  # a number whose declaration has an error
    found = None
    assumed = {each.name: each.assumed for each in unknowns}
    for values in (*corners(unknowns, MOST_CORNERS), assumed):
        numbers = spread_numbers(terms, values)
        if numbers is None:
            shown = ", ".join(f"{name} = {value:g}" for name, value in values.items())
            scope.report("E507", f"the distribution has no value at {shown}", distribution.span)
            return None, None
        at = {name: values[name] for name in values if name in names}
        found = checked_spread(scope, distribution, *numbers, at)
        if found is None:
            return None, None
    return found, terms


def corners(unknowns: tuple[Unknown, ...], most: int) -> Iterator[dict[str, float]]:
    """Return the corners of the ranges of unknown numbers; the first ones if there are many."""
    ends = itertools.product(*((each.low, each.high) for each in unknowns))
    for corner in itertools.islice(ends, most):
        yield {each.name: value for each, value in zip(unknowns, corner, strict=True)}


def spread_numbers(
    terms: tuple[Term, Term], values: Mapping[str, float]
) -> tuple[float, float] | None:
    """Evaluate the two numbers of a distribution; None if one has no finite value."""
    frame = Frame(1, {("unknown", name): np.asarray(value) for name, value in values.items()})
    found = []
    for term in terms:
        result = evaluate(term, frame)
        if result.faults or not np.isfinite(result.values).all():
            return None
        found.append(float(np.ravel(result.values)[0]))
    return found[0], found[1]


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
    return None if a is None or b is None else checked_spread(scope, distribution, a, b)


def checked_spread(
    scope: Scope,
    distribution: ast.NamedDistribution,
    a: float,
    b: float,
    at: Mapping[str, float] = MappingProxyType({}),
) -> Spread | None:
    """Return the normal or uniform distribution with two numbers; report impossible ones.

    These are the numbers `at` values of the unknown numbers, if they depend on any.
    """
    family = distribution.family.text
    if max(abs(a), abs(b)) > LARGEST_REAL:
        scope.report(
            "E402",
            "the distribution is too wide",
            distribution.span,
            f"use numbers between {-LARGEST_REAL:g} and {LARGEST_REAL:g}",
        )
        return None
    there = ", ".join(f"{name} = {value:g}" for name, value in at.items())
    there = f", if {there}" if there else ""
    if family == "normal" and b < 0:
        deviation = distribution.arguments[1]
        message = f"the standard deviation {b:g} is negative{there}"
        help_text = None
        if at:
            help_text = "choose the ranges of unknown numbers such that it is never negative"
        if isinstance(deviation, ast.Name) and deviation.name in at:
            help_text = f"let the range of `{deviation.name}` begin at 0"
        scope.report("E402", message, deviation.span, help_text)
        return None
    if family == "uniform" and b < a:
        message = f"the interval from {a:g} to {b:g} is reversed{there}"
        help_text = f"write `uniform({b:g}, {a:g})`"
        if at:
            help_text = "choose the ranges of unknown numbers such that low never exceeds high"
        scope.report("E401", message, distribution.span, help_text)
        return None
    return spread_at(family, a, b)


def spread_at(family: str, a: float, b: float) -> Spread:
    """Return a normal or uniform distribution; a single value if it has no width."""
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
