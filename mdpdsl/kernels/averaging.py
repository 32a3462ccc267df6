"""Sweeps for the long-run average, in place, relative to a reference state of each component.

With gain g, values h are those of the reward r - g per step until the reference is reached, whose
value is 0. If its own backup is d, and the policy takes t steps from it back to it, then g + d/t is
the gain of the policy (Bertsekas 1998). Rows have no self-loops; `time` is how long a pair stays.
"""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.kernels.affine_rows import Rows
from mdpdsl.kernels.compiled import entry


@entry
def jumps(rows: Rows, order: np.ndarray) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Return rows between different states in another order, how long each stays, and its old pair.

    Pairs that never leave their state are left out; every state needs another one.
    """
    S, n = len(order), len(rows.constant)
    place = np.empty(S, np.uint32)
    for i in range(S):
        place[order[i]] = i
    pair_start, row_start = np.zeros(S + 1, np.uint32), np.zeros(n + 1, np.uint32)
    target, weight = np.empty(len(rows.target), np.uint32), np.empty(len(rows.target))
    constant, time, old_pair = np.empty(n), np.empty(n), np.empty(n, np.uint32)
    new, to = 0, 0
    for i in range(S):
        state = order[i]
        for pair in range(rows.pair_start[state], rows.pair_start[state + 1]):
            leaves, begin = 0.0, to
            for k in range(rows.row_start[pair], rows.row_start[pair + 1]):
                if rows.target[k] != state:
                    target[to] = place[rows.target[k]]
                    weight[to] = rows.weight[k]
                    leaves += rows.weight[k]
                    to += 1
            if leaves == 0:
                continue
            for k in range(begin, to):
                weight[k] /= leaves
            time[new] = 1.0 / leaves
            constant[new] = rows.constant[pair] / leaves
            old_pair[new] = pair
            new += 1
            row_start[new] = to
        pair_start[i + 1] = new
    found = Rows(
        pair_start,
        row_start[: new + 1].copy(),
        target[:to].copy(),
        weight[:to].copy(),
        constant[:new].copy(),
    )
    return found, time[:new].copy(), old_pair[:new].copy()


@entry
def improve_to_reference(
    rows: Rows,
    time: np.ndarray,
    gain: np.ndarray,
    component_of: np.ndarray,
    is_reference: np.ndarray,
    values: np.ndarray,
    choice: np.ndarray,
) -> float:
    """Back up every state but the references once, in place; return the largest change."""
    largest = 0.0
    for state in range(len(values)):
        first, g = rows.pair_start[state], gain[component_of[state]]
        best, chosen = -math.inf, first
        for pair in range(first, rows.pair_start[state + 1]):
            q = rows.constant[pair] - g * time[pair]
            for k in range(rows.row_start[pair], rows.row_start[pair + 1]):
                q += rows.weight[k] * values[rows.target[k]]
            if q > best:
                best, chosen = q, pair
        choice[state] = chosen
        if not is_reference[state]:
            largest = max(largest, abs(best - values[state]))
            values[state] = best
    return largest


@entry
def evaluate_to_reference(
    rows: Rows,
    time: np.ndarray,
    gain: np.ndarray,
    resting: np.ndarray,
    component_of: np.ndarray,
    is_reference: np.ndarray,
    values: np.ndarray,
    steps: np.ndarray,
    n_sweeps: int,
    least: float,
) -> int:
    """Sweep over the only pair of each state until no change is large; then correct the gains.

    No gain falls below `resting`, that of a pair that never leaves its state. `steps` receives the
    expected steps to the reference. Return the number of sweeps.
    """
    done, largest = 0, math.inf
    while done < n_sweeps and largest > least:
        done += 1
        largest = 0.0
        for state in range(len(values)):
            if is_reference[state]:
                continue
            q = rows.constant[state] - gain[component_of[state]] * time[state]
            t = time[state]
            for k in range(rows.row_start[state], rows.row_start[state + 1]):
                q += rows.weight[k] * values[rows.target[k]]
                t += rows.weight[k] * steps[rows.target[k]]
            largest = max(largest, abs(q - values[state]))
            values[state], steps[state] = q, t
    missing = np.zeros(len(gain))
    for state in range(len(values)):
        if is_reference[state]:
            component = component_of[state]
            q, t = rows.constant[state] - gain[component] * time[state], time[state]
            for k in range(rows.row_start[state], rows.row_start[state + 1]):
                q += rows.weight[k] * values[rows.target[k]]
                t += rows.weight[k] * steps[rows.target[k]]
            missing[component] = max(q / t, resting[component] - gain[component])
    for state in range(len(values)):
        if not is_reference[state]:
            values[state] -= missing[component_of[state]] * steps[state]
    for component in range(len(gain)):
        gain[component] += missing[component]
    return done
