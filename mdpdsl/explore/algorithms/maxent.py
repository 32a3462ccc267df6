"""MaxEnt (Hazan, Kakade, Singh and Van Soest 2019): even visits of states.

Plans with -log d_hat(s), which knows states only; a share `xi` of its actions is random, without
which it never tries some actions at all.
"""

from __future__ import annotations

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.kernels.incentives import MAXENT, Strategy


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the plan of MaxEnt."""
    return common_strategy(settings, n_states, MAXENT)._replace(greed=1.0 - settings.xi)
