"""A Gymnasium environment as a live system: its observations as columns, its actions from ours.

An observation has the columns obs_0, obs_1, … (and `obs` if it is a single whole number); the parts
of a dictionary are named after its keys (`position_0`). Actions with values become the numbers of a
Box, Discrete or MultiDiscrete space, in the order in which they are declared; named actions become
their positions, counted from the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdpdsl.compile.scope import RESERVED
from mdpdsl.diagnostics import SettingsError
from mdpdsl.graph.space import Product, Value, Variable
from mdpdsl.runs.records import SystemRecord

#: The most columns of an observation; one with more is a picture, or should be condensed first.
MOST_COLUMNS = 1_000
INSTALL = 'pip install "mdpdsl[gym]"'

#: Appends the values of an observation to a list, in the order of its columns.
_Reader = Callable[[Any, list[Value]], None]


class GymSystem:
    """One environment; each episode has its own seed, derived from the seed of the run."""

    def __init__(
        self,
        env: Any,
        actions: Product,
        *,
        seed: int,
        name: str = "the environment",
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap an environment; raise SettingsError if it does not fit the model."""
        self.env = env
        self.name = name
        #: What is needed to make the environment again.
        self.record = SystemRecord("gymnasium", env=name, arguments=dict(arguments or {}))
        self._seed = seed
        self._episode = 0
        self._read, names = observed_columns(env.observation_space, name)
        self._aliases = ("obs",) if _is_whole(env.observation_space) else ()
        self.columns = (*names, *self._aliases)
        self._actions = _action_table(env.action_space, actions, name)

    def seed_episode(self, episode: int) -> None:
        """Set the number of the next episode: its seed follows from this and the run's seed."""
        self._episode = episode

    def reset(self) -> dict[str, Value]:
        """Begin an episode."""
        seeds = np.random.SeedSequence(self._seed, spawn_key=(0, 1, self._episode))
        observation, _ = self.env.reset(seed=int(seeds.generate_state(1)[0] >> 1))
        return self._observed(observation)

    def step(self, action: Mapping[str, Value]) -> tuple[dict[str, Value], bool, bool]:
        """Take an action; return what is observed, whether the episode ended, and was cut."""
        chosen = self._actions[tuple(action.values())]
        observation, _, is_terminated, is_truncated, _ = self.env.step(chosen)
        return self._observed(observation), bool(is_terminated), bool(is_truncated)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _observed(self, observation: Any) -> dict[str, Value]:
        values: list[Value] = []
        self._read(observation, values)
        if self._aliases:
            values.append(values[0])
        return dict(zip(self.columns, values, strict=True))


def make_environment(identifier: str, arguments: Mapping[str, Any]) -> Any:
    """Make an environment by its id; raise SettingsError if that fails."""
    try:
        import gymnasium
    except ImportError:
        raise SettingsError(f"`env=` needs the package gymnasium: {INSTALL}") from None
    try:
        return gymnasium.make(identifier, **arguments)
    except gymnasium.error.UnregisteredEnv as error:
        known = '`python -c "import gymnasium; gymnasium.pprint_registry()"` lists all'
        raise SettingsError(f"there is no environment {identifier}: {error}\n{known}") from None
    except gymnasium.error.DependencyNotInstalled as error:
        raise SettingsError(f"{identifier} needs a missing package: {error}") from None
    except Exception as error:  # whatever the environment's own code raises
        reason = f"{type(error).__name__}: {error}"
        raise SettingsError(f"cannot make the environment {identifier}: {reason}") from None


def observed_columns(space: Any, system: str) -> tuple[_Reader, tuple[str, ...]]:
    """Return how to read the values of an observation, and the names of their columns."""
    names: list[str] = []
    read = _reader(space, "obs", names, system)
    return read, _distinct(names)


def _reader(space: Any, base: str, names: list[str], system: str) -> _Reader:
    """Add the names of a space's columns; return the function that reads their values."""
    kind = type(space).__name__
    if kind == "Discrete":
        names.append(f"{base}_0" if base == "obs" else _safe(base))
        return lambda observation, values: values.append(int(observation))
    if kind in ("Box", "MultiDiscrete", "MultiBinary"):
        return _array_reader(space, base, names, system)
    if kind == "Tuple":
        readers = [
            _reader(part, f"{base}_{i}", names, system) for i, part in enumerate(space.spaces)
        ]

        def read_tuple(observation: Any, values: list[Value]) -> None:
            for part, reader in zip(observation, readers, strict=True):
                reader(part, values)

        return read_tuple
    if kind == "Dict":
        # Names consist of the keys alone: `position_0`, and `arm_position_0` if nested.
        prefix = "" if base == "obs" else f"{base}_"
        by_key = {
            key: _reader(part, _word(f"{prefix}{key}"), names, system)
            for key, part in space.spaces.items()
        }

        def read_dictionary(observation: Any, values: list[Value]) -> None:
            for key, reader in by_key.items():
                reader(observation[key], values)

        return read_dictionary
    raise SettingsError(
        f"{system} has observations of the kind {kind}, which has no columns; wrap it so that it "
        "observes numbers (Box, Discrete, MultiDiscrete, Dict or Tuple of these)"
    )


