"""The structure of a large graph: a disc per communicating class, from left to right."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mdpdsl.graph.appearance import shorten
from mdpdsl.graph.class_structure import ClassNode, ClassStructure, class_structure
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.graph.canvas import INK, QUIET, Canvas, Disc, Text, arrow, text_width
from mdpdsl.report.graph.network import arrow_bend
from mdpdsl.report.graph.style import ARROW, Key, add_heading, size_note

CLOSED = "#CFE6D4"
OPEN = "#F4F5F7"
LEAST_RADIUS = 15.0
LARGEST_RADIUS = 48.0
MOST_COLUMNS = 10
GAP = 46.0


def draw_classes(graph: TransitionGraph, title: str) -> Canvas:
    """Draw classes with their numbers of states; one disc for all if dynamics are unknown."""
    canvas = Canvas()
    if not graph.has_dynamics:
        node = ClassNode(1, graph.n_states, False, False, 0, "")
        _add_node(canvas, node, (0.0, 0.0), LARGEST_RADIUS)
        add_heading(canvas, title, [size_note(graph)], [])
        return canvas
    structure = class_structure(graph)
    if structure.n_classes == 1:
        _add_node(canvas, replace(structure.nodes[0], is_closed=False), (0.0, 0.0), LARGEST_RADIUS)
        add_heading(canvas, title, _notes(graph, structure), _keys(structure))
        return canvas
    radii = [_radius(node, graph.n_states) for node in structure.nodes]
    at = _positions(structure, radii)
    for node, (x, y), radius in zip(structure.nodes, at.tolist(), radii, strict=True):
        _add_node(canvas, node, (x, y), radius)
    for origin, target in structure.edges:
        gaps = (radii[origin] + 1, radii[target] + 1.5)
        bend = arrow_bend(at, origin, target, max(*radii, 24.0), 5.0)
        start, end = at[origin].tolist(), at[target].tolist()
        canvas.curves.append(arrow(tuple(start), tuple(end), bend, gaps, ARROW, 1.2, 6.5))
    add_heading(canvas, title, _notes(graph, structure), _keys(structure))
    return canvas


def _radius(node: ClassNode, n_states: int) -> float:
    radius = LEAST_RADIUS + (LARGEST_RADIUS - LEAST_RADIUS) * math.sqrt(node.n_states / n_states)
    return max(radius, text_width(f"{node.n_states:,}", 9.0) / 2 + 4)


def _positions(structure: ClassStructure, radii: list[float]) -> FloatArray:
    """Put nodes in centred columns by depth; many columns wrap into rows that alternate."""
    depths = sorted({node.depth for node in structure.nodes})
    n_rows = math.ceil(len(depths) / MOST_COLUMNS)
    row_length = math.ceil(len(depths) / n_rows)
    widths, heights = [], []
    columns = []
    for depth in depths:
        column = [i for i, node in enumerate(structure.nodes) if node.depth == depth]
        columns.append(_largest_in_the_middle(column, radii))
        half = max(max(radii[i], text_width(_caption(structure.nodes[i]), 8.0) / 2) for i in column)
        widths.append(2 * half + GAP)
        heights.append(sum(2 * radii[i] + 34 for i in column))
    at = np.zeros((len(structure.nodes), 2))
    middle = 0.0
    for row in range(n_rows):
        places = range(row * row_length, min((row + 1) * row_length, len(columns)))
        x = 0.0
        for place in places:
            y = middle + heights[place] / 2
            for i in columns[place]:
                at[i] = x + (widths[place] / 2 if row % 2 == 0 else -widths[place] / 2), 0
                at[i, 1] = y - radii[i] - 10
                y -= 2 * radii[i] + 34
            x += widths[place] if row % 2 == 0 else -widths[place]
        if row % 2 == 1:
            right = max(sum(widths[p] for p in range(row_length)), -x)
            for place in places:
                at[columns[place], 0] += right
        below = heights[places[-1] + 1 : places[-1] + 1 + row_length]
        if below:
            middle -= (max(heights[p] for p in places) + max(below)) / 2 + 20
    return at


def _largest_in_the_middle(column: list[int], radii: list[float]) -> list[int]:
    ordered = sorted(column, key=lambda i: (-radii[i], i))
    return ordered[1::2][::-1] + ordered[::2]


def _add_node(canvas: Canvas, node: ClassNode, at: tuple[float, float], radius: float) -> None:
    fill = CLOSED if node.is_closed else OPEN
    x, y = at
    if node.n_classes > 1:  # a stack of discs for a group
        for shift in (5.0, 2.5):
            canvas.discs.append(Disc((x + shift, y + shift), radius, fill))
    canvas.discs.append(
        Disc(at, radius, fill, is_double=node.is_closed, width=2.2 if node.has_start else 1.1)
    )
    number = f"{node.n_states:,}"
    size = 12.0 if radius > 30 else 9.0
    has_word = radius > 30
    canvas.texts.append(Text((x, y + (5 if has_word else 0)), number, size, is_bold=radius > 30))
    if has_word:
        canvas.texts.append(Text((x, y - 9), "state" if node.n_states == 1 else "states", 8.5))
    caption = _caption(node)
    if caption:
        canvas.texts.append(Text((x, y - radius - 9), caption, 8.0, QUIET))
    if node.has_start:
        canvas.curves.append(
            arrow((x - radius - 20, y + 0.0), (x - radius - 2, y), 0.0, (0, 0), INK, 1.8, 7.0)
        )


def _caption(node: ClassNode) -> str:
    if node.n_classes > 1:
        return f"{node.n_classes:,} classes"
    return shorten(node.name, 22)


def _notes(graph: TransitionGraph, structure: ClassStructure) -> list[str]:
    notes = [size_note(graph)]
    if graph.ends is not None:
        notes.append("ends are not shown: after one, the next episode starts")
    if structure.n_classes == 1:
        return [*notes, "one communicating class: every state reaches every other"]
    closed = f"{structure.n_closed:,} of them closed" if structure.n_closed else "none closed"
    notes.append(f"{structure.n_classes:,} communicating classes, {closed}; numbers: states")
    if structure.is_grouped:
        notes.append("small classes of similar depth are grouped, closed ones separately")
    return notes


def _keys(structure: ClassStructure) -> list[Key]:
    keys = []
    if structure.n_classes > 1:
        keys.append(Key("arrow", ARROW, "leads to"))
        keys.append(Key("double", CLOSED, "closed: nothing leaves"))
    if any(node.has_start for node in structure.nodes):
        keys.append(Key("start", INK, "start"))
    return keys
