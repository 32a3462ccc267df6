"""Typed expressions: names are resolved, constants folded, and every node has a type and a span.

Values are floats, except that Booleans are Booleans: integers are whole floats (exact up to 2^53),
and a member of an enumeration is the number of its symbol.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mdpdsl.diagnostics import Span


@dataclass(frozen=True)
class Type:
    """`bool`, `int`, `real`, or `enum` with the members a value may have."""

    kind: str
    members: frozenset[str] = frozenset()

    @property
    def is_number(self) -> bool:
        """Whether arithmetic applies."""
        return self.kind in ("int", "real")

    def __str__(self) -> str:
        if len(self.members) == 1:
            return f"`{next(iter(self.members))}`"
        if self.kind == "enum":
            return f"one of {{{', '.join(sorted(self.members))}}}"
        return {"bool": "a Boolean", "int": "an integer", "real": "a real number"}[self.kind]


BOOL = Type("bool")
INT = Type("int")
REAL = Type("real")


def accepts(wanted: Type, given: Type) -> bool:
    """Return whether a value of one type may be used where another is expected."""
    if wanted.kind == "enum":
        return given.kind == "enum" and bool(given.members & wanted.members)
    return wanted == given or (wanted == REAL and given == INT)


def join(one: Type, other: Type) -> Type | None:
    """Return the type of a value that has one type or the other."""
    if one.is_number and other.is_number:
        return INT if one == other == INT else REAL
    if one.kind == other.kind:
        return Type(one.kind, one.members | other.members)
    return None


@dataclass(frozen=True, eq=False)
class Term:
    """A typed expression."""

    type: Type = field(kw_only=True)
    span: Span = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Constant(Term):
    """A number that is known before the model runs."""

    value: float


@dataclass(frozen=True, eq=False)
class Read(Term):
    """The value of a variable: `kind` is state, action, noise, next or column."""

    kind: str
    name: str


@dataclass(frozen=True, eq=False)
class Apply(Term):
    """A built-in function or operator applied to terms."""

    function: str
    arguments: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class Logic(Term):
    """`and` or `or`, left to right: a later operand is evaluated only if it matters."""

    operator: str
    operands: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class Choose(Term):
    """The value of the first case whose condition holds."""

    cases: tuple[tuple[Term, Term], ...]
    otherwise: Term


@dataclass(frozen=True, eq=False)
class Named(Term):
    """A use of a `let`; all uses share one definition, so it is evaluated once."""

    name: str
    definition: Term
    definition_reads: frozenset[tuple[str, str]]


def parts(term: Term) -> tuple[Term, ...]:
    """Return the terms directly inside a term."""
    match term:
        case Apply():
            return term.arguments
        case Logic():
            return term.operands
        case Choose():
            return (*(part for case in term.cases for part in case), term.otherwise)
        case Named():
            return (term.definition,)
        case _:
            return ()


def reads(term: Term) -> frozenset[tuple[str, str]]:
    """Return every (kind, name) that a term reads, through lets."""
    found: set[tuple[str, str]] = set()
    pending = [term]
    while pending:
        current = pending.pop()
        if isinstance(current, Read):
            found.add((current.kind, current.name))
        elif isinstance(current, Named):
            found |= current.definition_reads
        else:
            pending += parts(current)
    return frozenset(found)
