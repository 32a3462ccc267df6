"""Random: every available action alike. The baseline."""

from __future__ import annotations

import numpy as np

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import IntArray
from mdpdsl.kernels.incentives import RANDOM, Strategy


def choice(pairs: IntArray, generator: np.random.Generator) -> int:
    """Return one of a state's pairs, each with the same chance."""
    return int(pairs[int(generator.random() * len(pairs))])


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy that acts at random."""
    return common_strategy(settings, n_states, RANDOM)
