"""Counting transitions in rows that are ordered by episode and time.

Steps of time fall into bins of an eighth of an octave, so that «the usual step» and «a gap» are
decided in whole numbers, whatever the order in which files come.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.compiled import NUMBERS, SHORT_NUMBERS, WHOLE_NUMBERS, reading

#: Bins per octave, and the bin of a step of 1: 2^-1074 is the least positive number.
BINS, UNIT_BIN = 8, 8 * 1075
N_BINS = 2 * UNIT_BIN
#: Steps within so many bins of the usual one are usual, too: jitter of up to a factor 2^(3/8).
NEAR = 3

#: What a row is to the one before it.
SAME, OTHER_EPISODE, GAP = 0, 1, 2


@reading(nb.void(SHORT_NUMBERS, WHOLE_NUMBERS, NUMBERS, nb.int64, nb.int64[::1], nb.int32[::1]))
def link(
    source: StateArray,
    episode: IntArray,
    time: FloatArray,
    usual_bin: int,
    histogram: IntArray,
    kind: StateArray,
) -> None:
    """Say of each row but the first how it follows the one before, and count steps by bin.

    `usual_bin` -1 takes every step for usual.
    """
    last_step, last_bin = -1.0, -1
    for i in range(1, len(time)):
        if source[i] != source[i - 1] or episode[i] != episode[i - 1]:
            kind[i] = OTHER_EPISODE
            continue
        kind[i] = SAME
        if source[i] < 0:
            continue
        step = time[i] - time[i - 1]
        if step <= 0:
            continue
        if step != last_step:
            last_step = step
            last_bin = min(N_BINS - 1, max(0, int(np.floor(BINS * np.log2(step))) + UNIT_BIN))
        histogram[last_bin] += 1
        if usual_bin >= 0 and abs(last_bin - usual_bin) > NEAR:
            kind[i] = GAP


@reading(nb.int64(SHORT_NUMBERS, SHORT_NUMBERS, SHORT_NUMBERS, nb.int64, nb.int64[::1]))
def transitions(
    kind: StateArray, pair: StateArray, state: StateArray, n_states: int, code: IntArray
) -> int:
    """Write pair * n_states + successor of every transition to `code`; return how many."""
    n = 0
    for i in range(1, len(kind)):
        if kind[i] == SAME and pair[i - 1] >= 0 and state[i] >= 0:
            code[n] = np.int64(pair[i - 1]) * n_states + state[i]
            n += 1
    return n


@reading(nb.void(WHOLE_NUMBERS, nb.int64[::1]))
def add(code: IntArray, table: IntArray) -> None:
    """Count codes in a table that has a place for each."""
    for i in range(len(code)):
        table[code[i]] += 1


@reading(
    nb.int64(
        SHORT_NUMBERS,
        WHOLE_NUMBERS,
        NUMBERS,
        SHORT_NUMBERS,
        SHORT_NUMBERS,
        nb.int64,
        nb.int64,
        nb.int64[::1],
        nb.int64[::1],
    )
)
def clean_transitions(
    source: StateArray,
    episode: IntArray,
    time: FloatArray,
    state: StateArray,
    pair: StateArray,
    n_states: int,
    usual_bin: int,
    histogram: IntArray,
    code: IntArray,
) -> int:
    """Do the work of `link` and `transitions` for rows in which nothing is wrong; else return -1.

    Wrong is a time that does not grow, or not by the usual step, and an action missing before the
    end of an episode. What is returned is the number of transitions; the histogram is left alone
    where something is wrong.
    """
    n = 0
    steps = np.zeros(2 * NEAR + 1, np.int64)
    last_step, last_bin = -1.0, -1
    for i in range(1, len(time)):
        if episode[i] != episode[i - 1] or source[i] != source[i - 1]:
            continue
        if pair[i - 1] < 0:
            return -1
        if source[i] >= 0:
            step = time[i] - time[i - 1]
            if step != last_step:
                if not step > 0:
                    return -1
                last_step = step
                last_bin = min(N_BINS - 1, max(0, int(np.floor(BINS * np.log2(step))) + UNIT_BIN))
                last_bin -= usual_bin - NEAR
                if last_bin < 0 or last_bin > 2 * NEAR:
                    return -1
            steps[last_bin] += 1
        code[n] = np.int64(pair[i - 1]) * n_states + state[i]
        n += 1
    for i in range(len(steps)):
        if steps[i] > 0:
            histogram[usual_bin - NEAR + i] += steps[i]
    return n


@reading(nb.int64(SHORT_NUMBERS, WHOLE_NUMBERS, NUMBERS, nb.int64[::1]))
def starts_in_order(
    source: StateArray, episode: IntArray, time: FloatArray, starts: IntArray
) -> int:
    """Write where episodes start, after the first row; return how many, -1 if a time goes back."""
    n = 0
    for i in range(1, len(time)):
        if episode[i] != episode[i - 1] or source[i] != source[i - 1]:
            starts[n] = i
            n += 1
        elif time[i] < time[i - 1]:
            return -1
    return n
