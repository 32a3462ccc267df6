"""Counting transitions in rows that are ordered by episode and time.

Steps of time fall into bins of an eighth of an octave, so that «the usual step» and «a gap» are
decided in whole numbers, whatever the order in which files come.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.compiled import entry

#: Bins per octave, and the bin of a step of 1: 2^-1074 is the least positive number.
BINS, UNIT_BIN = 8, 8 * 1075
N_BINS = 2 * UNIT_BIN
#: Steps within so many bins of the usual one are usual, too: jitter of up to a factor 2^(3/8).
NEAR = 3

#: What a row is to the one before it.
SAME, OTHER_EPISODE, GAP = 0, 1, 2


@entry
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


@entry
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


@entry
def add(code: IntArray, table: IntArray) -> None:
    """Count codes in a table that has a place for each."""
    for i in range(len(code)):
        table[code[i]] += 1


@entry
def is_in_order(source: StateArray, episode: IntArray, time: FloatArray, starts: BoolArray) -> bool:
    """Mark where an episode starts; tell whether times never go back within one."""
    result = True
    for i in range(1, len(time)):
        starts[i] = source[i] != source[i - 1] or episode[i] != episode[i - 1]
        if not starts[i] and time[i] < time[i - 1]:
            result = False
    return result
