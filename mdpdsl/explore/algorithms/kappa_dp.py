"""kappa-Explorer-DP (paper, algorithm general-dp): plan on the estimate with diminishing rewards.

At every step, value iteration on P_hat with r(s,a) = UCB(c^kappa)(s,a) / T+(s,a)^kappa, the
gradient of U_kappa at the visits so far; then the best action (`lookahead`). `horizon` 1, 2, k are
the paper's truncated variants. A larger kappa favours the worst pair, kappa = 1 the average. No
guarantee is proved for the DP variant. A pair whose row is known has UCB(c) = 0: no reward.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.incentives import KAPPA, Strategy


def rewards(
    upper: FloatArray, visits: IntArray, pair_state: IntArray, settings: ExploreSettings
) -> FloatArray:
    """Return r = (UCB(c) / T+)^kappa, scaled so that the largest is 1: they span many magnitudes.

    All are 0 if nothing is left to learn.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(upper) - np.log(np.maximum(visits, settings.epsilon))
    if logs.max() == -np.inf:
        return np.zeros(len(logs))
    scaled: FloatArray = np.exp(settings.kappa * (logs - logs.max()))
    return scaled


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy of kappa-Explorer-DP."""
    return common_strategy(settings, n_states, KAPPA)
