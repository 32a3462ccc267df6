"""State Marginal Matching (Lee et al. 2019), for pairs: match a target distribution of visits.

Plans with log target - log d_hat(s,a). The target is proportional to UCB(c), or uniform (`target`);
where the bound is vacuous the two are the same, and then this is Weighted MaxEnt.
"""

from __future__ import annotations

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.kernels.incentives import SMM, Strategy


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the plan of State Marginal Matching."""
    return common_strategy(settings, n_states, SMM)
