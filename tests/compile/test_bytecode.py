"""Bytecode against whole-array evaluation: the same values, and the same faults."""

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpdsl.compile import expressions
from mdpdsl.compile.bytecode import OPERATIONS, SELECT, Assembler
from mdpdsl.compile.expressions import FUNCTIONS, PARTIAL, Array, Frame, evaluate
from mdpdsl.compile.terms import REAL, Choose, Term
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.registers import run
from tests.compile.terms import SPAN, SPECIAL, apply, constant, named, read, real_terms

ROWS: dict[tuple[str, str], Array] = {
    ("state", "x"): np.array([0.5, -1.25, 0.0, 2.0, -0.0, 40.0]),
    ("state", "n"): np.array([-3.0, -1.0, 0.0, 1.0, 2.0, 7.0]),
    ("state", "b"): np.array([True, False, True, True, False, False]),
    ("state", "colour"): np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]),
    ("action", "u"): np.array([2.0, 0.0, -1.0, 1.5, 0.25, 5.0]),
    ("noise", "w"): np.array([0.1, -0.3, 1e-9, -2.5, 1.0, 1e200]),
    ("next", "x"): np.array([3.0, 0.0, -1.0, 0.5, -0.5, 1e-5]),
}
INPUTS = {name: register for register, name in enumerate(ROWS)}
#: Functions that the C library and NumPy compute differently, in the last digits.
TRANSCENDENTAL = ("^", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "tanh")
#: NumPy may return 0 or -0 here, depending on the processor.
EXTREMES = ("min", "max", "clip")
#: By how much they may differ, in units of the last place.
MOST_ULPS = 4


def interpreted(terms: list[Term], rows: dict[tuple[str, str], Array]) -> tuple[Array, IntArray]:
    """Run terms as one group in every row; return values and faults, [n_terms, n_rows]."""
    assembler = Assembler(len(INPUTS))
    assembler.begin_group(INPUTS)
    segments = [assembler.add(term) for term in terms]
    code = assembler.finish()
    n_rows = len(next(iter(rows.values())))
    values, faults = np.empty((len(terms), n_rows)), np.empty((len(terms), n_rows), np.int64)
    for row in range(n_rows):
        registers, spoilt = code.registers.copy(), np.zeros(len(code.registers), np.int64)
        registers[: len(INPUTS)] = [float(column[row]) for column in rows.values()]
        for i, segment in enumerate(segments):
            run(code.instructions, segment.begin, segment.end, registers, spoilt)
            values[i, row], faults[i, row] = registers[segment.register], spoilt[segment.register]
    return values, faults


def one_operation(function: str, *columns: FloatArray) -> FloatArray:
    """Compute a function row by row with the interpreter."""
    columns = tuple(np.asarray(c, np.float64) for c in np.broadcast_arrays(*columns))
    operands = [0, 1, 2][: len(columns)]
    operands += [0] * (3 - len(operands))
    instruction = np.array([[OPERATIONS[function], 3, *operands]], np.uint32)
    found = np.empty(columns[0].size)
    for row, values in enumerate(zip(*(c.ravel() for c in columns), strict=True)):
        registers = np.array([*values, *[0.0] * (4 - len(values))])
        run(instruction, 0, 1, registers, np.zeros(4, np.int64))
        found[row] = registers[3]
    return found.reshape(columns[0].shape)


def bits(values: Array) -> IntArray:
    """Return numbers as bits, with all NaN equal."""
    numbers = np.asarray(values, np.float64)
    return np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)


def test_every_function_has_an_operation_and_the_partial_ones_come_first() -> None:
    assert OPERATIONS.keys() == FUNCTIONS.keys()
    assert {OPERATIONS[f] for f in PARTIAL} == set(range(len({OPERATIONS[f] for f in PARTIAL})))


POOL = np.array(
    [*SPECIAL, *(-np.array(SPECIAL)), np.nan, np.pi, -np.pi, 5e-324, 1e16, 0.1, -7.3, 3.7, 710.0]
)


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_each_function_agrees_with_numpy(function: str) -> None:
    """Compare exactly, except for transcendental functions, which may differ in last places."""
    arity = {"clip": 3, "wrap": 3, "min": 2, "max": 2, "atan2": 2, "mod": 2}.get(function)
    if arity is None:
        arity = 2 if function in ("+", "-", "*", "/", "%", "^") or function[0] in "<>=!" else 1
    columns = [c.ravel() for c in np.meshgrid(*[POOL] * arity)]
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[function](*columns).astype(np.float64)
    found = one_operation(function, *columns)
    if function in EXTREMES:
        found, expected = found + 0.0, expected + 0.0  # -0 becomes 0
    if function not in TRANSCENDENTAL:
        assert bits(found).tolist() == bits(expected).tolist()
        return
    assert np.isfinite(found).tolist() == np.isfinite(expected).tolist()
    regular = np.isfinite(expected)
    assert bits(found[~regular]).tolist() == bits(expected[~regular]).tolist()
    gap = np.abs(found[regular] - expected[regular])
    assert (gap <= MOST_ULPS * np.spacing(np.abs(expected[regular]))).all()


