"""Count transitions in rows that are ordered by episode and time.

Time steps are counted in bins of an eighth of an octave,  bin(x) = floor(8 log2 x) + const.  The
usual step and the gaps are then decided with integers, so the order of the files does not matter.

The number of a pair also says how the step stopped the episode, if it did: see `ENDED`. Successors
are arrivals: n_states + s is an arrival in s in which the episode ended.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.compiled import NUMBERS, SHORT_NUMBERS, WHOLE_NUMBERS, reading

#: Bins per octave, and the bin of a step of 1: 2^-1074 is the smallest positive float.
BINS, UNIT_BIN = 8, 8 * 1075
N_BINS = 2 * UNIT_BIN
#: Steps within this many bins of the usual one count as usual: jitter of up to a factor 2^(3/8).
NEAR = 3

#: How a row follows the one before it.
SAME, OTHER_EPISODE, GAP = 0, 1, 2

#: In place of a pair: none; none, as no action is given; none, as the episode is over in this row,
#: or in this state, which is an end.
NO_PAIR, NO_ACTION, STOPPED, AT_END = -1, -2, -3, -4
#: Added to a pair: the episode ends in the next row; it is cut there; the next row is of another
#: episode if it has an action, since nothing else says where episodes begin.
ENDED, CUT, CLOSED = 1 << 30, 1 << 29, 1 << 28
#: The bits of a pair's own number, and those of the flags.
NUMBER, FLAGS = CLOSED - 1, ENDED | CUT | CLOSED


@reading(nb.void(nb.int32[::1], nb.int32[::1], nb.int32[::1], nb.int64[::1]))
def stop(kind: StateArray, pair: StateArray, state: StateArray, starts: IntArray) -> None:
    """Let episodes stop where the flags of pairs say so, and count where they start, [n_states].

    The first row was already seen, with the rows before it.
    """
    for i in range(1, len(kind)):
        before = pair[i - 1]
        if kind[i] == SAME and before >= 0 and before & FLAGS != 0:
            if before & CLOSED != 0 and (pair[i] >= 0 or pair[i] == NO_PAIR):
                kind[i] = OTHER_EPISODE
            else:
                pair[i] = STOPPED
        elif before in (STOPPED, AT_END):
            kind[i] = OTHER_EPISODE
        if kind[i] == OTHER_EPISODE and pair[i] >= 0 and state[i] >= 0:
            starts[state[i]] += 1


@reading(nb.void(SHORT_NUMBERS, WHOLE_NUMBERS, NUMBERS, nb.int64, nb.int64[::1], nb.int32[::1]))
def link(
    source: StateArray,
    episode: IntArray,
    time: FloatArray,
    usual_bin: int,
    histogram: IntArray,
    kind: StateArray,
) -> None:
    """Write how each row but the first follows the one before, and count time steps by bin.

    With `usual_bin` -1, every step counts as usual.
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


@reading(nb.int64(SHORT_NUMBERS, SHORT_NUMBERS, SHORT_NUMBERS, nb.int64, nb.int64, nb.int64[::1]))
def transitions(
    kind: StateArray,
    pair: StateArray,
    state: StateArray,
    n_states: int,
    n_arrivals: int,
    code: IntArray,
) -> int:
    """Write pair * n_arrivals + arrival of every transition to `code`; return how many."""
    n = 0
    for i in range(1, len(kind)):
        if kind[i] == SAME and pair[i - 1] >= 0 and state[i] >= 0:
            arrival = np.int64(state[i])
            if pair[i - 1] & ENDED != 0 and arrival < n_states:
                arrival += n_states
            code[n] = np.int64(pair[i - 1] & NUMBER) * n_arrivals + arrival
            n += 1
    return n


@reading(nb.void(WHOLE_NUMBERS, nb.int64[::1]))
def add(code: IntArray, table: IntArray) -> None:
    """Count codes in a table with one entry per code."""
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
        nb.int64[::1],
    )
)
def clean_transitions(
    source: StateArray,
    episode: IntArray,
    time: FloatArray,
    state: StateArray,
    pair: StateArray,
    n_arrivals: int,
    usual_bin: int,
    histogram: IntArray,
    starts: IntArray,
    code: IntArray,
) -> int:
    """Do the work of the functions above for rows without errors or flags; -1 if there is one.

    An error is a time that does not grow by the usual step, or an action missing before the end of
    an episode. Return the number of transitions. If there is an error, nothing else is changed.
    """
    if pair[0] > NUMBER or pair[0] < NO_ACTION:
        return -1
    n = n_starts = 0
    steps = np.zeros(2 * NEAR + 1, np.int64)
    last_step, last_bin = -1.0, -1
    for i in range(1, len(time)):
        if pair[i] > NUMBER or pair[i] < NO_ACTION:
            return -1
        if episode[i] != episode[i - 1] or source[i] != source[i - 1]:
            n_starts += 1
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
        code[n] = np.int64(pair[i - 1]) * n_arrivals + state[i]
        n += 1
    for i in range(len(steps)):
        if steps[i] > 0:
            histogram[usual_bin - NEAR + i] += steps[i]
    if n_starts > 0:
        for i in range(1, len(time)):
            if episode[i] != episode[i - 1] or source[i] != source[i - 1]:
                starts[state[i]] += pair[i] >= 0
    return n


@reading(nb.int64(SHORT_NUMBERS, WHOLE_NUMBERS, NUMBERS, nb.int64[::1]))
def starts_in_order(
    source: StateArray, episode: IntArray, time: FloatArray, starts: IntArray
) -> int:
    """Write where episodes start after the first row; return how many, -1 if a time decreases."""
    n = 0
    for i in range(1, len(time)):
        if episode[i] != episode[i - 1] or source[i] != source[i - 1]:
            starts[n] = i
            n += 1
        elif time[i] < time[i - 1]:
            return -1
    return n
