"""The syntax tree of properties, in PRISM's syntax; names are not resolved yet.

Conditions are expressions (`nodes`): `&`, `|` and `!` are the nodes of `and`, `or` and `not`, `=`
is that of `==`, and a label in quotes is a `Text`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mdpdsl.syntax.nodes import Expr, Ident, Node


@dataclass(frozen=True, eq=False, repr=False)
class Bound(Node):
    """A bound on the number of steps: `<=k`, `<k`, `=k`, `>=k` or `>k`."""

    operator: str
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Interval(Node):
    """Two bounds on the number of steps, `[low,high]`, both included."""

    low: Expr
    high: Expr


@dataclass(frozen=True, eq=False, repr=False)
class PathFormula(Node):
    """`F right`, `G right`, `X right`, `left U right`, `left W right` or `left R right`."""

    operator: str
    left: Expr | None
    right: Expr
    bound: Bound | Interval | None = None


@dataclass(frozen=True, eq=False, repr=False)
class RewardFormula(Node):
    """`F goal`, `C<=k` (a bound), `Cdiscount=g` (`D`), or `S`, the long-run average."""

    operator: str
    goal: Expr | None = None
    bound: Bound | None = None
    discount: Expr | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Query(Node):
    """What is asked: `Pmax=? [ path ]`, `R{"reward"}min>=3 [ reward formula ]`, `P<0.1 [ path ]`.

    `direction` is `max`, `min`, or None if every policy is meant. Without a comparison, the value
    is asked for.
    """

    direction: str | None
    comparison: str | None
    threshold: Expr | None
    formula: PathFormula | RewardFormula
    reward: Ident | None = None

    @property
    def is_reward(self) -> bool:
        """Whether it is about a reward, and not about a probability."""
        return isinstance(self.formula, RewardFormula)


# Files of properties


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Node):
    """`const int k;` or `const double p = 0.5;`: `kind` is int, double or bool."""

    kind: str
    name: Ident
    value: Expr | None


@dataclass(frozen=True, eq=False, repr=False)
class LabelDefinition(Node):
    """`label "name" = condition;`."""

    name: Ident
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class NamedQuery(Node):
    """`"name": query;`, or without a name."""

    name: Ident | None
    query: Query


@dataclass(frozen=True)
class PropertiesFile:
    """The constants, labels and properties of a file, in order."""

    items: tuple[Constant | LabelDefinition | NamedQuery, ...]
