"""Random: every available action alike. The baseline."""

from __future__ import annotations

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.kernels.incentives import RANDOM, Strategy


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy that acts at random."""
    return common_strategy(settings, n_states, RANDOM)
