"""The interpreter of register bytecode: one compiled function for all models.

An instruction computes  registers[out] = operation(registers[a], registers[b], registers[c]).
Operations give the same values as the NumPy functions with which `compile.expressions` evaluates
whole arrays; transcendental functions are the C library's and may differ in the last digit. Truth
values are 0 and 1. Each register has a fault: 0, or, if its value depends on an instruction that
had no value for finite operands, 1 + that instruction.
"""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.compile.bytecode import (
    ABS,
    ACOS,
    ADD,
    AND,
    ASIN,
    ATAN,
    ATAN2,
    CEIL,
    CLIP,
    COS,
    DIVIDE,
    EQUAL,
    EXP,
    FIRST_TOTAL,
    FLOOR,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    LOG,
    MAXIMUM,
    MINIMUM,
    MODULO,
    MULTIPLY,
    NEGATIVE,
    NOT,
    NOT_EQUAL,
    OR,
    POWER,
    ROUND,
    SELECT,
    SIGN,
    SIN,
    SQRT,
    SUBTRACT,
    TAN,
    TANH,
    WRAP,
)
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.compiled import entry, inner


@entry
def run(
    instructions: np.ndarray, begin: int, end: int, registers: FloatArray, faults: IntArray
) -> None:
    """Execute the instructions begin, …, end - 1."""
    for i in range(begin, end):
        operation, out = instructions[i, 0], instructions[i, 1]
        a, b, c = instructions[i, 2], instructions[i, 3], instructions[i, 4]
        x, y, z = registers[a], registers[b], registers[c]
        fault = faults[a]
        if operation == SELECT:
            chosen = b if x != 0.0 else c
            registers[out] = registers[chosen]
            faults[out] = fault if fault != 0 else faults[chosen]
            continue
        if operation in (AND, OR):  # the first may decide alone
            if (x != 0.0) == (operation == AND):
                registers[out] = y
                faults[out] = fault if fault != 0 else faults[b]
            else:
                registers[out] = x
                faults[out] = fault
            continue
        value = _value(operation, x, y, z)
        if fault == 0:
            fault = faults[b]
        if fault == 0:
            fault = faults[c]
        if operation < FIRST_TOTAL and not math.isfinite(value) and fault == 0:
            is_new = math.isfinite(x) and math.isfinite(y) and math.isfinite(z)
            fault = i + 1 if is_new else 0
        registers[out] = value
        faults[out] = fault


@inner
def _value(operation: int, x: float, y: float, z: float) -> float:
    if operation == ADD:
        return x + y
    if operation == SUBTRACT:
        return x - y
    if operation == MULTIPLY:
        return x * y
    if operation == DIVIDE:
        return x / y
    if operation == NEGATIVE:
        return -x
    if operation == MINIMUM:
        return minimum(x, y)
    if operation == MAXIMUM:
        return maximum(x, y)
    if operation == CLIP:
        return minimum(maximum(x, y), z)
    if operation == SIN:
        return math.sin(x)
    if operation == COS:
        return math.cos(x)
    if operation == LESS:
        return 1.0 if x < y else 0.0
    if operation == LESS_EQUAL:
        return 1.0 if x <= y else 0.0
    if operation == GREATER:
        return 1.0 if x > y else 0.0
    if operation == GREATER_EQUAL:
        return 1.0 if x >= y else 0.0
    if operation == EQUAL:
        return 1.0 if x == y else 0.0
    if operation == NOT_EQUAL:
        return 1.0 if x != y else 0.0
    if operation == NOT:
        return 1.0 if x == 0.0 else 0.0
    if operation == POWER:
        return x * x if y == 2.0 else x**y
    if operation == MODULO:
        return modulo(x, y)
    if operation == WRAP:
        return y + modulo(x - y, z - y)
    if operation == ABS:
        return abs(x)
    if operation == SIGN:
        return _sign(x)
    if operation == FLOOR:
        return np.floor(x)
    if operation == CEIL:
        return np.ceil(x)
    if operation == ROUND:
        return np.rint(x)
    if operation == SQRT:
        return math.sqrt(x)
    if operation == EXP:
        return math.exp(x)
    if operation == LOG:
        return math.log(x)
    if operation == TAN:
        return math.tan(x)
    if operation == ASIN:
        return math.asin(x)
    if operation == ACOS:
        return math.acos(x)
    if operation == ATAN:
        return math.atan(x)
    if operation == ATAN2:
        return math.atan2(x, y)
    if operation == TANH:
        return math.tanh(x)
    return math.nan


@inner
def minimum(x: float, y: float) -> float:
    """Return the smaller number, NaN if either is; of 0 and -0 the second, as NumPy does."""
    return x if x < y or x != x else y


@inner
def maximum(x: float, y: float) -> float:
    """Return the larger number, NaN if either is; of 0 and -0 the second, as NumPy does."""
    return x if x > y or x != x else y


@inner
def modulo(x: float, y: float) -> float:
    """Return the remainder with the sign of the divisor, as NumPy does."""
    rest = np.fmod(x, y)
    if rest == 0.0:
        return math.copysign(0.0, y)
    if (y < 0.0) != (rest < 0.0):
        rest += y
    return rest


@inner
def _sign(x: float) -> float:
    if x > 0.0:
        return 1.0
    if x < 0.0:
        return -1.0
    return 0.0 if x == 0.0 else x