def _array_reader(space: Any, base: str, names: list[str], system: str) -> _Reader:
    shape = tuple(space.shape)
    n = int(np.prod(shape))
    is_picture = len(shape) >= 2 and space.dtype == np.uint8
    if is_picture or len(names) + n > MOST_COLUMNS:
        what = "a picture" if is_picture else "an array"
        raise SettingsError(
            f"{system} observes {what} of shape {shape}, from which no state variable can be read; "
            "wrap it in an environment that observes a few numbers"
        )
    if not shape:
        names.append(f"{base}_0" if base == "obs" else _safe(base))
    names += ["_".join([base, *map(str, index)]) for index in np.ndindex(shape) if shape]

    def read(observation: Any, values: list[Value]) -> None:
        found = np.asarray(observation).ravel().tolist()
        if len(found) != n:
            raise ValueError(f"the observation has {len(found)} numbers, not {n}")
        values += found

    return read


def _is_whole(space: Any) -> bool:
    return type(space).__name__ == "Discrete"


def _word(text: str) -> str:
    """Turn a key into a name of the language."""
    word = re.sub(r"\W", "_", text, flags=re.ASCII)
    return word if re.match(r"[A-Za-z]", word) else f"obs_{word.lstrip('_')}"


def _safe(name: str) -> str:
    """Return a name that can be used in an expression of the language."""
    return f"{name}_0" if name in RESERVED or name in ("episode", "time") else name


def _distinct(names: list[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in names:
        while name in found:
            name = f"{name}_"
        found[name] = None
    return tuple(found)


def _action_table(space: Any, actions: Product, system: str) -> dict[tuple[Value, ...], Any]:
    """Return the environment's action for each action of the model, by its values."""
    kind = type(space).__name__
    variables = actions.variables
    if kind == "Box":
        columns = _box_values(space, variables, system)
    elif kind == "Discrete":
        _require_number(variables, 1, f"{system} takes one whole number as its action")
        columns = [_whole_values(variables[0], int(space.n), int(space.start), system)]
    elif kind in ("MultiDiscrete", "MultiBinary") and len(space.shape) == 1:
        n = space.shape[0]
        _require_number(variables, n, f"{system} takes {n} whole numbers as its action")
        sizes = space.nvec.tolist() if kind == "MultiDiscrete" else [2] * n
        starts = getattr(space, "start", np.zeros(n, np.int64)).tolist()
        columns = [
            _whole_values(variable, size, first, system)
            for variable, size, first in zip(variables, sizes, starts, strict=True)
        ]
    else:
        raise SettingsError(
            f"{system} takes actions of the space {space}, which a model's actions cannot become; "
            "wrap it so that its action is a Box, Discrete, MultiDiscrete or MultiBinary"
        )
    found: dict[tuple[Value, ...], Any] = {}
    for code in range(actions.size):
        cells = [code // s % v.size for s, v in zip(actions.strides, variables, strict=True)]
        numbers = [column[cell] for column, cell in zip(columns, cells, strict=True)]
        action: Any = np.array(numbers, space.dtype).reshape(space.shape)
        found[tuple(actions.native(code).values())] = (
            int(numbers[0]) if kind == "Discrete" else action
        )
    return found


def _require_number(variables: tuple[Variable, ...], n: int, what: str) -> None:
    if len(variables) != n:
        names = ", ".join(v.name for v in variables)
        raise SettingsError(f"{what}; the model's actions have {len(variables)}: {names}")


def _box_values(space: Any, variables: tuple[Variable, ...], system: str) -> list[list[float]]:
    shape = tuple(space.shape)
    n = int(np.prod(shape))
    if len(shape) > 1 or n != len(variables):
        names = ", ".join(v.name for v in variables)
        plural = "s" if n != 1 else ""
        raise SettingsError(
            f"{system} takes an action of shape {shape}, {n} number{plural}; the model's actions "
            f"have {len(variables)}: {names}; declare one `action … in {{…}}` per number"
        )
    low, high = (
        np.broadcast_to(space.low, shape).ravel(),
        np.broadcast_to(space.high, shape).ravel(),
    )
    columns = []
    for i, variable in enumerate(variables):
        if variable.kind == "enum":
            raise SettingsError(
                f"{system} takes numbers from {low[i]:g} to {high[i]:g} as its action, but "
                f"{variable.describe()} has names; write `action u in {{…}}` with numbers"
            )
        values = variable.values(np.arange(variable.size))
        # In the precision of the space: as a double, 0.7 exceeds a limit of 0.7 in single.
        there = values.astype(space.dtype)
        is_fine = (there >= low[i]) & (there <= high[i])
        if np.issubdtype(space.dtype, np.integer):
            is_fine &= there == values
        if not is_fine.all():
            raise SettingsError(
                f"{variable.name} = {values[~is_fine][0]:g} is not an action of {system}, which "
                f"takes {_numbers(space.dtype)} from {low[i]:g} to {high[i]:g}"
            )
        columns.append(values.tolist())
    return columns


def _whole_values(variable: Variable, n: int, start: int, system: str) -> list[float]:
    if variable.kind == "enum":
        if variable.size != n:
            raise SettingsError(
                f"{system} has {n} actions and the model names {variable.size} "
                f"({', '.join(variable.members)}); to use only some of them, give their numbers, "
                f"as in `action a in {{{start}, {start + n - 1}}}`"
            )
        return [float(start + i) for i in range(n)]
    values = variable.values(np.arange(variable.size))
    is_fine = (values >= start) & (values < start + n) & (values == np.floor(values))
    if not is_fine.all():
        raise SettingsError(
            f"{variable.name} = {values[~is_fine][0]:g} is not an action of {system}, which takes "
            f"whole numbers from {start} to {start + n - 1}"
        )
    found: list[float] = values.tolist()
    return found


def _numbers(dtype: Any) -> str:
    return "whole numbers" if np.issubdtype(dtype, np.integer) else "numbers"
