"""Explorers of third parties: what they must be able to do, how they are found and made.

An explorer is any object with `act` and `observe`. It is given as a class, or as a function that
makes one, or by the name under which a package declares it in the entry-point group
`mdpdsl.explorers`. Each trial makes its own:

    MyExplorer(spaces, generator)   if it requires two arguments, or the second is `generator`
    MyExplorer(spaces)              if it requires one
    MyExplorer()                    if it requires none

`spaces` is a `TransitionGraph` with the states and the available actions, but without transitions:
no explorer sees the truth. `generator` is a `numpy.random.Generator` seeded for the trial.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

import numpy as np

from mdpdsl.diagnostics import RunError, SettingsError
from mdpdsl.graph.describe import state_text
from mdpdsl.graph.reward_fields import NO_REWARDS
from mdpdsl.graph.transition_graph import TransitionGraph

#: The group of entry points in which explorers are found.
EXPLORERS = "mdpdsl.explorers"

#: The methods that an explorer must have, and how they are called.
SIGNATURES = {
    "act": "act(state) -> action",
    "observe": "observe(state, action, next_state, ended=False, cut=False)",
}
#: Names that mark an optional second argument as the random generator.
_GENERATOR_NAMES = ("generator", "rng")


class ExplorerLike(Protocol):
    """Decides what to do, and learns from what happened; states and actions are indices.

    `observe` may leave out `ended` and `cut`. An explorer may also have `estimate()`, which returns
    its own estimate of the model; trials count transitions themselves and never call it.
    """

    def act(self, state: int, /) -> int:
        """Return the action to take in a state."""

    def observe(
        self, state: int, action: int, next_state: int, /, ended: bool = False, cut: bool = False
    ) -> None:
        """Learn from one transition, and whether the episode ended with it or was cut."""


#: A class of explorers, or a function that returns one.
ExplorerFactory = Callable[..., Any]


class ExplorerError(RunError):
    """An explorer that failed, or chose an action that is not available."""

    status = 1


def explorer_name(explorer: ExplorerFactory) -> str:
    """Return the name of a class or function that makes explorers."""
    while hasattr(explorer, "func"):  # functools.partial
        explorer = explorer.func
    return str(getattr(explorer, "__name__", type(explorer).__name__))


def installed_names() -> list[str]:
    """Return the names of the explorers that installed packages declare."""
    return sorted({point.name for point in entry_points(group=EXPLORERS)})


def installed_explorer(name: str) -> ExplorerFactory | None:
    """Return the explorer that an installed package declares by this name, None if there is none.

    Raise SettingsError if it cannot be imported.
    """
    point: EntryPoint
    for point in entry_points(group=EXPLORERS):
        if point.name == name:
            try:
                factory: ExplorerFactory = point.load()
            except ImportError as error:
                raise SettingsError(f"cannot import the explorer `{name}`: {error}") from None
            except AttributeError as error:
                raise SettingsError(f"cannot find the explorer `{name}`: {error}") from None
            return factory
    return None


def make_explorer(
    factory: ExplorerFactory, spaces: TransitionGraph, generator: np.random.Generator
) -> ExplorerLike:
    """Make an explorer, as the module's docstring says; raise SettingsError if it is none."""
    name = explorer_name(factory)
    if not callable(factory) or (not inspect.isclass(factory) and hasattr(factory, "act")):
        raise SettingsError(
            f"`{type(factory).__name__}` object given as an explorer; give the class, or a "
            "function that makes explorers: every trial needs a new one"
        )
    arguments = (without_dynamics(spaces), generator)[: _n_arguments(factory, name)]
    made = factory(*arguments)
    for method, signature in SIGNATURES.items():
        if not callable(getattr(made, method, None)):
            raise SettingsError(
                f"the explorer `{name}` has no method `{method}`; write `{signature}`"
            )
    explorer: ExplorerLike = made
    return explorer


def without_dynamics(graph: TransitionGraph) -> TransitionGraph:
    """Return a graph's states and actions without its transitions and rewards."""
    return replace(
        graph,
        successor_start=np.zeros(graph.n_pairs + 1, np.int64),
        successor=np.empty(0, np.int32),
        probability=np.empty(0),
        knowledge=None,
        **NO_REWARDS,
    )


def chosen_pair(spaces: TransitionGraph, state: int, action: object, name: str) -> int:
    """Return the pair of an action that an explorer chose; raise ExplorerError if there is none."""
    first, end = int(spaces.pair_start[state]), int(spaces.pair_start[state + 1])
    try:
        index = operator.index(action)  # type: ignore[arg-type]
    except TypeError:
        index = -1
    place = first + int(np.searchsorted(spaces.pair_action[first:end], index))
    if place < end and spaces.pair_action[place] == index:
        return place
    labels = spaces.actions.labels
    offered = ", ".join(f"{int(a)} ({labels[a]})" for a in spaces.pair_action[first:end])
    raise ExplorerError(
        f"`{name}.act` returned {action!r:.80} in state {state} ({state_text(spaces, state)}), "
        f"which is not one of its actions: {offered}"
    )


def accepted_flags(observe: Callable[..., Any]) -> tuple[str, ...]:
    """Return which of the keywords `ended` and `cut` an `observe` accepts."""
    parameters = _parameters(observe)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    names = {p.name for p in parameters}
    return tuple(flag for flag in ("ended", "cut") if takes_any or flag in names)


def _n_arguments(factory: ExplorerFactory, name: str) -> int:
    """Return how many of (spaces, generator) to make an explorer with."""
    parameters = _parameters(factory)
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in by_position)
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if required > 2 or keywords:
        names = ", ".join(keywords or [p.name for p in by_position[2:required]])
        raise SettingsError(
            f"the explorer `{name}` is made with (spaces, generator), but also requires {names}; "
            "set it with `functools.partial`, or give it a default"
        )
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    if required == 1 and len(by_position) > 1 and by_position[1].name in _GENERATOR_NAMES:
        return 2
    return required


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a class of a compiled extension may not say
        return []
