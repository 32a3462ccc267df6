"""A declarative modelling language for Markov decision processes.

Every command of the command line is a function here, with the same names and results:

>>> import mdpdsl
>>> model = mdpdsl.load("riverswim", n=20)
>>> model.graph.n_states
20
>>> run = mdpdsl.explore(model, kappa=2, steps=2_000)
>>> policy = mdpdsl.solve(run, discount=0.95).policy
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from mdpdsl.representation import draw_with

if TYPE_CHECKING:
    __version__: str

    from mdpdsl.compile.check_file import Check, check, format_text
    from mdpdsl.compile.model import Model, loads, shipped_models
    from mdpdsl.diagnostics import (
        Diagnostic,
        Error,
        FormatError,
        LogError,
        MdpdslWarning,
        ModelError,
        RunError,
        SettingsError,
        SolveError,
    )
    from mdpdsl.drafts.draft import Draft
    from mdpdsl.drafts.new_model import new
    from mdpdsl.envs import gym_env
    from mdpdsl.estimate.estimate_logs import estimate
    from mdpdsl.estimate.learned_numbers import LearnedNumbers
    from mdpdsl.estimate.log_estimate import Estimate
    from mdpdsl.estimate.run_result import RunResult
    from mdpdsl.exchange import Export, Import, export, import_model
    from mdpdsl.explore.comparison import Comparison, compare
    from mdpdsl.explore.experiment_plan import ExperimentPlan
    from mdpdsl.explore.explorer import Explorer
    from mdpdsl.explore.live.session import explore_live as explore_live
    from mdpdsl.explore.plan_run import plan
    from mdpdsl.explore.result import ExploreRun
    from mdpdsl.explore.run import explore
    from mdpdsl.explore.settings import ExploreSettings
    from mdpdsl.formats.policy_files import load_policy, save_policy
    from mdpdsl.formats.quantecon import quantecon_arrays
    from mdpdsl.graph.policy import Policy
    from mdpdsl.graph.transition_graph import TransitionGraph
    from mdpdsl.load import Runs, from_arrays, load, open_run, open_runs
    from mdpdsl.load import from_gym_P as from_gym_P
    from mdpdsl.report.model_summary import ModelSummary, describe, draw
    from mdpdsl.report.report_runs import Report, figures, plot, report
    from mdpdsl.simulate.simulate_model import Log, simulate
    from mdpdsl.solve.allocate_numbers import ExperimentDesign
    from mdpdsl.solve.allocate_visits import Allocation, allocate
    from mdpdsl.solve.answer import Solution
    from mdpdsl.solve.discounted import solve_discounted as solve_discounted
    from mdpdsl.solve.reachability import solve_reachability as solve_reachability
    from mdpdsl.solve.robust_answer import RobustSolution
    from mdpdsl.solve.solve_model import solve, solve_file

#: Every public name by the module that has it; imported when it is first used, so that
#: `mdpdsl --help` is instant.
_NAMES = {
    "mdpdsl.compile.check_file": ("Check", "check", "format_text"),
    "mdpdsl.compile.model": ("Model", "loads", "shipped_models"),
    "mdpdsl.diagnostics": (
        "Diagnostic",
        "Error",
        "FormatError",
        "LogError",
        "MdpdslWarning",
        "ModelError",
        "RunError",
        "SettingsError",
        "SolveError",
    ),
    "mdpdsl.drafts.draft": ("Draft",),
    "mdpdsl.drafts.new_model": ("new",),
    "mdpdsl.envs": ("gym_env",),
    "mdpdsl.estimate.estimate_logs": ("estimate",),
    "mdpdsl.estimate.log_estimate": ("Estimate",),
    "mdpdsl.estimate.learned_numbers": ("LearnedNumbers",),
    "mdpdsl.estimate.run_result": ("RunResult",),
    "mdpdsl.exchange": ("Export", "Import", "export", "import_model"),
    "mdpdsl.explore.comparison": ("Comparison", "compare"),
    "mdpdsl.explore.experiment_plan": ("ExperimentPlan",),
    "mdpdsl.explore.plan_run": ("plan",),
    "mdpdsl.explore.explorer": ("Explorer",),
    "mdpdsl.explore.result": ("ExploreRun",),
    "mdpdsl.explore.run": ("explore",),
    "mdpdsl.explore.settings": ("ExploreSettings",),
    "mdpdsl.formats.policy_files": ("load_policy", "save_policy"),
    "mdpdsl.formats.quantecon": ("quantecon_arrays",),
    "mdpdsl.graph.policy": ("Policy",),
    "mdpdsl.graph.transition_graph": ("TransitionGraph",),
    "mdpdsl.load": ("Runs", "from_arrays", "load", "open_run", "open_runs"),
    "mdpdsl.report.model_summary": ("ModelSummary", "describe", "draw"),
    "mdpdsl.report.report_runs": ("Report", "figures", "plot", "report"),
    "mdpdsl.simulate.simulate_model": ("Log", "simulate"),
    "mdpdsl.solve.allocate_numbers": ("ExperimentDesign",),
    "mdpdsl.solve.allocate_visits": ("Allocation", "allocate"),
    "mdpdsl.solve.answer": ("Solution",),
    "mdpdsl.solve.robust_answer": ("RobustSolution",),
    "mdpdsl.solve.solve_model": ("solve", "solve_file"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

#: Names of version 1: where they are, and what takes their place.
_REPLACED = {
    "Run": ("mdpdsl.estimate.run_result", "RunResult", "mdpdsl.RunResult"),
    "explore_live": ("mdpdsl.explore.live.session", "explore_live", "mdpdsl.explore(system=…)"),
    "from_gym_P": ("mdpdsl.load", "from_gym_P", "mdpdsl.from_arrays"),
    "solve_discounted": (
        "mdpdsl.solve.discounted",
        "solve_discounted",
        "mdpdsl.solve(discount=…)",
    ),
    "solve_reachability": (
        "mdpdsl.solve.reachability",
        "solve_reachability",
        "mdpdsl.solve(reach=…)",
    ),
}

__all__ = [
    "__version__",
    "Allocation",
    "Check",
    "Comparison",
    "Diagnostic",
    "Draft",
    "Error",
    "Estimate",
    "ExperimentDesign",
    "ExperimentPlan",
    "ExploreRun",
    "ExploreSettings",
    "Explorer",
    "Export",
    "FormatError",
    "Import",
    "LearnedNumbers",
    "Log",
    "LogError",
    "MdpdslWarning",
    "Model",
    "ModelError",
    "ModelSummary",
    "Policy",
    "Report",
    "RobustSolution",
    "RunError",
    "RunResult",
    "Runs",
    "SettingsError",
    "Solution",
    "SolveError",
    "TransitionGraph",
    "allocate",
    "check",
    "compare",
    "describe",
    "draw",
    "estimate",
    "explore",
    "export",
    "figures",
    "format_text",
    "from_arrays",
    "gym_env",
    "import_model",
    "load",
    "load_policy",
    "loads",
    "new",
    "open_run",
    "open_runs",
    "plan",
    "plot",
    "quantecon_arrays",
    "report",
    "save_policy",
    "shipped_models",
    "simulate",
    "solve",
    "solve_file",
]


class _Package(ModuleType):
    """The package itself: verbs such as `explore` keep their names, which folders share."""

    def __setattr__(self, name: str, value: object) -> None:
        # Importing a submodule makes it an attribute of its package.
        if not (isinstance(value, ModuleType) and name in _HOMES):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(__all__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("mdpdsl")
    if name in _REPLACED:
        module, attribute, successor = _REPLACED[name]
        message = f"mdpdsl.{name} is deprecated; use {successor}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(import_module(module), attribute)
    if name not in _HOMES:
        raise AttributeError(f"module 'mdpdsl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


sys.modules[__name__].__class__ = _Package
draw_with("mdpdsl.report.notebook")
