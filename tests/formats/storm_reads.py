"""Our files, read by Storm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import stormpy

from mdpdsl.graph.space import FloatArray

#: Storm's value iteration for intervals stops when a sweep changes less than this.
STEP = 1e-12


def read_drn(folder: Path, text: str) -> Any:
    path = folder / "model.drn"
    path.write_text(text, encoding="utf-8")
    return stormpy.build_model_from_drn(str(path))


def read_prism(folder: Path, text: str) -> Any:
    path = folder / "model.prism"
    path.write_text(text, encoding="utf-8")
    return stormpy.build_model(stormpy.parse_prism_program(str(path)))


def read_interval_drn(folder: Path, text: str) -> Any:
    path = folder / "model.drn"
    path.write_text(text, encoding="utf-8")
    return stormpy.build_model_from_drn[stormpy.Interval](str(path))


def read_interval_prism(folder: Path, text: str) -> Any:
    path = folder / "model.prism"
    path.write_text(text, encoding="utf-8")
    return stormpy.build_model[stormpy.Interval](stormpy.parse_prism_program(str(path)))


def sizes(model: Any) -> tuple[int, int, int]:
    """Return the numbers of states, choices and transitions."""
    return model.nr_states, model.nr_choices, model.nr_transitions


def robust_bounds(model: Any, formula: str) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest value of a formula over all models of an interval MDP."""
    environment = stormpy.environments.sound()
    solver = environment.solver().min_max()
    solver.precision = stormpy.Rational(STEP)
    solver.relative_termination_criterion = False
    (prop,) = stormpy.parse_properties(formula)
    found = []
    modes = stormpy.UncertaintyResolutionMode
    for mode in (modes.MINIMIZE, modes.MAXIMIZE):
        result = stormpy.model_checking(
            model, prop, environment=environment, uncertainty_resolution_mode=mode
        )
        found.append(np.array([result.get_value(state) for state in range(model.nr_states)]))
    return found[0], found[1]
