"""The common style of pictures of graphs: colours of actions, tints of labels, heading, legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.appearance import MOST_COLOURS, shorten
from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.graph.canvas import INK, QUIET, Canvas, Cell, Curve, Disc, Text, text_width

TINTS = ("#FFE39A", "#C5E8C5", "#F7C9C9", "#D6CCF0", "#C4E0F5", "#E8D5BF", "#D9D9D9")
PLAIN = "#F4F5F7"
TITLE_SIZE = 13.0
NOTE_SIZE = 8.5
LEGEND_SIZE = 8.5
LEAST_WIDTH = 400.0
#: The most entries of a legend, and the most colours of arrows, that are still useful.
LEGEND_LIMIT = 12
ARROW = "#5b6470"


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a sign and a name.

    Signs are `arrow`, `fill`, `start`, `dot`, `double`, `end` and `none`.
    """

    kind: str
    colour: str
    name: str


@dataclass(frozen=True)
class Tints:
    """The fill of every state by its labels, and the legend of the fills."""

    of_state: tuple[str, ...]  # [n_states]
    keys: tuple[Key, ...]


def action_keys(graph: TransitionGraph, colours: Sequence[str]) -> list[Key]:
    """Return the legend of the actions; of many, only the first ones and the last."""
    names = graph.actions.labels
    if len(names) <= LEGEND_LIMIT:
        return [Key("arrow", c, shorten(n, 28)) for c, n in zip(colours, names, strict=True)]
    shown = [*range(LEGEND_LIMIT - 1), len(names) - 1]
    keys = [Key("arrow", colours[i], shorten(names[i], 28)) for i in shown]
    left_out = len(names) - len(shown)
    keys.insert(-1, Key("none", INK, f"… {left_out:,} more …"))
    return keys


def label_tints(graph: TransitionGraph) -> Tints:
    """Give every combination of labels a tint; rare ones beyond the palette share the last."""
    names = list(graph.labels)
    sets = [tuple(n for n in names if graph.labels[n][s]) for s in range(graph.n_states)]
    combinations = sorted({s for s in sets if s}, key=lambda c: (-sets.count(c), c))
    last = len(TINTS) - 1
    tint = {c: TINTS[min(i, last)] for i, c in enumerate(combinations)}
    keys = [Key("fill", tint[c], shorten(", ".join(c), 40)) for c in combinations[:last]]
    if len(combinations) == len(TINTS):
        keys.append(Key("fill", TINTS[last], shorten(", ".join(combinations[last]), 40)))
    elif len(combinations) > len(TINTS):
        keys.append(Key("fill", TINTS[last], "other labels"))
    return Tints(tuple(tint.get(s, "") for s in sets), tuple(keys))


def last_keys(absorbing: BoolArray, ends: BoolArray) -> list[Key]:
    """Return the legend of the states that no action leaves."""
    keys = [Key("double", "white", "absorbing")] if absorbing.any() else []
    return [*keys, Key("end", "white", "end")] if ends.any() else keys


def marked_starts(graph: TransitionGraph) -> IntArray:
    """Return the initial states to mark: none if more than half of all states are initial."""
    starts = np.flatnonzero(graph.initial > 0)
    return starts if len(starts) <= max(1, graph.n_states // 2) else starts[:0]


def size_note(graph: TransitionGraph) -> str:
    """Return the size of a model, and where it starts if that is not marked."""
    parts = [_count(graph.n_states, "state"), _count(graph.n_pairs, "pair")]
    can_start = np.ones(graph.n_states, np.bool_) if graph.ends is None else ~graph.ends
    if not can_start.all():
        parts.insert(1, _count(int((~can_start).sum()), "end"))
    if graph.has_dynamics:
        parts.append(_count(graph.n_branches, "branch", "branches"))
        if graph.knowledge is not None:
            parts.append(f"{_count(int(graph.to_learn.sum()), 'pair')} to learn")
    else:
        parts.append("dynamics unknown")
    if len(marked_starts(graph)) == 0:
        is_all = bool(np.all(graph.initial[can_start] > 0))
        parts.append("starts anywhere" if is_all else "starts in many states")
    return " · ".join(parts)


def moves_note(graph: TransitionGraph, is_only: bool, where: str) -> str:
    """Return the meaning of the arrows in a picture of moves; `where` names what they lead to."""
    if graph.n_actions > MOST_COLOURS:
        return f"arrows: likely moves, one for all of the {graph.n_actions} actions that make them"
    if is_only:
        return "arrows: the move of each action"
    if not graph.has_truth:
        return f"arrows: a possible move of each action to another {where}, thick if it is likely"
    return f"arrows: the most likely move of each action to another {where}, thick if likely"


def add_heading(canvas: Canvas, title: str, notes: Sequence[str], keys: Sequence[Key]) -> None:
    """Put title, notes and legend above the drawing, left-aligned, the legend in rows."""
    left, _, right, top = canvas.bounds()
    width = max(right - left, LEAST_WIDTH)
    rows = _legend_rows(keys, width)
    y = top + 18 + 15 * len(rows)
    for i, row in enumerate(rows):
        x = left
        for key in row:
            _add_key(canvas, key, x, y - 15 * (i + 1))
            x += _key_width(key)
    lines = [line for note in notes for line in _wrap(note, width)]
    y += 2
    for note in reversed(lines):
        canvas.texts.append(Text((left, y), note, NOTE_SIZE, QUIET, "left"))
        y += 12
    for line in reversed(_wrap(title, width, TITLE_SIZE)):
        canvas.texts.append(Text((left, y + 5), line, TITLE_SIZE, INK, "left", is_bold=True))
        y += 17


def _wrap(text: str, width: float, size: float = NOTE_SIZE) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size, is_bold=size == TITLE_SIZE) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _legend_rows(keys: Sequence[Key], width: float) -> list[list[Key]]:
    rows: list[list[Key]] = []
    used = width
    for key in keys:
        needed = _key_width(key)
        if used + needed > width or not rows:
            rows.append([])
            used = 0.0
        rows[-1].append(key)
        used += needed
    return rows


def _key_width(key: Key) -> float:
    return (0 if key.kind == "none" else 24) + text_width(key.name, LEGEND_SIZE) + 16


def _add_key(canvas: Canvas, key: Key, x: float, y: float) -> None:
    if key.kind == "arrow":
        points = ((x, y), (x + 6, y), (x + 12, y), (x + 19, y))
        canvas.curves.append(Curve(points, key.colour, 1.6, 6.0))
    elif key.kind == "fill":
        canvas.cells.append(Cell((x + 5, y - 5, x + 17, y + 5), key.colour, "#999999"))
    elif key.kind == "start":
        points = ((x + 4, y), (x + 8, y), (x + 12, y), (x + 18, y))
        canvas.curves.append(Curve(points, INK, 1.6, 7.0))
    elif key.kind == "dot":
        canvas.discs.append(Disc((x + 11, y), 4.0, key.colour))
    elif key.kind in ("double", "end"):
        width = 2.2 if key.kind == "end" else 1.1
        canvas.discs.append(Disc((x + 11, y), 6.0, key.colour, is_double=True, width=width))
    indent = 0 if key.kind == "none" else 24
    canvas.texts.append(Text((x + indent, y), key.name, LEGEND_SIZE, INK, "left"))


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
