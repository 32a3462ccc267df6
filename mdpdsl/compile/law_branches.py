"""Where the branches of a line lead, as functions of the model's unknown numbers theta.

- If the updates of a branch read no unknown number, it leads to the same states for all theta, and
  its part of a row is linear in its probability.
- If they do, and its noise is integrated by the distribution function, its part of a row is its
  probability times a product of masses of cells (see `cell_laws`).
- Otherwise it is computed anew for every theta, and has neither exact derivatives nor bounds.

A state is evaluated at the points of its cell; the points times the values of discrete noise are
*nodes*. Each branch has a weight at every point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mdpdsl.compile.cell_laws import CellMasses, Locations, Point, Region, gathered, locations
from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.enclosures import Enclosure
from mdpdsl.compile.expressions import Array, Frame, evaluate
from mdpdsl.compile.interval_arithmetic import RELATIVE_ERROR, Interval
from mdpdsl.compile.noise import OutcomePlan, plan_outcome
from mdpdsl.compile.outcome import NEGLIGIBLE, Moves, OutcomeKernel, Start
from mdpdsl.compile.quadrature import discrete_nodes
from mdpdsl.compile.rewriting import Known
from mdpdsl.compile.slopes import multiply
from mdpdsl.compile.terms import Term
from mdpdsl.graph.row_sets import places
from mdpdsl.graph.space import FloatArray, IntArray, StateSpace


@dataclass(frozen=True, eq=False)
class BlockRows:
    """The rows of a block: their states, the frame of their points, and their entries."""

    model: CheckedModel
    states: StateSpace
    codes: IntArray  # [n]
    frame: Frame  # of n·k rows
    entries: IntArray  # [m]  among all entries of the family
    entry_row: IntArray  # [m]  ascending
    successor: IntArray  # [m]  ascending within a row

    @property
    def n_points(self) -> int:
        """The number of points of a cell."""
        return self.frame.size // len(self.codes)

    @cached_property
    def _keys(self) -> IntArray:
        return self.entry_row * self.states.n_states + self.successor

    def places_of(self, moves: Moves, rows: IntArray) -> IntArray:
        """Return the entry of each move from some row; -1 if it has none."""
        state = self.states.indices(moves.targets)
        found = places(self._keys, rows * self.states.n_states + state)
        return np.where(state < 0, -1, found)


class FixedBranch:
    """A branch that leads to the same states for all theta: its row is linear in its weights."""

    def __init__(self, rows: BlockRows, plan: OutcomePlan, outcomes: OutcomeKernel) -> None:
        k, size = rows.n_points, rows.frame.size
        found: list[tuple[IntArray, IntArray, FloatArray]] = []
        for start, point in _starts(rows, plan):
            for moves in outcomes.moves(plan, start, 0):
                node = moves.rows if point is None else moves.rows * k + point
                found.append((rows.places_of(moves, node // k), node, moves.probabilities))
        entry, node, mass = (np.concatenate([part[i] for part in found]) for i in range(3))
        listed = entry >= 0
        self.entry, self.node, mass = entry[listed], node[listed], mass[listed]
        self.mass = mass / np.bincount(self.node, mass, size)[self.node]
        self.n_entries = len(rows.entries)
        self._most = _most_summed(self.entry)

    def at(self, weights: FloatArray) -> FloatArray:
        """Return the part of the branch in the rows, [..., m], for weights [..., n_points]."""
        if weights.ndim > 1:
            return np.stack([self.at(each) for each in weights])
        weighted = self.mass * (weights[self.node] if weights.size > 1 else weights)
        return np.asarray(np.bincount(self.entry, weighted, self.n_entries), np.float64)

    def over(self, weights: Enclosure) -> Enclosure:
        """Enclose the part of the branch in the rows, [m]; masses are not negative."""
        return _spread_out(weights.each(self.at), self._most)


class CellBranch:
    """A branch whose continuous next values have locations and scales that depend on theta."""

    def __init__(self, rows: BlockRows, plan: OutcomePlan, outcomes: OutcomeKernel) -> None:
        nodes, shares = np.zeros((1, 0)), np.ones(1)
        if plan.discrete:
            nodes, shares = discrete_nodes(plan.discrete)
        d = len(shares)
        size = rows.frame.size * d
        frame = rows.frame.take(np.repeat(np.arange(rows.frame.size), d), size).extended(
            {
                ("noise", noise.name): np.tile(nodes[:, i], rows.frame.size)
                for i, noise in enumerate(plan.discrete)
            }
        )
        frame = _with_next_values(rows.model, plan, frame)
        per_row = rows.n_points * d
        steady = {name: plan.terms[name] for name in plan.order if name not in plan.exact}
        alone = replace(plan, order=tuple(steady), terms=steady, discrete=(), exact={})
        start = Start(np.repeat(rows.codes, per_row), np.arange(size), frame, np.ones((size, 1)))
        (moves,) = outcomes.moves(alone, start, 0)
        # An entry is reached from the nodes of its row that agree in all other variables.
        entry = np.repeat(np.arange(len(rows.entries)), per_row)
        node = rows.entry_row[entry] * per_row + np.tile(np.arange(per_row), len(rows.entries))
        product = rows.model.states
        codes = rows.states.codes[rows.successor]
        positions = {v.name: i for i, v in enumerate(product.variables)}
        bare, met = codes, moves.targets
        for name in plan.exact:
            stride, position = product.strides[positions[name]], positions[name]
            bare = bare - stride * product.cells(codes, position)
            met = met - stride * product.cells(moves.targets, position)
        agree = bare[entry] == met[node]
        self.entry, node = entry[agree], node[agree]
        self.point = node // d
        self.share = shares[node % d]
        self.n_entries = len(rows.entries)
        self._most = _most_summed(self.entry)
        self._is_plain = np.array_equal(self.entry, np.arange(self.n_entries))
        known = Known(frame)
        noises = {noise.name: noise for noise in rows.model.noises}
        exact = plan.exact.items()
        laws = {name: _reduced(locations(affine, noises), known) for name, affine in exact}
        reduced = Frame(size, known.values)
        self.factors: list[tuple[CellMasses, IntArray]] = []
        for name, law in laws.items():
            variable = product.variables[positions[name]]
            cells = product.cells(codes, positions[name])[self.entry]
            slots, slot = np.unique(node * variable.size + cells, return_inverse=True)
            masses = CellMasses(variable, law, reduced, *np.divmod(slots, variable.size))
            self.factors.append((masses, slot))

    def at(self, point: Point, weights: FloatArray) -> FloatArray:
        """Return the part of the branch in the rows, [m], for weights [n_points]."""
        product = self._weighted(weights)
        for masses, slot in self.factors:
            product = product * masses.at(point)[slot]
        found = self._summed(product)
        return np.where(found > NEGLIGIBLE, found, 0.0)

    def slopes_at(self, point: Point, weights: FloatArray, rises: FloatArray) -> FloatArray:
        """Return the derivatives of that part, [k, m], for weights with derivatives."""
        product, slopes = self._weighted(weights), self._weighted(rises)
        for masses, slot in self.factors:
            factor = masses.at(point)[slot]
            slopes = slopes * factor + product * masses.slopes_at(point)[:, slot]
            product = product * factor
        return self._summed(slopes)

    def over(self, region: Region, weights: Enclosure) -> Enclosure:
        """Enclose the part of the branch in the rows, [m]."""
        product = weights.each(self._weighted)
        for masses, slot in self.factors:
            product = multiply(product, gathered(masses.over(region), slot))
        found = _spread_out(product.each(self._summed), self._most)
        # What is negligible is left out of rows.
        low = np.maximum(found.lower - NEGLIGIBLE, 0.0)
        high = np.where(found.upper > 0, found.upper + NEGLIGIBLE, 0.0)
        return Enclosure(low, high, *found.slope)

    def _weighted(self, weights: FloatArray) -> FloatArray:
        """Return the weight of each node of each entry."""
        is_same = weights.ndim == 0 or weights.shape[-1] == 1
        return np.asarray(self.share * (weights if is_same else weights[..., self.point]))

    def _summed(self, parts: FloatArray) -> FloatArray:
        """Sum over the nodes of each entry."""
        parts = np.broadcast_to(parts, (*parts.shape[:-1], len(self.entry)))
        if parts.ndim > 1:
            return np.stack([self._summed(each) for each in parts])
        if self._is_plain:
            return parts
        return np.asarray(np.bincount(self.entry, parts, self.n_entries), np.float64)


class NumericBranch:
    """A branch whose noise is integrated numerically, anew for every theta."""

    def __init__(self, rows: BlockRows, terms: Mapping[str, Term]) -> None:
        self.rows = rows
        self.terms = terms

    def at(self, model: CheckedModel, outcomes: OutcomeKernel, weights: FloatArray) -> FloatArray:
        """Return the part of the branch in the rows, [m], for a model with values of theta."""
        rows = self.rows
        variables = {v.name: v for v in model.states.variables}
        plan = plan_outcome(self.terms, variables, model.noises)
        frame = Frame(rows.frame.size, {**rows.frame.values, **model.unknown_values})
        n, k = len(rows.codes), rows.n_points
        each = np.broadcast_to(weights, (n * k,)).reshape(n, k)
        found = np.zeros(len(rows.entries))
        for moves in outcomes.moves(plan, Start(rows.codes, np.arange(n), frame, each), 0):
            place = rows.places_of(moves, moves.rows)
            found += np.bincount(place[place >= 0], moves.probabilities[place >= 0], len(found))
        return found


def _starts(rows: BlockRows, plan: OutcomePlan) -> Iterator[tuple[Start, int | None]]:
    """Return starts that keep the points of a cell apart, each with the number of its point.

    Without a number, the points themselves are the rows.
    """
    k, size = rows.n_points, rows.frame.size
    if k == 1 or not plan.quadrature:
        codes = np.repeat(rows.codes, k)
        yield Start(codes, np.arange(size), rows.frame, np.ones((size, 1))), None
        return
    # Numerical integration is as fine as the number of points requires.
    for point in range(k):
        weights = np.zeros((len(rows.codes), k))
        weights[:, point] = 1.0
        yield Start(rows.codes, np.arange(len(rows.codes)), rows.frame, weights), point


def _with_next_values(model: CheckedModel, plan: OutcomePlan, frame: Frame) -> Frame:
    """Return a frame with the next values of all variables that have one at a node."""
    for variable in model.states.variables:
        if variable.name not in plan.terms:
            now = frame.values["state", variable.name]
            frame = frame.extended({("next", variable.name): now})
    variables = {variable.name: variable for variable in model.states.variables}
    for name in plan.order:
        if name not in plan.exact:
            values: Array = np.asarray(evaluate(plan.terms[name], frame).values, np.float64)
            if variables[name].kind == "real":
                values = variables[name].saturate(values)
            elif variables[name].kind == "bool":
                values = values != 0
            frame = frame.extended({("next", name): values})
    return frame


def _reduced(law: Locations, known: Known) -> Locations:
    """Evaluate the parts of a distribution that read no unknown number."""
    low, high = (None if bound is None else known(bound) for bound in (law.low, law.high))
    return Locations(law.family, known(law.location), known(law.scale), low, high)


def _most_summed(entry: IntArray) -> int:
    """Return the largest number of parts that an entry has."""
    return int(np.bincount(entry).max(initial=1))


def _spread_out(x: Enclosure, n_summed: int) -> Enclosure:
    """Widen sums by their rounding error."""
    error = RELATIVE_ERROR * (1 + n_summed)

    def wider(ends: Interval) -> Interval:
        low, high = ends
        return low - error * np.abs(low), high + error * np.abs(high)

    return Enclosure(*wider(x.value), *wider(x.slope))
