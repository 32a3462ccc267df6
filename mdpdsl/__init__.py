"""A declarative modelling language for Markov decision processes.

>>> import mdpdsl
>>> model = mdpdsl.load("riverswim", n=20)
>>> model.graph.n_states
20
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str

    from mdpdsl.compile.model import Model, load, loads, shipped_models
    from mdpdsl.diagnostics import Diagnostic, ModelError
    from mdpdsl.graph.transition_graph import TransitionGraph

__all__ = [
    "Diagnostic",
    "Model",
    "ModelError",
    "TransitionGraph",
    "__version__",
    "load",
    "loads",
    "shipped_models",
]

#: Where each public name lives; imported when first used, so that `mdpdsl --help` is instant.
_HOMES = {
    "Diagnostic": "mdpdsl.diagnostics",
    "Model": "mdpdsl.compile.model",
    "ModelError": "mdpdsl.diagnostics",
    "TransitionGraph": "mdpdsl.graph.transition_graph",
    "load": "mdpdsl.compile.model",
    "loads": "mdpdsl.compile.model",
    "shipped_models": "mdpdsl.compile.model",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("mdpdsl")
    if name not in _HOMES:
        raise AttributeError(f"module 'mdpdsl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
