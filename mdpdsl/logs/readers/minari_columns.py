"""The columns of a Minari dataset: one for each number in its spaces.

An observation of n numbers has the columns obs_0, …, obs_{n-1}. One with several axes has an index
for each, as obs_1_2, and a single number is also `obs`. Parts of a Dict have their key in the name,
and those of a Tuple their position: obs_goal_0, obs_1_0. Actions are act_0, …, and also `action` if
there is a single number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

#: An array of two axes or more with at least this many numbers is an image: 32 x 32.
IMAGE_NUMBERS = 1024

OBSERVATIONS, ACTIONS = "observations", "actions"
#: Column -> array of the dataset with a value for each step.
STEP_ARRAYS = {"reward": "rewards", "terminated": "terminations", "truncated": "truncations"}


@dataclass(frozen=True)
class Leaf:
    """An array of a dataset, with a row for each observation or for each step."""

    array: str  # observations, actions, rewards, ...
    keys: tuple[str | int, ...] = ()  # within it: keys of Dicts, places in Tuples
    width: int = 1  # numbers in a row
    is_text: bool = False

    @property
    def is_observed(self) -> bool:
        """Whether the array also has a row for the last observation of an episode."""
        return self.array == OBSERVATIONS


@dataclass(frozen=True)
class Columns:
    """The array and the place in it of each column, and what is left out."""

    places: dict[str, tuple[Leaf, int]]
    refused: tuple[str, ...]  # arrays that have no columns, and why

    @property
    def observed(self) -> list[str]:
        """The columns of the observations."""
        return [name for name, (leaf, _) in self.places.items() if leaf.is_observed]


def columns_of(observation_space: Any, action_space: Any) -> Columns:
    """Find the columns of spaces; raise ValueError if two would have the same name."""
    places: dict[str, tuple[Leaf, int]] = {}
    refused: list[str] = []
    for space, array, prefix, single in (
        (observation_space, OBSERVATIONS, "obs", "obs"),
        (action_space, ACTIONS, "act", "action"),
    ):
        for name, leaf, shape, reason in _leaves(space, array, (), prefix):
            if reason is not None:
                what = name if leaf.keys else array
                refused.append(f"{what} {reason}")
                continue
            lone = (f"{prefix}_0", single) if leaf.width == 1 and not leaf.keys else None
            for i, names in enumerate(_names(name, shape, lone)):
                for column in names:
                    _enter(places, column, leaf, i)
    for column, array in STEP_ARRAYS.items():
        _enter(places, column, Leaf(array), 0)
    return Columns(places, tuple(refused))


def _names(
    name: str, shape: tuple[int, ...], lone: tuple[str, ...] | None
) -> Iterator[tuple[str, ...]]:
    """Yield the names of each number of an array; a single number is named without its shape."""
    indexed = ["_".join((name, *map(str, index))) for index in np.ndindex(*shape)]
    if lone is not None:
        yield lone
    elif len(indexed) == 1:
        yield tuple(dict.fromkeys((indexed[0], name)))
    else:
        yield from ((column,) for column in indexed)


def _enter(places: dict[str, tuple[Leaf, int]], name: str, leaf: Leaf, index: int) -> None:
    if name in places:
        raise ValueError(f"two numbers of its spaces would both be the column `{name}`")
    places[name] = (leaf, index)


def _leaves(
    space: Any, array: str, keys: tuple[str | int, ...], name: str
) -> Iterator[tuple[str, Leaf, tuple[int, ...], str | None]]:
    """Yield the name, array and shape of every part of a space, and why it is refused, if it is."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        inside = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in inside:
            yield from _leaves(part, array, (*keys, key), f"{name}_{key}")
        return
    if isinstance(space, spaces.Text):
        yield name, Leaf(array, keys, is_text=True), (), None
        return
    is_known = isinstance(
        space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    )
    shape = tuple(space.shape) if is_known else ()
    width = math.prod(shape)
    reason = None
    if not is_known:
        reason = f"are of the space {type(space).__name__}, which has no columns"
    elif len(shape) > 1 and width >= IMAGE_NUMBERS:
        reason = f"are images ({' x '.join(map(str, shape))})"
    elif width == 0:
        reason = "are empty"
    yield name, Leaf(array, keys, width), shape, reason
