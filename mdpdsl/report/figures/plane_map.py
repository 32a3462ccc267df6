"""Figures of pairs on the plane of two variables, for all actions together and for each of them.

If several pairs share a cell (because of other variables or actions), visits are added up, and the
largest value is used for all other figures; the note of a map says which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mdpdsl.diagnostics import SettingsError, did_you_mean
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, Value, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.figures.pair_figures import PairFigure

ACTION = "action"


class AxesError(SettingsError):
    """A model has no such axes; the message lists those it has."""


@dataclass(frozen=True, eq=False)
class PlaneAxis:
    """A variable, or the actions, divided into cells."""

    name: str
    labels: tuple[str, ...]  # of each cell
    edges: FloatArray | None = None  # [n_cells + 1]  of a real variable

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class MapSlice:
    """Values on the plane: NaN if no pair has any, infinite if one was never visited."""

    label: str
    values: FloatArray  # [n_up, n_across]
    has_known: BoolArray  # [n_up, n_across]  whether a cell has a pair that is known


@dataclass(frozen=True, eq=False)
class PlaneMap:
    """A figure on a plane; the first slice combines all actions."""

    figure: PairFigure
    across: PlaneAxis
    up: PlaneAxis
    slices: tuple[MapSlice, ...]
    rule: str  # how the pairs of a cell were combined; empty if every cell has one pair
    has_end: BoolArray  # [n_up, n_across]  whether a cell has an end, which has no pairs


@dataclass(frozen=True, eq=False)
class Plane:
    """Two axes and the cell of every pair on them."""

    graph: TransitionGraph
    across: PlaneAxis
    up: PlaneAxis
    across_cell: IntArray  # [n_pairs]
    up_cell: IntArray  # [n_pairs]
    joined: tuple[str, ...]  # what else varies within a cell, except actions
    has_end: BoolArray  # [n_up, n_across]
    is_pooled: bool = False  # whether neighbouring cells were combined

    @property
    def has_action_axis(self) -> bool:
        """Whether an axis is the action."""
        return ACTION in (self.across.name, self.up.name) and not _is_state(self.graph, ACTION)

    def map(self, figure: PairFigure, *, by_action: bool = True) -> PlaneMap:
        """Return a figure on the plane."""
        everything = np.ones(self.graph.n_pairs, np.bool_)
        slices = [self._slice("all actions", figure, everything)]
        if by_action and not self.has_action_axis and self.graph.n_actions > 1:
            for action, label in enumerate(self.graph.actions.labels):
                chosen = self.graph.pair_action == action
                if chosen.any():
                    slices.append(self._slice(label, figure, chosen))
        rule = self._rule(figure)
        return PlaneMap(figure, self.across, self.up, tuple(slices), rule, self.has_end)

    def _slice(self, label: str, figure: PairFigure, chosen: BoolArray) -> MapSlice:
        has_known = np.zeros((self.up.size, self.across.size), np.bool_)
        known = chosen & ~self.graph.to_learn
        has_known[self.up_cell[known], self.across_cell[known]] = True
        return MapSlice(label, self._joined(figure, chosen), has_known)

    def _joined(self, figure: PairFigure, chosen: BoolArray) -> FloatArray:
        """Return the sum of a figure in each cell, or the largest value."""
        shape = (self.up.size, self.across.size)
        cell = (self.up_cell * self.across.size + self.across_cell)[chosen]
        values = figure.values[chosen]
        is_known = ~np.isnan(values)
        cell, values = cell[is_known], values[is_known]
        if figure.is_summed:
            found = np.bincount(cell, values, minlength=shape[0] * shape[1]).astype(np.float64)
            found[np.bincount(cell, minlength=len(found)) == 0] = np.nan
            return found.reshape(shape)
        found = np.full(shape[0] * shape[1], -np.inf)
        np.maximum.at(found, cell, values)
        found[found == -np.inf] = np.nan
        return found.reshape(shape)

    def _rule(self, figure: PairFigure) -> str:
        names = list(self.joined)
        if not self.has_action_axis and self.graph.n_actions > 1:
            names.append("actions")
        if self.is_pooled:
            names.append("neighbouring cells")
        if not names:
            return ""
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        return f"sum over {listed}" if figure.is_summed else f"maximum over {listed}"


def plane_of(graph: TransitionGraph, axes: str | None = None, most_cells: int = 256) -> Plane:
    """Return the plane of a model; raise AxesError if it has no such axes.

    The default axes are its first two variables, real ones before others, or its only variable and
    the actions. If an axis has more than `most_cells`, neighbouring cells are combined.
    """
    across, up = _default_names(graph) if axes is None else _parsed_names(graph, axes)
    first, first_cell, is_first_pooled = _axis(graph, across, most_cells)
    second, second_cell, is_second_pooled = _axis(graph, up, most_cells)
    others = tuple(
        v.name for v in graph.states.variables if v.name not in (across, up) and v.size > 1
    )
    has_end = np.zeros((second.size, first.size), np.bool_)
    has_end[_end_cells(graph, up, most_cells), _end_cells(graph, across, most_cells)] = True
    is_pooled = is_first_pooled or is_second_pooled
    return Plane(graph, first, second, first_cell, second_cell, others, has_end, is_pooled)


def axis_names(graph: TransitionGraph) -> list[str]:
    """Return the names that an axis may have: the state variables, and the action."""
    names = [variable.name for variable in graph.states.variables]
    return names if ACTION in names else [*names, ACTION]


def _default_names(graph: TransitionGraph) -> tuple[str, str]:
    variables = [v for v in graph.states.variables if v.size > 1] or list(graph.states.variables)
    real = [v.name for v in variables if v.kind == "real"]
    names = [*real, *(v.name for v in variables if v.name not in real)]
    if len(names) == 1:
        other = ACTION if names[0] != ACTION else graph.states.variables[0].name
        return names[0], other
    return names[0], names[1]


def _parsed_names(graph: TransitionGraph, axes: str) -> tuple[str, str]:
    known = axis_names(graph)
    names = [name.strip() for name in axes.split(",")]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"choose from {', '.join(known)}"
            raise AxesError(f"`axes=`: the model has no variable `{name}`; {hint}")
    if len(names) != 2 or names[0] == names[1]:
        raise AxesError(f"`axes=` must be two different names of {', '.join(known)}; not `{axes}`")
    return names[0], names[1]


def _axis(graph: TransitionGraph, name: str, most: int) -> tuple[PlaneAxis, IntArray, bool]:
    if not _is_state(graph, name):
        cells = graph.pair_action.astype(np.int64)
        labels, edges = list(graph.actions.labels), None
    else:
        cells = graph.states.cells(name)[graph.pair_state]
        variable = next(v for v in graph.states.variables if v.name == name)
        labels, edges = _labels(variable), variable.edges
    factor = _pooled(len(labels), most)
    if factor == 1:
        return PlaneAxis(name, tuple(labels), edges), cells, False
    starts = range(0, len(labels), factor)
    pooled = tuple(f"{labels[i]} … {labels[min(i + factor, len(labels)) - 1]}" for i in starts)
    borders = None if edges is None else np.append(edges[:-1:factor], edges[-1])
    return PlaneAxis(name, pooled, borders), cells // factor, True


def _end_cells(graph: TransitionGraph, name: str, most: int) -> IntArray | slice:
    """Return the cells of the ends along an axis; all of them if it is the action."""
    ends = np.zeros(0, np.int64) if graph.ends is None else np.flatnonzero(graph.ends)
    if not _is_state(graph, name):
        return slice(None) if len(ends) else slice(0)
    cells = graph.states.cells(name)[ends]
    return cells // _pooled(next(v.size for v in graph.states.variables if v.name == name), most)


def _pooled(n_cells: int, most: int) -> int:
    """Return how many neighbouring cells are combined."""
    return -(-n_cells // most)


def _labels(variable: Variable) -> list[str]:
    text: Callable[[Value], str] = value_text
    return [text(variable.native(cell)) for cell in range(variable.size)]


def value_text(value: Value) -> str:
    """Format a value in a few characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("-", "−") if not isinstance(value, str) else text


def _is_state(graph: TransitionGraph, name: str) -> bool:
    return any(variable.name == name for variable in graph.states.variables)
