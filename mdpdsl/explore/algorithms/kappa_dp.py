"""kappa-Explorer-DP (paper, algorithm general-dp): plan on the estimate with diminishing rewards.

At every step, value iteration on P_hat with r(s,a) = UCB(c^kappa)(s,a) / T+(s,a)^kappa, the
gradient of U_kappa at the visits so far; then the best action. `horizon` 1, 2, k are the paper's
truncated variants. Larger kappa favours the worst pair, kappa = 1 the average. No guarantee is
proved for the DP variant.
"""

from __future__ import annotations

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.kernels.incentives import KAPPA, Strategy


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the plan of kappa-Explorer-DP."""
    return common_strategy(settings, n_states, KAPPA)
