"""Linear programs as plain data, their solutions, and the interface of a solver.

maximise <w, x>  subject to  row_lower <= A x <= row_upper  and  lower <= x <= upper.

Duals are those of the maximisation: at an optimum,  w = A^T row_dual + column_dual.  The dual of a
row or column is <= 0 at its lower bound and >= 0 at its upper bound.
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

#: The entry-point group of backends.
BACKENDS = "mdpdsl.backends"


class BackendError(SolveError):
    """A backend is missing or cannot solve a program; the message says what would work."""


class Status(StrEnum):
    """The outcome of a solver."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    TIME_LIMIT = "time limit"
    INACCURATE = "inaccurate"
    FAILED = "failed"


@dataclass(frozen=True)
class Block:
    """Consecutive columns or rows that share a name; `label(i)` names the i-th for people."""

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
        """The number of variables."""
        return len(self.objective)

    @property
    def n_rows(self) -> int:
        """The number of constraints."""
        return len(self.row_lower)


@dataclass(frozen=True, eq=False)
class Basis:
    """A point from which a simplex method can restart; only its own backend can read it."""

    backend: str
    content: Any


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer of a solver; the arrays are None unless the status is OPTIMAL."""

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
        """Whether the solver found an optimum."""
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
        """Solve a program, starting from an earlier basis if one is given."""


def backend_names() -> list[str]:
    """Return the names of all installed backends."""
    return sorted(point.name for point in entry_points(group=BACKENDS))


def load_backend(name: str) -> Backend:
    """Return a new backend by name; it may reuse its work on one program for the next."""
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
    hint = did_you_mean(name, known) or f"choose one of {', '.join(known)}"
    raise BackendError(f"unknown backend `{name}`; {hint}")
