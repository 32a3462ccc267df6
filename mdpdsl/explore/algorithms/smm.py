"""State Marginal Matching (Lee et al. 2019), for pairs: match a target distribution of visits.

Plans with r(s,a) = log target - log d_hat(s,a). The target is proportional to UCB(c), or uniform
(`target`). As long as UCB(c) = 1 everywhere the two are the same.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.incentives import SMM, Strategy

#: In place of log 0, for a pair that needs no visit.
LEAST_LOG = -1e3


def rewards(
    upper: FloatArray, visits: IntArray, pair_state: IntArray, settings: ExploreSettings
) -> FloatArray:
    """Return r = log target - log T+, up to a constant."""
    log_target = np.zeros(len(upper))
    if settings.target == "complexity":
        log_target = np.where(upper > 0, np.log(np.where(upper > 0, upper, 1.0)), LEAST_LOG)
    matched: FloatArray = log_target - np.log(np.maximum(visits, settings.epsilon))
    return matched


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy of State Marginal Matching."""
    return common_strategy(settings, n_states, SMM)
