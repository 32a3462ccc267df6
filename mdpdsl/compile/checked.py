"""A model whose names and types have been checked, as plain data: the input of expansion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mdpdsl.compile.scope import Definition
from mdpdsl.compile.terms import BOOL, INT, REAL, Constant, Read, Term, Type, reads
from mdpdsl.diagnostics import Diagnostic, Span
from mdpdsl.graph.space import FloatArray, Product, Value


@dataclass(frozen=True, eq=False)
class Spread:
    """A distribution of numbers: `normal` (a: mean, b: sd), `uniform` (a to b), or `discrete`."""

    family: str
    a: float = 0.0
    b: float = 0.0
    values: FloatArray | None = None  # [n]  for `discrete`
    probabilities: FloatArray | None = None  # [n]  sums to 1

    @property
    def n_values(self) -> int:
        """The number of values of a discrete distribution."""
        return 0 if self.values is None else len(self.values)


@dataclass(frozen=True, eq=False)
class Noise:
    """A random number, drawn anew at each step.

    If its distribution depends on unknown numbers, `terms` are the terms of its a and b, `family`
    is normal or uniform, and the spread is that at the values that the model has for the numbers.
    """

    name: str
    spread: Spread
    terms: tuple[Term, Term] | None = None
    family: str | None = None


@dataclass(frozen=True, eq=False)
class Unknown:
    """A number that is to be estimated; expressions read it as `Read("unknown", name)`."""

    name: str
    low: float
    high: float
    value: float | None  # a truth for simulation; None if the file gives none
    span: Span

    @property
    def assumed(self) -> float:
        """The value, or the middle of the range while there is none."""
        return self.value if self.value is not None else (self.low + self.high) / 2


@dataclass(frozen=True, eq=False)
class Branch:
    """One outcome of a rule: its probability (None: certain) and what it sets.

    The probability of an open branch (`?`) is unknown; `probability` is then its truth for
    simulation, None if the file gives none. A rest is a `?` that is not open: its probability is
    what the other branches leave.
    """

    probability: Term | None
    updates: Mapping[str, Term]
    span: Span
    is_open: bool = False
    is_rest: bool = False


@dataclass(frozen=True, eq=False)
class Rule:
    """What some actions do if the guard holds (None: always), or in the remaining states."""

    actions: frozenset[int]
    guard: Term | None
    is_otherwise: bool
    branches: tuple[Branch, ...]
    span: Span  # of the whole line
    branches_span: Span


@dataclass(frozen=True, eq=False)
class Reward:
    """A reward for some actions in the states where the guard holds; those of a name add up."""

    name: str
    actions: frozenset[int]
    guard: Term | None
    value: Term


@dataclass(frozen=True, eq=False)
class CheckedProperty:
    """A property whose names are resolved and whose numbers are known.

    `operator` is F, G, X, U, W or R for a probability; for a reward it is F (until a goal), C (the
    next steps), D (discounted) or S (the long-run average).
    """

    name: str | None
    text: str  # in the canonical layout
    span: Span
    is_reward: bool
    direction: str | None  # max or min; None: for every policy
    comparison: str | None  # >=, >, <= or <; None: the value is asked for
    threshold: float | None
    operator: str
    left: Term | None = None
    right: Term | None = None  # the operand, or the goal
    steps: int | None = None
    discount: float | None = None
    reward: str | None = None  # its name; None: the default one

    @property
    def conditions(self) -> tuple[Term, ...]:
        """The conditions on states, left to right."""
        return tuple(term for term in (self.left, self.right) if term is not None)


@dataclass(frozen=True, eq=False)
class Init:
    """Where a run starts: each variable independently, or uniformly where a guard holds.

    A variable without a spread is uniform over its cells.
    """

    spreads: Mapping[str, Spread]
    guard: Term | None
    span: Span

    @property
    def is_declared(self) -> bool:
        """Whether the file has an `init` line; otherwise the span is that of the whole file."""
        return self.span.end - self.span.start > 1


@dataclass(frozen=True)
class Discretization:
    """How a cell becomes points: `center`, `uniform` (per axis), or `sample` (per cell)."""

    method: str
    number: int = 1
    seed: int = 0


@dataclass(frozen=True, eq=False)
class LogColumn:
    """How to read the value of a variable from a log."""

    key: str
    term: Term


@dataclass(frozen=True, eq=False)
class CheckedModel:
    """A model file whose names are resolved and whose types are known.

    `diagnostics` may contain errors. `can_expand` then says whether enough is left to look for the
    errors that occur only in certain states; `broken_actions` have `on` lines with errors.
    """

    name: str
    title: str | None
    span: Span  # of the header
    parameters: Mapping[str, Value]
    parameter_types: Mapping[str, Type]
    states: Product
    actions: Product
    symbols: Mapping[str, int]
    noises: tuple[Noise, ...]
    unknowns: tuple[Unknown, ...]
    rules: tuple[Rule, ...]
    equations: Mapping[str, Term]
    rewards: tuple[Reward, ...]
    labels: Mapping[str, Term]
    properties: Mapping[str, CheckedProperty]
    definitions: Mapping[str, Definition]
    restarts: tuple[Term, ...]
    ends: tuple[Term, ...]
    init: Init
    keeps_all_states: bool
    discretization: Discretization
    explore: Mapping[str, Value]
    log: tuple[LogColumn, ...]
    diagnostics: tuple[Diagnostic, ...]
    can_expand: bool
    broken_actions: frozenset[int]

    @property
    def reward_names(self) -> tuple[str, ...]:
        """The names of the rewards, in the order of the file."""
        return tuple(dict.fromkeys(reward.name for reward in self.rewards))

    @property
    def has_dynamics(self) -> bool:
        """Whether the file defines any dynamics."""
        return bool(self.rules or self.equations or self.broken_actions)

    @property
    def states_knowledge(self) -> bool:
        """Whether the file says what is not known: it has a `?` or an unknown number."""
        has_open = any(branch.is_open for rule in self.rules for branch in rule.branches)
        return bool(self.unknowns) or has_open

    @property
    def numbers_read(self) -> frozenset[str]:
        """The unknown numbers that transitions depend on, by themselves or through noise."""
        branches = [branch for rule in self.rules for branch in rule.branches]
        terms = [branch.probability for branch in branches if branch.probability is not None]
        terms += self.equations.values()
        terms += [term for branch in branches for term in branch.updates.values()]
        found = frozenset[tuple[str, str]]().union(*map(reads, terms))
        for noise in self.noises:
            if ("noise", noise.name) in found and noise.terms is not None:
                found |= reads(noise.terms[0]) | reads(noise.terms[1])
        return frozenset(name for kind, name in found if kind == "unknown")

    @property
    def missing(self) -> tuple[str, ...]:
        """What has no value, so that the model cannot be simulated: unknown numbers, and `?`."""
        read = self.numbers_read
        names = [u.name for u in self.unknowns if u.value is None and u.name in read]
        branches = (branch for rule in self.rules for branch in rule.branches)
        is_open = any(branch.is_open and branch.probability is None for branch in branches)
        return (*names, *["?"] * is_open)

    @property
    def unknown_values(self) -> dict[tuple[str, str], FloatArray]:
        """The values of the unknown numbers, as expressions read them."""
        return {("unknown", each.name): np.asarray(each.assumed) for each in self.unknowns}


def spaces_alone(name: str, states: Product, actions: Product) -> CheckedModel:
    """Return a model with spaces and nothing else, for graphs that have no model file."""
    members = [m for v in (*states.variables, *actions.variables) for m in v.members]
    symbols = {member: number for number, member in enumerate(dict.fromkeys(members))}
    return CheckedModel(
        name=name,
        title=None,
        span=Span(0, 0),
        parameters={},
        parameter_types={},
        states=states,
        actions=actions,
        symbols=symbols,
        noises=(),
        unknowns=(),
        rules=(),
        equations={},
        rewards=(),
        labels={},
        properties={},
        definitions=_definitions(states, symbols),
        restarts=(),
        ends=(),
        init=Init({}, None, Span(0, 0)),
        keeps_all_states=True,
        discretization=Discretization("none"),
        explore={},
        log=(),
        diagnostics=(),
        can_expand=False,
        broken_actions=frozenset(),
    )


def _definitions(states: Product, symbols: Mapping[str, int]) -> dict[str, Definition]:
    """Return the names of the state variables and of the members of enumerations."""
    span = Span(0, 0)
    found = {}
    for member, number in symbols.items():
        kind = Type("enum", frozenset({member}))
        found[member] = Definition("member", span, Constant(float(number), type=kind, span=span))
    types = {"bool": BOOL, "int": INT}
    for variable in states.variables:
        kind = types.get(variable.kind, REAL)
        if variable.kind == "enum":
            kind = Type("enum", frozenset(variable.members))
        read = Read("state", variable.name, type=kind, span=span)
        found[variable.name] = Definition("state", span, read)
    return found
