"""Where one outcome of a rule leads: next values, their cells, and the probability of each.

The starting states are rows, each with `k` weighted nodes: the points of its cell times the values
of the noise that is enumerated or integrated numerically.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mdpdsl.compile.cells import (
    Window,
    covering_edges,
    point_window,
    window_masses,
)
from mdpdsl.compile.checked import CheckedModel, Spread
from mdpdsl.compile.expressions import Array, Evaluated, Frame, evaluate
from mdpdsl.compile.noise import Affine, OutcomePlan
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.quadrature import (
    GAUSS_NODES,
    discrete_nodes,
    product_nodes,
    rough_strata,
    sampled_nodes,
    stratified_nodes,
    support,
)
from mdpdsl.compile.terms import Term
from mdpdsl.graph.space import FloatArray, IntArray, Variable

#: Smaller probabilities are below the rounding error of their row.
NEGLIGIBLE = 1e-15
#: How many numbers are held at once while windows are multiplied.
_BLOCK = 4_000_000


@dataclass(frozen=True, eq=False)
class Moves:
    """The branches of some rows: row, product code of the next state, probability."""

    rows: IntArray  # [m]
    targets: IntArray  # [m]
    probabilities: FloatArray  # [m]
    is_one_per_row: bool = False  # rows are distinct and ascend, probabilities are positive


@dataclass(frozen=True, eq=False)
class Start:
    """The rows an outcome starts from, with `k` nodes each, row by row in the frame."""

    codes: IntArray  # [n]
    rows: IntArray  # [n]     the row numbers for `Moves.rows`
    frame: Frame  # of n·k rows
    weights: FloatArray  # [n, k]


class OutcomeKernel:
    """Computes the moves of outcomes of one model."""

    def __init__(self, model: CheckedModel, problems: Problems) -> None:
        self.model = model
        self.problems = problems
        self.refinement = 1
        self._position = {v.name: i for i, v in enumerate(model.states.variables)}
        self._cells_of: tuple[IntArray, dict[int, IntArray]] = (np.zeros(0, np.int64), {})

    def moves(self, plan: OutcomePlan, start: Start, action: int) -> Iterator[Moves]:
        """Return where an outcome leads from each row."""
        points = start
        start = self._with_noise_nodes(plan, start, action)
        cells, frame = self._certain_cells(plan, start, action)
        n, k = start.weights.shape
        if not plan.exact:
            codes = np.repeat(start.codes, k) if k > 1 else start.codes
            targets = codes
            for name, index in cells.items():
                position = self._position[name]
                stride = self.model.states.strides[position]
                targets = targets + stride * (index - self._cells(codes, position))
            rows = np.repeat(start.rows, k) if k > 1 else start.rows
            yield Moves(rows, targets, start.weights.ravel(), is_one_per_row=k == 1)
            return
        windows: dict[str, Window] = {
            name: point_window(self._variable(name), index.reshape(n, k))
            for name, index in cells.items()
        }
        if plan.is_apart:
            frame = self._with_present_values(plan, points.frame)
            apart = {
                name: self._exact_window(name, affine, points, frame, action)
                for name, affine in plan.exact.items()
            }
            yield from self._multiply(sorted(windows), sorted(apart), windows | apart, start)
            return
        for name, affine in plan.exact.items():
            windows[name] = self._exact_window(name, affine, start, frame, action)
        names = sorted(windows, key=lambda name: windows[name].masses.shape[2])
        yield from self._multiply(names[0::2], names[1::2], windows, start)

    def _cells(self, codes: IntArray, position: int) -> IntArray:
        """Return the cells of a variable, cached because the branches of a batch share them."""
        if self._cells_of[0] is not codes:
            self._cells_of = codes, {}
        known = self._cells_of[1]
        if position not in known:
            known[position] = self.model.states.cells(codes, position)
        return known[position]

    def _variable(self, name: str) -> Variable:
        return self.model.states.variables[self._position[name]]

    # Nodes of the noise

    def _with_noise_nodes(self, plan: OutcomePlan, start: Start, action: int) -> Start:
        if plan.discrete:
            nodes, weights = discrete_nodes(plan.discrete)
            names = [noise.name for noise in plan.discrete]
            start = crossed(start, names, nodes, weights)
        if len(plan.quadrature) == 1:
            return self._stratified(plan, start, action)
        if plan.quadrature:
            if plan.method == "sampling":
                seed = self.model.discretization.seed
                nodes, weights = sampled_nodes(plan.quadrature, seed, self.refinement)
            else:
                nodes, weights = product_nodes(plan.quadrature, self.refinement)
            start = crossed(start, [noise.name for noise in plan.quadrature], nodes, weights)
        return start

    def _stratified(self, plan: OutcomePlan, start: Start, action: int) -> Start:
        """Give each row its own strata, which end where an aligned variable enters another cell."""
        noise = plan.quadrature[0]
        size = start.frame.size
        frame = self._with_present_values(plan, start.frame)
        for name in plan.order:
            if name in plan.steady:
                values = self._values(plan.terms[name], frame, start, action)
                frame = frame.extended({("next", name): following(self._variable(name), values)})
        breakpoints = [np.empty((size, 0))]
        for name, affine in plan.aligned.items():
            constant = self._values(affine.constant, frame, start, action)
            slope = self._values(affine.coefficients[noise.name], frame, start, action)
            edges = [_met_edges(self._variable(name), constant, slope, noise.spread)]
            for bound in affine.clip:
                if bound is not None:
                    edges.append(self._values(bound, frame, start, action)[:, None])
            with np.errstate(divide="ignore", invalid="ignore"):
                met = (np.concatenate(edges, axis=1) - constant[:, None]) / slope[:, None]
            breakpoints.append(np.where(np.isfinite(met), met, noise.spread.a))
        nodes, weights = stratified_nodes(
            noise.spread,
            np.concatenate(breakpoints, axis=1),
            rough_strata(start.weights.shape[1]) if plan.is_rough else None,
            GAUSS_NODES if plan.exact and not plan.is_rough else 1,
            self.refinement,
        )
        m = nodes.shape[1]
        n, k = start.weights.shape
        crossed = (start.weights.reshape(n, k, 1) * weights.reshape(n, k, m)).reshape(n, k * m)
        frame = start.frame.take(np.repeat(np.arange(size), m), size * m)
        frame = frame.extended({("noise", noise.name): nodes.ravel()})
        return Start(start.codes, start.rows, frame, crossed)

    # Next values

    def _with_present_values(self, plan: OutcomePlan, frame: Frame) -> Frame:
        """Give a variable that nothing sets its current value as its next value."""
        names = [v.name for v in self.model.states.variables if v.name not in plan.terms]
        return frame.extended({("next", name): frame.values["state", name] for name in names})

    def _certain_cells(
        self, plan: OutcomePlan, start: Start, action: int
    ) -> tuple[dict[str, IntArray], Frame]:
        """Return the next cells of all variables that are deterministic at a node, in order."""
        frame = self._with_present_values(plan, start.frame)
        cells: dict[str, IntArray] = {}
        for name in plan.order:
            if name in plan.exact:
                continue
            variable = self._variable(name)
            values = self._values(plan.terms[name], frame, start, action)
            cells[name] = self._certain_cell(variable, values)
            self._report_outside(variable, cells[name], values, plan, start, action)
            frame = frame.extended({("next", name): following(variable, values)})
        return cells, frame

    def _certain_cell(self, variable: Variable, values: FloatArray) -> IntArray:
        """Return the cells of next values of a variable; -1 for those out of its range."""
        if variable.kind == "enum":
            members = np.array([self.model.symbols[m] for m in variable.members])
            index = np.full(max(self.model.symbols.values()) + 1, -1)
            index[members] = np.arange(len(members))
            return np.asarray(index[values.astype(np.int64)])
        if variable.kind == "int":  # its type guarantees an integer
            offset = values - variable.low
            outside = (offset < 0) | (offset >= variable.size)
            return np.where(outside, -1, offset).astype(np.int64)
        return variable.indices(values)

    def _values(self, term: Term, frame: Frame, start: Start, action: int) -> FloatArray:
        """Evaluate an update; report values that are not finite."""
        result = evaluate(term, frame)
        n_nodes = frame.size // len(start.codes)
        report_faults(self.problems, result, frame, start.codes, action)
        values = frame.full(result.values).astype(np.float64, copy=False)
        if not np.isfinite(values).all():
            bad = ~np.isfinite(values)
            if not result.faults:
                states = start.codes[np.unique(np.flatnonzero(bad) // n_nodes)]
                self.problems.add(
                    "E507", term.span, "the value is not a finite number", states, action=action
                )
            values = np.where(bad, 0.0, values)
        return values

    def _report_outside(
        self,
        variable: Variable,
        cells: IntArray,
        values: FloatArray,
        plan: OutcomePlan,
        start: Start,
        action: int,
    ) -> None:
        outside = cells < 0
        if not outside.any():
            return
        n_nodes = len(cells) // len(start.codes)
        places = np.flatnonzero(outside)
        name, help_text = variable.name, f"the model declares {variable.describe()}"
        names = {number: member for member, number in self.model.symbols.items()}

        def say(value: float) -> str:
            text = names[int(value)] if variable.kind == "enum" else f"{value:g}"
            return f"{name}' = {text} is out of range"

        self.problems.add(
            "E505",
            plan.terms[name].span,
            say,
            start.codes[places // n_nodes],
            values=values[places],
            action=action,
            help_text=help_text,
        )
        cells[outside] = 0

    def _exact_window(
        self, name: str, affine: Affine, start: Start, frame: Frame, action: int
    ) -> Window:
        shape = start.weights.shape
        location = self._values(affine.constant, frame, start, action)
        families = {noise.name: noise.spread for noise in self.model.noises}
        family = families[next(iter(affine.coefficients))].family
        variance = np.zeros(frame.size)
        width = np.zeros(frame.size)
        for noise_name, coefficient in affine.coefficients.items():
            slope = self._values(coefficient, frame, start, action)
            spread = families[noise_name]
            location = location + slope * spread.a
            if family == "normal":
                variance += (slope * spread.b) ** 2
            else:
                width = slope * (spread.b - spread.a)
        scale = np.sqrt(variance) if family == "normal" else np.abs(width)
        if family == "uniform":
            location = location + np.minimum(width, 0)
        clip = None
        if affine.clip != (None, None):
            low, high = (
                np.full(frame.size, infinity)
                if bound is None
                else self._values(bound, frame, start, action)
                for bound, infinity in zip(affine.clip, (-np.inf, np.inf), strict=True)
            )
            clip = np.minimum(low, high).reshape(shape), high.reshape(shape)  # if they cross: high
        variable = self._variable(name)
        return window_masses(variable, family, location.reshape(shape), scale.reshape(shape), clip)

    # Products of windows

    def _multiply(
        self, left: list[str], right: list[str], windows: dict[str, Window], start: Start
    ) -> Iterator[Moves]:
        """Sum over nodes the product of the variables' windows: one matrix product per row.

        The windows on the right may have fewer nodes, if they depend on the points of the cell but
        not on the noise. The corresponding nodes on the left are then summed first.
        """
        n, k = start.weights.shape
        widths = [math.prod(windows[m].masses.shape[2] for m in side) for side in (left, right)]
        block = max(1, _BLOCK // (widths[0] * widths[1] + k * sum(widths)))
        for begin in range(0, n, block):
            rows = slice(begin, min(n, begin + block))
            base = self._base_codes(start.codes[rows], [*left, *right])
            one, one_codes = self._side(left, windows, rows, k)
            other, other_codes = self._side(right, windows, rows, 1)
            weighted = one * start.weights[rows, :, None]
            if other.shape[1] < k:
                n_rows, n_points = other.shape[:2]
                weighted = weighted.reshape(n_rows, n_points, k // n_points, -1).sum(axis=2)
            masses = np.matmul(weighted.transpose(0, 2, 1), other)
            codes = base[:, None, None] + one_codes[:, :, None] + other_codes[:, None, :]
            likely = masses > NEGLIGIBLE
            row_of = np.broadcast_to(start.rows[rows][:, None, None], masses.shape)
            yield Moves(row_of[likely], codes[likely], masses[likely])

    def _base_codes(self, codes: IntArray, names: list[str]) -> IntArray:
        """Return the codes with some variables set to their first cell."""
        base = codes
        for name in names:
            position = self._position[name]
            cells = self.model.states.cells(codes, position)
            base = base - self.model.states.strides[position] * cells
        return base

    def _side(
        self, names: list[str], windows: dict[str, Window], rows: slice, n_nodes: int
    ) -> tuple[FloatArray, IntArray]:
        """Multiply the windows of some variables: masses [n, k, w] and code offsets [n, w].

        Without variables, the product is 1 at each of `n_nodes` nodes.
        """
        n = rows.stop - rows.start
        k = windows[names[0]].masses.shape[1] if names else n_nodes
        masses, codes = np.ones((n, k, 1)), np.zeros((n, 1), np.int64)
        for name in names:
            window, position = windows[name], self._position[name]
            cells = window.cells(self.model.states.variables[position])[rows]
            part = window.masses[rows]
            masses = (masses[:, :, :, None] * part[:, :, None, :]).reshape(n, k, -1)
            stride = self.model.states.strides[position]
            codes = (codes[:, :, None] + stride * cells[:, None, :]).reshape(n, -1)
        return masses, codes


def report_faults(
    problems: Problems, result: Evaluated, frame: Frame, codes: IntArray, action: int | None
) -> None:
    """Report the faults of an evaluation for the states in which they occur."""
    n_nodes = frame.size // max(1, len(codes))
    for fault in result.faults:
        rows = np.flatnonzero(np.broadcast_to(fault.rows, (frame.size,)))
        states = codes[np.unique(rows // n_nodes)]
        problems.add("E507", fault.span, fault.message, states, action=action)


def following(variable: Variable, values: FloatArray) -> Array:
    """Return next values in the form in which other expressions read them."""
    if variable.kind == "real":
        return variable.saturate(values)
    return values != 0 if variable.kind == "bool" else values


def _met_edges(
    variable: Variable, constant: FloatArray, slope: FloatArray, spread: Spread
) -> FloatArray:
    """Return the edges that constant + slope·noise may cross in each row, including the ends."""
    assert variable.edges is not None
    ends = [constant + slope * end for end in support(spread)]
    edges = covering_edges(variable, np.minimum(*ends), np.maximum(*ends))
    if variable.wraps:
        return edges
    outer = np.broadcast_to(variable.edges[[0, -1]], (len(constant), 2))
    return np.concatenate([edges, outer], axis=1)


def crossed(start: Start, names: list[str], nodes: FloatArray, weights: FloatArray) -> Start:
    """Combine the nodes of every row with the nodes of some noises."""
    n, k = start.weights.shape
    m = len(weights)
    size = n * k * m
    frame = start.frame.take(np.repeat(np.arange(n * k), m), size)
    values = {("noise", name): np.tile(nodes[:, i], n * k) for i, name in enumerate(names)}
    crossed = (start.weights[:, :, None] * weights).reshape(n, k * m)
    return Start(start.codes, start.rows, frame.extended(values), crossed)
