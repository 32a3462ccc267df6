"""Batches of rows, appended to the arrays of one graph."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.merge import Transitions
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.rewards import RewardKernel, reward_fields, reward_kernels
from mdpdsl.graph.reward_fields import RewardFields
from mdpdsl.graph.space import IntArray, StateSpace

T = TypeVar("T", np.int32, np.int64, np.float64)


class GrowingArray(Generic[T]):
    """An array that grows by appending.

    Memory that is reserved but not yet written costs nothing, so reserving too much is cheap.
    """

    def __init__(self, dtype: type[T]) -> None:
        self._values: npt.NDArray[T] = np.empty(1024, dtype)
        self.size = 0

    def append(self, part: npt.NDArray[np.generic]) -> None:
        """Add numbers at the end."""
        end = self.size + len(part)
        if end > len(self._values):
            self.reserve(max(end, 2 * len(self._values)))
        self._values[self.size : end] = part
        self.size = end

    def reserve(self, capacity: int) -> None:
        """Reserve room for `capacity` numbers in total."""
        if capacity > len(self._values):
            larger = np.empty(capacity, self._values.dtype)
            larger[: self.size] = self._values[: self.size]
            self._values = larger

    def array(self) -> npt.NDArray[T]:
        """Return the numbers; nothing may be appended afterwards."""
        return self._values[: self.size]


class RewardBuffer:
    """One reward, collected batch by batch."""

    def __init__(self, kernel: RewardKernel) -> None:
        self.kernel = kernel
        self.by_pair = GrowingArray(np.float64)
        self.by_branch = GrowingArray(np.float64)

    def add(self, codes: IntArray, found: Transitions) -> None:
        """Append the rewards of a batch of states."""
        rewards = self.kernel.pair_rewards(codes, found)
        if self.kernel.depends_on_next:
            per_branch = self.kernel.branch_rewards(codes, found)
            expected = np.add.reduceat(per_branch * found.probabilities, found.starts[:-1])
            self.by_branch.append(per_branch + np.repeat(rewards, np.diff(found.starts)))
            rewards = rewards + expected
        self.by_pair.append(rewards)


class RowBuffer:
    """The rows of a graph, collected batch by batch."""

    def __init__(self, model: CheckedModel, problems: Problems) -> None:
        kernels = reward_kernels(model, problems)
        self._rewards = {name: RewardBuffer(kernel) for name, kernel in kernels.items()}
        self.pair_starts = GrowingArray(np.int64)
        self.pair_actions = GrowingArray(np.int32)
        self.successor_starts = GrowingArray(np.int64)
        self.successors = GrowingArray(np.int32)
        self.probabilities = GrowingArray(np.float64)
        for starts in (self.pair_starts, self.successor_starts):
            starts.append(np.zeros(1, np.int64))

    def reserve(self, n_done: int, n_states: int) -> None:
        """Reserve room for all states, extrapolating from those that are done."""
        share = n_states / n_done * 1.02
        arrays: list[GrowingArray[Any]] = [
            self.pair_actions,
            self.successor_starts,
            self.successors,
            self.probabilities,
        ]
        for buffer in self._rewards.values():
            arrays += [buffer.by_pair, buffer.by_branch]
        for array in arrays:
            array.reserve(int(array.size * share))
        self.pair_starts.reserve(n_states + 1)

    def add(self, codes: IntArray, found: Transitions, states: StateSpace) -> None:
        """Append the rows of a batch of states."""
        counts = np.bincount(found.pair_rows, minlength=len(codes))
        self.pair_starts.append(np.cumsum(counts) + self.pair_actions.size)
        self.pair_actions.append(found.pair_actions)
        self.successor_starts.append(found.starts[1:] + self.successors.size)
        is_whole = states.n_states == states.product.size
        self.successors.append(found.targets if is_whole else states.indices(found.targets))
        self.probabilities.append(found.probabilities)
        for buffer in self._rewards.values():
            buffer.add(codes, found)

    def rewards(self) -> RewardFields:
        """Return all rewards as fields of the graph; nothing may be appended afterwards."""
        every = self._rewards.items()
        return reward_fields(
            {name: buffer.by_pair.array() for name, buffer in every},
            {n: buffer.by_branch.array() for n, buffer in every if buffer.kernel.depends_on_next},
        )
