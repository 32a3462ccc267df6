"""Positions of the states of a small graph: on a line, a circle, or by the steps between them.

The free layout minimises the stress  sum_ij (|x_i - x_j| - d_ij)^2 / d_ij^2  over positions x,
where d is the number of steps between two states (Kamada and Kawai 1989), by majorization
(Gansner, Koren and North 2004). It starts from classical scaling, not at random, so that equal
graphs give equal pictures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: The number of states in a row of a chain before it wraps.
CHAIN_ROW = 16
#: A model is a chain if this share of its moves is by at most two states.
CHAIN_SHARE = 0.9
N_SWEEPS = 300
#: The probability of a move of which nothing is known.
EVEN = 0.5
#: Probabilities and distances that agree to this many digits count as equal.
TIE_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Moves:
    """The most likely successor of every pair, other than the state itself."""

    pair: IntArray  # [n_moves]  the pairs that can leave their state
    target: IntArray  # [n_moves]
    probability: FloatArray  # [n_moves]
    is_only: bool  # whether no pair has a second such successor


def likely_moves(graph: TransitionGraph) -> Moves:
    """Find the most likely move of every pair that can leave its state.

    Of equally likely successors, the one nearest to their mean is chosen, then the first. Without
    a truth, those of an unknown row are equally likely, and so is their move: it is drawn as even.
    """
    branch_pair = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
    away = np.flatnonzero(graph.successor != graph.pair_state[branch_pair])
    probability = np.round(graph.probability[away], TIE_DIGITS)
    off_mean = np.round(_distance_from_mean(graph, branch_pair)[away], TIE_DIGITS)
    order = away[np.lexsort((away, off_mean, -probability, branch_pair[away]))]
    pairs, first = np.unique(branch_pair[order], return_index=True)
    best = order[first]
    likely = graph.probability[best]
    if not graph.has_truth:
        likely = np.where(graph.to_learn[pairs], EVEN, likely)
    return Moves(pairs, graph.successor[best].astype(np.int64), likely, len(pairs) == len(away))


def _distance_from_mean(graph: TransitionGraph, branch_pair: IntArray) -> FloatArray:
    """Return the squared distance of each successor from the mean of its pair, in cells."""
    distance = np.zeros(graph.n_branches)
    for variable in graph.states.variables:
        cell = graph.states.cells(variable.name)[graph.successor].astype(np.float64)
        mean = np.bincount(branch_pair, graph.probability * cell, minlength=graph.n_pairs)
        distance += (cell - mean[branch_pair]) ** 2
    return distance


def merge_moves(graph: TransitionGraph, moves: Moves) -> Moves:
    """Keep only the most likely move between any two states, whatever its action."""
    state = graph.pair_state[moves.pair].astype(np.int64)
    order = np.lexsort((-moves.probability, moves.target, state))
    codes = state[order] * graph.n_states + moves.target[order]
    kept = np.sort(order[np.unique(codes, return_index=True)[1]])
    return Moves(moves.pair[kept], moves.target[kept], moves.probability[kept], moves.is_only)


def absorbing_states(graph: TransitionGraph) -> BoolArray:
    """Return which states no action leaves, except ends, in which there is none, [n_states]."""
    absorbing = np.full(graph.n_states, graph.has_dynamics) & ~end_states(graph)
    origin = np.repeat(np.arange(graph.n_states), np.diff(graph.branch_start))
    absorbing[origin[origin != graph.successor]] = False
    return absorbing


def end_states(graph: TransitionGraph) -> BoolArray:
    """Return in which states episodes are over, [n_states]."""
    return np.zeros(graph.n_states, np.bool_) if graph.ends is None else graph.ends


def is_chain(graph: TransitionGraph, moves: Moves) -> bool:
    """Return whether states are the values of one number that changes in small steps."""
    variables = graph.states.variables
    if len(variables) != 1 or variables[0].kind == "enum" or len(moves.pair) == 0:
        return False
    place = graph.states.indices(graph.states.codes)  # that of a twin is its state's
    step = np.abs(place[moves.target] - graph.pair_state[moves.pair])
    return bool(np.mean(step <= 2) >= CHAIN_SHARE)


def chain_layout(graph: TransitionGraph) -> FloatArray:
    """Place states on a line, which turns back at the end of every row, [n_states, 2].

    Twins are above their states.
    """
    row_length, n_twins = CHAIN_ROW, graph.states.n_twins
    n_states = graph.n_states - n_twins
    if n_states > CHAIN_ROW:  # rows of about equal length, three times as wide as high
        row_length = max(CHAIN_ROW, int(np.ceil(np.sqrt(1.5 * n_states))))
    row, column = np.divmod(np.arange(n_states), row_length)
    column = np.where(row % 2 == 0, column, row_length - 1 - column)
    position = np.stack([column, -row * (2 if n_twins else 1)], axis=1).astype(np.float64)
    twins = position[graph.states.indices(graph.states.codes)[n_states:]]
    return np.concatenate([position, twins + np.array([0.0, 1.0])])


def ring_layout(n_states: int) -> FloatArray:
    """Place states on a circle, clockwise from the left, [n_states, 2]."""
    angle = np.pi - 2 * np.pi * np.arange(n_states) / n_states
    radius = 0.5 / np.sin(np.pi / max(n_states, 2))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def stress_layout(steps: BoolArray, start: IntArray) -> FloatArray:
    """Place states at distances of about the number of steps between them, [n_states, 2].

    `steps` marks the states that are one step apart, [n_states, n_states]; the states of `start`
    are put on the left.
    """
    n_states = len(steps)
    if n_states < 3:
        return np.stack([np.arange(n_states), np.zeros(n_states)], axis=1).astype(np.float64)
    distance = _distances(steps)
    position = _classical_scaling(distance)
    weight = 1 / np.maximum(distance, 1e-9) ** 2
    np.fill_diagonal(weight, 0)
    laplacian = np.diag(weight.sum(axis=1)) - weight
    solve = np.linalg.pinv(laplacian)
    for _ in range(N_SWEEPS):
        apart = np.linalg.norm(position[:, None] - position[None], axis=2)
        ratio = -weight * distance / np.maximum(apart, 1e-9)
        np.fill_diagonal(ratio, 0)
        np.fill_diagonal(ratio, -ratio.sum(axis=1))
        position = solve @ (ratio @ position)
    return _separate(_lay_along(position, start))


def _distances(steps: BoolArray) -> FloatArray:
    """Return the number of steps between any two states, in either direction."""
    near = (steps | steps.T).astype(np.float32)
    n_states = len(near)
    distance = np.full((n_states, n_states), np.inf)
    reached = np.eye(n_states, dtype=np.bool_)
    distance[reached] = 0
    for length in range(1, n_states):
        further = (reached.astype(np.float32) @ near > 0) & ~np.isfinite(distance)
        if not further.any():
            break
        distance[further] = length
        reached = further
    longest = distance[np.isfinite(distance)].max()
    # Unconnected parts are kept apart, but on the same page.
    distance[~np.isfinite(distance)] = max(2.0, 0.75 * longest + 1)
    return distance


def _classical_scaling(distance: FloatArray) -> FloatArray:
    n_states = len(distance)
    # A slight bias by number breaks the ties of symmetric graphs in the same way everywhere.
    bias = 1 + 0.02 * np.sin(np.arange(n_states))
    squared = (distance * bias[:, None] * bias[None, :]) ** 2
    centre = np.eye(n_states) - 1 / n_states
    values, vectors = np.linalg.eigh(-0.5 * centre @ squared @ centre)
    scaled: FloatArray = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 1e-3))
    return scaled


def _lay_along(position: FloatArray, start: IntArray) -> FloatArray:
    """Rotate so that the longest direction is horizontal, the start left, low numbers on top."""
    centred = position - position.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned: FloatArray = centred @ axes.T
    left = start if 0 < len(start) < len(position) else np.array([0])
    if turned[left, 0].mean() > 0:
        turned[:, 0] *= -1
    if turned[: max(1, len(turned) // 2), 1].mean() < 0:
        turned[:, 1] *= -1
    return turned


def _separate(position: FloatArray, least: float = 0.62) -> FloatArray:
    """Push apart states that are closer than `least` of a step."""
    for _ in range(200):
        offset = position[:, None] - position[None]
        apart = np.linalg.norm(offset, axis=2)
        np.fill_diagonal(apart, np.inf)
        lack = np.maximum(least - apart, 0)
        if not lack.any():
            break
        # States at the same position are moved in different directions.
        number = np.arange(len(position))
        own = np.stack([np.cos(number), np.sin(number)], axis=1)
        way = np.where(apart[..., None] < 1e-6, own[:, None] - own[None], offset)
        way /= np.maximum(np.linalg.norm(way, axis=2, keepdims=True), 1e-9)
        position = position + 0.3 * (lack[..., None] * way).sum(axis=1)
    return position
