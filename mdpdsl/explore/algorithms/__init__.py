"""The explorers: one file each, one row in the table.

Each file's `plan` turns settings into what the compiled loops read. None of them sees the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from mdpdsl.diagnostics import SettingsError, did_you_mean
from mdpdsl.explore.plugins import ExplorerFactory, installed_explorer, installed_names
from mdpdsl.explore.settings import ExploreSettings

if TYPE_CHECKING:
    from mdpdsl.kernels.incentives import Strategy

#: Every algorithm by name, with the module that has it.
ALGORITHMS = {
    "kappa-dp": "kappa_dp",
    "random": "random",
    "maxent": "maxent",
    "weighted-maxent": "weighted_maxent",
    "smm": "smm",
    "kappa-lp": "kappa_lp",
    "fw-modest": "fw_modest",
    "tracking": "tracking.rule",
}

#: Those that plan at the start of episodes, with an oracle.
EPISODIC = ("kappa-lp", "fw-modest")
#: Those that go through stages with a plan for each.
STAGED = (*EPISODIC, "tracking")

#: Up to so many states whole sweeps cost less than to keep track of what has changed.
FEW_STATES = 30
#: Up to so many states every step may take as many backups as it needs; beyond, so many.
MANY_STATES = 1_000
BACKUPS_PER_STEP = 50
#: Above this kappa a visit moves the values of most states, which whole sweeps do best.
STEEP = 4.0


def algorithm_names() -> list[str]:
    """Return the names of all explorers, built in or installed."""
    return [*ALGORITHMS, *(name for name in installed_names() if name not in ALGORITHMS)]


def third_party_explorer(name: str) -> ExplorerFactory | None:
    """Return the installed explorer of a name; None if it is built in.

    Raise SettingsError if there is no explorer of this name.
    """
    if name in ALGORITHMS:
        return None
    found = installed_explorer(name)
    if found is None:
        known = algorithm_names()
        hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
        raise SettingsError(f"unknown algorithm `{name}`; {hint}")
    return found


def strategy_for(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy of the built-in algorithm that the settings name."""
    name = settings.algorithm
    if third_party_explorer(name) is not None:
        raise SettingsError(f"the algorithm `{name}` is not built in; make its own explorer")
    module = import_module(f"mdpdsl.explore.algorithms.{ALGORITHMS[name]}")
    strategy: Callable[[ExploreSettings, int], Strategy] = module.strategy
    return strategy(settings, n_states)


def common_strategy(settings: ExploreSettings, n_states: int, kind: int) -> Strategy:
    """Return the settings as numbers; an algorithm replaces what it has otherwise."""
    from mdpdsl.kernels.incentives import BERNSTEIN_BONUS, KAPPA, NO_BONUS, PAPER_BONUS, Strategy

    bonuses = {"paper": PAPER_BONUS, "bernstein": BERNSTEIN_BONUS, "none": NO_BONUS}
    is_steep = kind == KAPPA and settings.kappa > STEEP
    is_prioritized = settings.planner == "prioritized" or (
        settings.planner == "auto" and n_states > (MANY_STATES if is_steep else FEW_STATES)
    )
    most_backups = BACKUPS_PER_STEP if n_states > MANY_STATES else 1_000 * n_states
    return Strategy(
        kind=kind,
        kappa=float(settings.kappa),
        gamma=float(settings.gamma),
        epsilon=float(settings.epsilon),
        delta=float(settings.delta),
        bonus=bonuses[settings.bonus or "paper"],
        beta=float(2.0 if settings.beta is None else settings.beta),
        log_steps=math.log(settings.steps),
        horizon=settings.horizon or 0,
        greed=1.0,
        is_uniform_target=settings.target == "uniform",
        discounts_last=settings.discounts_last,
        is_prioritized=is_prioritized,
        tolerance=float(settings.tolerance),
        most_backups=settings.most_backups or most_backups,
        is_steering=False,
    )
