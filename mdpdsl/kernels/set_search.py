"""Searches on rows that nature chooses from sets: what can be reached, kept to, or avoided.

Everything rests on one question about a row and two sets of states: can nature choose it such that
it stays in X and leads to Y with a positive probability (if nature helps), or must it do so
whatever nature chooses (if it does not)? Lower ends of 0 make the difference: nature avoids a set
if no entry of it has a positive lower end *and* the others have room for all probability.
"""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.kernels.compiled import entry, seldom
from mdpdsl.kernels.set_rows import INTERVALS, L1, SLACK, SetRows


@seldom
def _leads(
    rows: SetRows,
    row: int,
    within: np.ndarray,
    to: np.ndarray,
    n_within: int,
    n_both: int,
    n_to: int,
    helps: bool,
) -> bool:
    """Return whether nature can (if it helps) or must stay within a set and may lead to another.

    `n_within`, `n_to` and `n_both` are the sizes of the sets and of what they share.
    """
    begin, end = rows.row_start[row], rows.row_start[row + 1]
    S = len(within)
    # Of the listed entries: how many, what they must have, and what they can have.
    n_in, n_hit, n_in_to, known = 0, 0, 0, 0.0
    low_out, low_in, low_hit, low_to = 0.0, 0.0, 0.0, 0.0
    room_in, room_other_in, room_off, room_other_off = 0.0, 0.0, 0.0, 0.0
    is_out, is_hit, is_off = False, False, False
    for k in range(begin, end):
        s = rows.target[k]
        low = rows.low[k]
        high = rows.high[k] if rows.shape == INTERVALS else 1.0
        known += low
        if within[s]:
            n_in += 1
            low_in += low
            if rows.is_other[k]:
                room_other_in += high
            else:
                room_in += high
            if to[s]:
                n_hit += 1
                low_hit += low
                is_hit = is_hit or high > 0.0
        else:
            low_out += low
            is_out = is_out or high > 0.0
        if to[s]:
            n_in_to += 1
            low_to += low
        else:
            is_off = is_off or high > 0.0
            if rows.is_other[k]:
                room_other_off += high
            else:
                room_off += high
    each, cap = rows.each[row], rows.rest[row]
    has_unlisted = each > 0.0 and cap > 0.0
    in_unlisted = n_within - n_in if has_unlisted else 0
    hit_unlisted = n_both - n_hit if has_unlisted else 0
    off_unlisted = (S - n_to) - (end - begin - n_in_to) if has_unlisted else 0
    out_unlisted = (S - n_within) - (end - begin - n_in) if has_unlisted else 0
    if rows.shape == INTERVALS:
        if helps:
            room = room_in + min(cap, room_other_in + each * in_unlisted)
            if low_out > 0.0 or room < 1.0 - SLACK:
                return False
            return low_hit > 0.0 or (low_in < 1.0 and (is_hit or hit_unlisted > 0))
        is_fixed = low_in + low_out >= 1.0
        if low_out > 0.0 or (not is_fixed and (is_out or out_unlisted > 0)):
            return False
        room = room_off + min(cap, room_other_off + each * off_unlisted)
        return low_to > 0.0 or room < 1.0 - SLACK
    radius = rows.radius[row]
    is_free = known < 0.5 or radius == math.inf  # never visited, or without a bound
    move = radius / 2 if rows.shape == L1 else 0.0
    if helps:
        if n_in + in_unlisted == 0 or (not is_free and low_out > move + SLACK):
            return False
        may_hit = n_hit + hit_unlisted > 0 and (is_free or radius > 0.0)
        return may_hit or (not is_free and low_hit > 0.0)
    may_move = is_free or radius > 0.0
    if (low_out > 0.0 and not is_free) or (may_move and (is_out or out_unlisted > 0)):
        return False
    if may_move and not is_off and off_unlisted == 0:
        return True
    return not is_free and low_to > move + SLACK


@seldom
def _holds(
    rows: SetRows,
    is_allowed: np.ndarray,
    state: int,
    within: np.ndarray,
    to: np.ndarray,
    sizes: np.ndarray,
    agent_helps: bool,
    nature_helps: bool,
    choice: np.ndarray,
) -> bool:
    """Return whether an allowed row of a state leads there, or every one without the agent's help.

    `choice` receives the row that decides.
    """
    found = False
    for row in range(rows.pair_start[state], rows.pair_start[state + 1]):
        if not is_allowed[row]:
            continue
        leads = _leads(rows, row, within, to, sizes[0], sizes[1], sizes[2], nature_helps)
        if leads and agent_helps:
            choice[state] = row
            return True
        if not leads and not agent_helps:
            choice[state] = row
            return False
        found = True
    return found and not agent_helps


