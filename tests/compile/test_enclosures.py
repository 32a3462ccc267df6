from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.compile.cell_laws import Point
from mdpdsl.compile.cells import normal_cdf
from mdpdsl.compile.enclosures import Box, Enclosure, enclose, tightened
from mdpdsl.compile.expressions import FUNCTIONS, Array, Frame, evaluate
from mdpdsl.compile.rewriting import Rewriting
from mdpdsl.compile.slopes import (
    ENCLOSED_FUNCTIONS,
    exactly,
    normal_probability,
    total,
    uniform_probability,
)
from mdpdsl.compile.terms import Constant, Read, Term, parts
from mdpdsl.graph.space import FloatArray
from tests.compile.terms import apply, constant, read, real_terms

UNKNOWN = ("p", "q")
#: Terms of the tests read these; the first two become unknown numbers.
ROWS: dict[tuple[str, str], FloatArray] = {
    ("state", "n"): np.array([0.0, 1.0, -2.0, 3.0, 0.5]),
    ("state", "b"): np.array([True, False, True, True, False]),
    ("state", "colour"): np.array([0.0, 1.0, 1.0, 0.0, 1.0]),
    ("action", "u"): np.array([-1.0, 2.0, 0.0, 0.25, 7.0]),
    ("noise", "w"): np.asarray(0.3),
}
SIZE = 5
STEP = 1e-6


def swapped(term: Term) -> Term:
    """Replace x and x' by the unknown numbers p and q."""

    def change(part: Term) -> Term | None:
        if isinstance(part, Read) and part.name == "x":
            return read("unknown", "p" if part.kind == "state" else "q")
        return None

    return Rewriting(change)(term)


def values_at(term: Term, point: FloatArray, precision: type = np.float64) -> Array:
    """Return what expressions compute, NaN where they find a fault."""
    pairs = zip(UNKNOWN, point, strict=True)
    known: dict[tuple[str, str], Array] = {
        ("unknown", name): np.asarray(x, precision) for name, x in pairs
    }
    result = evaluate(term, Frame(SIZE, ROWS | known))
    values: Array = np.broadcast_to(np.asarray(result.values, precision), (SIZE,)).copy()
    for fault in result.faults:
        values[np.broadcast_to(fault.rows, (SIZE,))] = np.nan
    values[~np.isfinite(values)] = np.nan
    return values


def enclosed(term: Term, low: FloatArray, high: FloatArray) -> Enclosure:
    box = Box(UNKNOWN, np.asarray(low, float), np.asarray(high, float))
    found = enclose(term, Frame(SIZE, ROWS), box)
    for array in (found.lower, found.upper, found.slope_lower, found.slope_upper):
        assert not np.isnan(array).any()
    return Enclosure(
        *(np.broadcast_to(v, (SIZE,)) for v in found.value),
        *(np.broadcast_to(v, (2, SIZE)) for v in found.slope),
    )


special = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1.5, np.pi / 2, -np.pi, 2.0, 1e-3])
numbers = st.one_of(special, st.floats(-4, 4, allow_subnormal=False))
boxes = st.tuples(numbers, numbers, numbers, numbers).map(
    lambda t: np.sort(np.array(t).reshape(2, 2), axis=0)
)
fractions = st.lists(st.tuples(*[st.floats(0, 1)] * 2), min_size=2, max_size=4)


def inside(box: FloatArray, fraction: tuple[float, float]) -> FloatArray:
    return np.asarray(np.clip(box[0] + (box[1] - box[0]) * np.array(fraction), box[0], box[1]))


def test_every_function_of_the_language_has_an_enclosure() -> None:
    assert ENCLOSED_FUNCTIONS.keys() == FUNCTIONS.keys()


@settings(max_examples=600, deadline=None)
@given(real_terms().map(swapped), boxes, fractions)
def test_an_enclosure_contains_the_values_inside_the_box(
    term: Term, box: FloatArray, within: list[tuple[float, float]]
) -> None:
    found = enclosed(term, *box)
    for fraction in [*within, (0.0, 0.0), (1.0, 1.0)]:
        for precision in (np.float64, np.longdouble):
            values = values_at(term, inside(box, fraction), precision)
            known = ~np.isnan(values)
            assert (found.lower[known] <= values[known]).all()
            assert (values[known] <= found.upper[known]).all()


