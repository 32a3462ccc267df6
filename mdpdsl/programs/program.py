"""Linear programs as plain data, their solutions, and what a solver must be able to do.

maximise <w, x>  subject to  row_lower <= A x <= row_upper  and  lower <= x <= upper.

Duals are those of the maximisation: at an optimum  w = A^T row_dual + column_dual,  a dual of a row
or column at its lower bound is <= 0, at its upper bound >= 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import entry_points
from typing import Any, Protocol

from scipy.sparse import csr_array

from mdpdsl.diagnostics import SolveError, did_you_mean
from mdpdsl.graph.space import FloatArray

#: The group of entry points in which backends are found.
BACKENDS = "mdpdsl.backends"


class BackendError(SolveError):
    """A backend that is not there or cannot take a program; the message says what would work."""


class Status(StrEnum):
    """How a solver ended."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    TIME_LIMIT = "time limit"
    INACCURATE = "inaccurate"
    FAILED = "failed"


@dataclass(frozen=True)
class Block:
    """A run of columns or rows with one name; `label(i)` is the index of its i-th, for people."""

    name: str
    start: int
    stop: int
    label: Callable[[int], tuple[Any, ...]] = lambda i: (i,)


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """A linear program with named blocks of columns and rows that cover all of them in order."""

    name: str
    objective: FloatArray  # [n_columns]  maximised
    matrix: csr_array  # [n_rows, n_columns]
    row_lower: FloatArray  # [n_rows]
    row_upper: FloatArray  # [n_rows]
    lower: FloatArray  # [n_columns]
    upper: FloatArray  # [n_columns]
    columns: tuple[Block, ...]
    rows: tuple[Block, ...]

    @property
    def n_columns(self) -> int:
        """How many variables there are."""
        return len(self.objective)

    @property
    def n_rows(self) -> int:
        """How many constraints there are."""
        return len(self.row_lower)


@dataclass(frozen=True, eq=False)
class Basis:
    """Where a simplex method may start again; opaque but to the backend that gave it."""

    backend: str
    content: Any


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found; the arrays are there only when the status is OPTIMAL."""

    status: Status
    objective: float | None = None
    values: FloatArray | None = None  # [n_columns]
    row_dual: FloatArray | None = None  # [n_rows]
    column_dual: FloatArray | None = None  # [n_columns]
    basis: Basis | None = None
    iterations: int = 0
    seconds: float = 0.0
    message: str = ""

    @property
    def is_optimal(self) -> bool:
        """Whether there is an optimum to read."""
        return self.status is Status.OPTIMAL


class Backend(Protocol):
    """A solver of linear programs."""

    name: str

    def solve(
        self,
        program: LinearProgram,
        start: Basis | None = None,
        *,
        time_limit: float | None = None,
    ) -> Solution:
        """Solve a program, from an earlier basis if one is given."""


def backend_names() -> list[str]:
    """Return the names of all installed backends."""
    return sorted(point.name for point in entry_points(group=BACKENDS))


def load_backend(name: str) -> Backend:
    """Return a new backend by its name; it may keep what it knows of one program for the next."""
    for point in entry_points(group=BACKENDS):
        if point.name == name:
            try:
                backend: Backend = point.load()()
            except ImportError as error:
                raise BackendError(
                    f"the backend `{name}` needs `{error.name}`, which is not installed"
                ) from None
            return backend
    known = backend_names()
    hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
    raise BackendError(f"unknown backend `{name}`; {hint}")
