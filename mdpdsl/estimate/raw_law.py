"""The density of one raw step, where the terms of a model alone show that it is a product.

A step goes through the variables in the order in which their next values are computed. Given the
next values before it, which the log shows, each next value x' is one of

    m + k*w     with noise w of its own, normal (any number of them) or uniform: it has a density,
    certain     a function of what is known by then, which the log must show,

perhaps clipped to bounds, and always to the range of its variable. The values of discrete noise and
the branches of a line are components of a mixture. m, k, the distribution of w and the
probabilities of branches may read unknown numbers. Where noise enters in another way, two variables
share it, or a certain next value reads unknown numbers, there is no such density.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mdpdsl.compile.checked import Branch, CheckedModel, Noise, Rule
from mdpdsl.compile.noise import Affine, as_affine, dependency_order
from mdpdsl.compile.rewriting import Rewriting
from mdpdsl.compile.terms import BOOL, REAL, Apply, Constant, Named, Read, Term, reads
from mdpdsl.compile.transitions import rules_of
from mdpdsl.graph.space import Variable

#: With more combinations of the values of discrete noise than this, a line has no density here.
MOST_COMPONENTS = 1_000


@dataclass(frozen=True, eq=False)
class NoRawLaw:
    """Why a model has no density of raw steps that can be written as a product."""

    reason: str


@dataclass(frozen=True, eq=False)
class Density:
    """A normal distribution (its mean and deviation), or a uniform one (its lower end and width).

    `clip` holds the bounds written in the model, which read no unknown numbers; the range of the
    variable comes on top.
    """

    family: str
    location: Term
    scale: Term
    clip: tuple[Term | None, Term | None]


@dataclass(frozen=True, eq=False)
class Factor:
    """The law of one next value, given those before it."""

    position: int  # of the variable
    term: Term
    density: Density | None  # None: the term is certain once discrete noise has a value
    # Variables whose next values, as logged, replace what the term reads. Where one was clipped to
    # its range, the log does not show that number, and this factor is left out.
    replaced: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RawBranch:
    """One outcome of a line: the product of the factors, for each value of the discrete noise."""

    probability: Term | None  # None: certain
    noises: tuple[Noise, ...]  # discrete
    factors: tuple[Factor, ...]  # one for each variable, in order of computation


@dataclass(frozen=True, eq=False)
class RawRule:
    """A line; an open one (`?`) has no law."""

    guard: Term | None
    is_otherwise: bool
    branches: tuple[RawBranch, ...]
    is_open: bool


@dataclass(frozen=True, eq=False)
class RawLaw:
    """The law of raw steps of a model."""

    model: CheckedModel
    rules: tuple[RawRule, ...]
    rules_of_action: tuple[tuple[int, ...], ...]  # in the order in which their guards are judged


class _NoLawError(Exception):
    """There is no density of the form described above."""


def raw_law(model: CheckedModel) -> RawLaw | NoRawLaw:
    """Return the law of raw steps of a model, or why there is none."""
    if not model.has_dynamics:
        return NoRawLaw("the model does not say how it moves")
    written = {id(rule) for rule in model.rules}
    numbers: dict[int, int] = {}
    rules: list[RawRule] = []
    of_action: list[tuple[int, ...]] = []
    try:
        for action in range(model.actions.size):
            found = []
            for rule in rules_of(model, action):
                key = id(rule) if id(rule) in written else -1  # equations only: all are equal
                if key not in numbers:
                    numbers[key] = len(rules)
                    rules.append(_raw_rule(model, rule))
                found.append(numbers[key])
            of_action.append(tuple(found))
    except _NoLawError as error:
        return NoRawLaw(str(error))
    return RawLaw(model, tuple(rules), tuple(of_action))


def _raw_rule(model: CheckedModel, rule: Rule) -> RawRule:
    is_open = any(branch.is_open for branch in rule.branches)
    branches = () if is_open else tuple(_raw_branch(model, branch) for branch in rule.branches)
    return RawRule(rule.guard, rule.is_otherwise, branches, is_open)


def _raw_branch(model: CheckedModel, branch: Branch) -> RawBranch:
    variables = {v.name: v for v in model.states.variables}
    positions = {v.name: i for i, v in enumerate(model.states.variables)}
    noises = {noise.name: noise for noise in model.noises}
    written = {**model.equations, **branch.updates}
    terms, replaced = _with_logged_values(written, variables, noises)
    readers: dict[str, str] = {}
    factors = []
    for name in dependency_order(terms):
        own = [noises[read] for kind, read in sorted(reads(terms[name])) if kind == "noise"]
        own = [noise for noise in own if _family(noise) != "discrete"]
        for noise in own:
            if readers.setdefault(noise.name, name) != name:
                raise _NoLawError(
                    f"`{readers[noise.name]}'` and `{name}'` share the noise `{noise.name}`; let "
                    "one read the next value of the other instead"
                )
        density = _density(name, terms[name], variables[name], own)
        factors.append(Factor(positions[name], terms[name], density, replaced[name]))
    for name, variable in variables.items():
        if name not in terms:
            kind = BOOL if variable.kind == "bool" else REAL
            stays = Read("state", name, type=kind, span=model.span)
            factors.append(Factor(positions[name], stays, None, ()))
    read = {name for factor in factors for kind, name in reads(factor.term) if kind == "noise"}
    discrete = tuple(noises[name] for name in noises if name in read - readers.keys())
    n_components = 1
    for noise in discrete:
        n_components *= noise.spread.n_values
    if n_components > MOST_COMPONENTS:
        raise _NoLawError(f"discrete noise has {n_components:,} combinations of values in one step")
    return RawBranch(branch.probability, discrete, tuple(factors))


def _with_logged_values(
    terms: Mapping[str, Term], variables: Mapping[str, Variable], noises: Mapping[str, Noise]
) -> tuple[dict[str, Term], dict[str, tuple[str, ...]]]:
    """Let variables that share a `let` with noise read the next value that is this `let`.

    In `let v = ... + w`, `omega' = v`, `theta' = theta + v*dt`, the log shows v as omega'.
    """
    owners: dict[int, str] = {}
    for name, term in terms.items():
        definition = _definition(term)
        is_noisy = any(
            kind == "noise" and _family(noises[read]) != "discrete"
            for kind, read in reads(definition)
        )
        if is_noisy and variables[name].kind == "real" and not variables[name].wraps:
            owners.setdefault(id(definition), name)
    found: dict[str, Term] = {}
    replaced: dict[str, tuple[str, ...]] = {}
    for name, term in terms.items():
        used: dict[str, None] = {}

        def change(part: Term, name: str = name, used: dict[str, None] = used) -> Term | None:
            owner = owners.get(id(part), name)
            if owner == name:
                return None
            used[owner] = None
            return Read("next", owner, type=REAL, span=part.span)

        found[name] = Rewriting(change)(term)
        replaced[name] = tuple(used)
    return found, replaced


def _definition(term: Term) -> Term:
    while isinstance(term, Named):
        term = term.definition
    return term


def _density(name: str, term: Term, variable: Variable, noises: list[Noise]) -> Density | None:
    """Return the density of a next value; None if it is certain."""
    reads_unknown = any(kind == "unknown" for kind, _ in reads(term))
    if not noises:
        if reads_unknown:
            raise _NoLawError(
                f"`{name}'` reads unknown numbers, but has no noise of its own beside the next "
                "values it reads: every step would determine the numbers exactly; add noise"
            )
        return None
    if variable.kind != "real":
        raise _NoLawError(
            f"`{name}` is not real, and reads the continuous noise `{noises[0].name}`"
        )
    families = {_family(noise) for noise in noises}
    if families != {"normal"} and (len(noises) > 1 or families != {"uniform"}):
        listed = ", ".join(f"`{noise.name}`" for noise in noises)
        raise _NoLawError(
            f"`{name}'` reads the noises {listed}; only normal ones, or a single uniform one, have "
            "a sum with a known density"
        )
    affine = as_affine(term, frozenset(noise.name for noise in noises), {})
    if affine is None:
        raise _NoLawError(
            f"`{name}'` is not of the form m + k*{noises[0].name}, perhaps inside one `clip`, "
            "`min` or `max`"
        )
    for bound in affine.clip:
        if bound is not None and any(kind == "unknown" for kind, _ in reads(bound)):
            raise _NoLawError(f"`{name}'` is clipped at a bound that reads unknown numbers")
    if variable.wraps and affine.clip != (None, None):
        raise _NoLawError(f"`{name}'` is clipped, although `{name}` wraps")
    return _as_density(affine, noises)


def _as_density(affine: Affine, noises: list[Noise]) -> Density:
    """Return the distribution of an affine function of noise."""
    location = affine.constant
    scales: list[Term] = []
    for noise in noises:
        slope = affine.coefficients[noise.name]
        a, b = noise.terms or (_number(noise.spread.a, slope), _number(noise.spread.b, slope))
        size = _apply("abs", slope)
        if _family(noise) == "uniform":
            ends = _apply("*", slope, a), _apply("*", slope, b)
            location = _apply("+", location, _apply("min", *ends))
            scales.append(_apply("*", size, _apply("-", b, a)))
            continue
        location = _apply("+", location, _apply("*", slope, a))
        scales.append(_apply("*", size, b))
    scale = scales[0]
    if len(scales) > 1:
        squares = [_apply("*", each, each) for each in scales]
        for other in squares[1:]:
            squares[0] = _apply("+", squares[0], other)
        scale = _apply("sqrt", squares[0])
    return Density(_family(noises[0]), location, scale, affine.clip)


def _family(noise: Noise) -> str:
    """Return the family of a noise, even if it has no width at the values of the model."""
    return noise.family or noise.spread.family


def _apply(function: str, *arguments: Term) -> Term:
    return Apply(function, arguments, type=REAL, span=arguments[0].span)


def _number(value: float, term: Term) -> Term:
    return Constant(value, type=REAL, span=term.span)
