"""Trajectories of a transition graph under a policy, drawn row by row of a log.

A row is a state with the pair taken there. An episode of n steps has n + 1 rows: the last has the
state that was reached, which may be an end, and no pair. Each start, pair and successor takes one
number from the generator, in the order of the rows, so the result does not depend on how many rows
a call fills.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.kernels.compiled import entry, inner
from mdpdsl.kernels.drawing import drawn_entry, running_sums

#: The position of a trajectory: its state (NO_STATE between episodes), the time in the episode, the
#: number of the episode, and the total number of steps done.
STATE, TIME, EPISODE, STEPS = range(4)
NO_STATE = -1
#: The pair of the last row of an episode.
NO_PAIR = -1


class Choices(NamedTuple):
    """A policy to draw pairs from."""

    pair_start: IntArray  # [n_states + 1]
    cumulative: FloatArray  # [n_pairs]  running sums within a state


class Moves(NamedTuple):
    """A transition graph to draw starts and successors from."""

    successor_start: IntArray  # [n_pairs + 1]
    successor: StateArray  # [n_branches]
    cumulative: FloatArray  # [n_branches]  running sums within a pair
    start: IntArray  # [n_starts]  states that may be the first
    start_cumulative: FloatArray  # [n_starts]


class Rows(NamedTuple):
    """Rows of a log, to be filled."""

    state: StateArray  # [n]
    pair: IntArray  # [n]  NO_PAIR in the last row of an episode
    episode: IntArray  # [n]  from 0
    time: IntArray  # [n]  from 0 in each episode


def new_choices(graph: TransitionGraph, probability: FloatArray) -> Choices:
    """Prepare a policy, [n_pairs], for drawing; rows that do not quite sum to 1 are normalised."""
    start = np.unique(graph.pair_start)  # of the states that have pairs
    sums = np.add.reduceat(probability, start[:-1])
    shares = probability / np.repeat(sums, np.diff(start))
    return Choices(graph.pair_start, running_sums(start, shares))


def new_moves(graph: TransitionGraph) -> Moves:
    """Prepare a graph for drawing."""
    start = np.flatnonzero(graph.initial > 0)
    return Moves(
        graph.successor_start,
        graph.successor,
        running_sums(graph.successor_start, graph.probability),
        start,
        running_sums(np.array([0, len(start)]), graph.initial[start]),
    )


def new_rows(n_rows: int) -> Rows:
    """Return room for this many rows."""
    whole = [np.empty(n_rows, np.int64) for _ in range(3)]
    return Rows(np.empty(n_rows, np.int32), *whole)


def filled_rows(rows: Rows, n_filled: int) -> Rows:
    """Return the first rows, which were filled."""
    state, pair, episode, time = rows
    return Rows(state[:n_filled], pair[:n_filled], episode[:n_filled], time[:n_filled])


def new_position() -> IntArray:
    """Return the position in which every trajectory begins."""
    return np.array([NO_STATE, 0, 0, 0])


@entry
def fill_rows(
    choices: Choices,
    moves: Moves,
    position: IntArray,
    n_steps: int,
    episode_length: int,
    rows: Rows,
    generator: np.random.Generator,
) -> int:
    """Fill rows and advance the position; return how many were filled, all unless it is the end.

    The trajectory has n_steps in total, in episodes of at most episode_length.
    """
    for row in range(len(rows.state)):
        if is_over(position, n_steps):
            return row
        if position[STATE] == NO_STATE:
            last = len(moves.start) - 1
            position[STATE] = moves.start[drawn_entry(moves.start_cumulative, 0, last, generator)]
        if begin_row(choices, position, n_steps, episode_length, rows, row, generator):
            pair = rows.pair[row]
            first, end = moves.successor_start[pair], moves.successor_start[pair + 1]
            branch = drawn_entry(moves.cumulative, first, end - 1, generator)
            position[STATE] = moves.successor[branch]
    return len(rows.state)


@inner
def is_over(position: IntArray, n_steps: int) -> bool:
    """Return whether the last row of a trajectory has been written."""
    return position[STATE] == NO_STATE and position[STEPS] == n_steps


@inner
def begin_row(
    choices: Choices,
    position: IntArray,
    n_steps: int,
    episode_length: int,
    rows: Rows,
    row: int,
    generator: np.random.Generator,
) -> bool:
    """Write a row; return whether it has a pair to take. If not, the episode has ended."""
    state, time = position[STATE], position[TIME]
    rows.state[row] = state
    rows.episode[row] = position[EPISODE]
    rows.time[row] = time
    first, end = choices.pair_start[state], choices.pair_start[state + 1]
    if first == end or time == episode_length or position[STEPS] == n_steps:
        rows.pair[row] = NO_PAIR
        position[STATE] = NO_STATE
        position[TIME] = 0
        position[EPISODE] += 1
        return False
    rows.pair[row] = drawn_entry(choices.cumulative, first, end - 1, generator)
    position[TIME] = time + 1
    position[STEPS] += 1
    return True