@settings(max_examples=600, deadline=None)
@given(real_terms().map(swapped), boxes, fractions)
def test_differences_between_points_stay_within_the_slopes(
    term: Term, box: FloatArray, within: list[tuple[float, float]]
) -> None:
    found = enclosed(term, *box)
    points = [inside(box, fraction) for fraction in within]
    for one, other in pairwise(points):
        step = other - one
        before, after = (values_at(term, point, np.longdouble) for point in (one, other))
        with np.errstate(invalid="ignore", over="ignore"):
            ends = [np.nan_to_num(slope * step[:, None], nan=0.0) for slope in found.slope]
            low, high = np.minimum(*ends).sum(axis=0), np.maximum(*ends).sum(axis=0)
            error = 1e-12 * (1 + np.abs(before) + np.abs(after))
            known = ~np.isnan(before + after) & (error < 1e-6) & (not loses_digits(term))
        assert (low[known] - error[known] <= (after - before)[known]).all()
        assert ((after - before)[known] <= high[known] + error[known]).all()


def loses_digits(term: Term) -> bool:
    """Return whether some constant is so large that sums with it lose other digits."""
    if isinstance(term, Constant):
        return abs(term.value) > 1e6
    return any(loses_digits(part) for part in parts(term))


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_at_a_point_the_slopes_are_the_derivatives(function: str) -> None:
    p, q = read("unknown", "p"), read("unknown", "q")
    n = {"clip": 3, "wrap": 3, "min": 2, "max": 2, "atan2": 2, "mod": 2}.get(function)
    if n is None:
        n = 2 if not function.isalpha() else 1
    first = apply("*", p, apply("+", q, constant(1.0)))
    second = {"clip": constant(-0.9), "wrap": constant(-0.3)}.get(function, q)
    term = apply(function, *[first, second, constant(0.8)][:n])
    if function == "not":
        term = apply("not", apply("<", p, q))
    for point in ([0.31, 0.22], [0.17, 0.41], [0.6, 0.28]):
        found = enclosed(term, np.array(point), np.array(point))
        value = values_at(term, np.array(point))
        assert np.allclose(found.lower, value, rtol=1e-13, atol=1e-15)
        assert np.allclose(found.upper, value, rtol=1e-13, atol=1e-15)
        for i in range(2):
            step = STEP * np.eye(2)[i]
            rise = (values_at(term, point + step) - values_at(term, point - step)) / (2 * STEP)
            assert np.allclose(found.slope_lower[i], rise, rtol=1e-7, atol=1e-8)
            assert np.allclose(found.slope_upper[i], rise, rtol=1e-7, atol=1e-8)


def test_a_number_that_a_term_does_not_read_has_slope_zero() -> None:
    term = apply("exp", apply("*", read("unknown", "p"), read("state", "n")))
    found = enclosed(term, np.array([0.0, 0.0]), np.array([1.0, 1.0]))
    assert (found.slope_lower[1] == 0).all()
    assert (found.slope_upper[1] == 0).all()


def test_kinks_have_the_slopes_of_both_sides_and_jumps_infinite_ones() -> None:
    p = read("unknown", "p")
    kink = enclosed(apply("abs", p), np.array([-1.0, 0.0]), np.array([2.0, 0.0]))
    assert slopes_of(kink) == pytest.approx((-1, 1))
    positive_part = apply("max", p, constant(0.0))
    assert slopes_of(enclosed(positive_part, np.zeros(2), np.zeros(2))) == pytest.approx((0, 1))
    assert slopes_of(enclosed(positive_part, np.zeros(2), np.ones(2))) == pytest.approx((1, 1))
    jump = enclosed(apply("floor", p), np.array([0.5, 0.0]), np.array([1.5, 0.0]))
    assert np.isinf(jump.slope_upper[0]).all()
    flat = enclosed(apply("floor", p), np.array([0.5, 0.0]), np.array([0.9, 0.0]))
    assert (flat.slope_upper[0] == 0).all()


def slopes_of(found: Enclosure) -> tuple[float, float]:
    return found.slope_lower[0, 0], found.slope_upper[0, 0]


def test_a_term_without_unknown_numbers_has_exactly_its_value() -> None:
    term = apply("floor", apply("/", read("state", "n"), constant(0.1)))
    found = enclosed(term, np.zeros(2), np.ones(2))
    assert np.array_equal(found.lower, values_at(term, np.zeros(2)))
    assert np.array_equal(found.lower, found.upper)


def test_the_centred_form_is_tight_to_second_order() -> None:
    p, q = read("unknown", "p"), read("unknown", "q")
    # p*(1-p) - p*(1-q): natural bounds are first order only, because p occurs several times
    term = apply(
        "-",
        apply("*", p, apply("-", constant(1.0), p)),
        apply("*", p, apply("-", constant(1.0), q)),
    )
    excess = []
    for h in (0.1, 0.05, 0.025):
        low, high = np.array([0.3 - h, 0.6 - h]), np.array([0.3 + h, 0.6 + h])
        centre = enclosed(term, (low + high) / 2, (low + high) / 2)
        over = tightened(enclosed(term, low, high), centre, (high - low) / 2)
        grid = np.stack(np.meshgrid(*np.linspace(low, high, 21).T), axis=-1).reshape(-1, 2)
        true = np.array([values_at(term, point)[0] for point in grid])
        assert over.lower[0] <= true.min()
        assert over.upper[0] >= true.max()
        excess.append(over.upper[0] - over.lower[0] - (true.max() - true.min()))
    assert excess[1] < excess[0] / 3
    assert excess[2] < excess[1] / 3


