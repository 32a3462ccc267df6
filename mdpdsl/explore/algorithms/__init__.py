"""The explorers: one file each, one row in the table.

Each file's `plan` turns settings into what the compiled loops read. None of them sees the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from mdpdsl.diagnostics import did_you_mean
from mdpdsl.explore.settings import ExploreSettings, SettingsError

if TYPE_CHECKING:
    from mdpdsl.kernels.rewards import Plan

#: Every algorithm by name, with the module that has it.
ALGORITHMS = {
    "kappa-dp": "kappa_dp",
    "random": "random",
    "maxent": "maxent",
    "weighted-maxent": "weighted_maxent",
    "smm": "smm",
}

#: Above so many states a full sweep at every step is hopeless.
MOST_STATES_FOR_SWEEPS = 1_000


def plan_for(settings: ExploreSettings, n_states: int) -> Plan:
    """Return the plan of the algorithm that the settings name."""
    if settings.algorithm not in ALGORITHMS:
        hint = did_you_mean(settings.algorithm, ALGORITHMS) or f"there are {', '.join(ALGORITHMS)}"
        raise SettingsError(f"unknown algorithm `{settings.algorithm}`; {hint}")
    module = import_module(f"mdpdsl.explore.algorithms.{ALGORITHMS[settings.algorithm]}")
    plan: Callable[[ExploreSettings, int], Plan] = module.plan
    return plan(settings, n_states)


def common_plan(settings: ExploreSettings, n_states: int, kind: int) -> Plan:
    """Return the settings as numbers; an algorithm replaces what it has otherwise."""
    from mdpdsl.kernels.rewards import BERNSTEIN_BONUS, NO_BONUS, PAPER_BONUS, Plan

    bonuses = {"paper": PAPER_BONUS, "bernstein": BERNSTEIN_BONUS, "none": NO_BONUS}
    is_large = n_states > MOST_STATES_FOR_SWEEPS
    return Plan(
        kind=kind,
        kappa=float(settings.kappa),
        gamma=float(settings.gamma),
        epsilon=float(settings.epsilon),
        delta=float(settings.delta),
        bonus=bonuses[settings.bonus or "paper"],
        beta=float(settings.beta),
        log_steps=math.log(settings.steps),
        horizon=settings.horizon or 0,
        greed=1.0,
        is_uniform_target=settings.target == "uniform",
        discounts_last=settings.discounts_last,
        is_prioritized=settings.planner == "prioritized"
        or (settings.planner == "auto" and is_large),
        tolerance=float(settings.tolerance),
        most_backups=settings.most_backups,
    )
