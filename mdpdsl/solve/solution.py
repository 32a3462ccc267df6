"""The result of solving a model, and the watch that follows a solver as it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph

METHODS = ("auto", "vi", "mpi", "pi", "lp")
#: The shapes of sets of rows.
SHAPES = ("intervals", "l1", "kl")

#: Called with the iterations so far and the bound that holds; returns whether to continue.
Watch = Callable[[int, float], bool]
#: Returns the pair to take in each state with so many steps left, [n_states].
Replay = Callable[[int], StateArray]


class SolveStatus(StrEnum):
    """The outcome of solving."""

    OPTIMAL = "optimal"  # the bound is within the tolerance
    STOPPED = "stopped"  # by the watch; the bound holds nevertheless
    PRECISION = "precision limit"  # rounding prevents a bound within the tolerance
    FAILED = "failed"  # a backend gave up


@dataclass(frozen=True)
class Iterate:
    """The progress of a method: values, and its own estimate of their error."""

    values: FloatArray  # [n_states]
    iterations: int
    bound: float


@dataclass(frozen=True, eq=False)
class SolveOutcome:
    """Values with certified bounds, and a policy that attains them within these bounds."""

    status: SolveStatus
    method: str
    variant: str  # how the method solved this model, in words
    values: FloatArray  # [n_states]  between the bounds; infinite where both are
    lower: FloatArray  # [n_states]  certified: no optimal value is below, ...
    upper: FloatArray  # [n_states]  ... and none above
    choice: IntArray  # [n_states]  the pair to take (in the first step); -1 in an end
    value: float  # expected over the initial distribution
    bound: float  # no finite value is further than this from the optimum
    residual: float  # largest change in one more Bellman step
    iterations: int
    seconds: float
    message: str = ""
    plan: StateArray | None = None  # [steps, n_states]  the pair to take with i + 1 steps left
    replay: Replay | None = None  # computes the rows of a plan that would not fit in memory

    def choice_with(self, steps_left: int) -> StateArray:
        """Return the pair to take in each state with so many steps left, [n_states]; -1 in ends.

        Without a limit of steps, it is the same for any number of them.
        """
        if steps_left < 1:
            raise ValueError("no step is left, so there is nothing to choose")
        if self.plan is not None:
            row: StateArray = self.plan[steps_left - 1]
            return row
        return self.choice.astype(np.int32) if self.replay is None else self.replay(steps_left)


def keep_going(iterations: int, bound: float) -> bool:
    """Return True: never stop."""
    return True


def until_late(watch: Watch, time_limit: float | None) -> Watch:
    """Return a watch that also stops when so many seconds have passed from now."""
    if time_limit is None:
        return watch
    deadline = time.monotonic() + time_limit

    def limited(iterations: int, bound: float) -> bool:
        return watch(iterations, bound) and time.monotonic() <= deadline

    return limited


def value_at_start(graph: TransitionGraph, values: FloatArray) -> float:
    """Return the expected value over the initial distribution; infinite if any of them is."""
    starts = graph.initial > 0
    with np.errstate(invalid="ignore"):  # inf - inf is unknown
        return float(graph.initial[starts] @ values[starts])


def half_gap(lower: FloatArray, upper: FloatArray) -> float:
    """Return half of the largest distance of two bounds; equal infinite ones have none."""
    gaps = np.zeros(len(lower))
    np.subtract(upper, lower, out=gaps, where=lower != upper)
    return float(gaps.max(initial=0.0)) / 2


def largest_error(values: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """Return the largest distance of a value from its bounds; equal infinite ones have none."""
    errors = np.zeros((2, len(values)))
    is_known = lower != upper
    np.subtract(upper, values, out=errors[0], where=is_known)
    np.subtract(values, lower, out=errors[1], where=is_known)
    return float(errors.max(initial=0.0))


def middle(lower: FloatArray, upper: FloatArray, guess: FloatArray) -> FloatArray:
    """Return the middle of two bounds, or a guess between them if one is infinite."""
    values = np.clip(guess, lower, upper)
    both = np.isfinite(lower) & np.isfinite(upper)
    values[both] = lower[both] / 2 + upper[both] / 2
    return values
