"""Typed expressions as register bytecode: flat arrays that one compiled kernel interprets.

This is the second target beside `expressions`: it evaluates one row at a time, with the same values
and the same faults. An instruction is five numbers: operation, result, three operands. All but the
operation are registers; an operation with fewer operands repeats its first one. The code has no
jumps: `if`, `and` and `or` compute all their parts and then choose among values and faults, which
costs less than jumps and never more than one instruction per operation in the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.expressions import FUNCTIONS, PARTIAL
from mdpdsl.compile.terms import Apply, Choose, Constant, Logic, Named, Read, Term
from mdpdsl.diagnostics import Span
from mdpdsl.graph.space import FloatArray

#: Operations that may fail for finite operands come first, so that one comparison identifies them.
# fmt: off
(
    ADD, SUBTRACT, MULTIPLY, DIVIDE, MODULO, POWER, WRAP, SQRT, EXP, LOG, ASIN, ACOS,
    NEGATIVE, NOT, EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, ABS, SIGN,
    MINIMUM, MAXIMUM, CLIP, FLOOR, CEIL, ROUND, SIN, COS, TAN, ATAN, ATAN2, TANH,
    AND, OR, SELECT,
) = range(37)
# fmt: on
FIRST_TOTAL = NEGATIVE

#: The operation of each function and operator of the language.
OPERATIONS = {
    "+": ADD,
    "-": SUBTRACT,
    "*": MULTIPLY,
    "/": DIVIDE,
    "%": MODULO,
    "mod": MODULO,
    "^": POWER,
    "negative": NEGATIVE,
    "not": NOT,
    "==": EQUAL,
    "!=": NOT_EQUAL,
    "<": LESS,
    "<=": LESS_EQUAL,
    ">": GREATER,
    ">=": GREATER_EQUAL,
    "abs": ABS,
    "sign": SIGN,
    "min": MINIMUM,
    "max": MAXIMUM,
    "floor": FLOOR,
    "ceil": CEIL,
    "round": ROUND,
    "sqrt": SQRT,
    "exp": EXP,
    "log": LOG,
    "sin": SIN,
    "cos": COS,
    "tan": TAN,
    "asin": ASIN,
    "acos": ACOS,
    "atan": ATAN,
    "atan2": ATAN2,
    "tanh": TANH,
    "clip": CLIP,
    "wrap": WRAP,
}

Instructions = npt.NDArray[np.uint32]


class Segment(NamedTuple):
    """Consecutive instructions, and the register that holds their result."""

    begin: int
    end: int
    register: int


@dataclass(frozen=True)
class Origin:
    """The part of the source that an instruction comes from."""

    function: str
    n_operands: int
    span: Span


@dataclass(frozen=True, eq=False)
class Bytecode:
    """Instructions, the initial values of the registers, and the origin of each instruction."""

    instructions: Instructions  # [n, 5]
    registers: FloatArray  # [n_registers]  inputs (0), then constants and results
    origins: tuple[Origin, ...]  # [n]

    def fault_text(self, instruction: int, registers: FloatArray) -> str:
        """Explain why an instruction had no value, from the registers it read."""
        origin = self.origins[instruction]
        operands = registers[self.instructions[instruction, 2:]]
        return PARTIAL[origin.function](*operands[: origin.n_operands])


class Assembler:
    """Turns terms into bytecode, group by group.

    Within a group every `let` is computed once, at its first use, so all the segments of a group
    must run, and in order.
    """

    def __init__(
        self, n_inputs: int, numbers: Mapping[tuple[str, str], FloatArray] | None = None
    ) -> None:
        self._numbers = numbers or {}  # the values of unknown numbers
        self._registers = [0.0] * n_inputs
        self._instructions: list[tuple[int, int, int, int, int]] = []
        self._origins: list[Origin] = []
        self._constants: dict[bytes, int] = {}
        self._is_constant: set[int] = set()
        self._inputs: Mapping[tuple[str, str], int] = {}
        self._lets: dict[int, int] = {}
        self._known: dict[tuple[int, int, int, int], int] = {}

    def begin_group(self, inputs: Mapping[tuple[str, str], int]) -> None:
        """Start a group of segments that read these inputs, by kind and name."""
        self._inputs = inputs
        self._lets, self._known = {}, {}

    def add(self, term: Term) -> Segment:
        """Append the code of a term to the group."""
        begin = len(self._instructions)
        register = self._register(term)
        return Segment(begin, len(self._instructions), register)

    def finish(self) -> Bytecode:
        """Return everything added so far."""
        instructions = np.array(self._instructions, np.uint32).reshape(-1, 5)
        return Bytecode(instructions, np.array(self._registers), tuple(self._origins))

    def _register(self, term: Term) -> int:
        match term:
            case Constant():
                return self._constant(float(term.value))
            case Read() if (term.kind, term.name) in self._numbers:
                return self._constant(float(self._numbers[term.kind, term.name]))
            case Read():
                return self._inputs[term.kind, term.name]
            case Named():
                key = id(term.definition)
                if key not in self._lets:
                    self._lets[key] = self._register(term.definition)
                return self._lets[key]
            case Apply():
                return self._apply(term)
            case Logic():
                return self._logic(term)
            case Choose():
                return self._choose(term)
        raise AssertionError(term)

    def _apply(self, term: Apply) -> int:
        operands = [self._register(argument) for argument in term.arguments]
        operation = OPERATIONS[term.function]
        if operation in (MINIMUM, MAXIMUM):  # with any number of arguments
            result = operands[0]
            for operand in operands[1:]:
                result = self._emit(operation, [result, operand], term.function, term.span)
            return result
        return self._emit(operation, operands, term.function, term.span)

    def _logic(self, term: Logic) -> int:
        operation = AND if term.operator == "and" else OR
        result, *rest = [self._register(operand) for operand in term.operands]
        for operand in rest:
            result = self._emit(operation, [result, operand], term.operator, term.span)
        return result

    def _choose(self, term: Choose) -> int:
        cases: list[tuple[int, int]] = []
        otherwise = term.otherwise
        for condition_term, value in term.cases:
            condition = self._register(condition_term)
            if condition not in self._is_constant:
                cases.append((condition, self._register(value)))
            elif self._registers[condition]:  # this case always applies, so later ones never do
                otherwise = value
                break
        result = self._register(otherwise)
        for condition, value_register in reversed(cases):
            result = self._emit(SELECT, [condition, value_register, result], "if", term.span)
        return result

    def _emit(self, operation: int, operands: list[int], function: str, span: Span) -> int:
        a, b, c = (*operands, operands[0], operands[0])[:3]
        key = (operation, a, b, c)
        if key in self._known:
            return self._known[key]
        result = self._folded(function, operands)
        if result is None:
            result = len(self._registers)
            self._registers.append(0.0)
            self._instructions.append((operation, result, a, b, c))
            self._origins.append(Origin(function, len(operands), span))
        self._known[key] = result
        return result

    def _folded(self, function: str, operands: list[int]) -> int | None:
        """Return the result of an operation on constants, if it has a value."""
        if function not in FUNCTIONS or not self._is_constant.issuperset(operands):
            return None
        values = [np.float64(self._registers[operand]) for operand in operands]
        with np.errstate(all="ignore"):
            value = float(FUNCTIONS[function](*values))
        return self._constant(value) if np.isfinite(value) else None

    def _constant(self, value: float) -> int:
        key = np.float64(value).tobytes()  # bytes keep 0 and -0 apart
        if key not in self._constants:
            self._constants[key] = len(self._registers)
            self._is_constant.add(len(self._registers))
            self._registers.append(value)
        return self._constants[key]
