"""How to integrate the noise of an outcome, decided from the expressions alone.

An equation that is affine in its noise, `x' = m(s, a) + k(s, a)·w`, has cell probabilities that are
differences of the distribution function F((edge - m)/k), which is exact. This works for noise that
only one variable reads; the sum of several normal noises is again normal. Discrete noise is
enumerated. The remaining noise is integrated by quadrature, or by sampling if it has too many
dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mdpdsl.compile.checked import Noise
from mdpdsl.compile.terms import REAL, Apply, Choose, Constant, Named, Read, Term, reads
from mdpdsl.graph.space import Variable

#: With more continuous noises than this, quadrature is replaced by sampling.
MOST_QUADRATURE_DIMENSIONS = 3


@dataclass(frozen=True, eq=False)
class Affine:
    """constant + sum of coefficient·noise, perhaps clipped; the coefficients do not read the noise.

    `clip` holds the lower and upper bound; None means that there is no such bound.
    """

    constant: Term
    coefficients: Mapping[str, Term]
    clip: tuple[Term | None, Term | None] = (None, None)

    def terms(self) -> list[Term]:
        """Return all the terms to evaluate."""
        bounds = [bound for bound in self.clip if bound is not None]
        return [self.constant, *self.coefficients.values(), *bounds]


@dataclass(frozen=True, eq=False)
class OutcomePlan:
    """How the next values of one outcome are computed.

    `order` lists the variables that are set, each after those whose next values it reads.
    """

    order: tuple[str, ...]
    terms: Mapping[str, Term]
    discrete: tuple[Noise, ...]
    quadrature: tuple[Noise, ...]
    exact: Mapping[str, Affine]
    aligned: Mapping[
        str, Affine
    ]  # affine in the only quadrature noise: strata end at their cell edges
    steady: frozenset[str]  # variables that read no continuous noise
    is_rough: bool  # some next value may jump inside a stratum
    is_apart: bool  # the exact variables do not depend on the nodes of other noise

    @property
    def method(self) -> str:
        """The least exact method that is used to integrate noise here."""
        if len(self.quadrature) > MOST_QUADRATURE_DIMENSIONS:
            return "sampling"
        if self.quadrature:
            return "quadrature"
        return "cdf" if self.exact else "exact" if self.discrete else "none"


def plan_outcome(
    terms: Mapping[str, Term], variables: Mapping[str, Variable], noises: tuple[Noise, ...]
) -> OutcomePlan:
    """Decide how to integrate each noise of an outcome."""
    order = dependency_order(terms)
    used: dict[str, frozenset[str]] = {}
    for name in order:
        found = {read for kind, read in reads(terms[name]) if kind == "noise"}
        for kind, read in reads(terms[name]):
            if kind == "next" and read in used:
                found |= used[read]
        used[name] = frozenset(found)
    discrete = tuple(
        noise
        for noise in noises
        if noise.spread.family == "discrete" and any(noise.name in names for names in used.values())
    )
    left = {
        noise.name: noise
        for noise in noises
        if noise.spread.family != "discrete" and any(noise.name in names for names in used.values())
    }
    continuous = frozenset(left)
    exact: dict[str, Affine] = {}
    for name in order:
        if variables[name].kind != "real":
            continue
        others = frozenset().union(*(used[other] for other in order if other != name))
        private = (used[name] & continuous) - others
        chosen = _exact_part(terms[name], private, left, used)
        if chosen is not None:
            exact[name] = chosen
            for noise_name in chosen.coefficients:
                left.pop(noise_name)
    quadrature = tuple(left.values())
    aligned: dict[str, Affine] = {}
    is_rough = False
    for name in order:
        if name in exact or not used[name] & left.keys():
            continue
        affine = None
        if len(quadrature) == 1 and variables[name].kind == "real":
            # Where a clipped next value is read, its clipping adds breakpoints.
            clipped = {
                other: terms[other]
                for other in order
                if variables[other].kind == "real" and not variables[other].wraps
            }
            affine = as_affine(terms[name], frozenset(left), used, clipped)
        if affine is not None:
            aligned[name] = affine
        else:
            is_rough = True
    steady = frozenset(name for name in order if not used[name] & continuous)
    by_nodes = {noise.name for noise in (*discrete, *quadrature)}
    is_apart = bool(exact and by_nodes) and not any(
        (kind == "noise" and read in by_nodes) or (kind == "next" and read in terms)
        for affine in exact.values()
        for term in affine.terms()
        for kind, read in reads(term)
    )
    return OutcomePlan(
        order, terms, discrete, quadrature, exact, aligned, steady, is_rough, is_apart
    )


def dependency_order(terms: Mapping[str, Term]) -> tuple[str, ...]:
    """Sort names so that next values are computed before they are read; there are no cycles."""
    ordered: list[str] = []
    pending = list(terms)
    while pending:
        for name in pending:
            needs = {read for kind, read in reads(terms[name]) if kind == "next"}
            if not needs & (set(pending) - {name}):
                ordered.append(name)
                pending.remove(name)
                break
    return tuple(ordered)


def as_affine(
    term: Term,
    names: frozenset[str],
    used: Mapping[str, frozenset[str]],
    following: Mapping[str, Term] | None = None,
) -> Affine | None:
    """Write a term as an affine function of some noises, if it is one; see `Affine`.

    Next values in `following` are replaced by the terms that set them, before clipping.
    """
    inner, low, high = _unclipped(term)
    if any(bound is not None and _mentions(bound, names, used) for bound in (low, high)):
        return None
    parts = _decompose(inner, names, used, following or {})
    return Affine(*parts, (low, high)) if parts else None


def _exact_part(
    term: Term,
    private: frozenset[str],
    noises: Mapping[str, Noise],
    used: Mapping[str, frozenset[str]],
) -> Affine | None:
    """Return the part of a variable's noise that the distribution function integrates exactly."""
    normal = frozenset(name for name in private if noises[name].spread.family == "normal")
    candidates = [normal] if normal else []
    candidates += [
        frozenset({name}) for name in sorted(private, key=lambda n: (n not in normal, n))
    ]
    for names in candidates:
        affine = as_affine(term, names, used)
        if affine is not None:
            return affine
    return None


