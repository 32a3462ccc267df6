"""What came of solving a model, and how a solver is watched while it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from mdpdsl.graph.space import FloatArray, IntArray

METHODS = ("auto", "vi", "mpi", "pi", "lp")

#: Told the iterations done and the bound that holds by then; tells whether to go on.
Watch = Callable[[int, float], bool]


class SolveStatus(StrEnum):
    """How solving ended."""

    OPTIMAL = "optimal"  # the bound is within the tolerance
    STOPPED = "stopped"  # by who watched; the bound holds nevertheless
    PRECISION = "precision limit"  # rounding forbids a bound within the tolerance
    FAILED = "failed"  # a backend gave up


@dataclass(frozen=True)
class Iterate:
    """Where a method stands: values, and its own claim of how far they are from the optimum."""

    values: FloatArray  # [n_states]
    iterations: int
    bound: float


@dataclass(frozen=True, eq=False)
class SolveOutcome:
    """Values with a certified bound, and a policy that is worth no less than that allows."""

    status: SolveStatus
    method: str
    variant: str  # what the method came down to
    values: FloatArray  # [n_states]
    choice: IntArray  # [n_states]  the pair to take
    value: float  # expected over the initial distribution
    bound: float  # no value is further than this from the optimum
    residual: float  # largest change of one more Bellman step
    iterations: int
    seconds: float
    message: str = ""


def keep_going(iterations: int, bound: float) -> bool:
    """Watch without ever stopping."""
    return True
