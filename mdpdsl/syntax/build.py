"""From the parser's reductions to syntax tree nodes: one method per rule of the grammar.

Each method receives the rule's children from left to right: tokens, and nodes already built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, cast

from mdpdsl.diagnostics import Diagnostic, ModelError, Span
from mdpdsl.syntax import ast

#: Deeper expressions are rejected, so every pass over expressions can recurse safely.
MAX_DEPTH = 120


class Token(Protocol):
    """A token from the lexer."""

    type: str
    value: str
    start_pos: int
    end_pos: int


Child = Token | ast.Node
Children = Sequence[Child]
N = TypeVar("N", bound=ast.Node)


class Builder:
    """The parser's callbacks."""

    def start(self, children: Children) -> ast.ModelFile:
        return ast.ModelFile(tuple(cast(Sequence[ast.Statement], children)))

    # Statements

    def header(self, children: Children) -> ast.Header:
        title = _token(children[2]).value[1:-1] if len(children) > 2 else None
        return ast.Header(_ident(children[1]), title, span=_span(children))

    def param(self, children: Children) -> ast.Param:
        return ast.Param(_ident(children[1]), _expr(children[3]), span=_span(children))

    def state(self, children: Children) -> ast.State:
        return ast.State(_ident(children[1]), _domain(children[3]), span=_span(children))

    def action_names(self, children: Children) -> ast.ActionNames:
        return ast.ActionNames(_idents(children[1:]), span=_span(children))

    def action_factor(self, children: Children) -> ast.ActionFactor:
        return ast.ActionFactor(_ident(children[1]), _domain(children[3]), span=_span(children))

    def noise(self, children: Children) -> ast.Noise:
        distribution = cast(ast.Distribution, children[3])
        return ast.Noise(_ident(children[1]), distribution, span=_span(children))

    def let(self, children: Children) -> ast.Let:
        return ast.Let(_ident(children[1]), _expr(children[3]), span=_span(children))

    def init_any(self, children: Children) -> ast.Init:
        guard = _expr(children[3]) if len(children) > 2 else None
        return ast.Init((), guard, span=_span(children))

    def init(self, children: Children) -> ast.Init:
        return ast.Init(_nodes(children, ast.InitItem), span=_span(children))

    def init_value(self, children: Children) -> ast.InitItem:
        return ast.InitItem(_ident(children[0]), _expr(children[2]), span=_span(children))

    def init_draw(self, children: Children) -> ast.InitItem:
        distribution = cast(ast.Distribution, children[2])
        return ast.InitItem(_ident(children[0]), distribution, span=_span(children))

    def rule(self, children: Children) -> ast.Rule:
        condition = _first(children, _Condition)
        return ast.Rule(
            actions=_action_list(children[1]),
            guard=condition.guard if condition else None,
            is_otherwise=condition is not None and condition.guard is None,
            branches=_nodes(children, ast.Branch),
            span=_span(children),
        )

    def equation(self, children: Children) -> ast.Equation:
        return ast.Equation(self.update(children), span=_span(children))

    def reward(self, children: Children) -> ast.Reward:
        actions = _first(children, _ActionList)
        condition = _first(children, _Condition)
        if condition is not None and condition.guard is None:
            message = "a reward cannot have `otherwise`: all reward lines that apply add up"
            help_text = "write `reward on … when GUARD : value`"
            raise ModelError([Diagnostic("E101", message, condition.span, help_text)])
        return ast.Reward(
            name=_ident(children[1]) if _is(children[1], "NAME") else None,
            actions=actions.names if actions else None,
            guard=condition.guard if condition else None,
            value=_expr(children[-1]),
            span=_span(children),
        )

    def label(self, children: Children) -> ast.Label:
        return ast.Label(_ident(children[1]), _expr(children[3]), span=_span(children))

    def restart(self, children: Children) -> ast.Restart:
        return ast.Restart(_expr(children[2]), span=_span(children))

    def end(self, children: Children) -> ast.End:
        return ast.End(_expr(children[2]), span=_span(children))

    def states(self, children: Children) -> ast.StatesAll:
        return ast.StatesAll(span=_span(children))

    def discretize_center(self, children: Children) -> ast.Discretize:
        return ast.Discretize("center", span=_span(children))

    def discretize_uniform(self, children: Children) -> ast.Discretize:
        number = _expr(children[3]) if len(children) > 2 else None
        return ast.Discretize("uniform", number, span=_span(children))

    def discretize_sample(self, children: Children) -> ast.Discretize:
        seed = _expr(children[4]) if len(children) > 3 else None
        return ast.Discretize("sample", _expr(children[2]), seed, span=_span(children))

    def explore(self, children: Children) -> ast.Explore:
        return ast.Explore(_nodes(children, ast.Entry), span=_span(children))

    def log(self, children: Children) -> ast.Log:
        return ast.Log(_nodes(children, ast.Entry), span=_span(children))

    def entry(self, children: Children) -> ast.Entry:
        return ast.Entry(_ident(children[0]), _expr(children[2]), span=_span(children))

    def table(self, children: Children) -> ast.Table:
        cells: list[ast.Expr] = []
        for child in children[3:-1]:
            if isinstance(child, ast.Expr):
                cells.append(child)
            else:
                cells.append(self.name([child]) if _is(child, "NAME") else self.number([child]))
        return ast.Table(_action_list(children[1]), tuple(cells), span=_span(children))

    def cell_expression(self, children: Children) -> ast.Expr:
        return _expr(children[1])

    # Parts of statements

    def any_action(self, children: Children) -> _ActionList:
        return _ActionList((), span=_span(children))

    def named_actions(self, children: Children) -> _ActionList:
        return _ActionList(_idents(children), span=_span(children))

    def when(self, children: Children) -> _Condition:
        return _Condition(_expr(children[1]), span=_span(children))

    def otherwise(self, children: Children) -> _Condition:
        return _Condition(None, span=_span(children))

    def weighted_branch(self, children: Children) -> ast.Branch:
        updates = cast(_Updates, children[2]).updates
        return ast.Branch(_expr(children[0]), updates, span=_span(children))

    def sure_branch(self, children: Children) -> ast.Branch:
        return ast.Branch(None, cast(_Updates, children[0]).updates, span=_span(children))

    def stay(self, children: Children) -> _Updates:
        return _Updates((), span=_span(children))

    def updates(self, children: Children) -> _Updates:
        return _Updates(_nodes(children, ast.Update), span=_span(children))

    def update(self, children: Children) -> ast.Update:
        token = _token(children[0])
        name = ast.Ident(token.value[:-1], span=_span([token]))
        return ast.Update(name, _expr(children[2]), span=_span(children))

    # Domains and distributions

    def range_domain(self, children: Children) -> ast.RangeDomain:
        return ast.RangeDomain(_expr(children[0]), _expr(children[2]), span=_span(children))

    def set_domain(self, children: Children) -> ast.SetDomain:
        return ast.SetDomain(_nodes(children, ast.Expr), span=_span(children))

    def bool_domain(self, children: Children) -> ast.BoolDomain:
        return ast.BoolDomain(span=_span(children))

    def real_domain(self, children: Children) -> ast.RealDomain:
        options = _nodes(children, ast.RealOption)
        low, high = _expr(children[1]), _expr(children[3])
        return ast.RealDomain(low, high, options, span=_span(children))

    def wrap_option(self, children: Children) -> ast.RealOption:
        return ast.RealOption("wrap", span=_span(children))

    def clip_option(self, children: Children) -> ast.RealOption:
        return ast.RealOption("clip", span=_span(children))

    def bins_option(self, children: Children) -> ast.RealOption:
        return ast.RealOption("bins", _nodes(children, ast.Expr), span=_span(children))

    def edges_option(self, children: Children) -> ast.RealOption:
        return ast.RealOption("edges", _nodes(children, ast.Expr), span=_span(children))

    def named_distribution(self, children: Children) -> ast.NamedDistribution:
        arguments = _nodes(children, ast.Expr)
        return ast.NamedDistribution(_ident(children[0]), arguments, span=_span(children))

    def discrete_distribution(self, children: Children) -> ast.DiscreteDistribution:
        weights = tuple(child.pair for child in children if isinstance(child, _Weight))
        return ast.DiscreteDistribution(weights, span=_span(children))

    def weight(self, children: Children) -> _Weight:
        return _Weight((_expr(children[0]), _expr(children[2])), span=_span(children))

    # Expressions

    def conditional(self, children: Children) -> ast.Expr:
        condition, value, otherwise = (_expr(children[i]) for i in (1, 3, 5))
        cases: tuple[tuple[ast.Expr, ast.Expr], ...] = ((condition, value),)
        depth = 1 + max(condition.depth, value.depth, otherwise.depth)
        if isinstance(otherwise, ast.Conditional):  # `else if` continues the chain
            depth = max(1 + condition.depth, 1 + value.depth, otherwise.depth)
            cases, otherwise = (*cases, *otherwise.cases), otherwise.otherwise
        return _checked(ast.Conditional(cases, otherwise, span=_span(children)), depth)

    def disjunction(self, children: Children) -> ast.Expr:
        return _checked(ast.Logical("or", _nodes(children, ast.Expr), span=_span(children)))

    def conjunction(self, children: Children) -> ast.Expr:
        return _checked(ast.Logical("and", _nodes(children, ast.Expr), span=_span(children)))

    def negation(self, children: Children) -> ast.Expr:
        return _checked(ast.Unary("not", _expr(children[1]), span=_span(children)))

    def comparison(self, children: Children) -> ast.Expr:
        operators = tuple(_token(child).value for child in children[1::2])
        operands = _nodes(children, ast.Expr)
        return _checked(ast.Comparison(operands, operators, span=_span(children)))

    def binary(self, children: Children) -> ast.Expr:
        operator = _token(children[1]).value
        left, right = _expr(children[0]), _expr(children[2])
        return _checked(ast.Binary(operator, left, right, span=_span(children)))

    def sign(self, children: Children) -> ast.Expr:
        operator = _token(children[0]).value
        return _checked(ast.Unary(operator, _expr(children[1]), span=_span(children)))

    def number(self, children: Children) -> ast.Expr:
        return ast.Number(_token(children[0]).value, span=_span(children))

    def text(self, children: Children) -> ast.Expr:
        return ast.Text(_token(children[0]).value[1:-1], span=_span(children))

    def boolean(self, children: Children) -> ast.Expr:
        return ast.Boolean(_token(children[0]).value == "true", span=_span(children))

    def name(self, children: Children) -> ast.Expr:
        return ast.Name(_token(children[0]).value, span=_span(children))

    def primed(self, children: Children) -> ast.Expr:
        return ast.Primed(_token(children[0]).value[:-1], span=_span(children))

    def call(self, children: Children) -> ast.Expr:
        arguments = _nodes(children[1:], ast.Expr)
        return _checked(ast.Call(_ident(children[0]), arguments, span=_span(children)))

    def parenthesis(self, children: Children) -> ast.Expr:
        return replace(_expr(children[1]), span=_span(children))


