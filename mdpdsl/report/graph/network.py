"""Pictures of small graphs: states as discs, branches as arrows in the colour of their action.

If the model says what is not known, every possible branch is drawn, with `?` for its probability.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from mdpdsl.graph.appearance import MOST_COLOURS, action_colours, shorten
from mdpdsl.graph.shown_rows import ShownRows, shown_rows, simulated_or_possible
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.graph.canvas import INK, Canvas, Curve, Disc, Text, arrow, loop, text_width
from mdpdsl.report.graph.layout import (
    Moves,
    absorbing_states,
    chain_layout,
    end_states,
    is_chain,
    likely_moves,
    merge_moves,
    ring_layout,
    stress_layout,
)
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

#: Up to this size, every branch is drawn with its probability.
FULL_N_STATES = 16
FULL_N_BRANCHES = 64
#: Factors by which to spread the states, tried in turn until no two numbers overlap.
STRETCHES = (1.0, 1.25, 1.6, 2.0)
LABEL_SIZE = 9.0
LEAST_LABEL_SIZE = 5.0
MOST_LINES = 4
PROBABILITY_SIZE = 7.5


def draw_network(graph: TransitionGraph, title: str) -> Canvas:
    """Draw every branch of a small graph, or only the most likely move of every pair."""
    rows = shown_rows(graph)
    is_full = graph.n_states <= FULL_N_STATES and rows.graph.n_branches <= FULL_N_BRANCHES
    full = rows if is_full else None
    graph = rows.graph if is_full else simulated_or_possible(graph)
    moves = likely_moves(graph)
    positions = _positions(graph, moves, is_full)
    colours = action_colours(graph)
    keys = _keys(graph, action_keys(graph, colours))
    if not is_full and graph.n_actions > MOST_COLOURS:
        moves, colours, keys = (
            merge_moves(graph, moves),
            [ARROW] * graph.n_actions,
            _keys(graph, []),
        )
    for stretch in STRETCHES:
        canvas = _draw_at(graph, moves, full, stretch * positions, colours)
        if not canvas.has_text_on_text():
            break
    add_heading(canvas, title, _notes(graph, moves, full), keys)
    return canvas


def _draw_at(
    graph: TransitionGraph,
    moves: Moves,
    rows: ShownRows | None,
    positions: FloatArray,
    colours: list[str],
) -> Canvas:
    """Draw the graph, with all its branches if there are `rows`, else with its moves."""
    canvas = Canvas()
    is_full = rows is not None
    radius, size = _disc_size(graph, 30.0 if is_full else 17.0)
    at = positions * (2 * radius + (74 if is_full else 26))
    _add_discs(canvas, graph, at, radius, size)
    if rows is not None:
        angles = _add_branches(canvas, rows, at, radius, colours)
    else:
        angles = _add_moves(canvas, graph, moves, at, radius, colours)
    _add_starts(canvas, graph, at, radius, angles)
    return canvas


def arrow_bend(at: FloatArray, state: int, target: int, radius: float, least: float) -> float:
    """Return how far an arrow must bend to its left to clear the states between its ends."""
    way = at[target] - at[state]
    far = float(np.hypot(*way))
    along = (at - at[state]) @ way / far
    across = (at - at[state]) @ np.array([-way[1], way[0]]) / far
    between = (along > radius) & (along < far - radius) & (np.abs(across) < 2 * radius)
    between[[state, target]] = False
    if not between.any():
        return least
    return float(max(0.0, across[between].max()) + radius + 14 + 0.02 * far)


def _positions(graph: TransitionGraph, moves: Moves, is_full: bool) -> FloatArray:
    n_states = graph.n_states
    if is_chain(graph, moves):
        return chain_layout(graph)
    steps = np.zeros((n_states, n_states), dtype=np.bool_)
    if is_full:
        steps[np.repeat(np.arange(n_states), np.diff(graph.branch_start)), graph.successor] = True
        np.fill_diagonal(steps, False)
        if 3 <= n_states <= 12 and (steps | steps.T).sum() > 0.45 * n_states * (n_states - 1):
            return (1.35 if n_states > 3 else 1.0) * ring_layout(n_states)
    else:
        steps[graph.pair_state[moves.pair], moves.target] = True
    scale = 1.0 if is_full else 1.5
    return scale * stress_layout(steps, np.flatnonzero(graph.initial > 0))


def _disc_size(graph: TransitionGraph, largest: float) -> tuple[float, float]:
    """Return the radius of the discs and the size of the letters so that all labels fit."""
    labels = [_lines(graph.states.label(s)) for s in range(graph.n_states)]
    rim = 5.5 if (absorbing_states(graph) | end_states(graph)).any() else 2.5
    for size in np.arange(LABEL_SIZE, LEAST_LABEL_SIZE - 0.1, -0.5):
        needed = max(
            math.hypot(max(text_width(t, float(size)) for t in lines), 1.05 * size * len(lines)) / 2
            for lines in labels
        )
        if needed + rim <= largest:
            return max(needed + rim, 0.45 * largest), float(size)
    return largest, LEAST_LABEL_SIZE


def _lines(label: str) -> list[str]:
    """Break a label between values or words, so that its height and width are similar."""
    if len(label) <= 5:
        return [label]
    wide = max(6, round(1.6 * math.sqrt(len(label))))
    lines = [""]
    for mark in (", ", "_", " = "):
        label = label.replace(mark, f"{mark}\0")
    for word in label.replace(" (end)", " \0(end)").split("\0"):
        if lines[-1] and len(lines[-1] + word.rstrip()) > wide:
            lines.append("")
        lines[-1] += word
    lines = [shorten(line.strip(), 14) for line in lines]
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "…"]


def _add_discs(
    canvas: Canvas, graph: TransitionGraph, at: FloatArray, radius: float, size: float
) -> None:
    tints = label_tints(graph).of_state
    absorbing, ends = absorbing_states(graph), end_states(graph)
    starts = set(marked_starts(graph).tolist())
    for state in range(graph.n_states):
        x, y = float(at[state, 0]), float(at[state, 1])
        fill = tints[state] or PLAIN
        width = 2.2 if state in starts or ends[state] else 1.1
        is_double = bool(absorbing[state] or ends[state])
        canvas.discs.append(Disc((x, y), radius, fill, is_double=is_double, width=width))
        lines = _lines(graph.states.label(state))
        for i, line in enumerate(lines):
            drop = (i - (len(lines) - 1) / 2) * 1.15 * size
            canvas.texts.append(Text((x, y - drop), line, size))


def _add_branches(
    canvas: Canvas, rows: ShownRows, at: FloatArray, radius: float, colours: list[str]
) -> dict[int, list[float]]:
    """Draw every branch with its probability; return the directions in use at every state."""
    graph = rows.graph
    taken: dict[int, list[float]] = defaultdict(list)
    rank: dict[tuple[int, int], int] = defaultdict(int)
    loops: dict[int, list[tuple[int, int]]] = defaultdict(list)
    written: list[tuple[Curve, str]] = []
    for pair in range(graph.n_pairs):
        state, action = int(graph.pair_state[pair]), int(graph.pair_action[pair])
        for branch in range(*graph.successor_start[pair : pair + 2].tolist()):
            target = int(graph.successor[branch])
            if target == state:
                loops[state].append((action, branch))
                continue
            bend = arrow_bend(at, state, target, radius, 9.0) + 17 * rank[state, target]
            rank[state, target] += 1
            gaps = (radius + 0.5, radius + 1.5)
            curve = arrow(_xy(at, state), _xy(at, target), bend, gaps, colours[action])
            taken[state].append(_angle(at[state], curve.points[0]))
            taken[target].append(_angle(at[target], curve.points[3]))
            canvas.curves.append(curve)
            written.append((curve, _branch_text(rows, pair, branch)))
    starts = set(marked_starts(graph).tolist())
    for state, own in loops.items():
        angles = _free_angles(taken[state], len(own) + (state in starts))
        taken[state] += angles[: len(own)]
        for angle, (action, branch) in zip(angles, own, strict=False):
            curve = loop(_xy(at, state), radius, angle, colours[action])
            canvas.curves.append(curve)
            pair = int(np.searchsorted(graph.successor_start, branch, side="right")) - 1
            text = _branch_text(rows, pair, branch)
            if text:
                canvas.write_outside_loop(curve, angle, text, PROBABILITY_SIZE)
    for curve, text in written:
        if text:
            canvas.write_on_curve(curve, text, PROBABILITY_SIZE)
    return taken


def _branch_text(rows: ShownRows, pair: int, branch: int) -> str:
    """Return the probability of a branch, unless it is 1, and its reward, unless it is 0."""
    is_one = rows.share[branch] == 1 and not rows.is_open[branch]
    number = ".2g" if rows.share[branch] < 0.995 else ".4g"
    text = "" if is_one else rows.probability_text(branch, number)
    reward = rows.reward_of(pair, branch)
    return text if reward == 0 else f"{text or '1'} ({reward:+.3g})"


def _add_moves(
    canvas: Canvas,
    graph: TransitionGraph,
    moves: Moves,
    at: FloatArray,
    radius: float,
    colours: list[str],
) -> dict[int, list[float]]:
    taken: dict[int, list[float]] = defaultdict(list)
    rank: dict[tuple[int, int], int] = defaultdict(int)
    for pair, target, p in zip(moves.pair, moves.target, moves.probability, strict=True):
        state, action = int(graph.pair_state[pair]), int(graph.pair_action[pair])
        bend = 3.5 + 5.5 * rank[state, int(target)]
        far = float(np.hypot(*(at[target] - at[state])))
        bend += 0.05 * far
        rank[state, int(target)] += 1
        curve = arrow(
            _xy(at, state),
            _xy(at, int(target)),
            bend,
            (radius + 0.5, radius + 1.0),
            colours[action],
            move_width(float(p)),
            4.6,
        )
        canvas.curves.append(curve)
        taken[state].append(_angle(at[state], curve.points[0]))
        taken[int(target)].append(_angle(at[target], curve.points[3]))
    return taken


def move_width(probability: float) -> float:
    """Return one of three widths: for unlikely, even and likely moves."""
    return 0.6 if probability < 1 / 3 else 1.0 if probability < 2 / 3 else 1.5


def _add_starts(
    canvas: Canvas,
    graph: TransitionGraph,
    at: FloatArray,
    radius: float,
    taken: dict[int, list[float]],
) -> None:
    """Point a short black arrow at every initial state, from a direction that is free."""
    for start in marked_starts(graph).tolist():
        angle = _free_angles(taken[start], 1)[0]
        x, y = _xy(at, start)
        tip = (x + (radius + 1) * math.cos(angle), y + (radius + 1) * math.sin(angle))
        away = radius + max(16.0, 0.6 * radius)
        tail = (x + away * math.cos(angle), y + away * math.sin(angle))
        canvas.curves.append(arrow(tail, tip, 0.0, (0.0, 0.0), INK, 1.8, 7.0))


def _notes(graph: TransitionGraph, moves: Moves, rows: ShownRows | None) -> list[str]:
    notes = [size_note(graph)]
    if not graph.has_dynamics:
        return notes
    if rows is not None:
        has_reward = graph.reward is not None and bool(np.any(graph.reward))
        rewards = " (rewards other than 0)" if has_reward else ""
        unknown = "; ?: not known" if rows.has_open else ""
        notes.append(f"numbers: probabilities other than 1{rewards}{unknown}")
    else:
        notes.append(moves_note(graph, moves.is_only, "state"))
    return notes


def _keys(graph: TransitionGraph, actions: list[Key]) -> list[Key]:
    keys = [*actions] if graph.has_dynamics else []
    if len(marked_starts(graph)) > 0:
        keys.append(Key("start", INK, "start"))
    keys += label_tints(graph).keys
    return keys + last_keys(absorbing_states(graph), end_states(graph))


def _free_angles(taken: list[float], n_angles: int) -> list[float]:
    """Return free directions, evenly spread in the widest gaps between those in use."""
    if not taken:
        return [math.pi - 2 * math.pi * i / n_angles for i in range(n_angles)]
    angles = np.sort(np.mod(taken, 2 * math.pi))
    gaps = np.round(np.diff(np.append(angles, angles[0] + 2 * math.pi)), 6)
    n_in_gap = np.zeros(len(gaps), dtype=np.int64)
    for _ in range(n_angles):
        n_in_gap[np.argmax(gaps / (n_in_gap + 1))] += 1
    return [
        float(angles[g] + gaps[g] * (i + 1) / (n_in_gap[g] + 1))
        for g in np.argsort(-gaps, kind="stable")
        for i in range(n_in_gap[g])
    ]


def _xy(at: FloatArray, state: int) -> tuple[float, float]:
    return float(at[state, 0]), float(at[state, 1])


def _angle(centre: FloatArray, point: tuple[float, float]) -> float:
    return math.atan2(point[1] - float(centre[1]), point[0] - float(centre[0]))
