"""A property in words, for people who do not read PRISM's syntax every day."""

from __future__ import annotations

from mdpdsl.syntax.property_ast import Bound, Interval, PathFormula, Query, RewardFormula
from mdpdsl.syntax.property_format import format_condition

_COMPARED = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
_DIRECTIONS = {"max": "the largest ", "min": "the least "}


def in_words(query: Query) -> str:
    """Return what a property asks."""
    what = _reward(query) if isinstance(query.formula, RewardFormula) else _path(query.formula)
    if query.direction is not None:
        what = f"{_DIRECTIONS[query.direction]}{what}"
    if query.comparison is None or query.threshold is None:
        return what
    limit = f"{_COMPARED[query.comparison]} {format_condition(query.threshold)}"
    if query.direction is None:
        return f"whether under every policy the {what} is {limit}"
    return f"whether {what} is {limit}"


def _path(formula: PathFormula) -> str:
    right = f"`{format_condition(formula.right)}`"
    left = f"`{format_condition(formula.left)}`" if formula.left is not None else ""
    steps = _steps(formula.bound)
    match formula.operator:
        case "F":
            return f"probability of reaching {right}{steps}"
        case "G":
            return f"probability that {right} always holds{steps.replace(' within', ' for')}"
        case "X":
            return f"probability of {right} after one step"
        case "U":
            return f"probability of reaching {right}{steps}, with {left} until then"
        case "W":
            return f"probability of {left} until {right}, or for ever{steps}"
        case _:
            return f"probability of {right} until {left} holds as well, or for ever{steps}"


def _reward(query: Query) -> str:
    formula = query.formula
    assert isinstance(formula, RewardFormula)
    name = f"reward `{query.reward.text}`" if query.reward is not None else "reward"
    if formula.goal is not None:
        return f"expected sum of the {name} until `{format_condition(formula.goal)}`"
    if formula.bound is not None:
        return f"expected sum of the {name}{_steps(formula.bound)}"
    if formula.discount is not None:
        discount = format_condition(formula.discount)
        return f"expected sum of the {name}, discounted by {discount} at each step"
    return f"long-run average of the {name}"


def _steps(bound: Bound | Interval | None) -> str:
    if bound is None:
        return ""
    if isinstance(bound, Interval):
        low, high = format_condition(bound.low), format_condition(bound.high)
        return f" within {high} steps" if low == "0" else f" within {low} to {high} steps"
    limit = format_condition(bound.value)
    if bound.operator == "<=":
        return f" within {limit} step{'' if limit == '1' else 's'}"
    words = {"<": "fewer than", "=": "exactly", ">=": "at least", ">": "more than"}
    return f" in {words[bound.operator]} {limit} steps"
