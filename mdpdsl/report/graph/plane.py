"""Pictures of models with two variables: a cell per state, an arrow per pair, named axes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.appearance import MOST_COLOURS, action_colours, shorten
from mdpdsl.graph.space import FloatArray, IntArray, Value, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.graph.canvas import INK, QUIET, Canvas, Cell, Disc, Text, arrow, text_width
from mdpdsl.report.graph.layout import (
    Moves,
    absorbing_states,
    end_states,
    likely_moves,
    merge_moves,
)
from mdpdsl.report.graph.network import move_width
from mdpdsl.report.graph.style import (
    ARROW,
    PLAIN,
    Key,
    action_keys,
    add_heading,
    label_tints,
    last_keys,
    marked_starts,
    moves_note,
    size_note,
)

#: Names of vertical variables, and those of the horizontal ones that usually go with them.
DOWNWARD = ("row", "r", "i", "line")
UPWARD = ("y", "height", "altitude")
ACROSS = ("col", "column", "c", "j", "x", "width")
TICK_SIZE = 8.0
#: Models with fewer states are better drawn with all their branches.
FULL_PICTURE_N_STATES = 6
MOST_CELLS_PER_STATE = 3
#: The distance by which an arrow that wraps leaves the plane, in cells.
BEYOND = 0.4
#: The distance of a twin from its state, in cells, to the right and up.
TWIN_PLACE = 0.31


@dataclass(frozen=True, eq=False)
class _Axis:
    """A horizontal or vertical variable; `sign` is -1 if it grows downwards."""

    variable: Variable
    cells: IntArray  # [n_states]
    pitch: float
    shift: FloatArray  # [n_states]  from the centre of the cell; 0 except for twins
    sign: int = 1

    @property
    def at(self) -> FloatArray:
        """The position of every state, [n_states]."""
        return self.sign * self.pitch * self.cells + self.shift

    @property
    def ends(self) -> tuple[float, float]:
        """The outer borders of the first and last cell, in ascending order."""
        far = self.sign * self.pitch * (self.variable.size - 1)
        return min(0.0, far) - self.pitch / 2, max(0.0, far) + self.pitch / 2

    def way(self, states: IntArray, targets: IntArray) -> FloatArray:
        """Return the signed distances to targets, the shorter way round if the variable wraps."""
        size = self.variable.size
        step = self.cells[targets] - self.cells[states]
        if self.variable.wraps and size > 2:
            step = (step + (size - 1) // 2) % size - (size - 1) // 2
        return self.sign * self.pitch * step + self.shift[targets] - self.shift[states]


def is_plane(graph: TransitionGraph) -> bool:
    """Return whether the states fill a plane of two variables, at least one of them numeric."""
    variables = graph.states.variables
    if len(variables) != 2 or graph.n_states <= FULL_PICTURE_N_STATES:
        return False
    is_filled = graph.states.product.size <= MOST_CELLS_PER_STATE * graph.n_states
    return is_filled and any(_is_number(v) for v in variables)


def draw_plane(graph: TransitionGraph, title: str) -> Canvas:
    """Draw every state in its cell, and the most likely move of every pair."""
    across, up = _axes(graph)
    canvas = Canvas()
    moves, colours = likely_moves(graph), action_colours(graph)
    keys = _keys(graph, action_keys(graph, colours))
    if graph.n_actions > MOST_COLOURS:
        moves, colours, keys = (
            merge_moves(graph, moves),
            [ARROW] * graph.n_actions,
            _keys(graph, []),
        )
    _add_cells(canvas, graph, across, up)
    _add_moves(canvas, graph, moves, across, up, colours)
    _add_ticks(canvas, across, up)
    notes = [size_note(graph)]
    if graph.has_dynamics:
        notes.append(moves_note(graph, moves.is_only, "cell"))
    add_heading(canvas, title, notes, keys)
    return canvas


def _axes(graph: TransitionGraph) -> tuple[_Axis, _Axis]:
    """Return the horizontal and the vertical axis.

    The first variable is horizontal, unless it is an enumeration or has the name of a vertical one.
    """
    first, second = graph.states.variables
    names = first.name.lower(), second.name.lower()
    is_turned = names[0] in DOWNWARD + UPWARD and names[1] in ACROSS
    if is_turned or (_is_number(second) and not _is_number(first)):
        first, second = second, first
    sign = -1 if second.name.lower() in DOWNWARD else 1
    pitches = [min(64.0, max(17.0, 640 / v.size)) for v in (first, second)]
    # Cells may be oblong, but not by much: directions are compared across axes.
    pitches = [min(p, 1.5 * min(pitches)) for p in pitches]
    # A twin is drawn in a corner of its state's cell.
    is_twin = np.arange(graph.n_states) >= graph.n_states - graph.states.n_twins
    corner = np.where(is_twin, TWIN_PLACE, 0.0)
    return (
        _Axis(first, graph.states.cells(first.name), pitches[0], pitches[0] * corner),
        _Axis(second, graph.states.cells(second.name), pitches[1], pitches[1] * corner, sign),
    )


def _is_number(variable: Variable) -> bool:
    return variable.kind not in ("enum", "bool")


def _add_cells(canvas: Canvas, graph: TransitionGraph, across: _Axis, up: _Axis) -> None:
    tints = label_tints(graph).of_state
    ends, rings = end_states(graph), _ring_radii(graph, across, up)
    n_own = graph.n_states - graph.states.n_twins
    starts = set(marked_starts(graph).tolist())
    half = across.pitch / 2 - 0.6, up.pitch / 2 - 0.6
    dot = _dot(across, up)
    for state, (x, y) in enumerate(zip(across.at.tolist(), up.at.tolist(), strict=True)):
        box = (x - half[0], y - half[1], x + half[0], y + half[1])
        if state < n_own:
            canvas.cells.append(Cell(box, tints[state] or PLAIN, "#dcdfe4"))
        if rings[state] > 0:
            width = 2.2 if ends[state] else 1.1
            ring = Disc((x, y), float(rings[state]), "white", is_double=True, width=width)
            canvas.discs.append(ring)
        elif state in starts:
            canvas.discs.append(Disc((x, y), 1.45 * dot, INK))
        else:
            canvas.discs.append(Disc((x, y), 0.62 * dot, "#9aa0a8", "#9aa0a8", width=0.0))


def _ring_radii(graph: TransitionGraph, across: _Axis, up: _Axis) -> FloatArray:
    """Return the radius of the ring of every state that nothing leaves, 0 for others."""
    is_last = absorbing_states(graph) | end_states(graph)
    radii = np.where(is_last, min(2.2 * _dot(across, up), 9.0), 0.0)
    radii[graph.n_states - graph.states.n_twins :] *= 0.75
    return radii


def _dot(across: _Axis, up: _Axis) -> float:
    return min(3.6, 0.09 * min(across.pitch, up.pitch))


def _add_moves(
    canvas: Canvas,
    graph: TransitionGraph,
    moves: Moves,
    across: _Axis,
    up: _Axis,
    colours: list[str],
) -> None:
    """Draw moves; those between the same two states are side by side, each on its right."""
    states = graph.pair_state[moves.pair].astype(np.int64)
    ways = np.stack([across.way(states, moves.target), up.way(states, moves.target)], axis=1)
    start = np.stack([across.at[states], up.at[states]], axis=1)
    rank: dict[tuple[int, int], int] = defaultdict(int)
    size = min(across.pitch, up.pitch)
    lane = min(4.2, 0.075 * size)
    gap = 1.7 * _dot(across, up)
    gaps = np.maximum(gap, _ring_radii(graph, across, up) + 1.5)
    limits = (*across.ends, *up.ends)
    for i, pair in enumerate(moves.pair.tolist()):
        action = int(graph.pair_action[pair])
        place = rank[int(states[i]), int(moves.target[i])]
        rank[int(states[i]), int(moves.target[i])] += 1
        far = float(np.hypot(*ways[i]))
        right = np.array([ways[i][1], -ways[i][0]]) / far
        shift = right * lane * (0.8 + place)
        begin = start[i] + shift
        end = _stop_outside(begin, begin + ways[i], limits, BEYOND * size)
        is_long = far > 1.6 * max(across.pitch, up.pitch)
        curve = arrow(
            (float(begin[0]), float(begin[1])),
            (float(end[0]), float(end[1])),
            -0.07 * far if is_long else 0.0,
            (gap, float(gaps[moves.target[i]])),
            colours[action],
            0.8 * move_width(float(moves.probability[i])),
            min(5.0, 0.14 * size),
        )
        canvas.curves.append(curve)


def _stop_outside(
    begin: FloatArray, end: FloatArray, limits: tuple[float, ...], beyond: float
) -> FloatArray:
    """Cut off a move that wraps shortly after it leaves the plane."""
    way, share = end - begin, 1.0
    for axis in (0, 1):
        low, high = limits[2 * axis] - beyond, limits[2 * axis + 1] + beyond
        if end[axis] > high:
            share = min(share, (high - begin[axis]) / way[axis])
        elif end[axis] < low:
            share = min(share, (low - begin[axis]) / way[axis])
    return begin + share * way


def _add_ticks(canvas: Canvas, across: _Axis, up: _Axis) -> None:
    """Write as many values as fit below and on the left, and the names of the variables."""
    beyond = BEYOND * min(across.pitch, up.pitch)
    left = across.ends[0] - (beyond if across.variable.wraps else 0)
    bottom = up.ends[0] - (beyond if up.variable.wraps else 0)
    texts = _tick_texts(across.variable)
    widest = max(text_width(t, TICK_SIZE) for t in texts)
    every = max(1, int(np.ceil((widest + 8) / across.pitch)))
    for cell in range(0, across.variable.size, every):
        at = (across.pitch * cell, bottom - 10)
        canvas.texts.append(Text(at, texts[cell], TICK_SIZE, QUIET))
    name = _axis_name(across.variable)
    middle = sum(across.ends) / 2
    canvas.texts.append(Text((middle, bottom - 26), name, 10.0, INK, is_bold=True))
    texts = _tick_texts(up.variable)
    every = max(1, int(np.ceil(1.6 * TICK_SIZE / up.pitch)))
    for cell in range(0, up.variable.size, every):
        at = (left - 6, up.sign * up.pitch * cell)
        canvas.texts.append(Text(at, texts[cell], TICK_SIZE, QUIET, "right"))
    widest = max(text_width(t, TICK_SIZE) for t in texts)
    at = (left - widest - 16, sum(up.ends) / 2)
    canvas.texts.append(Text(at, _axis_name(up.variable), 10.0, INK, "right", is_bold=True))


def _tick_texts(variable: Variable) -> list[str]:
    return [_number(variable.native(cell)) for cell in range(variable.size)]


def _number(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.3g}".replace("-", "−") if isinstance(value, float) else shorten(str(value), 20)


def _axis_name(variable: Variable) -> str:
    return shorten(variable.name, 24) + (" ↻" if variable.wraps else "")


def _keys(graph: TransitionGraph, actions: list[Key]) -> list[Key]:
    keys = [*actions] if graph.has_dynamics else []
    if len(marked_starts(graph)) > 0:
        keys.append(Key("dot", INK, "start"))
    keys += label_tints(graph).keys
    return keys + last_keys(absorbing_states(graph), end_states(graph))
