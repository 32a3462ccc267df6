"""The front door: a path, a shipped name, a foreign file, a run or arrays become a model.

A model file is built. Stored models are read: the estimate in the folder of a run (of several
trials, the first, or `RUN/trial-003`), `.npz` files, and the models of other tools
(`mdpdsl.formats`). Like a built model, an estimate has only the states that can be reached from
`init`, unless all are requested; other stored models keep all states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.model import Model, learns_all, load_file
from mdpdsl.compile.parameters import Override
from mdpdsl.compile.stored import StoredModel, graph_model
from mdpdsl.diagnostics import Diagnostic, FormatError, ModelError, RunError, SettingsError
from mdpdsl.formats.gym import GYM
from mdpdsl.representation import represented

# What reads runs and foreign files is imported when it is needed: a model file needs none of it.
if TYPE_CHECKING:
    from mdpdsl.estimate.log_estimate import Estimate
    from mdpdsl.explore.result import ExploreRun


def load(
    path: str | Path,
    /,
    *,
    all_states: bool = False,
    max_states: int | None = None,
    learn: str | None = None,
    **parameters: Override,
) -> Model:
    """Read a model: a file, a shipped model by its name, or a stored one.

    Keywords set the parameters of a model file, and the values of its unknown numbers. If the file
    says what is not known, `learn="all"` says that rows that are written out are to be learned as
    well. Stored models are the estimate in the folder of a
    run (the first of several trials, or `RUN/trial-003`), `.npz` files, PRISM's explicit files
    (`.tra`), toy-text tables (`.json`) and Gymnasium's toy-text environments
    (`gym:FrozenLake-v1`). Raise ModelError if there is no model that can be read.

    >>> import mdpdsl
    >>> model = mdpdsl.load("riverswim", n=20)
    >>> model.graph.n_states, model.states[3]
    (20, {'pos': 3})
    """
    return load_with(
        str(path), parameters, all_states=all_states, max_states=max_states, learn=learn
    )


def load_with(
    path: str,
    parameters: Mapping[str, Override],
    *,
    all_states: bool = False,
    max_states: int | None = None,
    learn: str | None = None,
) -> Model:
    """Read a model as `load` does, with parameters that may have the names of its options."""
    if not is_stored(path):
        return load_file(
            path, parameters, all_states=all_states, max_states=max_states, learn=learn
        )
    stored = load_stored(path, parameters, all_states=all_states)
    if learns_all(learn) and stored.graph.knowledge is not None:
        raise SettingsError(f"{path} is a finished graph: set `learn` when the graph is made")
    return stored


def is_stored(path: str) -> bool:
    """Return whether a path leads to a stored model: a folder, or a file with a graph."""
    from mdpdsl.runs.places import is_trial

    if path.endswith(".npz"):
        return True
    try:
        place = Path(path)
        if path != "" and (is_trial(place) or place.is_dir()):
            return True
    except (OSError, ValueError):  # too long, or with characters that paths cannot have
        return False
    return is_foreign(path)


def is_foreign(path: str) -> bool:
    """Return whether a path leads to another tool's model."""
    if path.startswith(GYM):
        return True
    if path.endswith((".mdp", ".npz")) or not Path(path).suffix:
        return False
    from mdpdsl.formats.foreign import readable_suffixes

    return path.lower().endswith(readable_suffixes())


def load_stored(path: str, parameters: Mapping[str, object], *, all_states: bool = False) -> Model:
    """Read a stored model; raise ModelError if there is none."""
    if parameters:
        names = ", ".join(f"`{name}`" for name in parameters)
        message = f"{path} is a finished graph, so {names} cannot be set"
        hint = "set parameters when the graph is made, as in `mdpdsl estimate MODEL LOG --set …`"
        raise ModelError([Diagnostic("E601", message, None, hint)])
    from mdpdsl.formats.foreign import format_of
    from mdpdsl.formats.gym import Gym
    from mdpdsl.runs.places import place_of_arrays
    from mdpdsl.runs.run_models import cannot_read, estimated_model, unreadable

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


