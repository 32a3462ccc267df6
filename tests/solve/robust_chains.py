"""The values of many chains at once: P [n_chains, n_states, n_states], r [n_chains, n_states]."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray

#: The error of linear equations of a handful of states.
EXACT = 1e-9


def until(P: FloatArray, goal: BoolArray, allowed: BoolArray) -> FloatArray:
    """Return the probabilities of reaching a goal through allowed states, [n_chains, n_states]."""
    stopped = _stopped(P, goal | ~allowed)
    is_open = _reaches(stopped)[:, :, goal].any(axis=2) & ~goal
    return _solved(P, np.zeros(P.shape[:2]), is_open, goal.astype(np.float64))


def total(P: FloatArray, r: FloatArray, goal: BoolArray) -> FloatArray:
    """Return the expected rewards before a goal; nan where it may not be reached."""
    misses = _misses(P, goal)
    values = _solved(P, r, ~misses & ~goal, np.zeros(len(goal)))
    return np.where(misses, np.nan, values)


def discounted(P: FloatArray, r: FloatArray, discount: float) -> FloatArray:
    """Return the discounted sums of rewards."""
    system = np.eye(P.shape[1]) - discount * P
    return np.asarray(np.linalg.solve(system, r[..., None])[..., 0])


def gain(P: FloatArray, r: FloatArray) -> FloatArray:
    """Return the long-run averages g.

    With biases h, g + h = r + P h within a class. Its first state has the bias 0, and its unknown
    is the average of the class; that of a transient state is its own average.
    """
    eye = np.eye(P.shape[1])
    reaches = _reaches(P)
    both = reaches & reaches.transpose(0, 2, 1)
    is_recurrent = np.all(both == reaches, axis=2)  # all that it reaches reaches it
    first = np.argmax(both, axis=2)  # [n_chains, n_states]
    is_first = is_recurrent & (first == np.arange(P.shape[1]))
    to_first = eye[first]  # [n_chains, n_states, n_states]
    averages = np.where(is_recurrent[:, None, :], 0.0, P) + np.einsum(
        "ksj,kj,kjf->ksf", P, is_recurrent, to_first
    )
    biases = np.where(is_first[:, None, :], 0.0, eye - P) + to_first
    system = np.where(is_recurrent[:, :, None], biases, eye - averages)
    found = np.linalg.solve(system, np.where(is_recurrent, r, 0.0)[..., None])[..., 0]
    return np.where(is_recurrent, np.take_along_axis(found, first, axis=1), found)


def gain_and_bias(P: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return averages and biases of chains with one class, which has the last state."""
    system = np.eye(P.shape[1]) - P
    system[:, :, -1] = 1.0
    found = np.linalg.solve(system, r[..., None])[..., 0]
    gains = np.repeat(found[:, -1:], P.shape[1], axis=1)
    return gains, np.where(np.arange(P.shape[1]) < P.shape[1] - 1, found, 0.0)


def may_stay(P: FloatArray, r: FloatArray, size: FloatArray, goal: BoolArray) -> bool:
    """Return whether a closed class outside a goal has rewards, and does not lose on average.

    The size [n_chains, n_states] is positive where there are rewards, even if they cancel out.
    """
    stopped = _stopped(P, goal)
    reaches = _reaches(stopped)
    is_recurrent = np.all(reaches.transpose(0, 2, 1) >= reaches, axis=2) & ~goal
    has_rewards = np.any(reaches & (size * ~goal > 0)[:, None, :], axis=2)
    is_kept = gain(stopped, r * ~goal) >= -EXACT
    return bool(np.any(is_recurrent & has_rewards & is_kept))


def _misses(P: FloatArray, goal: BoolArray) -> BoolArray:
    """Return where a goal is not reached with probability 1."""
    reaches = _reaches(_stopped(P, goal))
    is_lost = np.asarray(~reaches[:, :, goal].any(axis=2))
    return np.asarray(np.any(reaches & is_lost[:, None, :], axis=2))


def _stopped(P: FloatArray, where: BoolArray) -> FloatArray:
    return np.where(where[:, None], np.eye(len(where)), P)


def _reaches(P: FloatArray) -> BoolArray:
    """Return which state reaches which, [n_chains, n_states, n_states]."""
    found = np.eye(P.shape[1]) + (P > 0)
    for _ in range(3):  # 8 steps are enough
        found = (found @ found > 0).astype(np.float64)
    return found > 0


def _solved(P: FloatArray, r: FloatArray, is_open: BoolArray, known: FloatArray) -> FloatArray:
    """Return V = r + P V where it is open, and known values elsewhere."""
    eye = np.eye(P.shape[1])
    system = np.where(is_open[..., None], eye - P, eye)
    found = np.linalg.solve(system, np.where(is_open, r, known)[..., None])[..., 0]
    return np.asarray(found)
