"""The nodes of syntax trees: what was written and where; and expressions.

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
class Open(Expr):
    """`?` or `?=value` in place of a probability: it is unknown, perhaps with a truth to simulate.

    Only branches and cells of tables have it.
    """

    value: Expr | None = None


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


# In properties only


@dataclass(frozen=True, eq=False, repr=False)
class Implication(Expr):
    """`left => right`: if the one holds, so does the other."""

    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Equivalence(Expr):
    """`left <=> right`: both hold, or neither does."""

    left: Expr
    right: Expr


def children(expression: Expr) -> tuple[Expr, ...]:
    """Return the parts of an expression, left to right."""
    match expression:
        case Unary():
            return (expression.operand,)
        case Open():
            return () if expression.value is None else (expression.value,)
        case Binary() | Implication() | Equivalence():
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
