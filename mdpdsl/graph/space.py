"""Finite spaces as products of variables; indices and values are converted without a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Value = bool | int | float | str

#: How far a number may differ from a member of a finite set and still count as that member.
SET_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Variable:
    """One axis of a space: a finite number of cells, each with a value.

    Kinds: `bool`; `int` (a range from `low`); `enum` (named `members`, a value is the member's
    index); `set` (listed numbers); `real` (cells between `edges`, a value is a cell's centre).
    """

    name: str
    kind: str
    size: int
    low: int = 0
    members: tuple[str, ...] = ()
    numbers: FloatArray | None = None  # [size]      ascending or as listed, for kind `set`
    edges: FloatArray | None = None  # [size + 1]  ascending, for kind `real`
    wraps: bool = False

    @cached_property
    def centers(self) -> FloatArray:
        """The middle of every cell of a real variable."""
        assert self.edges is not None
        return self.edges[:-1] / 2 + self.edges[1:] / 2

    def values(self, index: IntArray) -> FloatArray:
        """Return the number that represents each cell."""
        if self.kind == "real":
            return self.centers[index]
        if self.kind == "set":
            assert self.numbers is not None
            return self.numbers[index]
        return (index + self.low).astype(np.float64)

    def indices(self, values: FloatArray) -> IntArray:
        """Return the cell of each number, or -1 if it has none.

        Values of a real variable are wrapped or clipped into its range; NaN has no cell.
        """
        if self.kind == "real":
            return self._cells(values)
        if self.kind == "set":
            assert self.numbers is not None
            order = np.argsort(self.numbers)
            place = np.searchsorted(self.numbers, values - SET_TOLERANCE, sorter=order)
            index = order[np.minimum(place, self.size - 1)]
            known = np.abs(self.numbers[index] - values) <= SET_TOLERANCE
            return np.where(known, index, -1)
        offset = values - self.low
        known = (offset >= 0) & (offset < self.size) & (offset == np.floor(offset))
        return np.where(known, offset, -1).astype(np.int64)

    def saturate(self, values: FloatArray) -> FloatArray:
        """Wrap or clip numbers into the range of a real variable."""
        assert self.edges is not None
        low, high = float(self.edges[0]), float(self.edges[-1])
        if self.wraps:
            return low + np.mod(values - low, high - low)
        return np.clip(values, low, high)

    def native(self, index: int) -> Value:
        """Return one cell's value as a person writes it."""
        if self.kind == "enum":
            return self.members[index]
        if self.kind == "bool":
            return bool(index)
        if self.kind == "int":
            return self.low + index
        value = float(self.values(np.array([index]))[0])
        if self.kind == "set" and value.is_integer():
            return int(value)
        if self.edges is not None and abs(value) < 1e-12 * (self.edges[-1] - self.edges[0]):
            return 0.0  # the centre of a cell around 0, without the rounding error
        return value

    def index_of(self, value: Value) -> int:
        """Return the cell of one value as a person writes it; raise ValueError if it has none."""
        if isinstance(value, str):
            if self.kind == "enum" and value in self.members:
                return self.members.index(value)
        elif self.kind != "enum":
            index = int(self.indices(np.array([float(value)]))[0])
            if index >= 0:
                return index
        raise ValueError(f"{value!r} is not a value of {self.describe()}")

    def describe(self) -> str:
        """Return the declaration of the variable, as in the language."""
        if self.kind == "bool":
            return f"{self.name} in bool"
        if self.kind == "int":
            return f"{self.name} in {self.low}..{self.low + self.size - 1}"
        if self.kind == "real":
            assert self.edges is not None
            how = "wrap" if self.wraps else "clip"
            low, high = float(self.edges[0]), float(self.edges[-1])
            return f"{self.name} in [{low:g}, {high:g}] {how}, {self.size} cells"
        members = [str(self.native(i)) for i in range(min(self.size, 12))]
        if self.size > len(members):
            members.append("…")
        return f"{self.name} in {{{', '.join(members)}}}"

    def _cells(self, values: FloatArray) -> IntArray:
        assert self.edges is not None
        inside = np.searchsorted(self.edges, self.saturate(values), side="right") - 1
        return np.where(np.isnan(values), -1, np.clip(inside, 0, self.size - 1)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Product:
    """The product of variables, numbered with the first variable slowest."""

    variables: tuple[Variable, ...]

    @cached_property
    def size(self) -> int:
        """The number of combinations (exact, however large)."""
        return math.prod(v.size for v in self.variables)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """For each variable, the difference between the codes of neighbouring cells."""
        sizes = [v.size for v in self.variables]
        return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))

    def cells(self, codes: IntArray, position: int) -> IntArray:
        """Return the cell index of one variable for each code."""
        return (codes // self.strides[position]) % self.variables[position].size

    def native(self, code: int) -> dict[str, Value]:
        """Return one combination as values by variable name, as a person writes it."""
        return {
            v.name: v.native(code // stride % v.size)
            for v, stride in zip(self.variables, self.strides, strict=True)
        }

    def code_of(self, values: Mapping[str, Value]) -> int:
        """Return the code of a full combination of values."""
        names = [v.name for v in self.variables]
        if sorted(values) != sorted(names):
            raise ValueError(f"give a value for each of {', '.join(names)}, not {dict(values)!r}")
        return sum(
            stride * v.index_of(values[v.name])
            for v, stride in zip(self.variables, self.strides, strict=True)
        )


@dataclass(frozen=True, eq=False)
class StateSpace:
    """The states of a model: some or all combinations of a product, in its order.

    Behind them may stand *twins*: ends with the values of a state in which some episodes ended and
    others continued.
    """

    product: Product
    codes: IntArray  # [n_states]  ascending, but for the twins
    n_twins: int = 0

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The state variables in the order of declaration."""
        return self.product.variables

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.codes)

    @property
    def own_codes(self) -> IntArray:
        """The codes of the states that are no twins, ascending."""
        return self.codes[: len(self.codes) - self.n_twins]

    def is_twin(self, state: int) -> bool:
        """Return whether a state is a twin of another."""
        return state >= len(self.own_codes)

    def chosen(self, kept: BoolArray) -> StateSpace:
        """Return some of the states."""
        n_twins = int(kept[len(self.own_codes) :].sum())
        return StateSpace(self.product, self.codes[kept], n_twins)

    def with_twins(self, states: IntArray) -> StateSpace:
        """Return these states and a twin of some of them, in ascending order of the states."""
        assert self.n_twins == 0
        return StateSpace(
            self.product, np.concatenate([self.codes, self.codes[states]]), len(states)
        )

    def cells(self, name: str) -> IntArray:
        """Return the cell index of a variable in every state."""
        return self.product.cells(self.codes, self._position(name))

    def values(self, name: str) -> FloatArray:
        """Return a variable's number in every state: a value, a member's index, or a centre."""
        position = self._position(name)
        return self.variables[position].values(self.product.cells(self.codes, position))

    def native(self, state: int) -> dict[str, Value]:
        """Return one state as values by variable name."""
        return self.product.native(int(self.codes[state]))

    def index_of(self, values: Mapping[str, Value]) -> int:
        """Return the state with these values; raise ValueError if the model has no such state."""
        code = self.product.code_of(values)
        codes = self.own_codes
        state = int(np.searchsorted(codes, code))
        if state == len(codes) or codes[state] != code:
            raise ValueError(f"{dict(values)!r} is not a state of this model: it cannot be reached")
        return state

    def indices(self, codes: IntArray) -> IntArray:
        """Return the state of each product code, or -1 if the model has no such state."""
        own = self.own_codes
        if len(own) == 0:
            return np.full(len(codes), -1)
        place = np.minimum(np.searchsorted(own, codes), len(own) - 1)
        return np.where(own[place] == codes, place, -1)

    def label(self, state: int) -> str:
        """Return a short label for a state."""
        native = self.native(state)
        texts = [_short(value) for value in native.values()]
        if len(texts) == 1 and isinstance(next(iter(native.values())), bool):
            texts[0] = f"{next(iter(native))} = {texts[0]}"
        return ", ".join(texts) + (" (end)" if self.is_twin(state) else "")

    def _position(self, name: str) -> int:
        for position, variable in enumerate(self.variables):
            if variable.name == name:
                return position
        known = ", ".join(v.name for v in self.variables)
        raise ValueError(f"unknown state variable {name!r}; the state variables are {known}")


@dataclass(frozen=True, eq=False)
class ActionSpace:
    """The actions of a model: the product of a factor of names and factors of values."""

    product: Product

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return self.product.size

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Each action as a person names it: `left`, `u = -2`, `u = 1, v = 0`."""
        return tuple(self._label(action) for action in range(self.n_actions))

    def _label(self, action: int) -> str:
        parts = []
        for variable in self.product.variables:
            value = self.product.native(action)[variable.name]
            is_named = variable.kind == "enum" and variable.name == "action"
            parts.append(_short(value) if is_named else f"{variable.name} = {_short(value)}")
        return ", ".join(parts)


def _short(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
