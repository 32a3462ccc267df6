"""Expressions from the parser's reductions: what both grammars have in common.

Each method receives the rule's children from left to right: tokens, and nodes already built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from mdpdsl.diagnostics import Diagnostic, ModelError, Span
from mdpdsl.syntax import nodes

#: Deeper expressions are rejected, so every pass over expressions can recurse safely.
MAX_DEPTH = 120


class Token(Protocol):
    """A token from the lexer."""

    type: str
    value: str
    start_pos: int
    end_pos: int


Child = Token | nodes.Node
Children = Sequence[Child]
N = TypeVar("N", bound=nodes.Node)


class ExpressionBuilder:
    """The parser's callbacks for expressions."""

    def conditional(self, children: Children) -> nodes.Expr:
        condition, value, otherwise = nodes_of(children, nodes.Expr)
        cases: tuple[tuple[nodes.Expr, nodes.Expr], ...] = ((condition, value),)
        depth = 1 + max(condition.depth, value.depth, otherwise.depth)
        if isinstance(otherwise, nodes.Conditional):  # `else if` continues the chain
            depth = max(1 + condition.depth, 1 + value.depth, otherwise.depth)
            cases, otherwise = (*cases, *otherwise.cases), otherwise.otherwise
        return checked_depth(nodes.Conditional(cases, otherwise, span=span_of(children)), depth)

    def disjunction(self, children: Children) -> nodes.Expr:
        return checked_depth(
            nodes.Logical("or", nodes_of(children, nodes.Expr), span=span_of(children))
        )

    def conjunction(self, children: Children) -> nodes.Expr:
        return checked_depth(
            nodes.Logical("and", nodes_of(children, nodes.Expr), span=span_of(children))
        )

    def negation(self, children: Children) -> nodes.Expr:
        return checked_depth(nodes.Unary("not", expr_of(children[1]), span=span_of(children)))

    def comparison(self, children: Children) -> nodes.Expr:
        operators = tuple(token_of(child).value for child in children[1::2])
        operands = nodes_of(children, nodes.Expr)
        return checked_depth(nodes.Comparison(operands, operators, span=span_of(children)))

    def binary(self, children: Children) -> nodes.Expr:
        operator = token_of(children[1]).value
        left, right = expr_of(children[0]), expr_of(children[2])
        return checked_depth(nodes.Binary(operator, left, right, span=span_of(children)))

    def sign(self, children: Children) -> nodes.Expr:
        operator = token_of(children[0]).value
        return checked_depth(nodes.Unary(operator, expr_of(children[1]), span=span_of(children)))

    def number(self, children: Children) -> nodes.Expr:
        return nodes.Number(token_of(children[0]).value, span=span_of(children))

    def text(self, children: Children) -> nodes.Expr:
        return nodes.Text(token_of(children[0]).value[1:-1], span=span_of(children))

    def boolean(self, children: Children) -> nodes.Expr:
        return nodes.Boolean(token_of(children[0]).value == "true", span=span_of(children))

    def name(self, children: Children) -> nodes.Expr:
        return nodes.Name(token_of(children[0]).value, span=span_of(children))

    def call(self, children: Children) -> nodes.Expr:
        arguments = nodes_of(children[1:], nodes.Expr)
        return checked_depth(nodes.Call(ident_of(children[0]), arguments, span=span_of(children)))

    def parenthesis(self, children: Children) -> nodes.Expr:
        return replace(expr_of(children[1]), span=span_of(children))


def span_of(children: Children) -> Span:
    """Return the part of the text that the children of a rule cover."""
    first, last = children[0], children[-1]
    start = first.span.start if isinstance(first, nodes.Node) else first.start_pos
    end = last.span.end if isinstance(last, nodes.Node) else last.end_pos
    return Span(start, end)


def checked_depth(expression: nodes.Expr, depth: int | None = None) -> nodes.Expr:
    """Reject an expression that is too deep; the depth is computed from its parts if not given."""
    if depth is None:
        depth = 1 + max((child.depth for child in nodes.children(expression)), default=0)
    if depth > MAX_DEPTH:
        message = f"this expression is nested more than {MAX_DEPTH} levels deep"
        help_text = "give a part of it a name with `let`"
        raise ModelError([Diagnostic("E103", message, expression.span, help_text)])
    return replace(expression, depth=depth)


def is_token(child: Child, token_type: str) -> bool:
    """Return whether a child is a token of this type."""
    return not isinstance(child, nodes.Node) and child.type == token_type


def token_of(child: Child) -> Token:
    """Return a child that is a token."""
    assert not isinstance(child, nodes.Node)
    return child


def ident_of(child: Child) -> nodes.Ident:
    """Return the name in a token."""
    return nodes.Ident(token_of(child).value, span=span_of([child]))


def idents_of(children: Children) -> tuple[nodes.Ident, ...]:
    """Return all names among the children."""
    return tuple(ident_of(child) for child in children if is_token(child, "NAME"))


def expr_of(child: Child) -> nodes.Expr:
    """Return a child that is an expression."""
    assert isinstance(child, nodes.Expr)
    return child


def nodes_of(children: Children, kind: type[N]) -> tuple[N, ...]:
    """Return all children that are nodes of one kind."""
    return tuple(child for child in children if isinstance(child, kind))


def first_of(children: Children, kind: type[N]) -> N | None:
    """Return the first child of one kind."""
    return next((child for child in children if isinstance(child, kind)), None)
