"""The syntax tree of a model file: its statements; names are not resolved yet.

Expressions, and what all nodes have in common, are in `nodes`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mdpdsl.syntax.nodes import (
    Binary as Binary,
)
from mdpdsl.syntax.nodes import (
    Boolean as Boolean,
)
from mdpdsl.syntax.nodes import (
    Call as Call,
)
from mdpdsl.syntax.nodes import (
    Comparison as Comparison,
)
from mdpdsl.syntax.nodes import (
    Conditional as Conditional,
)
from mdpdsl.syntax.nodes import (
    Equivalence as Equivalence,
)
from mdpdsl.syntax.nodes import (
    Expr as Expr,
)
from mdpdsl.syntax.nodes import (
    Ident as Ident,
)
from mdpdsl.syntax.nodes import (
    Implication as Implication,
)
from mdpdsl.syntax.nodes import (
    Logical as Logical,
)
from mdpdsl.syntax.nodes import (
    Name as Name,
)
from mdpdsl.syntax.nodes import (
    Node as Node,
)
from mdpdsl.syntax.nodes import (
    Number as Number,
)
from mdpdsl.syntax.nodes import (
    Open as Open,
)
from mdpdsl.syntax.nodes import (
    Primed as Primed,
)
from mdpdsl.syntax.nodes import (
    Text as Text,
)
from mdpdsl.syntax.nodes import (
    Unary as Unary,
)
from mdpdsl.syntax.nodes import (
    children as children,
)
from mdpdsl.syntax.property_ast import Query

# Domains and distributions


@dataclass(frozen=True, eq=False, repr=False)
class RangeDomain(Node):
    """Integers `low..high`, both included."""

    low: Expr
    high: Expr


@dataclass(frozen=True, eq=False, repr=False)
class SetDomain(Node):
    """Names or numbers in braces."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class BoolDomain(Node):
    """`bool`."""


@dataclass(frozen=True, eq=False, repr=False)
class RealOption(Node):
    """`wrap`, `clip`, `bins N` or `edges [...]` after an interval."""

    kind: str
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class RealDomain(Node):
    """An interval `[low, high]` with its options."""

    low: Expr
    high: Expr
    options: tuple[RealOption, ...]


Domain = RangeDomain | SetDomain | BoolDomain | RealDomain


@dataclass(frozen=True, eq=False, repr=False)
class NamedDistribution(Node):
    """`normal(mu, sd)` or `uniform(a, b)`."""

    family: Ident
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class DiscreteDistribution(Node):
    """`{value: probability, …}`."""

    weights: tuple[tuple[Expr, Expr], ...]


Distribution = NamedDistribution | DiscreteDistribution


# Statements


@dataclass(frozen=True, eq=False, repr=False)
class Header(Node):
    """`mdp NAME "title"`."""

    name: Ident
    title: str | None


@dataclass(frozen=True, eq=False, repr=False)
class Param(Node):
    """`param NAME = expr`."""

    name: Ident
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Unknown(Node):
    """`unknown NAME in [low, high] [= value]`."""

    name: Ident
    low: Expr
    high: Expr
    value: Expr | None = None


@dataclass(frozen=True, eq=False, repr=False)
class State(Node):
    """`state NAME in domain`."""

    name: Ident
    domain: Domain


@dataclass(frozen=True, eq=False, repr=False)
class ActionNames(Node):
    """`action left, right`."""

    names: tuple[Ident, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ActionFactor(Node):
    """`action NAME in domain`."""

    name: Ident
    domain: Domain


@dataclass(frozen=True, eq=False, repr=False)
class Noise(Node):
    """`noise NAME ~ distribution`."""

    name: Ident
    distribution: Distribution


@dataclass(frozen=True, eq=False, repr=False)
class Let(Node):
    """`let NAME = expr`."""

    name: Ident
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class InitItem(Node):
    """One variable of `init`: a value, or a distribution to draw from."""

    name: Ident
    value: Expr | Distribution


@dataclass(frozen=True, eq=False, repr=False)
class Init(Node):
    """`init x = 0, v ~ …`, or with no items `init any [when guard]`."""

    items: tuple[InitItem, ...]
    guard: Expr | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Update(Node):
    """`x' = expr` within a branch, or on its own as an equation."""

    name: Ident
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Branch(Node):
    """`probability: updates`; no updates means `stay`. An unknown probability is `Open`."""

    probability: Expr | None
    updates: tuple[Update, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Node):
    """`on actions [when guard | otherwise] -> branches`; no actions means `any`."""

    actions: tuple[Ident, ...]
    guard: Expr | None
    is_otherwise: bool
    branches: tuple[Branch, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Equation(Node):
    """`x' = expr`, for all actions and states."""

    update: Update


@dataclass(frozen=True, eq=False, repr=False)
class Reward(Node):
    """`reward [NAME] [on actions] [when guard] : expr`; `actions` is None without `on`."""

    name: Ident | None
    actions: tuple[Ident, ...] | None
    guard: Expr | None
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Label(Node):
    """`label NAME when guard`."""

    name: Ident
    guard: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Property(Node):
    """`property NAME = query`."""

    name: Ident
    query: Query


@dataclass(frozen=True, eq=False, repr=False)
class Restart(Node):
    """`restart when guard`."""

    guard: Expr


@dataclass(frozen=True, eq=False, repr=False)
class End(Node):
    """`end when guard`."""

    guard: Expr


@dataclass(frozen=True, eq=False, repr=False)
class StatesAll(Node):
    """`states all`."""


@dataclass(frozen=True, eq=False, repr=False)
class Discretize(Node):
    """`discretize center | uniform points K | sample N seed K`."""

    method: str
    number: Expr | None = None
    seed: Expr | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Entry(Node):
    """`key = expr` in a block; a key may be primed."""

    key: Ident
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Explore(Node):
    """`explore { … }`: settings of a run."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Log(Node):
    """`log { … }`: the columns of a log file."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Table(Node):
    """`table actions { header row row … }`, as a flat list of cells."""

    actions: tuple[Ident, ...]
    cells: tuple[Expr, ...]


Statement = (
    Header
    | Param
    | Unknown
    | State
    | ActionNames
    | ActionFactor
    | Noise
    | Let
    | Init
    | Rule
    | Equation
    | Reward
    | Label
    | Property
    | Restart
    | End
    | StatesAll
    | Discretize
    | Explore
    | Log
    | Table
)


@dataclass(frozen=True)
class ModelFile:
    """The statements of a file, in order."""

    statements: tuple[Statement, ...]