@entry
def reach(
    rows: SetRows,
    arrival_start: np.ndarray,
    arrival_state: np.ndarray,
    is_allowed: np.ndarray,
    within: np.ndarray,
    goal: np.ndarray,
    agent_helps: bool,
    nature_helps: bool,
    choice: np.ndarray,
) -> np.ndarray:
    """Return the states within a set that lead to a goal, step by step, without leaving the set.

    The goal belongs to the result if it is within the set. `arrival_*` are the states with a row
    that lists each state.
    """
    S = len(goal)
    found = goal & within
    sizes = np.zeros(3, np.int64)
    queue, n_queued = np.empty(S, np.int64), 0
    has_others = False
    for row in range(len(rows.rest)):
        has_others = has_others or rows.rest[row] > 0.0
    for state in range(S):
        sizes[0] += within[state]
        if found[state]:
            sizes[1] += 1
            sizes[2] += 1
            queue[n_queued] = state
            n_queued += 1
    seen = 0
    while True:
        while seen < n_queued:
            target = queue[seen]
            seen += 1
            for i in range(arrival_start[target], arrival_start[target + 1]):
                state = arrival_state[i]
                if found[state] or not within[state]:
                    continue
                if _holds(
                    rows, is_allowed, state, within, found, sizes, agent_helps, nature_helps, choice
                ):
                    found[state] = True
                    sizes[1] += 1
                    sizes[2] += 1
                    queue[n_queued] = state
                    n_queued += 1
        if agent_helps and not has_others:
            return found
        # Rows with others depend on states that they do not list.
        for state in range(S):
            if found[state] or not within[state]:
                continue
            if _holds(
                rows, is_allowed, state, within, found, sizes, agent_helps, nature_helps, choice
            ):
                found[state] = True
                sizes[1] += 1
                sizes[2] += 1
                queue[n_queued] = state
                n_queued += 1
        if seen == n_queued:
            return found


@entry
def keep(
    rows: SetRows,
    arrival_start: np.ndarray,
    arrival_state: np.ndarray,
    is_allowed: np.ndarray,
    within: np.ndarray,
    is_safe: np.ndarray,
    agent_helps: bool,
    nature_helps: bool,
    choice: np.ndarray,
) -> np.ndarray:
    """Return the largest part of a set in which one can stay; safe states may stay anyway."""
    S = len(within)
    left = within.copy()
    everything = np.ones(S, np.bool_)
    sizes = np.zeros(3, np.int64)
    sizes[2] = S
    for state in range(S):
        sizes[0] += left[state]
    sizes[1] = sizes[0]
    queue, n_queued, seen = np.empty(S, np.int64), 0, 0
    is_changing = True
    while is_changing:
        is_changing = False
        for state in range(S):
            if not left[state] or is_safe[state]:
                continue
            if not _holds(
                rows,
                is_allowed,
                state,
                left,
                everything,
                sizes,
                agent_helps,
                nature_helps,
                choice,
            ):
                left[state] = False
                sizes[0] -= 1
                sizes[1] -= 1
                queue[n_queued] = state
                n_queued += 1
                is_changing = True
        while seen < n_queued:
            gone = queue[seen]
            seen += 1
            for i in range(arrival_start[gone], arrival_start[gone + 1]):
                state = arrival_state[i]
                if not left[state] or is_safe[state]:
                    continue
                if not _holds(
                    rows,
                    is_allowed,
                    state,
                    left,
                    everything,
                    sizes,
                    agent_helps,
                    nature_helps,
                    choice,
                ):
                    left[state] = False
                    sizes[0] -= 1
                    sizes[1] -= 1
                    queue[n_queued] = state
                    n_queued += 1
                    is_changing = True
    return left


@entry
def staying_rows(
    rows: SetRows,
    is_allowed: np.ndarray,
    part: np.ndarray,
    is_idle: np.ndarray,
    size: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows that can stay in the part of their state, and with which entries and others.

    `part` [S] has the part of every state, -1 for none, and `size` the states of each part. Only
    idle entries [k] count as staying.
    """
    n = len(rows.constant)
    stays, by_entry = np.zeros(n, np.bool_), np.zeros(len(rows.target), np.bool_)
    by_others = np.zeros(n, np.bool_)
    for state in range(len(rows.pair_start) - 1):
        own = part[state]
        if own < 0:
            continue
        for row in range(rows.pair_start[state], rows.pair_start[state + 1]):
            if not is_allowed[row]:
                continue
            begin, end = rows.row_start[row], rows.row_start[row + 1]
            low_in, low_out, room, room_other, known, n_in = 0.0, 0.0, 0.0, 0.0, 0.0, 0
            for k in range(begin, end):
                low = rows.low[k]
                high = rows.high[k] if rows.shape == INTERVALS else 1.0
                known += low
                if part[rows.target[k]] == own:
                    n_in += 1
                if part[rows.target[k]] == own and is_idle[k]:
                    low_in += low
                    if rows.is_other[k]:
                        room_other += high
                    else:
                        room += high
                else:
                    low_out += low
            has_unlisted = rows.each[row] > 0.0 and rows.rest[row] > 0.0 and size[own] > n_in
            if rows.shape == INTERVALS:
                unlisted = rows.each[row] * (size[own] - n_in) if has_unlisted else 0.0
                room += min(rows.rest[row], room_other + unlisted)
                stays[row] = low_out <= 0.0 and room >= 1.0 - SLACK
                is_open = low_in < 1.0
            else:
                is_free = known < 0.5 or rows.radius[row] == math.inf
                move = rows.radius[row] / 2 if rows.shape == L1 else 0.0
                stays[row] = (room + room_other > 0.0 or has_unlisted) and (
                    is_free or low_out <= move + SLACK
                )
                is_open = is_free or rows.radius[row] > 0.0
            if not stays[row]:
                continue
            by_others[row] = has_unlisted and is_open
            for k in range(begin, end):
                if part[rows.target[k]] == own and is_idle[k]:
                    high = rows.high[k] if rows.shape == INTERVALS else 1.0
                    by_entry[k] = rows.low[k] > 0.0 or (is_open and high > 0.0)
    return stays, by_entry, by_others
