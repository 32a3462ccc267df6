"""kappa-Explorer (paper, algorithm FW-general): Frank-Wolfe on U_kappa with an optimistic oracle.

At the start of episode m, the direction psi maximises <w, d> over the occupancies d >= 2 eta of any
model within the confidence sets, w = UCB(c^kappa) / (T+)^kappa being the gradient of U_kappa at
d_hat; the policy psi / sum_a psi is followed for tau_1 m^2 steps. With high probability
U_kappa(d*) - U_kappa(d_hat(t)) = O~(t^(-1/3)) (paper, theorem general_regret_bound), provided that
P lies within the sets, the model communicates and D_eta(P) is not empty.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import FloatArray
from mdpdsl.kernels.incentives import POLICY, Strategy


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy that follows the policy of an episode."""
    return common_strategy(settings, n_states, POLICY)


def log_weights(
    upper: FloatArray, visits: FloatArray, steps: int, settings: ExploreSettings
) -> FloatArray:
    """Return log w = kappa (log UCB(c) - log T+); the scale of d_hat = T+/t does not matter."""
    with np.errstate(divide="ignore"):
        logs: FloatArray = settings.kappa * (np.log(upper) - np.log(visits))
    return logs
