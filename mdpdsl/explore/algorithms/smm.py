"""State Marginal Matching (Lee et al. 2019), for pairs: match a target distribution of visits.

Plans with r(s,a) = log target - log d_hat(s,a). The target is proportional to UCB(c), or uniform
(`target`). As long as UCB(c) = 1 everywhere the two are the same. A known pair is no part of the
target: it has no reward, as if it had been visited n times, n being the steps of the run.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.kernels.incentives import SMM, Strategy

#: In place of log 0, for a pair that needs no visit.
LEAST_LOG = -1e3


def rewards(
    upper: FloatArray,
    visits: IntArray,
    pair_state: IntArray,
    settings: ExploreSettings,
    is_known: BoolArray | None = None,
) -> FloatArray:
    """Return r = log target - log T+, up to a constant."""
    log_target = np.zeros(len(upper))
    if settings.target == "complexity":
        log_target = np.where(upper > 0, np.log(np.where(upper > 0, upper, 1.0)), LEAST_LOG)
    matched: FloatArray = log_target - np.log(np.maximum(visits, settings.epsilon))
    return matched if is_known is None else np.where(is_known, -np.log(settings.steps), matched)


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy of State Marginal Matching."""
    return common_strategy(settings, n_states, SMM)
