"""Probabilities and numbers that a model file leaves open: what it may leave open, and how.

A line with several `?` says where its actions may lead and leaves open how likely. A single `?` is
not open: it has what the other branches leave. Where a line has `?` beside probabilities that read
unknown numbers, those count as `?`, too: the numbers are estimated from the other lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mdpdsl.compile.checked import Branch, Noise, Rule
from mdpdsl.compile.noise import plan_outcome
from mdpdsl.compile.scope import PROBABILITY, TRUTH
from mdpdsl.compile.terms import REAL, Apply, Constant, Term, reads
from mdpdsl.compile.typecheck import Scope
from mdpdsl.diagnostics import Span
from mdpdsl.graph.space import Variable
from mdpdsl.syntax import ast


def branch_weight(scope: Scope, syntax: ast.Expr) -> tuple[Term | None, bool, bool]:
    """Return a probability, or the truth of a `?`; whether it is open; and whether it is right."""
    if not isinstance(syntax, ast.Open):
        term = scope.term(syntax, PROBABILITY, REAL)
        return term, False, term is not None
    if syntax.value is None:
        return None, True, True
    term = scope.term(syntax.value, TRUTH, REAL)
    return term, True, term is not None


def settled_branches(scope: Scope, branches: Sequence[Branch]) -> tuple[Branch, ...]:
    """Return the branches of a line, with those open that are; warn of a `?` that is not."""
    is_open = [branch.is_open for branch in branches]
    if not any(is_open):
        return tuple(branches)
    if sum(is_open) == 1:
        only = branches[is_open.index(True)]
        others = [b.probability for b in branches if not b.is_open]
        message = "the only `?` of a line is not unknown: it has what the other branches leave"
        help_text = "write `1 - …`, or put a `?` before every branch that is not known"
        if len(branches) == 1:
            message = "a single branch is certain, so its `?` is not unknown"
            help_text = "remove the `?`, or add the other branches"
        scope.report("W005", message, only.span, help_text)
        is_rest = only.probability is None
        probability = _what_is_left(others, only.span) if is_rest else only.probability
        settled = replace(only, probability=probability, is_open=False, is_rest=is_rest)
        return tuple(settled if b is only else b for b in branches)
    for branch in branches:
        number = _first_unknown(branch.probability)
        if number is not None and not branch.is_open:
            scope.report(
                "W006",
                f"this probability counts as `?`, although it reads `{number}`: its line has `?`",
                branch.span,
                f"move it to a line without `?`, so that `{number}` is learned from it",
            )
    return tuple(
        replace(b, is_open=True) if _first_unknown(b.probability) is not None else b
        for b in branches
    )


def without_truths(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return lines whose `?` have no truth; those that read unknown numbers keep their terms."""
    return tuple(
        replace(rule, branches=tuple(_without_truth(branch) for branch in rule.branches))
        for rule in rules
    )


def _without_truth(branch: Branch) -> Branch:
    is_truth = branch.is_open and _first_unknown(branch.probability) is None
    return replace(branch, probability=None) if is_truth else branch


def report_unsmooth(
    scope: Scope,
    terms: Mapping[str, Term],
    variables: Mapping[str, Variable],
    noises: tuple[Noise, ...],
) -> bool:
    """Report next values that depend on an unknown number but on no continuous noise."""
    plan = plan_outcome(terms, variables, noises)
    # Whether a line is a mistake must not depend on the truth, at which noise may have no width.
    continuous = {n.name for n in noises if n.terms is not None or n.spread.family != "discrete"}
    noisy: set[str] = set()
    sound = True
    for name in plan.order:
        found = reads(terms[name])
        if any(
            (kind == "noise" and read in continuous) or (kind == "next" and read in noisy)
            for kind, read in found
        ):
            noisy.add(name)
            continue
        number = _first_unknown(terms[name])
        if number is not None:
            sound = False
            scope.report(
                "E511",
                f"`{name}'` depends on the unknown number `{number}`, but on no noise",
                terms[name].span,
                f"then data cannot tell near values of `{number}` apart; add noise: "
                f"`{name}' = … + w` with `noise w ~ normal(0, sd)`, where `sd` may be unknown, too",
            )
    return sound


def _first_unknown(term: Term | None) -> str | None:
    """Return the first unknown number that a term reads, by name."""
    if term is None:
        return None
    return next((name for kind, name in sorted(reads(term)) if kind == "unknown"), None)


def _what_is_left(others: Sequence[Term | None], span: Span) -> Term | None:
    """Return 1 minus the sum of some probabilities; None without any."""
    known = [term for term in others if term is not None]
    if not known:
        return None
    left: Term = Constant(1.0, type=REAL, span=span)
    for term in known:
        left = Apply("-", (left, term), type=REAL, span=span)
    return left
