"""FW-MODEST (Tarbouriech, Shekhar, Pirotta, Ghavamzadeh and Lazaric 2020), for squared l2 errors.

Frank-Wolfe with the oracle and the episodes of kappa-lp on a smoothed worst case: minimise

    F(d) = (1/mu) log sum_{s,a} exp(mu y(s,a)),   y = UCB(c) / (n_pairs d),

which exceeds max y by at most log(n_pairs)/mu; mu is `smoothing`. As y is L(s,a) / n_pairs, mu has
the same meaning for models of any size. The direction maximises <w, d> with w = exp(mu y) y / d,
which is proportional to minus the gradient of F. There is no guarantee for the worst case itself.
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
    """Return log w = mu y + log y - log d up to a constant, at d = T+/t."""
    d = visits / max(1, steps)
    with np.errstate(divide="ignore"):
        logs: FloatArray = settings.smoothing * upper / (len(d) * d) + np.log(upper) - 2 * np.log(d)
    return logs
