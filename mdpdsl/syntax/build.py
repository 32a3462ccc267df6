"""From the parser's reductions to syntax tree nodes: one method per rule of the grammar.

Each method receives the rule's children from left to right: tokens, and nodes already built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from mdpdsl.diagnostics import Diagnostic, ModelError
from mdpdsl.syntax import ast
from mdpdsl.syntax.expression_build import (
    Child,
    Children,
    ExpressionBuilder,
    expr_of,
    first_of,
    ident_of,
    idents_of,
    is_token,
    nodes_of,
    span_of,
    token_of,
)
from mdpdsl.syntax.property_parse import parse_query


class Builder(ExpressionBuilder):
    """The parser's callbacks."""

    def start(self, children: Children) -> ast.ModelFile:
        return ast.ModelFile(tuple(cast(Sequence[ast.Statement], children)))

    # Statements

    def header(self, children: Children) -> ast.Header:
        title = token_of(children[2]).value[1:-1] if len(children) > 2 else None
        return ast.Header(ident_of(children[1]), title, span=span_of(children))

    def param(self, children: Children) -> ast.Param:
        return ast.Param(ident_of(children[1]), expr_of(children[3]), span=span_of(children))

    def unknown(self, children: Children) -> ast.Unknown:
        low, high, *rest = nodes_of(children, ast.Expr)
        value = rest[0] if rest else None
        return ast.Unknown(ident_of(children[1]), low, high, value, span=span_of(children))

    def state(self, children: Children) -> ast.State:
        return ast.State(ident_of(children[1]), _domain(children[3]), span=span_of(children))

    def action_names(self, children: Children) -> ast.ActionNames:
        return ast.ActionNames(idents_of(children[1:]), span=span_of(children))

    def action_factor(self, children: Children) -> ast.ActionFactor:
        return ast.ActionFactor(ident_of(children[1]), _domain(children[3]), span=span_of(children))

    def noise(self, children: Children) -> ast.Noise:
        distribution = cast(ast.Distribution, children[3])
        return ast.Noise(ident_of(children[1]), distribution, span=span_of(children))

    def let(self, children: Children) -> ast.Let:
        return ast.Let(ident_of(children[1]), expr_of(children[3]), span=span_of(children))

    def init_any(self, children: Children) -> ast.Init:
        guard = expr_of(children[3]) if len(children) > 2 else None
        return ast.Init((), guard, span=span_of(children))

    def init(self, children: Children) -> ast.Init:
        return ast.Init(nodes_of(children, ast.InitItem), span=span_of(children))

    def init_value(self, children: Children) -> ast.InitItem:
        return ast.InitItem(ident_of(children[0]), expr_of(children[2]), span=span_of(children))

    def init_draw(self, children: Children) -> ast.InitItem:
        distribution = cast(ast.Distribution, children[2])
        return ast.InitItem(ident_of(children[0]), distribution, span=span_of(children))

    def rule(self, children: Children) -> ast.Rule:
        condition = first_of(children, _Condition)
        return ast.Rule(
            actions=_action_list(children[1]),
            guard=condition.guard if condition else None,
            is_otherwise=condition is not None and condition.guard is None,
            branches=nodes_of(children, ast.Branch),
            span=span_of(children),
        )

    def equation(self, children: Children) -> ast.Equation:
        return ast.Equation(self.update(children), span=span_of(children))

    def reward(self, children: Children) -> ast.Reward:
        actions = first_of(children, _ActionList)
        condition = first_of(children, _Condition)
        if condition is not None and condition.guard is None:
            message = "a reward cannot have `otherwise`: all reward lines that apply add up"
            help_text = "write `reward on … when GUARD : value`"
            raise ModelError([Diagnostic("E101", message, condition.span, help_text)])
        return ast.Reward(
            name=ident_of(children[1]) if is_token(children[1], "NAME") else None,
            actions=actions.names if actions else None,
            guard=condition.guard if condition else None,
            value=expr_of(children[-1]),
            span=span_of(children),
        )

    def label(self, children: Children) -> ast.Label:
        return ast.Label(ident_of(children[1]), expr_of(children[3]), span=span_of(children))

    def property(self, children: Children) -> ast.Property:
        body = token_of(children[3])
        query = parse_query(body.value, body.start_pos)
        return ast.Property(ident_of(children[1]), query, span=span_of(children))

    def restart(self, children: Children) -> ast.Restart:
        return ast.Restart(expr_of(children[2]), span=span_of(children))

    def end(self, children: Children) -> ast.End:
        return ast.End(expr_of(children[2]), span=span_of(children))

    def states(self, children: Children) -> ast.StatesAll:
        return ast.StatesAll(span=span_of(children))

    def discretize_center(self, children: Children) -> ast.Discretize:
        return ast.Discretize("center", span=span_of(children))

    def discretize_uniform(self, children: Children) -> ast.Discretize:
        number = expr_of(children[3]) if len(children) > 2 else None
        return ast.Discretize("uniform", number, span=span_of(children))

    def discretize_sample(self, children: Children) -> ast.Discretize:
        seed = expr_of(children[4]) if len(children) > 3 else None
        return ast.Discretize("sample", expr_of(children[2]), seed, span=span_of(children))

    def explore(self, children: Children) -> ast.Explore:
        return ast.Explore(nodes_of(children, ast.Entry), span=span_of(children))

    def log(self, children: Children) -> ast.Log:
        return ast.Log(nodes_of(children, ast.Entry), span=span_of(children))

    def entry(self, children: Children) -> ast.Entry:
        return ast.Entry(ident_of(children[0]), expr_of(children[2]), span=span_of(children))

    def table(self, children: Children) -> ast.Table:
        cells: list[ast.Expr] = []
        for child in children[3:-1]:
            if isinstance(child, ast.Expr):
                cells.append(child)
            else:
                cells.append(
                    self.name([child]) if is_token(child, "NAME") else self.number([child])
                )
        return ast.Table(_action_list(children[1]), tuple(cells), span=span_of(children))

    def cell_expression(self, children: Children) -> ast.Expr:
        return expr_of(children[1])

    def open(self, children: Children) -> ast.Open:
        value = expr_of(children[2]) if len(children) > 1 else None
        return ast.Open(value, span=span_of(children))

    def open_cell(self, children: Children) -> ast.Open:
        given = children[2]
        if is_token(given, "LPAREN"):
            value = expr_of(children[3])
        else:
            value = self.name([given]) if is_token(given, "NAME") else self.number([given])
        return ast.Open(value, span=span_of(children))

    # Parts of statements

    def any_action(self, children: Children) -> _ActionList:
        return _ActionList((), span=span_of(children))

    def named_actions(self, children: Children) -> _ActionList:
        return _ActionList(idents_of(children), span=span_of(children))

    def when(self, children: Children) -> _Condition:
        return _Condition(expr_of(children[1]), span=span_of(children))

    def otherwise(self, children: Children) -> _Condition:
        return _Condition(None, span=span_of(children))

    def weighted_branch(self, children: Children) -> ast.Branch:
        updates = cast(_Updates, children[2]).updates
        return ast.Branch(expr_of(children[0]), updates, span=span_of(children))

    def sure_branch(self, children: Children) -> ast.Branch:
        return ast.Branch(None, cast(_Updates, children[0]).updates, span=span_of(children))

    def stay(self, children: Children) -> _Updates:
        return _Updates((), span=span_of(children))

    def updates(self, children: Children) -> _Updates:
        return _Updates(nodes_of(children, ast.Update), span=span_of(children))

    def update(self, children: Children) -> ast.Update:
        token = token_of(children[0])
        name = ast.Ident(token.value[:-1], span=span_of([token]))
        return ast.Update(name, expr_of(children[2]), span=span_of(children))

    # Domains and distributions

    def range_domain(self, children: Children) -> ast.RangeDomain:
        return ast.RangeDomain(expr_of(children[0]), expr_of(children[2]), span=span_of(children))

    def set_domain(self, children: Children) -> ast.SetDomain:
        return ast.SetDomain(nodes_of(children, ast.Expr), span=span_of(children))

    def bool_domain(self, children: Children) -> ast.BoolDomain:
        return ast.BoolDomain(span=span_of(children))

    def real_domain(self, children: Children) -> ast.RealDomain:
        options = nodes_of(children, ast.RealOption)
        low, high = expr_of(children[1]), expr_of(children[3])
        return ast.RealDomain(low, high, options, span=span_of(children))

    def wrap_option(self, children: Children) -> ast.RealOption:
        return ast.RealOption("wrap", span=span_of(children))

    def clip_option(self, children: Children) -> ast.RealOption:
        return ast.RealOption("clip", span=span_of(children))

    def bins_option(self, children: Children) -> ast.RealOption:
        return ast.RealOption("bins", nodes_of(children, ast.Expr), span=span_of(children))

    def edges_option(self, children: Children) -> ast.RealOption:
        return ast.RealOption("edges", nodes_of(children, ast.Expr), span=span_of(children))

    def named_distribution(self, children: Children) -> ast.NamedDistribution:
        arguments = nodes_of(children, ast.Expr)
        return ast.NamedDistribution(ident_of(children[0]), arguments, span=span_of(children))

    def discrete_distribution(self, children: Children) -> ast.DiscreteDistribution:
        weights = tuple(child.pair for child in children if isinstance(child, _Weight))
        return ast.DiscreteDistribution(weights, span=span_of(children))

    def weight(self, children: Children) -> _Weight:
        return _Weight((expr_of(children[0]), expr_of(children[2])), span=span_of(children))

    # Expressions

    def primed(self, children: Children) -> ast.Expr:
        return ast.Primed(token_of(children[0]).value[:-1], span=span_of(children))


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


def _domain(child: Child) -> ast.Domain:
    return cast(ast.Domain, child)


def _action_list(child: Child) -> tuple[ast.Ident, ...]:
    assert isinstance(child, _ActionList)
    return child.names
