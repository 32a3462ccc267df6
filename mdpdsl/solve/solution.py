"""The result of solving a model, and the watch that follows a solver as it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from mdpdsl.graph.space import FloatArray, IntArray

METHODS = ("auto", "vi", "mpi", "pi", "lp")

#: Called with the iterations so far and the bound that holds; returns whether to continue.
Watch = Callable[[int, float], bool]


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
    """Values with a certified bound, and a policy that attains them within that bound."""

    status: SolveStatus
    method: str
    variant: str  # how the method solved this model, in words
    values: FloatArray  # [n_states]
    choice: IntArray  # [n_states]  the pair to take; -1 in an end
    value: float  # expected over the initial distribution
    bound: float  # no value is further than this from the optimum
    residual: float  # largest change in one more Bellman step
    iterations: int
    seconds: float
    message: str = ""


def keep_going(iterations: int, bound: float) -> bool:
    """Return True: never stop."""
    return True