@settings(max_examples=600, deadline=None)
@given(st.lists(real_terms(), min_size=1, max_size=2))
def test_random_terms_have_the_same_bits_and_faults(terms: list[Term]) -> None:
    """Use the interpreter's own functions on both sides if the functions may differ; see above.

    Otherwise a last digit, or the sign of zero, could decide how `floor` or `if` jumps later.
    """
    own = {name: _elementwise(name) for name in (*TRANSCENDENTAL, *EXTREMES)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expressions, "FUNCTIONS", {**FUNCTIONS, **own})
        patch.setattr("mdpdsl.compile.bytecode.FUNCTIONS", {**FUNCTIONS, **own})
        values, faults = interpreted(terms, ROWS)
        frame = Frame(6, ROWS)
        for i, term in enumerate(terms):
            expected = evaluate(term, frame)
            assert bits(values[i]).tolist() == bits(frame.full(expected.values)).tolist()
            spoilt = np.zeros(6, bool)
            for fault in expected.faults:
                spoilt |= np.broadcast_to(fault.rows, (6,))
            assert (faults[i] != 0).tolist() == spoilt.tolist()


def _elementwise(function: str) -> Callable[..., FloatArray]:
    if function in ("min", "max"):
        return lambda *columns: reduce(lambda a, b: one_operation(function, a, b), columns)
    return lambda *columns: one_operation(function, *columns)


def test_a_let_is_computed_once_however_often_it_is_used() -> None:
    power = named("power", apply("sin", read("state", "x")))
    for level in range(30):
        condition = apply("<", read("state", "x"), constant(float(level)))
        choice = Choose(((condition, power),), apply("+", power, power), type=REAL, span=SPAN)
        power = named(f"level{level}", choice)
    assembler = Assembler(len(INPUTS))
    assembler.begin_group(INPUTS)
    first = assembler.add(power)
    again = assembler.add(power)
    assert first.end == 1 + 3 * 30
    assert (again.begin, again.end, again.register) == (first.end, first.end, first.register)


def test_constant_terms_are_computed_beforehand() -> None:
    half = apply("/", apply("+", constant(1.0), constant(2.0)), constant(6.0))
    always = apply("<", half, constant(1.0))
    term = Choose(((always, half),), read("state", "x"), type=REAL, span=SPAN)
    assembler = Assembler(len(INPUTS))
    assembler.begin_group(INPUTS)
    segment = assembler.add(term)
    code = assembler.finish()
    assert len(code.instructions) == 0
    assert code.registers[segment.register] == 0.5


def test_a_fault_in_a_constant_term_is_left_to_the_run() -> None:
    values, faults = interpreted([apply("/", constant(1.0), constant(0.0))], ROWS)
    assert np.isinf(values).all()
    assert (faults == 1).all()


def test_a_fault_says_where_and_why() -> None:
    assembler = Assembler(len(INPUTS))
    assembler.begin_group(INPUTS)
    term = apply("sqrt", apply("/", read("state", "x"), read("state", "n")))
    segment = assembler.add(term)
    code = assembler.finish()
    assert code.instructions[:, 0].tolist() == [OPERATIONS["/"], OPERATIONS["sqrt"]]
    assert SELECT not in code.instructions[:, 0]
    for x, n, instruction, text in [
        (1.0, 0.0, 0, "division by zero"),
        (1e300, 1e-300, 0, "the quotient is too large"),
        (1.0, -1.0, 1, "square root of a negative number"),
    ]:
        registers, faults = code.registers.copy(), np.zeros(len(code.registers), np.int64)
        registers[INPUTS["state", "x"]], registers[INPUTS["state", "n"]] = x, n
        run(code.instructions, segment.begin, segment.end, registers, faults)
        assert faults[segment.register] == instruction + 1
        assert code.fault_text(instruction, registers) == text
