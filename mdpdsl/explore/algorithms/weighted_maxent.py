"""Weighted MaxEnt (Tarbouriech, Shekhar, Pirotta, Ghavamzadeh and Lazaric 2020).

Plans with UCB(c) (log n - log max(T, epsilon)): visits of pairs in proportion to their complexity.
It knows the number of steps, and fails to reach some pairs the more often the larger epsilon is.
"""

from __future__ import annotations

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.kernels.incentives import WEIGHTED_MAXENT, Strategy


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the plan of Weighted MaxEnt."""
    return common_strategy(settings, n_states, WEIGHTED_MAXENT)
