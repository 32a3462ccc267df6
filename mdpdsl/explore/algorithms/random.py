"""Random: every available action alike. The baseline."""

from __future__ import annotations

from mdpdsl.explore.algorithms import common_plan
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.kernels.rewards import RANDOM, Plan


def plan(settings: ExploreSettings, n_states: int) -> Plan:
    """Return the plan that makes no plans."""
    return common_plan(settings, n_states, RANDOM)
