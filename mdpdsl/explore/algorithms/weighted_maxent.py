"""Weighted MaxEnt (Tarbouriech, Shekhar, Pirotta, Ghavamzadeh and Lazaric 2020).

Plans with r(s,a) = UCB(c) (log n - log max(T, epsilon)): visits of pairs in proportion to their
complexity. It knows the number of steps n. The larger epsilon is, the more often it fails to reach
some pairs. A pair whose row is known has UCB(c) = 0: no reward.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.incentives import WEIGHTED_MAXENT, Strategy


def rewards(
    upper: FloatArray, visits: IntArray, pair_state: IntArray, settings: ExploreSettings
) -> FloatArray:
    """Return r = UCB(c) (log n - log T+), n being the steps of the run."""
    log_visits = np.log(np.maximum(visits, settings.epsilon))
    weighted: FloatArray = upper * (np.log(settings.steps) - log_visits)
    return weighted


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy of Weighted MaxEnt."""
    return common_strategy(settings, n_states, WEIGHTED_MAXENT)