def test_the_centred_form_of_a_linear_term_is_exact() -> None:
    term = apply("-", constant(1.0), apply("*", constant(2.0), read("unknown", "p")))
    low, high = np.array([0.1, 0.0]), np.array([0.2, 0.0])
    centre = enclosed(term, (low + high) / 2, (low + high) / 2)
    over = tightened(enclosed(term, low, high), centre, (high - low) / 2)
    assert over.lower[0] == pytest.approx(0.6, abs=1e-15)
    assert over.upper[0] == pytest.approx(0.8, abs=1e-15)


@pytest.mark.parametrize("family", ["normal", "uniform"])
def test_distribution_functions_contain_their_values_and_densities(family: str) -> None:
    function = normal_probability if family == "normal" else uniform_probability
    truth = normal_cdf if family == "normal" else lambda z: np.clip(z, 0, 1)
    rng = np.random.default_rng(3)
    low = np.sort(rng.normal(0, 3, (200, 2)), axis=1)
    slope = np.ones((1, 200))
    found = function(Enclosure(low[:, 0], low[:, 1], slope, slope))
    z = np.linspace(low[:, 0], low[:, 1], 50)
    assert (found.lower <= truth(z)).all()
    assert (found.upper >= truth(z)).all()
    rise = np.diff(truth(z), axis=0) / np.diff(z, axis=0)
    assert (found.slope_lower[0] <= rise + 1e-9).all()
    assert (found.slope_upper[0] >= rise - 1e-9).all()
    ends = np.array([-np.inf, np.inf])
    steep = np.full((1, 2), np.inf)
    with np.errstate(all="ignore"):
        far = function(Enclosure(ends, ends, -steep, steep))
    assert far.lower.tolist() == pytest.approx([0, 1], abs=1e-14)
    assert (far.slope_upper == 0).all()


def test_a_sum_over_an_axis_contains_the_sum() -> None:
    values = np.random.default_rng(1).normal(0, 1, (7, 1000))
    x = exactly(values, 2)
    found = total(x, -1)
    assert found.slope_lower.shape == (2, 7)
    exact = np.array([np.longdouble(row).sum() for row in values])
    assert (found.lower <= exact).all()
    assert (found.upper >= exact).all()
    assert (found.upper - found.lower < 1e-9).all()


def test_enclosures_may_be_given_for_what_a_term_reads() -> None:
    slope = np.ones((2, 1))
    following = Enclosure(np.array([1.0]), np.array([2.0]), slope, slope)
    term = apply("*", constant(3.0), read("next", "x"))
    box = Box(UNKNOWN, np.zeros(2), np.ones(2))
    found = enclose(term, Frame(SIZE, ROWS), box, {("next", "x"): following})
    assert found.lower[0] == pytest.approx(3)
    assert found.upper[0] == pytest.approx(6)
    assert found.slope_upper[1, 0] == pytest.approx(3)


def test_no_fault_raises_or_is_not_a_number() -> None:
    p = read("unknown", "p")
    low, high = np.array([-2.0, 0.0]), np.array([1.0, 0.0])
    for function in ("sqrt", "log", "asin", "acos", "tan"):
        enclosed(apply(function, apply("*", constant(3.0), p)), low, high)
        enclosed(apply(function, apply("-", p, constant(9.0))), low, high)
    for function in ("/", "%", "mod", "^", "atan2"):
        enclosed(apply(function, constant(1.0), p), low, high)
        enclosed(apply(function, p, p), low, high)
        enclosed(apply(function, p, constant(0.0)), low, high)


@pytest.mark.filterwarnings("error")
def test_a_law_that_jumps_at_a_point_has_no_slope_there() -> None:
    text = "mdp m  unknown u in [0, 1] = 0.5  state x in 0..1  action a  init x = 0\n"
    model = mdpdsl.loads(f"{text}on a -> u % 0.5: stay | 1 - u % 0.5: x' = 1")
    term = model.checked.rules[0].branches[0].probability
    assert term is not None
    point = Point(Box(("u",), np.array([0.5]), np.array([0.5])))
    assert np.isnan(point.slope(term, Frame(1, {}))).all()
