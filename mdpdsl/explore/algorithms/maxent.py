"""MaxEnt (Hazan, Kakade, Singh and Van Soest 2019): even visits of states.

Plans with r(s,a) = -log d_hat(s), which is the same for all actions of a state; a share `xi` of its
actions is random, without which it never tries some actions at all. A known pair has no reward: it
counts as one in a state visited n times, n being the steps of the run.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.kernels.incentives import MAXENT, Strategy


def rewards(
    upper: FloatArray,
    visits: IntArray,
    pair_state: IntArray,
    settings: ExploreSettings,
    is_known: BoolArray | None = None,
) -> FloatArray:
    """Return r = -log max(T(s), epsilon): -log d_hat(s) but for log t, which changes no choice."""
    state_visits = np.bincount(pair_state, visits)
    logs: FloatArray = -np.log(np.maximum(state_visits, settings.epsilon))
    rewards: FloatArray = logs[pair_state]
    return rewards if is_known is None else np.where(is_known, -np.log(settings.steps), rewards)


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy of MaxEnt."""
    return common_strategy(settings, n_states, MAXENT)._replace(greed=1.0 - settings.xi)
