"""The planning oracle of Frank-Wolfe explorers: a linear program for a backend, or `evi`.

psi = arg max <w, d> over d in D_eta(p~), p~ in the balls (paper, algorithm FW-general).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from mdpdsl.graph.space import FloatArray
from mdpdsl.programs.direction import Direction, ProgramError
from mdpdsl.programs.interior import Interior, interior_program
from mdpdsl.programs.optimistic import Decode, compact_program
from mdpdsl.programs.optimistic_full import full_program
from mdpdsl.programs.program import Backend, LinearProgram, Status, load_backend
from mdpdsl.programs.uncertain import UncertainModel

FORMULATIONS = {"compact": compact_program, "full": full_program}


@dataclass(frozen=True, eq=False)
class Plan:
    """The answer of an oracle; the direction is None unless the status is OPTIMAL."""

    status: Status
    value: float | None = None  # <w, psi>
    found: Direction | None = None
    seconds: float = 0.0
    message: str = ""

    @property
    def direction(self) -> Direction:
        """The direction; raise ProgramError if there is none."""
        if self.found is None:
            raise ProgramError(f"the oracle has no answer ({self.status}): {self.message}")
        return self.found


@runtime_checkable
class Oracle(Protocol):
    """Plans optimistically within balls around an estimate."""

    time_limit: float | None  # seconds for one answer

    def interior(self, model: UncertainModel) -> Interior:
        """Return an occupancy that gives every pair a share as large as the oracle can find."""

    def answer(
        self, model: UncertainModel, weights: FloatArray, eta: float, interior: Interior | None
    ) -> Plan:
        """Return the best direction; the interior point is given if eta > 0."""


class LinearOracle:
    """The oracle as a linear program; every solve starts afresh, independent of earlier ones."""

    def __init__(
        self, backend: Backend, formulation: str = "compact", time_limit: float | None = None
    ) -> None:
        self.backend = backend
        self.time_limit = time_limit
        self._build = FORMULATIONS[formulation]

    def program(
        self, model: UncertainModel, weights: FloatArray, eta: float
    ) -> tuple[LinearProgram, Decode]:
        """Return the program to be solved, and its decoder."""
        return self._build(model, weights, eta)

    def interior(self, model: UncertainModel) -> Interior:
        """Return the occupancy whose least share is t*; raise ProgramError if that fails."""
        oracle, _ = self.program(model, np.zeros(model.n_pairs), 0.0)
        program, decode = interior_program(oracle, model.n_pairs)
        return decode(self.backend.solve(program, time_limit=self.time_limit))

    def answer(
        self,
        model: UncertainModel,
        weights: FloatArray,
        eta: float,
        interior: Interior | None = None,
    ) -> Plan:
        """Return the best direction."""
        began = time.perf_counter()
        program, decode = self.program(model, weights, eta)
        solution = self.backend.solve(program, time_limit=self.time_limit)
        if not solution.is_optimal:
            try:
                decode(solution)
            except ProgramError as error:
                seconds = time.perf_counter() - began
                return Plan(solution.status, seconds=seconds, message=str(error))
        direction = decode(solution)
        value = float(weights @ direction.occupancy)
        return Plan(Status.OPTIMAL, value, direction, time.perf_counter() - began)


def load_oracle(
    backend: str, formulation: str = "compact", time_limit: float | None = None
) -> Oracle:
    """Return the oracle of a backend: its own if it has one, otherwise a linear program for it."""
    loaded = load_backend(backend)
    if isinstance(loaded, Oracle):
        loaded.time_limit = time_limit
        return loaded
    return LinearOracle(loaded, formulation, time_limit)