def from_arrays(
    P: Any,
    reward: Any = None,
    *,
    ends: npt.ArrayLike | None = None,
    initial: npt.ArrayLike | None = None,
    names: Sequence[str] | None = None,
    name: str = "arrays",
) -> StoredModel:
    """Return the model of transition matrices, or of a toy-text table.

    `P` is one matrix [n_states, n_states] per action, dense or sparse (a row of zeros: the action
    is not available), an array [n_states, n_actions, n_states], or Gymnasium's table
    `P[s][a] = [(probability, state, reward, ended), …]`. In an array [n, n, n] the first axis is
    the action. `reward` is an array by state, an array by state and action, or one matrix per
    action. `ends` are the states in which an episode is over: their numbers, or a truth value for
    each state. Whatever P and reward have in their rows is ignored. `initial` is a distribution or
    one state; without it, all states that are not ends are equally likely. `names` are the names of
    the actions. Raise FormatError if the arrays are not a model.

    >>> import mdpdsl, numpy
    >>> stay, swap = numpy.eye(2), numpy.eye(2)[::-1]
    >>> model = mdpdsl.from_arrays([stay, swap], reward=[0, 1], names=["stay", "swap"])
    >>> model.graph.n_pairs
    4
    >>> mdpdsl.from_arrays([stay, swap], reward=[0, 1], ends=[1]).graph.n_pairs
    2
    """
    from mdpdsl.formats.gym import gym_table_graph
    from mdpdsl.formats.loops import TERMINAL
    from mdpdsl.graph.convert import from_scipy

    try:
        if isinstance(P, Mapping) or _is_table(P):
            if reward is not None or ends is not None:
                raise FormatError("a toy-text table has its own rewards and ends")
            return graph_model(gym_table_graph(P, initial, names), name)
        matrices = _matrices(P)
        n_states = matrices[0].shape[0]
        start = initial
        if initial is not None and np.ndim(initial) == 0:
            place = int(np.asarray(initial))
            if not 0 <= place < n_states:
                raise FormatError(f"`initial=` is {place}; the states are 0 to {n_states - 1}")
            start = np.arange(n_states) == place
        elif initial is not None and np.shape(initial) != (n_states,):
            raise FormatError(
                f"`initial=` has the shape {list(np.shape(initial))}; there are {n_states} states"
            )
        over = None if ends is None else _truths(ends, n_states)
        _require_rows(matrices, over)
        graph = from_scipy(matrices, reward, start, names, over)
        if graph.ends is not None:
            graph = replace(graph, labels={TERMINAL: graph.ends})
    except (ValueError, TypeError, IndexError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"the arrays are not a model: {error}") from None
    return graph_model(graph, name)


def _is_table(P: Any) -> bool:
    """Return whether P is a list of states, each with a list of (probability, state, …)."""
    if not isinstance(P, list | tuple) or not P:
        return False
    first = P[0]
    return isinstance(first, Mapping) or (
        isinstance(first, list | tuple)
        and bool(first)
        and isinstance(first[0], list | tuple)
        and bool(first[0])
        and isinstance(first[0][0], list | tuple)
    )


def _matrices(P: Any) -> list[Any]:
    """Return one matrix per action."""
    if hasattr(P, "shape") and len(P.shape) == 3:
        array = np.asarray(P, dtype=np.float64)
        if array.shape[1] != array.shape[2]:
            if array.shape[0] != array.shape[2]:
                raise FormatError(
                    f"P has the shape {array.shape}; expected [actions, states, states] or "
                    "[states, actions, states]"
                )
            array = array.transpose(1, 0, 2)
        return list(array)
    if hasattr(P, "shape"):
        raise FormatError(
            f"P has the shape {tuple(P.shape)}; give one matrix for each action, as a list"
        )
    found = [each if hasattr(each, "shape") else np.asarray(each, np.float64) for each in P]
    if not found or any(len(each.shape) != 2 for each in found):
        raise FormatError("give one matrix [states, states] for each action, as a list")
    return found


