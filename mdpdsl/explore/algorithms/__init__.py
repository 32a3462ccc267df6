"""The built-in explorers: one file and one row in the table for each.

A file states the rule in NumPy, beside the citation, and its `strategy` turns settings into the
numbers that the compiled loops read. No explorer sees the truth.
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

#: The module of every algorithm, by name.
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

#: Those that plan with an oracle at the start of each episode.
EPISODIC = ("kappa-lp", "fw-modest")
#: Those whose strategy changes from stage to stage.
STAGED = (*EPISODIC, "tracking")

#: Up to this many states, whole sweeps cost less than keeping track of what has changed.
FEW_STATES = 30
#: Up to this many states, a step may take as many backups as it needs; in larger models, these.
MANY_STATES = 1_000
BACKUPS_PER_STEP = 50
#: Above this kappa, a visit changes the values of most states, which suits whole sweeps.
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
    """Return the settings as numbers; an algorithm replaces those in which it differs."""
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
