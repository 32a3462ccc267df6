"""From the syntax tree of a property back to text, in the canonical layout."""

from __future__ import annotations

from mdpdsl.syntax import nodes
from mdpdsl.syntax.property_ast import Bound, Interval, PathFormula, Query, RewardFormula


def format_query(query: Query) -> str:
    """Return the text of a property."""
    structure = f'{{"{query.reward.text}"}}' if query.reward is not None else ""
    head = f"{'R' if query.is_reward else 'P'}{structure}{query.direction or ''}"
    relation = "=?"
    if query.comparison is not None and query.threshold is not None:
        relation = f"{query.comparison}{_value(query.threshold)}"
    return f"{head}{relation} [ {format_formula(query.formula)} ]"


def format_formula(formula: PathFormula | RewardFormula) -> str:
    """Return the text between the brackets."""
    if isinstance(formula, PathFormula):
        left = f"{format_condition(formula.left)} " if formula.left is not None else ""
        operator = f"{formula.operator}{_bound(formula.bound)}"
        right = format_condition(formula.right)
        if isinstance(formula.bound, Bound) and right.startswith("-"):
            right = f"({right})"  # or the minus sign would belong to the bound
        return f"{left}{operator} {right}"
    if formula.goal is not None:
        return f"F {format_condition(formula.goal)}"
    if formula.bound is not None:
        return f"C{_bound(formula.bound)}"
    return "S" if formula.discount is None else f"Cdiscount={_value(formula.discount)}"


def format_condition(expression: nodes.Expr) -> str:
    """Return the text of an expression in PRISM's syntax."""
    return _expression(expression, _TOP)


def _value(expression: nodes.Expr) -> str:
    """Return a bound or a threshold: a number, a name, or an expression in parentheses."""
    text = format_condition(expression)
    return text if isinstance(expression, nodes.Number | nodes.Name) else f"({text})"


def _bound(bound: Bound | Interval | None) -> str:
    match bound:
        case Bound():
            return f"{bound.operator}{_value(bound.value)}"
        case Interval():
            return f"[{format_condition(bound.low)}, {format_condition(bound.high)}]"
        case None:
            return ""


# Expressions, with no more parentheses than they need

_TOP, _IMPLIES, _IFF, _OR, _AND, _NOT, _EQUAL, _ORDER, _SUM, _PRODUCT, _SIGN, _ATOM = range(12)
_LEVEL = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}


def _expression(expression: nodes.Expr, least: int) -> str:
    """Return the text, in parentheses if it binds less tightly than its context requires."""
    text, level = _text_and_level(expression)
    return text if level >= least else f"({text})"


def _text_and_level(expression: nodes.Expr) -> tuple[str, int]:
    match expression:
        case nodes.Number():
            return expression.text, _ATOM
        case nodes.Boolean():
            return "true" if expression.value else "false", _ATOM
        case nodes.Text():
            return f'"{expression.value}"', _ATOM
        case nodes.Name():
            return expression.name, _ATOM
        case nodes.Call():
            arguments = ", ".join(map(format_condition, expression.arguments))
            return f"{expression.function.text}({arguments})", _ATOM
        case nodes.Unary(operator="not"):
            return f"!{_expression(expression.operand, _NOT)}", _NOT
        case nodes.Unary():
            return f"-{_expression(expression.operand, _SIGN)}", _SIGN
        case nodes.Binary():
            level = _LEVEL[expression.operator]
            space = "" if level == _PRODUCT else " "
            left = _expression(expression.left, level)
            right = _expression(expression.right, level + 1)
            return f"{left}{space}{expression.operator}{space}{right}", level
        case nodes.Comparison():
            return _comparison(expression)
        case nodes.Logical():
            level, sign = (_AND, "&") if expression.operator == "and" else (_OR, "|")
            operands = [_expression(operand, level + 1) for operand in expression.operands]
            return f" {sign} ".join(operands), level
        case nodes.Implication():
            left = _expression(expression.left, _IMPLIES)
            return f"{left} => {_expression(expression.right, _IFF)}", _IMPLIES
        case nodes.Equivalence():
            left = _expression(expression.left, _IFF)
            return f"{left} <=> {_expression(expression.right, _OR)}", _IFF
        case nodes.Conditional():
            cases = "".join(
                f"{_expression(condition, _IMPLIES)} ? {_expression(value, _IMPLIES)} : "
                for condition, value in expression.cases
            )
            return f"{cases}{_expression(expression.otherwise, _TOP)}", _TOP
    raise AssertionError(expression)


def _comparison(expression: nodes.Comparison) -> tuple[str, int]:
    left, right = expression.operands
    (operator,) = expression.operators
    if operator in ("==", "!="):
        sign = "=" if operator == "==" else operator
        text = f"{_expression(left, _EQUAL)} {sign} {_expression(right, _ORDER)}"
        return text, _EQUAL
    return f"{_expression(left, _SUM)} {operator} {_expression(right, _SUM)}", _ORDER
