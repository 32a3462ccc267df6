"""Models of other tools: PRISM's explicit files, toy-text tables, Gymnasium environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.diagnostics import Diagnostic, ModelError, did_you_mean
from mdpdsl.graph.gym_json import read_toy_text
from mdpdsl.graph.prism_files import read_prism_files
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.toy_text import from_toy_text
from mdpdsl.graph.transition_graph import TransitionGraph

#: The endings of files that are models of other tools.
SUFFIXES = (".tra", ".json")

#: How a Gymnasium environment is named in the place of a file.
GYM = "gym:"


def is_foreign(path: str) -> bool:
    """Tell whether a path stands for the model of another tool."""
    return path.startswith(GYM) or path.endswith(SUFFIXES)


def read_foreign(path: str) -> tuple[TransitionGraph, str]:
    """Read the graph of another tool's model, and its name; raise ModelError."""
    if path.startswith(GYM):
        return gym_graph(path.removeprefix(GYM)), path.removeprefix(GYM)
    file = Path(path)
    if file.suffix == ".tra":
        return read_prism_files(file), file.stem
    try:
        return read_toy_text(file)
    except ValueError as error:
        raise _error(str(error), "P[s][a] is a list of [probability, next state, reward, …]") from (
            None
        )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise _error(f"cannot read {path}: {reason}", "check the path") from None


def gym_graph(identifier: str) -> TransitionGraph:
    """Return the graph of an environment that has a table P, as those of toy text do."""
    try:
        import gymnasium
    except ImportError:
        raise _error("gym: needs the package gymnasium", 'pip install "mdpdsl[gym]"') from None
    try:
        # An older version of an environment is still one; Gymnasium says so where it was asked.
        environment = gymnasium.make(identifier, disable_env_checker=True).unwrapped
    except Exception as error:
        hint = did_you_mean(identifier, gymnasium.registry) or "give the id of an environment"
        raise _error(f"gymnasium cannot make {identifier}: {error}", hint) from None
    try:
        table = getattr(environment, "P", None)
        if table is None:
            raise _error(
                f"{identifier} has no table P of its transitions",
                "toy-text environments have one; `mdpdsl explore MODEL --env` explores others",
            )
        initial = getattr(environment, "initial_state_distrib", None)
        return from_toy_text(table, initial)
    except ValueError as error:
        raise _error(f"the table P of {identifier} is no model: {error}", "") from None
    finally:
        environment.close()


def gym_table_graph(
    table: Mapping[Any, Any] | Sequence[Any],
    initial: npt.ArrayLike | None,
    actions: Sequence[str] | None,
) -> TransitionGraph:
    """Return the graph of a table; the start may also be the number of one state."""
    if initial is not None and np.ndim(initial) == 0:
        place = int(np.asarray(initial))
        start: FloatArray = np.zeros(len(table))
        if not 0 <= place < len(start):
            raise ValueError(f"the start {place} is not a state: they are 0 to {len(start) - 1}")
        start[place] = 1.0
        initial = start
    return from_toy_text(table, initial, actions)


def _error(message: str, help_text: str) -> ModelError:
    return ModelError([Diagnostic("E603", message, None, help_text or None)])
