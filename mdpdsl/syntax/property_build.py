"""From the parser's reductions to the syntax tree of properties: one method per rule.

What PRISM or Storm understands and we do not is refused here, with a diagnostic that names it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from mdpdsl.diagnostics import Diagnostic, ModelError, Span
from mdpdsl.syntax import nodes
from mdpdsl.syntax.expression_build import (
    Children,
    ExpressionBuilder,
    checked_depth,
    expr_of,
    first_of,
    ident_of,
    is_token,
    nodes_of,
    span_of,
    token_of,
)
from mdpdsl.syntax.property_ast import (
    Bound,
    Constant,
    Interval,
    LabelDefinition,
    NamedQuery,
    PathFormula,
    PropertiesFile,
    Query,
    RewardFormula,
)


class PropertyBuilder(ExpressionBuilder):
    """The parser's callbacks."""

    def file(self, children: Children) -> PropertiesFile:
        return PropertiesFile(nodes_of(children, nodes.Node))  # type: ignore[arg-type]

    def constant(self, children: Children) -> Constant:
        kinds = [k for k in ("INT", "DOUBLE", "BOOL") if is_token(children[1], k)]
        kind = kinds[0].lower() if kinds else "int"  # PRISM's default
        name = next(child for child in children if is_token(child, "NAME"))
        value = first_of(children, nodes.Expr)
        return Constant(kind, ident_of(name), value, span=span_of(children))

    def label(self, children: Children) -> LabelDefinition:
        return LabelDefinition(_quoted(children[1]), expr_of(children[3]), span=span_of(children))

    def named(self, children: Children) -> NamedQuery:
        name = _quoted(children[0]) if is_token(children[0], "STRING") else None
        query = first_of(children, Query)
        assert query is not None
        return NamedQuery(name, query, span=span_of(children))

    # What is asked

    def probability(self, children: Children) -> Query:
        return self._query(children, None)

    def reward(self, children: Children) -> Query:
        structure = first_of(children, _Structure)
        return self._query(children, structure.name if structure else None)

    def _query(self, children: Children, reward: nodes.Ident | None) -> Query:
        relation = cast(_Relation, first_of(children, _Relation))
        words = [token_of(c).value for c in children[:3] if not isinstance(c, nodes.Node)]
        directions = [d for d in ("max", "min") if any(word.endswith(d) for word in words)]
        formula = cast(PathFormula | RewardFormula, children[-2])
        return Query(
            direction=directions[0] if directions else None,
            comparison=relation.comparison,
            threshold=relation.threshold,
            formula=formula,
            reward=reward,
            span=span_of(children),
        )

    def structure(self, children: Children) -> _Structure:
        return _Structure(_quoted(children[1]), span=span_of(children))

    def asked(self, children: Children) -> _Relation:
        return _Relation(None, None, span=span_of(children))

    def compared(self, children: Children) -> _Relation:
        return _Relation(token_of(children[0]).value, expr_of(children[1]), span=span_of(children))

    # Formulas

    def unary_path(self, children: Children) -> PathFormula:
        return PathFormula(
            token_of(children[0]).value,
            None,
            expr_of(children[-1]),
            _bound(children),
            span=span_of(children),
        )

    def binary_path(self, children: Children) -> PathFormula:
        return PathFormula(
            token_of(children[1]).value,
            expr_of(children[0]),
            expr_of(children[-1]),
            _bound(children),
            span=span_of(children),
        )

    def path_parenthesis(self, children: Children) -> PathFormula:
        inner = first_of(children, PathFormula)
        assert inner is not None
        return replace(inner, span=span_of(children))

    def reward_until(self, children: Children) -> RewardFormula:
        return RewardFormula("F", goal=expr_of(children[1]), span=span_of(children))

    def bounded_reward(self, children: Children) -> RewardFormula:
        bound = cast(nodes.Node, children[1])
        what = "a bound on the steps of a reward until a goal"
        raise refused(what, bound.span, "write `[ F … ]`, or `[ C<=k ]` for the next k steps")

    def cumulative(self, children: Children) -> RewardFormula:
        bound = Bound(token_of(children[1]).value, expr_of(children[2]), span=span_of(children[1:]))
        return RewardFormula("C", bound=bound, span=span_of(children))

    def total(self, children: Children) -> RewardFormula:
        help_text = (
            'write `[ F "goal" ]` for the reward until a goal, `[ C<=k ]` for the next k steps, or '
            "`[ Cdiscount=0.95 ]`"
        )
        raise refused("the total reward without an end", span_of(children), help_text)

    def discounted(self, children: Children) -> RewardFormula:
        return RewardFormula("D", discount=expr_of(children[2]), span=span_of(children))

    def average(self, children: Children) -> RewardFormula:
        return RewardFormula("S", span=span_of(children))

    def instantaneous(self, children: Children) -> RewardFormula:
        help_text = "write `[ C<=k ]` for the sum of the rewards of the next k steps"
        raise refused("the reward at one step", span_of(children), help_text)

    def bound(self, children: Children) -> Bound:
        return Bound(token_of(children[0]).value, expr_of(children[1]), span=span_of(children))

    def interval(self, children: Children) -> Interval:
        return Interval(expr_of(children[1]), expr_of(children[3]), span=span_of(children))

    # Expressions

    def implication(self, children: Children) -> nodes.Expr:
        left, right = expr_of(children[0]), expr_of(children[2])
        return checked_depth(nodes.Implication(left, right, span=span_of(children)))

    def equivalence(self, children: Children) -> nodes.Expr:
        left, right = expr_of(children[0]), expr_of(children[2])
        return checked_depth(nodes.Equivalence(left, right, span=span_of(children)))

    def comparison(self, children: Children) -> nodes.Expr:
        operator = token_of(children[1]).value
        operands = nodes_of(children, nodes.Expr)
        operator = "==" if operator == "=" else operator
        return checked_depth(nodes.Comparison(operands, (operator,), span=span_of(children)))


def refused(what: str, span: Span, help_text: str | None) -> ModelError:
    """Return the error for what properties of other tools may have and ours may not."""
    return ModelError([Diagnostic("E105", f"{what} is not supported", span, help_text)])


# Nodes that exist only between two reductions


@dataclass(frozen=True)
class _Relation(nodes.Node):
    comparison: str | None
    threshold: nodes.Expr | None


@dataclass(frozen=True)
class _Structure(nodes.Node):
    name: nodes.Ident


def _quoted(child: object) -> nodes.Ident:
    """Return the name in a string, with the span of the name itself."""
    token = token_of(child)  # type: ignore[arg-type]
    span = Span(token.start_pos + 1, token.end_pos - 1)
    return nodes.Ident(token.value[1:-1], span=span)


def _bound(children: Children) -> Bound | Interval | None:
    return first_of(children, Bound) or first_of(children, Interval)
