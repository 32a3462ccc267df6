"""What the explorers that look ahead share: bounds of c, and the values they choose by.

Every step, they turn the counts into rewards r(s,a), which is where they differ, and take the
action with the largest value on the estimate P_hat:

    q_1 = r,    q_h(s,a) = r(s,a) + gamma sum_s' P_hat(s'|s,a) max_a' q_{h-1}(s',a'),

for h = `horizon`, or its limit. A pair never visited has P_hat = 1/S; if the model file says where
it can lead, and how likely, P_hat is that of `estimate.empirical`. An end has the mean value of the
states in which episodes have started. If all actions are worth the same, the one with the largest
UCB(c)/T+ is taken.

The kernels compute the same without starting afresh each step; tests compare the two.
"""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.estimate.confidence import bernstein_upper_bound, complexity_upper_bound
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: Of the limit, relative to the largest value.
TOLERANCE = 1e-12


def upper_bounds(
    c_hat: FloatArray, visits: IntArray, n_states: int, t: int, settings: ExploreSettings
) -> FloatArray:
    """Return UCB(c) of every pair at time t, by the bonus that the settings name, [n_pairs]."""
    if settings.bonus == "none":
        return c_hat
    if settings.bonus == "bernstein":
        return bernstein_upper_bound(c_hat, visits, 2.0 if settings.beta is None else settings.beta)
    return complexity_upper_bound(c_hat, visits, n_states, t, settings.delta)


def action_values(
    rewards: FloatArray, estimate: TransitionGraph, settings: ExploreSettings
) -> FloatArray:
    """Return the value q of every pair on the estimate, [n_pairs].

    Its initial distribution is that of the starts seen. Without `discounts_last`, the last step to
    the limit has gamma = 1, as in the paper.
    """
    P, gamma = estimate.transition_matrix(), settings.gamma
    n_sweeps = settings.horizon or 2 + math.ceil(math.log(TOLERANCE) / math.log(gamma))
    q = rewards
    for sweep in range(2, n_sweeps + 1):
        V = np.zeros(estimate.n_states)
        acting = np.diff(estimate.pair_start) > 0
        V[acting] = np.maximum.reduceat(q, estimate.pair_start[:-1][acting])
        V[~acting] = estimate.initial @ V
        is_last = settings.horizon is None and sweep == n_sweeps
        q = rewards + (1.0 if is_last and not settings.discounts_last else gamma) * (P @ V)
    return q
