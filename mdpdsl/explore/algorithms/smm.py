"""State Marginal Matching (Lee et al. 2019), for pairs: match a target distribution of visits.

Plans with log target - log d_hat(s,a). The target is proportional to UCB(c), or uniform (`target`);
where the bound is vacuous the two are the same, and then this is Weighted MaxEnt.
"""

from __future__ import annotations

from mdpdsl.explore.algorithms import common_plan
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.kernels.rewards import SMM, Plan


def plan(settings: ExploreSettings, n_states: int) -> Plan:
    """Return the plan of State Marginal Matching."""
    return common_plan(settings, n_states, SMM)
