"""A model whose names and types are right: what expansion reads. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mdpdsl.compile.terms import Term, Type
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
        """How many values a discrete distribution has."""
        return 0 if self.values is None else len(self.values)


@dataclass(frozen=True, eq=False)
class Noise:
    """A random number drawn afresh each step."""

    name: str
    spread: Spread


@dataclass(frozen=True, eq=False)
class Branch:
    """One outcome of a rule: its probability (None: certain) and what it sets."""

    probability: Term | None
    updates: Mapping[str, Term]
    span: Span


@dataclass(frozen=True, eq=False)
class Rule:
    """What some actions do where the guard holds (None: everywhere), or in the states left."""

    actions: frozenset[int]
    guard: Term | None
    is_otherwise: bool
    branches: tuple[Branch, ...]
    span: Span  # of the whole line
    branches_span: Span


@dataclass(frozen=True, eq=False)
class Reward:
    """A reward that the pairs of some actions get where the guard holds."""

    actions: frozenset[int]
    guard: Term | None
    value: Term


@dataclass(frozen=True, eq=False)
class Init:
    """Where a run starts: each variable on its own, or uniformly where a guard holds.

    A variable without a spread is uniform over its cells.
    """

    spreads: Mapping[str, Spread]
    guard: Term | None
    span: Span


@dataclass(frozen=True)
class Discretization:
    """How a cell becomes points: `center`, `uniform` (per axis), or `sample` (per cell)."""

    method: str
    number: int = 1
    seed: int = 0


@dataclass(frozen=True, eq=False)
class LogColumn:
    """Where a log has the value of a variable."""

    key: str
    term: Term


@dataclass(frozen=True, eq=False)
class CheckedModel:
    """A model file after names and types.

    `diagnostics` may hold errors: then `can_expand` tells whether enough is left to look for the
    mistakes that show in states, and `broken_actions` whose lines could not all be understood.
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
    rules: tuple[Rule, ...]
    equations: Mapping[str, Term]
    rewards: tuple[Reward, ...]
    labels: Mapping[str, Term]
    restarts: tuple[Term, ...]
    init: Init
    keeps_all_states: bool
    discretization: Discretization
    explore: Mapping[str, Value]
    log: tuple[LogColumn, ...]
    diagnostics: tuple[Diagnostic, ...]
    can_expand: bool
    broken_actions: frozenset[int]

    @property
    def has_dynamics(self) -> bool:
        """Whether the file says how the system moves."""
        return bool(self.rules or self.equations or self.broken_actions)


def spaces_alone(name: str, states: Product, actions: Product) -> CheckedModel:
    """Return a model of which nothing is known but its spaces, for graphs that have no file."""
    members = [m for v in (*states.variables, *actions.variables) for m in v.members]
    return CheckedModel(
        name=name,
        title=None,
        span=Span(0, 0),
        parameters={},
        parameter_types={},
        states=states,
        actions=actions,
        symbols={member: number for number, member in enumerate(dict.fromkeys(members))},
        noises=(),
        rules=(),
        equations={},
        rewards=(),
        labels={},
        restarts=(),
        init=Init({}, None, Span(0, 0)),
        keeps_all_states=True,
        discretization=Discretization("none"),
        explore={},
        log=(),
        diagnostics=(),
        can_expand=False,
        broken_actions=frozenset(),
    )