def _require_rows(matrices: Sequence[Any], ends: npt.NDArray[np.bool_] | None) -> None:
    """Raise FormatError if a state that is no end has no action."""
    idle = np.all([np.asarray(each.sum(axis=1)).ravel() == 0 for each in matrices], axis=0)
    idle = idle if ends is None or len(idle) != len(ends) else idle & ~ends
    if idle.any():
        raise FormatError(
            f"state {int(np.argmax(idle))} has no action: its row is 0 in every matrix; "
            "if episodes end there, list it in `ends=`"
        )


def _truths(ends: npt.ArrayLike, n_states: int) -> npt.NDArray[np.bool_]:
    given = np.asarray(ends)
    if given.dtype == np.bool_:
        if given.shape != (n_states,):
            raise FormatError(
                f"`ends=` has the shape {list(given.shape)}; there are {n_states} states"
            )
        return given
    found = np.zeros(n_states, np.bool_)
    if given.size == 0:
        return found
    if given.ndim > 1 or not np.issubdtype(given.dtype, np.integer):
        raise FormatError(
            f"`ends=` is {ends!r}; give the numbers of states, or a truth value for each state"
        )
    bad = given[(given < 0) | (given >= n_states)]
    if bad.size:
        raise FormatError(f"`ends=` has {bad.flat[0]}; the states are 0 to {n_states - 1}")
    found[given] = True
    return found


def open_run(path: str | Path) -> ExploreRun | Estimate:
    """Read a finished run from its folder, or one trial of it (`RUN/trial-003`).

    Raise RunError if there is no run that can be read, ModelError if its model cannot be read.

    >>> import mdpdsl
    >>> made = mdpdsl.explore(mdpdsl.load("riverswim"), steps=200, out="runs/river")
    >>> mdpdsl.open_run("runs/river").worst == made.worst
    True
    """
    from mdpdsl.explore.result import read_run

    return read_run(Path(path))


class Runs(Sequence["ExploreRun | Estimate"]):
    """Several runs; a notebook compares them in a table."""

    def __init__(self, runs: Sequence[ExploreRun | Estimate]) -> None:
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, place: int) -> ExploreRun | Estimate: ...

    @overload
    def __getitem__(self, place: slice) -> Runs: ...

    def __getitem__(self, place: int | slice) -> ExploreRun | Estimate | Runs:
        return Runs(self._runs[place]) if isinstance(place, slice) else self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<Runs: {', '.join(run.label for run in self)}>"

    def _repr_html_(self) -> str | None:
        return represented("runs_html", self)


def open_runs(*paths: str | Path) -> Runs:
    """Read several runs; for the folder of a comparison, the runs of all its rows.

    >>> import mdpdsl
    >>> model = mdpdsl.load("riverswim")
    >>> table = mdpdsl.compare(model, ["kappa-dp", "random"], steps=200, trials=1, save="table")
    >>> mdpdsl.open_runs("table")
    <Runs: kappa-dp (kappa=1), random>
    """
    from mdpdsl.runs.comparison_folder import run_folders

    folders = run_folders(paths)
    if not folders:
        raise RunError(f"{paths[0]} has no finished run")
    return Runs([open_run(folder) for folder in folders])


def from_gym_P(  # noqa: N802 (the name in Gymnasium)
    P: Mapping[Any, Any] | Sequence[Any],
    initial: npt.ArrayLike | None = None,
    *,
    actions: Sequence[str] | None = None,
    name: str = "table",
) -> StoredModel:
    """Return the model of a toy-text table, P[s][a] = [(probability, state, reward, ended), …].

    `initial` is a distribution over the states, or one state; by default, all states that are not
    ends are equally likely. Raise a FormatError that names the place if P is not such a table.
    """
    from mdpdsl.formats.gym import gym_table_graph

    return graph_model(gym_table_graph(P, initial, actions), name)
