"""The front door: a path, a shipped name, a foreign file, a run or arrays become a model.

A model file is built. Stored models are read: the estimate in a run's folder (of several trials the
first, or `RUN/trial-003`), `.npz` files, and the models of other tools (`mdpdsl.formats`). As for
other models, the states of an estimate are those that can be reached from `init`, unless all are
asked for; everything else is taken as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from mdpdsl.compile.model import Model, load_file
from mdpdsl.compile.parameters import Override
from mdpdsl.compile.stored import StoredModel, graph_model
from mdpdsl.diagnostics import Diagnostic, ModelError, RunError
from mdpdsl.formats.format import format_of, readable_suffixes
from mdpdsl.formats.gym import GYM, Gym, gym_table_graph
from mdpdsl.runs.models import cannot_read, estimated_model, unreadable
from mdpdsl.runs.places import is_trial, place_of_arrays


def load(
    path: str | Path,
    /,
    *,
    all_states: bool = False,
    max_states: int | None = None,
    **parameters: Override,
) -> Model:
    """Read a model from a file, a shipped one by its name, or a stored one.

    Stored are the estimates in run directories (of several trials the first, or `RUN/trial-003`),
    `.npz` files, PRISM's explicit files (`.tra`), toy-text tables (`.json`) and Gymnasium's
    environments of toy text (`gym:FrozenLake-v1`). Parameters of a file are given by keyword.
    """
    if is_stored(str(path)):
        return load_stored(str(path), parameters, all_states=all_states)
    return load_file(path, all_states=all_states, max_states=max_states, **parameters)


def is_stored(path: str) -> bool:
    """Return whether a path is that of a stored model: a folder, or a file that holds a graph."""
    if is_foreign(path) or path.endswith(".npz"):
        return True
    try:
        place = Path(path)
        return path != "" and (is_trial(place) or place.is_dir())
    except (OSError, ValueError):  # too long, or with characters that no path has
        return False


def is_foreign(path: str) -> bool:
    """Return whether a path is that of another tool's model."""
    if path.startswith(GYM):
        return True
    return not path.endswith((".mdp", ".npz")) and path.lower().endswith(readable_suffixes())


def load_stored(path: str, parameters: Mapping[str, object], *, all_states: bool = False) -> Model:
    """Read a stored model; raise ModelError where there is none."""
    if parameters:
        names = ", ".join(f"`{name}`" for name in parameters)
        message = f"{path} holds a graph that is there already, so {names} cannot be set"
        hint = "set parameters where the graph is made, as in `mdpdsl estimate MODEL LOG --set …`"
        raise ModelError([Diagnostic("E601", message, None, hint)])
    try:
        if is_foreign(path):
            return (Gym() if path.startswith(GYM) else format_of(path)).read(path)
        place = place_of_arrays(Path(path))
        if place is None:
            return format_of(path).read(path)
        return estimated_model(place, path, all_states=all_states)
    except RunError as error:
        raise unreadable(str(error), "give the folder that estimate or explore wrote") from None
    except ModelError:
        raise
    except ValueError as error:
        hint = "give a file that `mdpdsl estimate` or `mdpdsl export --to npz` wrote"
        raise unreadable(str(error), hint) from None
    except OSError as error:
        raise cannot_read(error, path) from None


def from_gym_P(  # noqa: N802 (Gymnasium's own name of it)
    P: Mapping[Any, Any] | Sequence[Any],
    initial: npt.ArrayLike | None = None,
    *,
    actions: Sequence[str] | None = None,
    name: str = "table",
) -> StoredModel:
    """Return the model of a toy-text table, P[s][a] = [(probability, state, reward, ended), …].

    `initial` is a distribution over the states, or one of them; without it every state that is no
    end is as likely to start. Raise FormatError where P is no table, and say where.
    """
    return graph_model(gym_table_graph(P, initial, actions), name)
