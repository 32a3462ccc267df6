"""Sweeps over rows that nature chooses from sets: backups, values of games, proofs of bounds.

The agent maximises and chooses the pair; nature then chooses the row (see `best_row`):

    (T V)(s) = max_a  ext_p [constant + sum_s' p(s') (gain + factor V(s'))],

where ext is min if nature is against the agent (sense -1), and max if it helps (sense 1).

A *player* chooses the pair and the row alike, and maximises. States in a *group*, between which it
can move at no cost, have the same value v. A row that stays with probability w, and is otherwise
worth v + m on average, leaves the group with the value  v + m/(1 - w).  To prove an upper bound u,
every row must have  m <= 0  with all terms rounded up. What stays in the group adds exactly 0, so
that this works for rows that hardly ever leave.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.best_row import best_value, extreme
from mdpdsl.kernels.compiled import entry, inner, seldom
from mdpdsl.kernels.set_rows import Ranking, Room, SetRows

#: Tangents that lead to the value of leaving a group.
MOST_TANGENTS = 20
#: A row that leaves with a smaller probability than this counts as one that stays.
LEAVING = 1e-13


class Groups(NamedTuple):
    """States in groups, in the order in which they are swept."""

    start: IntArray  # [n_groups + 1]
    member: IntArray  # [n]  states
    of: IntArray  # [S]  the group of a state; -1 if it is closed
    stop: FloatArray  # [n_groups]  what the player may stop with there; -inf if it may not


@seldom
def _backup(
    rows: SetRows,
    state: int,
    values: np.ndarray,
    ranked: Ranking,
    room: Room,
    factor: float,
    sense: float,
    current: int,
    margin: float,
) -> tuple[float, int]:
    """Return the best value of a state and its row: the current one unless another is better."""
    best, chosen, kept = -math.inf, current, -math.inf
    for row in range(rows.pair_start[state], rows.pair_start[state + 1]):
        q = best_value(rows, row, values, ranked, room, factor, sense) + rows.constant[row]
        if row == current:
            kept = q
        if q > best:
            best, chosen = q, row
    if current >= 0 and best <= kept + margin * max(1.0, abs(kept)):
        chosen = current
    return best, chosen


@entry
def sweep_game(
    rows: SetRows,
    order: np.ndarray,
    values: np.ndarray,
    choice: np.ndarray,
    ranked: Ranking,
    room: Room,
    factor: float,
    sense: float,
    margin: float,
    floor: float,
) -> float:
    """Back up states once, in order and in place; return the largest relative change."""
    largest = 0.0
    for i in range(len(order)):
        state = order[i]
        best, chosen = _backup(
            rows, state, values, ranked, room, factor, sense, choice[state], margin
        )
        old = values[state]
        if best != old:
            largest = max(largest, abs(best - old) / max(floor, abs(best)))
        values[state], choice[state] = best, chosen
    return largest


@entry
def step_game(
    rows: SetRows,
    order: np.ndarray,
    values: np.ndarray,
    new: np.ndarray,
    choice: np.ndarray,
    ranked: Ranking,
    room: Room,
    factor: float,
    sense: float,
) -> tuple[float, float]:
    """Back up states at once, from `values` to `new`; return the least and the largest change."""
    low, high = math.inf, -math.inf
    for i in range(len(order)):
        state = order[i]
        best, chosen = _backup(rows, state, values, ranked, room, factor, sense, -1, 0.0)
        new[state], choice[state] = best, chosen
        low, high = min(low, best - values[state]), max(high, best - values[state])
    return low, high


@inner
def _leaving(
    rows: SetRows, row: int, group: int, groups: Groups, room: Room, n_extra: int
) -> float:
    """Return the probability with which the row found leaves a group."""
    leaving = 0.0
    begin, end = rows.row_start[row], rows.row_start[row + 1]
    for k in range(begin, end):
        if groups.of[rows.target[k]] != group:
            leaving += room.mass[k - begin]
    for i in range(n_extra):
        if groups.of[room.extra_state[i]] != group:
            leaving += room.extra_mass[i]
    return leaving


@seldom
def _set(values: np.ndarray, groups: Groups, group: int, value: float) -> None:
    for i in range(groups.start[group], groups.start[group + 1]):
        values[groups.member[i]] = value


@entry
def sweep_player(
    rows: SetRows,
    groups: Groups,
    values: np.ndarray,
    choice: np.ndarray,
    ranked: Ranking,
    room: Room,
    floor: float,
    bonus: float,
) -> float:
    """Improve the value of every group once, in place; return the largest relative change.

    `choice` receives the row with which a group is left, or -1 if it is best to stop there. Leaving
    a group earns a bonus.
    """
    largest = 0.0
    for group in range(len(groups.start) - 1):
        first = groups.start[group]
        v = values[groups.member[first]]
        best, chosen = groups.stop[group], -1
        kept = best if choice[group] < 0 else -math.inf
        for i in range(first, groups.start[group + 1]):
            state = groups.member[i]
            for row in range(rows.pair_start[state], rows.pair_start[state + 1]):
                m, n_extra = extreme(rows, row, values, ranked, room, 1.0, 1.0, v, 0.0)
                m += rows.constant[row]
                leaving = _leaving(rows, row, group, groups, room, n_extra)
                if leaving <= LEAVING:
                    if m >= 0.0:  # nothing is better than what the group has
                        kept = max(kept, v)
                    continue
                q = v + m / leaving + bonus
                if row == choice[group]:
                    kept = q
                if q > best:
                    best, chosen = q, row
        if best <= kept:
            best, chosen = kept, choice[group]
        if best == -math.inf:
            continue
        change = abs(best - v) / max(floor, abs(best))
        largest = max(largest, change)
        choice[group] = chosen
        _set(values, groups, group, best)
    return largest


@seldom
def _exit_bound(
    rows: SetRows,
    row: int,
    group: int,
    groups: Groups,
    upper: np.ndarray,
    below: float,
    ranked: Ranking,
    room: Room,
    unit: float,
) -> float:
    """Return a bound of the value with which a row leaves its group, if it rather stays.

    It is a v at which no row is better than staying. The search begins below and rises to the least
    such v, as tangents of a convex function do (Dinkelbach 1967).
    """
    u = upper[groups.member[groups.start[group]]]
    v, found = below, u
    for _ in range(MOST_TANGENTS):
        if v >= u:
            break
        _set(upper, groups, group, v)
        m, n_extra = extreme(rows, row, upper, ranked, room, 1.0, 1.0, v, unit)
        m += rows.constant[row] + unit * abs(rows.constant[row])
        if m <= 0.0:
            found = v
            break
        leaving = _leaving(rows, row, group, groups, room, n_extra)
        if leaving <= LEAVING:
            break
        v += m / leaving + unit * (abs(v) + abs(u))
    _set(upper, groups, group, u)
    return found


@entry
def prove_player(
    rows: SetRows,
    groups: Groups,
    values: np.ndarray,
    upper: np.ndarray,
    ranked: Ranking,
    room: Room,
    most: float,
    unit: float,
) -> bool:
    """Lower an upper bound of some values in place; return whether it is proved now.

    Values are known to be at most `most`, so that entries that large need no proof.
    """
    is_proved = True
    for group in range(len(groups.start) - 1):
        first = groups.start[group]
        u = upper[groups.member[first]]
        if u >= most:
            continue
        bound = groups.stop[group]
        below = 2 * values[groups.member[first]] - u
        for i in range(first, groups.start[group + 1]):
            state = groups.member[i]
            for row in range(rows.pair_start[state], rows.pair_start[state + 1]):
                m, n_extra = extreme(rows, row, upper, ranked, room, 1.0, 1.0, u, unit)
                m += rows.constant[row] + unit * abs(rows.constant[row])
                stays = m <= 0.0 and _leaving(rows, row, group, groups, room, n_extra) <= LEAVING
                if stays and bound < u:
                    q = _exit_bound(rows, row, group, groups, upper, below, ranked, room, unit)
                else:
                    q = np.nextafter(u + m, math.inf) if m < 0.0 else u + m
                bound = max(bound, q)
        if bound > u:
            is_proved = False
        else:
            _set(upper, groups, group, bound)
    return is_proved
