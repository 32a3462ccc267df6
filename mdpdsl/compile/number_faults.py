"""Errors that occur at certain values of unknown numbers: which values the message names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.terms import Apply, Term, parts, reads
from mdpdsl.diagnostics import Diagnostic, Span


def at_values(found: Diagnostic, values: Mapping[str, float]) -> Diagnostic:
    """Add the values of unknown numbers at which an error occurs to its message."""
    there = ", ".join(f"{name} = {value:g}" for name, value in values.items())
    help_text = "every value in the range of an unknown number must make sense"
    if found.code == "E502":
        whose = f"`{next(iter(values))}`" if len(values) == 1 else "the unknown numbers"
        help_text = f"choose the range of {whose} such that this is always a probability"
    return replace(found, message=f"{found.message}, if {there}", help=found.help or help_text)


def with_assumed_values(model: CheckedModel, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Add the values that the model has, or assumes, to errors that may depend on them."""
    numbers = _numbers_by_place(model)
    named = []
    for each in found:
        names = numbers.get(each.span, frozenset()) if each.span else frozenset()
        values = {u.name: u.assumed for u in model.unknowns if u.name in names}
        named.append(at_values(each, values) if values else each)
    return named


def _numbers_by_place(model: CheckedModel) -> dict[Span, frozenset[str]]:
    """Return the unknown numbers on which an error at a place of the file may depend.

    An error in a division is one of its divisor.
    """
    found: dict[Span, frozenset[str]] = {}
    pending = list(model.equations.values())
    for rule in model.rules:
        weights = [b.probability for b in rule.branches if b.probability is not None]
        found[rule.branches_span] = frozenset().union(*map(_numbers, weights))
        pending += weights
        for branch in rule.branches:
            pending += branch.updates.values()
    while pending:
        term = pending.pop()
        if _numbers(term):
            is_division = isinstance(term, Apply) and term.function in ("/", "%")
            found[term.span] = _numbers(parts(term)[-1] if is_division else term)
            pending += parts(term)
    return found


def _numbers(term: Term) -> frozenset[str]:
    return frozenset(name for kind, name in reads(term) if kind == "unknown")
