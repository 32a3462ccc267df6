"""Masses of cells as functions of unknown numbers.

If z has the distribution function F, then m + k·z falls into the cell [l, u) with probability
M = F((u - m)/k) - F((l - m)/k). The location m(theta) and the scale k(theta) > 0 are terms, so

    dM/dtheta = f((l - m)/k)·(m' + k'·(l - m)/k)/k - f((u - m)/k)·(m' + k'·(u - m)/k)/k

with the density f. On a circle, the masses of all turns add up. A clipped value has its remaining
mass at the bounds. `cells.window_masses` computes the same masses for given numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.cells import NORMAL_REACH, UNIFORM_ON_CIRCLE
from mdpdsl.compile.checked import Noise
from mdpdsl.compile.enclosures import Box, Enclosure, enclose, tightened
from mdpdsl.compile.expressions import Array, Frame, evaluate
from mdpdsl.compile.interval_arithmetic import RELATIVE_ERROR, down, up
from mdpdsl.compile.noise import Affine
from mdpdsl.compile.slopes import (
    divide,
    either,
    exactly,
    minimum,
    normal_probability,
    subtract,
    total,
    truth,
    uniform_probability,
)
from mdpdsl.compile.terms import REAL, Apply, Constant, Term
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, Variable

T = TypeVar("T", bound=np.generic)

#: So many turns of a circle are laid out for enclosures, however many cells there are, and more as
#: long as there are fewer edges than these. What takes more turns may be anywhere.
_ALWAYS_TURNED = 64
_MOST_EDGES = 400_000
_DENSITY_AT_ZERO = 1 / np.sqrt(2 * np.pi)


@dataclass(frozen=True, eq=False)
class Point:
    """Values of the unknown numbers, for evaluating terms and their derivatives."""

    box: Box  # of one point

    @cached_property
    def values(self) -> dict[tuple[str, str], Array]:
        """The unknown numbers, as expressions read them."""
        pairs = zip(self.box.names, self.box.low, strict=True)
        return {("unknown", name): np.asarray(value) for name, value in pairs}

    @cached_property
    def _frames(self) -> dict[int, Frame]:
        return {}

    def value(self, term: Term, known: Frame) -> FloatArray:
        """Evaluate a term, which need not have one entry per row."""
        frame = self._frames.get(id(known))
        if frame is None:
            frame = Frame(known.size, {**known.values, **self.values})
            self._frames[id(known)] = frame
        return np.asarray(evaluate(term, frame).values, np.float64)

    def slope(self, term: Term, known: Frame) -> FloatArray:
        """Return the derivatives of a term along all numbers, [k, ...]; NaN if it has none."""
        found = enclose(term, known, self.box)
        low, high = found.slope
        with np.errstate(invalid="ignore"):
            has_kink = ~(high - low <= 1e-9 * (1.0 + np.abs(low)))
            middle = low / 2 + high / 2  # of no use where a bound is infinite
        return np.where(has_kink, np.nan, middle)


@dataclass(frozen=True, eq=False)
class Region:
    """A box of the unknown numbers, for enclosing terms."""

    box: Box

    @cached_property
    def centre(self) -> Region | None:
        """The centre of the box; None if the box is a point."""
        if (self.box.low == self.box.high).all():
            return None
        middle = self.box.low / 2 + self.box.high / 2
        return Region(Box(self.box.names, middle, middle))

    @property
    def half_widths(self) -> FloatArray:
        """How far the box reaches from its centre, rounded up, [k]."""
        assert self.centre is not None
        middle = self.centre.box.low
        reach = np.maximum(self.box.high - middle, middle - self.box.low)
        return np.asarray(np.where(reach > 0, np.nextafter(reach, np.inf), 0.0))

    @cached_property
    def _found(self) -> dict[int, Enclosure]:
        return {}  # by the id of a term, or of masses; both outlive the region

    def term(self, term: Term, known: Frame) -> Enclosure:
        """Enclose a term, tight to second order."""
        return self.tight(id(term), lambda region: enclose(term, known, region.box))

    def tight(self, key: int, natural: Callable[[Region], Enclosure]) -> Enclosure:
        """Intersect natural bounds with the centred form; what is known of a region is kept."""
        found = self._found.get(key)
        if found is None:
            found = natural(self)
            if self.centre is not None:
                found = tightened(found, self.centre.tight(key, natural), self.half_widths)
            self._found[key] = found
        return found


@dataclass(frozen=True, eq=False)
class Locations:
    """The distribution of a next value as terms: m + k·z, clipped if bounds are given."""

    family: str
    location: Term
    scale: Term
    low: Term | None
    high: Term | None


def locations(affine: Affine, noises: Mapping[str, Noise]) -> Locations:
    """Return the distribution of a next value that is affine in its noise."""
    family = noises[next(iter(affine.coefficients))].spread.family
    location = affine.constant
    widths: list[Term] = []
    for name, coefficient in affine.coefficients.items():
        a, b = _numbers(noises[name], coefficient)
        location = _apply("+", location, _apply("*", coefficient, a))
        wide = b if family == "normal" else _apply("-", b, a)
        widths.append(_apply("*", coefficient, wide))
    if family == "uniform":  # of one noise; if its coefficient is negative, the ends change places
        location = _apply("+", location, _apply("min", widths[0], _number(0.0, location)))
    scale = _apply("abs", widths[0])
    if len(widths) > 1:
        squares = [_apply("^", width, _number(2.0, location)) for width in widths]
        together = squares[0]
        for square in squares[1:]:
            together = _apply("+", together, square)
        scale = _apply("sqrt", together)
    low, high = affine.clip
    if low is not None and high is not None:
        low = _apply("min", low, high)  # as `clip` has it where its bounds cross
    return Locations(family, location, scale, low, high)


class CellMasses:
    """The masses of some cells of one variable, at nodes whose terms read `known` and numbers."""

    def __init__(
        self, variable: Variable, of: Locations, known: Frame, node: IntArray, cell: IntArray
    ) -> None:
        assert variable.edges is not None
        self.variable = variable
        self.of = of
        self.known = known
        self._node = node  # [u]
        self._cell = cell  # [u]
        self._layouts: dict[int, _Layout] = {}
        self._begin = float(variable.edges[0])
        self._period = float(variable.edges[-1]) - self._begin
        self._reach = NORMAL_REACH if of.family == "normal" else 1.0

    def at(self, point: Point) -> FloatArray:
        """Return the mass of each cell, [u]."""
        layout, z, _ = self._standardised(point)
        if self.of.family == "uniform":
            below = np.clip(z, 0.0, 1.0)
            return layout.summed(below[layout.upper] - below[layout.lower])
        from scipy.special import ndtr

        # The tail on the nearer side is accurate, however small it is.
        tail = ndtr(-np.abs(z))
        first, last = tail[layout.lower], tail[layout.upper]
        is_left, is_right = (z <= 0)[layout.upper], (z > 0)[layout.lower]
        masses = np.where(is_left, last - first, np.where(is_right, first - last, 1 - first - last))
        return layout.summed(np.maximum(masses, 0.0))

    def slopes_at(self, point: Point) -> FloatArray:
        """Return the derivative of each mass along each number, [k, u]; NaN if there is none."""
        layout, z, scale = self._standardised(point)
        move, widen = (
            _taken(point.slope(term, self.known), layout.node)
            for term in (self.of.location, self.of.scale)
        )
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if self.of.family == "uniform":
                density = np.where((z > 0) & (z < 1), 1.0, 0.0)
                widest = np.inf
            else:
                density = np.exp(-0.5 * z * z) * _DENSITY_AT_ZERO
                widest = self._widest
            widen = np.where(scale < widest, widen, 0.0)
            inner = np.where(np.isfinite(z), z, 0.0)
            rises = np.where(density > 0, -density * (move + widen * inner) / scale, 0.0)
        return layout.summed(rises[:, layout.upper] - rises[:, layout.lower])

    def over(self, region: Region) -> Enclosure:
        """Enclose the mass of each cell over a box, [u]."""
        return region.tight(id(self), self._natural)

    @property
    def _widest(self) -> float:
        """The scale above which a normal distribution is uniform on the circle, unless clipped."""
        is_clipped = self.of.low is not None or self.of.high is not None
        if is_clipped or not self.variable.wraps:
            return np.inf
        return UNIFORM_ON_CIRCLE * self._period

    def _standardised(self, point: Point) -> tuple[_Layout, FloatArray, FloatArray]:
        """Return the edges of the cells, (edge - m)/k at each, and k at each."""
        location, scale, low, high = (
            None if term is None else point.value(term, self.known)
            for term in (self.of.location, self.of.scale, self.of.low, self.of.high)
        )
        assert location is not None
        assert scale is not None
        if self.of.family == "normal":
            scale = np.minimum(scale, self._widest)
        layout, shift, _ = self._layout(
            (location, location), (scale, scale), (low, low), (high, high), np.inf
        )
        edges = layout.edge + _taken(shift, layout.node)
        location, scale = _taken(location, layout.node), _taken(scale, layout.node)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            z = (edges - location) / scale
        if (scale <= 0).any():
            z = np.where(scale > 0, z, np.where(edges > location, np.inf, -np.inf))
        if high is not None:
            z = np.where(edges > _taken(high, layout.node), np.inf, z)
        if low is not None:
            z = np.where(edges <= _taken(low, layout.node), -np.inf, z)
        return layout, z, np.broadcast_to(scale, z.shape)

    def _natural(self, region: Region) -> Enclosure:
        location, scale, low, high = (
            None if term is None else region.term(term, self.known)
            for term in (self.of.location, self.of.scale, self.of.low, self.of.high)
        )
        assert location is not None
        assert scale is not None
        n_numbers = len(region.box.names)
        if self.of.family == "normal" and np.isfinite(self._widest):
            scale = minimum(scale, exactly(np.asarray(self._widest), n_numbers))
        layout, shift, is_far = self._layout(
            location.value,
            scale.value,
            (None, None) if low is None else low.value,
            (None, None) if high is None else high.value,
            max(_ALWAYS_TURNED, _MOST_EDGES // max(1, len(self._cell))),
        )
        at_edges = layout.node
        edges = exactly(layout.edge + _taken(shift, at_edges), n_numbers)
        distance = subtract(edges, gathered(location, at_edges))
        # Turning rounds, too.
        error = RELATIVE_ERROR * np.abs(_taken(shift, at_edges))
        distance = Enclosure(distance.lower - error, distance.upper + error, *distance.slope)
        z = _standard(distance, gathered(scale, at_edges))
        below = normal_probability(z) if self.of.family == "normal" else uniform_probability(z)
        if high is not None:
            bound = gathered(high, at_edges)
            above = truth(edges.lower > bound.upper, edges.lower > bound.lower, bound)
            below = either(above, exactly(np.ones(1), n_numbers), below)
        if low is not None:
            bound = gathered(low, at_edges)
            under = truth(edges.lower <= bound.lower, edges.lower <= bound.upper, bound)
            below = either(under, exactly(np.zeros(1), n_numbers), below)
        masses = subtract(gathered(below, layout.upper), gathered(below, layout.lower))
        if layout.lower.ndim > 1:
            masses = total(masses, -1)
        is_far = _taken(is_far, self._node)
        return Enclosure(
            np.where(is_far, 0.0, np.clip(masses.lower, 0.0, 1.0)),
            np.where(is_far, 1.0, np.clip(masses.upper, 0.0, 1.0)),
            np.where(is_far, -np.inf, masses.slope_lower),
            np.where(is_far, np.inf, masses.slope_upper),
        )

    def _layout(
        self,
        location: tuple[FloatArray, FloatArray],
        scale: tuple[FloatArray, FloatArray],
        low: tuple[FloatArray | None, FloatArray | None],
        high: tuple[FloatArray | None, FloatArray | None],
        most_turns: float,
    ) -> tuple[_Layout, FloatArray, BoolArray]:
        """Return the edges that matter, and how far they are to be shifted at each node.

        And the nodes that would need more turns than that, or have no finite values: theirs are
        not laid out.
        """
        if not self.variable.wraps:
            return self._turned(0), np.zeros(1), np.zeros(1, np.bool_)
        with np.errstate(invalid="ignore", over="ignore"):
            reach = self._reach * scale[1]
            first = location[0] - (reach if self.of.family == "normal" else 0.0)
            last = location[1] + reach
            for bound, cut in ((low, np.maximum), (high, np.minimum)):
                if bound[0] is not None and bound[1] is not None:
                    first, last = cut(first, bound[0]), cut(last, bound[1])
            middle = first / 2 + last / 2
            turns = np.ceil((last - first) / 2 / self._period)
            is_far = ~(np.isfinite(turns) & np.isfinite(middle) & (turns <= most_turns))
            shift = self._period * np.floor((middle - self._begin) / self._period)
        n_turns = int(np.max(np.where(is_far, 0.0, turns), initial=0.0))
        return self._turned(n_turns), np.where(is_far, 0.0, shift), np.asarray(is_far)

    def _turned(self, n_turns: int) -> _Layout:
        if n_turns not in self._layouts:
            self._layouts[n_turns] = self._new_layout(n_turns)
        return self._layouts[n_turns]

    def _new_layout(self, n_turns: int) -> _Layout:
        """Lay out the edges of the cells, each once, over some turns before and after."""
        edges, size = self.variable.edges, self.variable.size
        assert edges is not None
        turns = np.arange(-n_turns, n_turns + 1) if self.variable.wraps else np.zeros(1, np.int64)
        unrolled = self._cell[:, None] + turns * size  # [u, turns]
        width = (2 * n_turns + 1) * size + 1
        keys = self._node[:, None] * width + unrolled + n_turns * size
        needed, places = np.unique(np.stack([keys, keys + 1]), return_inverse=True)
        node, index = np.divmod(needed, width)
        if self.variable.wraps:
            turn, inside = np.divmod(index - n_turns * size, size)
            values = edges[inside] + turn * self._period
        else:
            values = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])[index]
        lower, upper = places.reshape(2, *keys.shape)
        if len(turns) == 1:
            lower, upper = lower[:, 0], upper[:, 0]
        return _Layout(node, values, lower, upper)


@dataclass(frozen=True, eq=False)
class _Layout:
    """The edges of some cells, without repetition."""

    node: IntArray  # [n_edges]
    edge: FloatArray  # [n_edges]
    lower: IntArray  # [u] or [u, n_turns]  the lower edge of each cell, in each turn
    upper: IntArray  # likewise

    def summed(self, masses: FloatArray) -> FloatArray:
        """Sum over turns, if there are several."""
        return masses.sum(axis=-1) if self.lower.ndim > 1 else masses


def gathered(x: Enclosure, index: IntArray) -> Enclosure:
    """Return some rows of an enclosure; what is the same in all rows stays one row."""
    return x.each(lambda values: _taken(values, index))


def _standard(distance: Enclosure, scale: Enclosure) -> Enclosure:
    """Divide distances from the location by the scale, which may be 0 but not less.

    A distribution without any width gives all its mass to the cell of its location, and an edge
    there is its lower one.
    """
    vanishes = scale.lower <= 0
    if not vanishes.any():
        return divide(distance, scale)
    found = divide(distance, scale)
    low, high = (_quotient(end, scale.upper) for end in distance.value)
    low = np.where(distance.lower > 0, down(low), -np.inf)
    high = np.where(distance.upper <= 0, up(high), np.inf)
    return Enclosure(
        np.where(vanishes, low, found.lower),
        np.where(vanishes, high, found.upper),
        np.where(vanishes, -np.inf, found.slope_lower),
        np.where(vanishes, np.inf, found.slope_upper),
    )


def _quotient(distance: FloatArray, scale: FloatArray) -> FloatArray:
    """Divide by a scale of at least 0; infinite divided by infinite is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = distance / scale
    at_zero = np.where(distance > 0, np.inf, -np.inf)
    found = np.where(scale <= 0, at_zero, found)
    return np.where(np.isnan(found), 0.0, found)


def _taken(values: npt.NDArray[T], index: IntArray) -> npt.NDArray[T]:
    if values.ndim == 0:
        return values
    if values.shape[-1] == 1:
        return values.reshape(values.shape[:-1] + (1,) * index.ndim)
    return values[..., index]


def _numbers(noise: Noise, like: Term) -> tuple[Term, Term]:
    if noise.terms is not None:
        return noise.terms
    return _number(noise.spread.a, like), _number(noise.spread.b, like)


def _number(value: float, like: Term) -> Term:
    return Constant(value, type=REAL, span=like.span)


def _apply(function: str, *arguments: Term) -> Term:
    return Apply(function, arguments, type=REAL, span=arguments[0].span)
