"""Typed expressions evaluated over whole arrays.

A fault (division by zero, the square root of a negative number) does not raise an exception.
Evaluation continues and records the rows without a value, except where `if`, `and` or `or` does not
use the faulty part. So one pass checks a whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.terms import Apply, Choose, Constant, Logic, Named, Read, Term
from mdpdsl.diagnostics import Span
from mdpdsl.graph.space import BoolArray

#: Numbers, or Booleans.
Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Fault:
    """Rows in which an operation has no value."""

    message: str
    span: Span
    rows: BoolArray  # broadcasts to the length of the frame


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Values, one per row or one for all rows, and the faults in some rows."""

    values: Array
    faults: tuple[Fault, ...] = ()


@dataclass(eq=False)
class Frame:
    """The values that expressions read: arrays of one length, or scalars."""

    size: int
    values: Mapping[tuple[str, str], Array]
    _memo: dict[int, Evaluated] = field(default_factory=dict)

    def full(self, values: Array) -> Array:
        """Return values with one entry per row."""
        return np.broadcast_to(values, (self.size,))

    def take(self, rows: npt.NDArray[np.int64] | BoolArray, size: int) -> Frame:
        """Return a frame with some of the rows."""
        values = {key: v[rows] if np.ndim(v) else v for key, v in self.values.items()}
        return Frame(size, values)

    def extended(self, values: Mapping[tuple[str, str], Array]) -> Frame:
        """Return a frame with more names; values computed so far stay valid."""
        return Frame(self.size, {**self.values, **values}, dict(self._memo))


def evaluate(term: Term, frame: Frame) -> Evaluated:
    """Evaluate a term in every row of a frame."""
    with np.errstate(all="ignore"):
        return _evaluate(term, frame)


def constant_value(term: Term) -> tuple[float | bool, Fault | None]:
    """Evaluate a term that reads nothing."""
    result = evaluate(term, Frame(1, {}))
    value = np.ravel(result.values)[0].item()
    assert isinstance(value, float | bool)
    return value, result.faults[0] if result.faults else None


def fold(term: Term) -> Term:
    """Replace a term that reads nothing by its value, if it has one."""
    value, fault = constant_value(term)
    if fault is not None:
        return term
    return Constant(float(value), type=term.type, span=term.span)


def _evaluate(term: Term, frame: Frame) -> Evaluated:
    match term:
        case Constant():
            is_bool = term.type.kind == "bool"
            return Evaluated(np.asarray(bool(term.value) if is_bool else term.value))
        case Read():
            return Evaluated(frame.values[term.kind, term.name])
        case Named():
            key = id(term.definition)
            if key not in frame._memo:
                frame._memo[key] = _evaluate(term.definition, frame)
            return frame._memo[key]
        case Apply():
            return _apply(term, frame)
        case Logic():
            return _logic(term, frame)
        case Choose():
            return _choose(term, frame)
    raise AssertionError(term)


def _apply(term: Apply, frame: Frame) -> Evaluated:
    arguments = [_evaluate(argument, frame) for argument in term.arguments]
    values = [argument.values for argument in arguments]
    result = FUNCTIONS[term.function](*values)
    faults = tuple(fault for argument in arguments for fault in argument.faults)
    reason = PARTIAL.get(term.function)
    if reason is not None and not np.isfinite(result).all():
        rows = ~np.isfinite(result)
        for value in values:
            rows = rows & np.isfinite(value)
        if rows.any():
            faults += (Fault(reason(*values), term.span, rows),)
    return Evaluated(result, faults)


def _logic(term: Logic, frame: Frame) -> Evaluated:
    first, *rest = term.operands
    result = _evaluate(first, frame)
    values, faults = result.values, result.faults
    for operand in rest:
        looked_at = values if term.operator == "and" else ~values
        result = _evaluate(operand, frame)
        faults += _where(result.faults, looked_at)
        combine = np.logical_and if term.operator == "and" else np.logical_or
        values = combine(values, result.values)
    return Evaluated(values, faults)


def _choose(term: Choose, frame: Frame) -> Evaluated:
    undecided: Array = np.asarray(True)
    conditions: list[Array] = []
    choices: list[Array] = []
    faults: tuple[Fault, ...] = ()
    for condition_term, value_term in term.cases:
        condition = _evaluate(condition_term, frame)
        value = _evaluate(value_term, frame)
        holds = np.logical_and(condition.values, undecided)
        faults += _where(condition.faults, undecided) + _where(value.faults, holds)
        conditions.append(holds)
        choices.append(value.values)
        undecided = np.logical_and(undecided, ~condition.values)
    otherwise = _evaluate(term.otherwise, frame)
    faults += _where(otherwise.faults, undecided)
    values = otherwise.values
    for holds, choice in zip(reversed(conditions), reversed(choices), strict=True):
        values = np.where(holds, choice, values)
    return Evaluated(values, faults)


def _where(faults: tuple[Fault, ...], looked_at: Array) -> tuple[Fault, ...]:
    """Restrict faults to the rows that are used."""
    kept = []
    for fault in faults:
        rows = np.logical_and(fault.rows, looked_at)
        if rows.any():
            kept.append(Fault(fault.message, fault.span, rows))
    return tuple(kept)


def _maximum(first: Array, *rest: Array) -> Array:
    for other in rest:
        first = np.maximum(first, other)
    return first


def _minimum(first: Array, *rest: Array) -> Array:
    for other in rest:
        first = np.minimum(first, other)
    return first


def _wrap(x: Array, low: Array, high: Array) -> Array:
    wrapped: Array = low + np.mod(x - low, high - low)
    return wrapped


def _clip(x: Array, low: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


#: What each function and operator of the language computes.
FUNCTIONS: dict[str, Callable[..., Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "%": np.mod,
    "^": np.power,
    "negative": np.negative,
    "not": np.logical_not,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "abs": np.abs,
    "sign": np.sign,
    "min": _minimum,
    "max": _maximum,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "tanh": np.tanh,
    "clip": _clip,
    "wrap": _wrap,
    "mod": np.mod,
}


def _division(dividend: Array, divisor: Array) -> str:
    return "division by zero" if np.any(divisor == 0) else "the quotient is too large"


def _remainder(dividend: Array, divisor: Array) -> str:
    return "remainder of a division by zero"


#: Operations that have no value for some finite arguments, with their messages.
PARTIAL: dict[str, Callable[..., str]] = {
    "/": _division,
    "%": _remainder,
    "mod": _remainder,
    "wrap": lambda x, low, high: "`wrap` into an empty interval",
    "^": lambda x, y: "the power has no finite value",
    "sqrt": lambda x: "square root of a negative number",
    "log": lambda x: "logarithm of zero or a negative number",
    "asin": lambda x: "`asin` of a number outside [-1, 1]",
    "acos": lambda x: "`acos` of a number outside [-1, 1]",
    "exp": lambda x: "the result of `exp` is too large",
    "*": lambda x, y: "the product is too large",
    "+": lambda x, y: "the sum is too large",
    "-": lambda x, y: "the difference is too large",
}