# Nodes that exist only between two reductions


@dataclass(frozen=True)
class _ActionList(ast.Node):
    names: tuple[ast.Ident, ...]


@dataclass(frozen=True)
class _Condition(ast.Node):
    guard: ast.Expr | None


@dataclass(frozen=True)
class _Updates(ast.Node):
    updates: tuple[ast.Update, ...]


@dataclass(frozen=True)
class _Weight(ast.Node):
    pair: tuple[ast.Expr, ast.Expr]


def _span(children: Children) -> Span:
    first, last = children[0], children[-1]
    start = first.span.start if isinstance(first, ast.Node) else first.start_pos
    end = last.span.end if isinstance(last, ast.Node) else last.end_pos
    return Span(start, end)


def _checked(expression: ast.Expr, depth: int | None = None) -> ast.Expr:
    """Reject an expression that is too deep; the depth is computed from its parts if not given."""
    if depth is None:
        depth = 1 + max((child.depth for child in ast.children(expression)), default=0)
    if depth > MAX_DEPTH:
        message = f"this expression is nested more than {MAX_DEPTH} levels deep"
        help_text = "give a part of it a name with `let`"
        raise ModelError([Diagnostic("E103", message, expression.span, help_text)])
    return replace(expression, depth=depth)


def _is(child: Child, token_type: str) -> bool:
    return not isinstance(child, ast.Node) and child.type == token_type


def _token(child: Child) -> Token:
    assert not isinstance(child, ast.Node)
    return child


def _ident(child: Child) -> ast.Ident:
    return ast.Ident(_token(child).value, span=_span([child]))


def _idents(children: Children) -> tuple[ast.Ident, ...]:
    return tuple(_ident(child) for child in children if _is(child, "NAME"))


def _expr(child: Child) -> ast.Expr:
    assert isinstance(child, ast.Expr)
    return child


def _domain(child: Child) -> ast.Domain:
    return cast(ast.Domain, child)


def _action_list(child: Child) -> tuple[ast.Ident, ...]:
    assert isinstance(child, _ActionList)
    return child.names


def _nodes(children: Children, kind: type[N]) -> tuple[N, ...]:
    return tuple(child for child in children if isinstance(child, kind))


def _first(children: Children, kind: type[N]) -> N | None:
    return next((child for child in children if isinstance(child, kind)), None)
