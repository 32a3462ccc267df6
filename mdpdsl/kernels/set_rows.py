"""Rows of probabilities that are only known to lie in a set (graph/row_sets.py), for kernels.

Nature chooses the row of a pair from its set, for or against whoever chooses the pair; `best_row`
says how.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray

INTERVALS, L1, KL = 0, 1, 2
SHAPES = {"intervals": INTERVALS, "l1": L1, "kl": KL}

#: Probability that rounding may leave over. Nobody is forced to go somewhere with less than this.
SLACK = 1e-12


class SetRows(NamedTuple):
    """The sets of n rows between S states; `low` is the estimate if the shape is a ball."""

    pair_start: IntArray  # [S + 1]
    row_start: IntArray  # [n + 1]
    target: StateArray  # [k]  ascending within a row
    low: FloatArray  # [k]
    high: FloatArray  # [k]
    is_other: BoolArray  # [k]  listed, but among the others
    gain: FloatArray  # [k]  reward of the transition
    constant: FloatArray  # [n]  reward of the pair
    each: FloatArray  # [n]  upper end of every state that is not listed
    rest: FloatArray  # [n]  upper end of all others together, 0 without any
    radius: FloatArray  # [n]  of the ball
    shape: int


_OF_ENTRIES = ("target", "low", "high", "is_other", "gain")
_OF_ROWS = ("constant", "each", "rest", "radius")


class Room(NamedTuple):
    """Memory for the best row of a set: keys, order and probabilities."""

    order: IntArray  # [k]  entries of each row by falling keys, as they were last time
    key: FloatArray  # [longest row]
    mass: FloatArray  # [longest row]  the row found
    extra_state: IntArray  # [most]  states that are not listed, with positive probability
    extra_mass: FloatArray  # [most]
    marginal: IntArray  # [n]  the entry of each row that was filled last


class Ranking(NamedTuple):
    """The states that matter to the others, best first; empty if there are no others."""

    state: IntArray  # [m]
    value: FloatArray  # [m]


def rows_where(rows: SetRows, is_kept: BoolArray) -> SetRows:
    """Return some of the rows [n] between the same states."""
    lengths = np.diff(rows.row_start)
    is_entry = np.repeat(is_kept, lengths)
    kept = np.concatenate([[0], np.cumsum(is_kept)])
    return SetRows(
        pair_start=kept[rows.pair_start],
        row_start=np.concatenate([[0], np.cumsum(lengths[is_kept])]),
        **{name: getattr(rows, name)[is_entry] for name in _OF_ENTRIES},
        **{name: getattr(rows, name)[is_kept] for name in _OF_ROWS},
        shape=rows.shape,
    )


def reward_limits(rows: SetRows) -> tuple[float, float]:
    """Return the least and the largest reward of a step; 0 is among them."""
    worth = np.append(np.repeat(rows.constant, np.diff(rows.row_start)) + rows.gain, rows.constant)
    return min(0.0, float(worth.min(initial=0.0))), max(0.0, float(worth.max(initial=0.0)))


def negated(rows: SetRows) -> SetRows:
    """Return the same rows for the other side."""
    return rows._replace(constant=-rows.constant, gain=-rows.gain)


def room_for(rows: SetRows) -> Room:
    """Return memory for any of some rows."""
    lengths = np.diff(rows.row_start)
    longest = int(lengths.max(initial=0))
    order = np.arange(len(rows.target)) - np.repeat(rows.row_start[:-1], lengths)
    most = most_others(rows)
    return Room(
        order,
        np.zeros(longest),
        np.zeros(longest),
        np.zeros(most, np.int64),
        np.zeros(most),
        np.zeros(len(rows.constant), np.int64),
    )


def most_others(rows: SetRows) -> int:
    """Return how many states that are not listed can have a positive probability in one row."""
    has_others = (rows.each > 0) & (rows.rest > 0)
    if not has_others.any():
        return 0
    if rows.shape != INTERVALS:
        return 1
    spread = np.ceil(rows.rest[has_others] / rows.each[has_others] * (1 - 1e-12))
    return int(min(float(spread.max()) + 1, len(rows.pair_start) - 1))


def ranking(rows: SetRows, values: FloatArray, sense: float) -> Ranking:
    """Return the states with the best values for nature, as many as may be needed."""
    most = most_others(rows)
    if most == 0:
        return Ranking(np.zeros(0, np.int64), np.zeros(0))
    n = min(len(values), most + int(np.diff(rows.row_start).max(initial=0)))
    keys = -sense * values
    if n < len(values) // 4:
        near = np.argpartition(keys, n)[:n]
        found = near[np.lexsort((near, keys[near]))]
    else:
        found = np.argsort(keys, kind="stable")[:n]
    return Ranking(found.astype(np.int64), values[found])
