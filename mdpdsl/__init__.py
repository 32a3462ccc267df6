"""A declarative modelling language for Markov decision processes.

>>> import mdpdsl
>>> model = mdpdsl.load("riverswim", n=20)
>>> model.graph.n_states
20
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str

    from mdpdsl.compile.model import Model, loads, shipped_models
    from mdpdsl.diagnostics import Diagnostic, ModelError
    from mdpdsl.envs import gym_env
    from mdpdsl.explore.experiment_plan import plan
    from mdpdsl.explore.live.session import explore_live
    from mdpdsl.formats.policy_files import load_policy, save_policy
    from mdpdsl.formats.quantecon import quantecon_arrays
    from mdpdsl.graph.policy import Policy
    from mdpdsl.graph.transition_graph import TransitionGraph
    from mdpdsl.load import from_gym_P, load
    from mdpdsl.report.run import Run, open_run, open_runs
    from mdpdsl.solve.discounted import solve_discounted
    from mdpdsl.solve.reachability import solve_reachability

__all__ = [
    "Diagnostic",
    "Model",
    "ModelError",
    "Policy",
    "Run",
    "TransitionGraph",
    "__version__",
    "explore_live",
    "from_gym_P",
    "gym_env",
    "load",
    "load_policy",
    "loads",
    "open_run",
    "open_runs",
    "plan",
    "quantecon_arrays",
    "save_policy",
    "shipped_models",
    "solve_discounted",
    "solve_reachability",
]

#: Where each public name lives; imported when first used, so that `mdpdsl --help` is instant.
_HOMES = {
    "Diagnostic": "mdpdsl.diagnostics",
    "Model": "mdpdsl.compile.model",
    "ModelError": "mdpdsl.diagnostics",
    "TransitionGraph": "mdpdsl.graph.transition_graph",
    "Policy": "mdpdsl.graph.policy",
    "explore_live": "mdpdsl.explore.live.session",
    "from_gym_P": "mdpdsl.load",
    "gym_env": "mdpdsl.envs",
    "load": "mdpdsl.load",
    "load_policy": "mdpdsl.formats.policy_files",
    "loads": "mdpdsl.compile.model",
    "Run": "mdpdsl.report.run",
    "open_run": "mdpdsl.report.run",
    "open_runs": "mdpdsl.report.run",
    "plan": "mdpdsl.explore.experiment_plan",
    "quantecon_arrays": "mdpdsl.formats.quantecon",
    "save_policy": "mdpdsl.formats.policy_files",
    "shipped_models": "mdpdsl.compile.model",
    "solve_discounted": "mdpdsl.solve.discounted",
    "solve_reachability": "mdpdsl.solve.reachability",
}


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
    if name not in _HOMES:
        raise AttributeError(f"module 'mdpdsl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


sys.modules[__name__].__class__ = _Package
