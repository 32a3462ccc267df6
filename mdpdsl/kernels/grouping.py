"""The rows of some pairs between groups of states, without intermediate arrays."""

from __future__ import annotations

import numpy as np

from mdpdsl.kernels.compiled import entry


@entry
def group_rows(
    successor_start: np.ndarray,
    successor: np.ndarray,
    probability: np.ndarray,
    pairs: np.ndarray,
    pair_group: np.ndarray,
    group_of: np.ndarray,
    terminal: np.ndarray,
    reward: np.ndarray,
    is_conditional: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return row starts, targets, weights and constants; and the masses that leave.

    The two masses of a row are the probability of leaving its own group, and that of leaving all
    groups. A conditional row is divided by the first of them and has no entry for its own group;
    if it never leaves, it has that entry only.
    """
    n, room = len(pairs), 0
    for i in range(n):
        room += successor_start[pairs[i] + 1] - successor_start[pairs[i]]
    row_start = np.zeros(n + 1, np.uint32)
    target, weight = np.empty(room, np.uint32), np.empty(room)
    constant, leaving, outside = np.empty(n), np.empty(n), np.empty(n)
    to = 0
    for i in range(n):
        own, begin = pair_group[i], to
        earned, stays, leaves, ends = reward[pairs[i]], 0.0, 0.0, 0.0
        for k in range(successor_start[pairs[i]], successor_start[pairs[i] + 1]):
            group, p = group_of[successor[k]], probability[k]
            if group < 0:
                earned += p * terminal[successor[k]]
                ends += p
            if group != own:
                leaves += p
            else:
                stays += p
            if group >= 0 and not (is_conditional and group == own):
                target[to] = group
                weight[to] = p
                to += 1
        if is_conditional and leaves > 0:
            earned /= leaves
            for k in range(begin, to):
                weight[k] /= leaves
        elif is_conditional:
            target[to] = own
            weight[to] = stays
            to += 1
        constant[i], leaving[i], outside[i] = earned, leaves, ends
        row_start[i + 1] = to
    return row_start, target[:to].copy(), weight[:to].copy(), constant, leaving, outside
