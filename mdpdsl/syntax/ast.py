"""The syntax tree of a model file: what was written and where; names are not resolved yet.

Comparing trees ignores spans: two trees are equal if they say the same, wherever they occur.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from mdpdsl.diagnostics import Span


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """A part of the text.

    Comparison and `repr` are written here once: generating them for each of the many node types at
    every start would take longer than checking a small file.
    """

    span: Span = field(kw_only=True, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether two nodes say the same, wherever they occur."""
        if not isinstance(other, Node) or type(self) is not type(other):
            return False
        return _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash((type(self), _content(self)))

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name)!r}" for name in _compared(self)]
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, eq=False, repr=False)
class Ident(Node):
    """A name in its declaration, or in a reference outside an expression."""

    text: str


# Expressions


@dataclass(frozen=True, eq=False, repr=False)
class Expr(Node):
    """An expression; `depth` is the height of its tree."""

    depth: int = field(default=1, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Number(Expr):
    """A number as written; an integer unless it has a point or an exponent."""

    text: str

    @property
    def value(self) -> float:
        """The number."""
        return float(self.text.replace("_", ""))

    @property
    def is_whole(self) -> bool:
        """Whether it is written as an integer."""
        return not any(mark in self.text for mark in ".eE")


@dataclass(frozen=True, eq=False, repr=False)
class Boolean(Expr):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, eq=False, repr=False)
class Text(Expr):
    """A string in quotes: a setting, or a column of a log."""

    value: str


@dataclass(frozen=True, eq=False, repr=False)
class Name(Expr):
    """A parameter, variable, let, member of an enumeration, or constant."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Primed(Expr):
    """The next value of a state variable."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Expr):
    """`-x`, `+x` or `not x`."""

    operator: str
    operand: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Expr):
    """An arithmetic operation: `+ - * / % ^`."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Expr):
    """A chain such as `0 < x <= n`, with one operator fewer than operands."""

    operands: tuple[Expr, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Logical(Expr):
    """`and` or `or` over two or more operands."""

    operator: str
    operands: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Conditional(Expr):
    """`if c then a else if d then b else e`: cases in order, then the rest."""

    cases: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expr):
    """A call of a built-in function."""

    function: Ident
    arguments: tuple[Expr, ...]


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
    """`probability: updates`; no updates means `stay`."""

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


def children(expression: Expr) -> tuple[Expr, ...]:
    """Return the parts of an expression, left to right."""
    match expression:
        case Unary():
            return (expression.operand,)
        case Binary():
            return (expression.left, expression.right)
        case Comparison() | Logical():
            return expression.operands
        case Conditional():
            cases = tuple(part for case in expression.cases for part in case)
            return (*cases, expression.otherwise)
        case Call():
            return expression.arguments
        case _:
            return ()


def _compared(node: Node) -> tuple[str, ...]:
    """Return the names of the fields that are compared, which depend on the node's type only."""
    kind = type(node)
    if kind not in _COMPARED:
        _COMPARED[kind] = tuple(f.name for f in fields(kind) if f.compare)
    return _COMPARED[kind]


_COMPARED: dict[type, tuple[str, ...]] = {}


def _content(node: Node) -> tuple[object, ...]:
    return tuple(getattr(node, name) for name in _compared(node))
