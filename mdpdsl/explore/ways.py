"""The nearest way to some states: the pair with the best chance of a state fewer steps away."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray


def nearest_way(
    P: Any, pair_start: IntArray, is_there: BoolArray, passable: BoolArray | None = None
) -> FloatArray:
    """Return a policy that leads to some states, [n_pairs]; 0 there, and where no way is.

    P is a closed matrix, [n_pairs, n_states]: every state has pairs. Ways lead through passable
    states only, by default through all.
    """
    policy = np.zeros(P.shape[0])
    is_near = is_there.copy()
    while True:
        nearer = np.asarray(P @ is_near.astype(np.float64))
        found = ~is_near & (np.maximum.reduceat(nearer, pair_start[:-1]) > 0)
        if passable is not None:
            found &= passable
        if not found.any():
            return policy
        for state in np.flatnonzero(found).tolist():
            first, end = pair_start[state], pair_start[state + 1]
            policy[first + int(np.argmax(nearer[first:end]))] = 1.0
        is_near |= found


def passing_by(
    policy: FloatArray,
    P: Any,
    pair_start: IntArray,
    is_wanted: BoolArray,
    is_known: BoolArray,
) -> FloatArray:
    """Return a policy that passes by where there is nothing to learn, [n_pairs].

    In a state whose rows are all known and none of whose pairs is wanted, it takes the nearest way
    to a state with a pair that is; elsewhere it is the policy given.
    """
    first = pair_start[:-1]
    is_there = np.logical_or.reduceat(is_wanted, first)
    passes = np.logical_and.reduceat(is_known, first) & ~is_there
    if not passes.any() or not is_there.any():
        return policy
    way = nearest_way(P, pair_start, is_there)
    has_way = passes & (np.add.reduceat(way, first) > 0)
    return np.where(np.repeat(has_way, np.diff(pair_start)), way, policy)