def _unclipped(term: Term) -> tuple[Term, Term | None, Term | None]:
    """Remove an outer `clip`, `min` or `max` from a term; return the inner term and the bounds."""
    while isinstance(term, Named):
        term = term.definition
    match term:
        case Apply(function="clip"):
            inner, low, high = term.arguments
            return inner, low, high
        case Apply(function="max", arguments=(first, second)):
            inner, bound = (first, second) if _reads_noise(first) else (second, first)
            return inner, bound, None
        case Apply(function="min", arguments=(first, second)):
            inner, bound = (first, second) if _reads_noise(first) else (second, first)
            return inner, None, bound
    return term, None, None


def _reads_noise(term: Term) -> bool:
    return any(kind in ("noise", "next") for kind, _ in reads(term))


def _mentions(term: Term, names: frozenset[str], used: Mapping[str, frozenset[str]]) -> bool:
    return any(
        (kind == "noise" and read in names)
        or (kind == "next" and bool(used.get(read, frozenset()) & names))
        for kind, read in reads(term)
    )


_Parts = tuple[Term, dict[str, Term]]


def _decompose(
    term: Term,
    names: frozenset[str],
    used: Mapping[str, frozenset[str]],
    following: Mapping[str, Term],
) -> _Parts | None:
    if not _mentions(term, names, used):
        return term, {}
    match term:
        case Read(kind="noise"):
            return _number(0.0, term), {term.name: _number(1.0, term)}
        case Read(kind="next") if term.name in following:
            inner, _, _ = _unclipped(following[term.name])
            return _decompose(inner, names, used, following)
        case Named():
            return _decompose(term.definition, names, used, following)
        case Apply(function="+" | "-"):
            parts = [_decompose(argument, names, used, following) for argument in term.arguments]
            return _combine(term, parts[0], parts[1])
        case Apply(function="negative"):
            return _map(
                _decompose(term.arguments[0], names, used, following), lambda t: _negative(t)
            )
        case Apply(function="*"):
            left, right = term.arguments
            if _mentions(left, names, used):
                left, right = right, left
            if _mentions(left, names, used):
                return None
            return _map(
                _decompose(right, names, used, following), lambda t: _operation("*", t, left)
            )
        case Apply(function="/"):
            left, right = term.arguments
            if _mentions(right, names, used):
                return None
            return _map(
                _decompose(left, names, used, following), lambda t: _operation("/", t, right)
            )
        case Choose():
            return _choose(term, names, used, following)
    return None


def _combine(term: Apply, left: _Parts | None, right: _Parts | None) -> _Parts | None:
    if left is None or right is None:
        return None
    coefficients = dict(left[1])
    for name, coefficient in right[1].items():
        if name in coefficients:
            coefficients[name] = _operation(term.function, coefficients[name], coefficient)
        else:
            coefficients[name] = coefficient if term.function == "+" else _negative(coefficient)
    return _operation(term.function, left[0], right[0]), coefficients


def _choose(
    term: Choose,
    names: frozenset[str],
    used: Mapping[str, frozenset[str]],
    following: Mapping[str, Term],
) -> _Parts | None:
    conditions = [condition for condition, _ in term.cases]
    if any(_mentions(condition, names, used) for condition in conditions):
        return None
    found = [_decompose(value, names, used, following) for _, value in term.cases]
    parts = [part for part in [*found, _decompose(term.otherwise, names, used, following)] if part]
    if len(parts) <= len(found):
        return None

    def rebuilt(values: list[Term]) -> Term:
        cases = tuple(zip(conditions, values[:-1], strict=True))
        return Choose(cases, values[-1], type=REAL, span=term.span)

    mentioned = sorted({name for _, coefficients in parts for name in coefficients})
    coefficients = {
        name: rebuilt([part[1].get(name, _number(0.0, term)) for part in parts])
        for name in mentioned
    }
    return rebuilt([part[0] for part in parts]), coefficients


def _map(parts: _Parts | None, change: Callable[[Term], Term]) -> _Parts | None:
    if parts is None:
        return None
    return change(parts[0]), {name: change(term) for name, term in parts[1].items()}


def _number(value: float, term: Term) -> Term:
    return Constant(value, type=REAL, span=term.span)


def _negative(term: Term) -> Term:
    return Apply("negative", (term,), type=REAL, span=term.span)


def _operation(function: str, left: Term, right: Term) -> Term:
    return Apply(function, (left, right), type=REAL, span=left.span)
