"""Planning programs of a model as files for other solvers: LP and MPS, written by Pyomo.

The model's own P replaces the estimate, and every row has the same radius (0 by default, which
gives the ordinary occupancy program):

- oracle: max <w, d> with w = c^kappa, the gradient of U_kappa if all pairs have equal shares;
- interior: max t with d >= t, whose optimum is t*.

After an end, the next episode starts, so flows are those of the closed graph (`mdpdsl.graph.ends`),
while c is that of the true rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import FormatError
from mdpdsl.formats.foreign import Format
from mdpdsl.formats.written_rows import require_rows
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.direction import ProgramError
from mdpdsl.programs.interior import interior_program
from mdpdsl.programs.oracle import FORMULATIONS
from mdpdsl.programs.program import BackendError, LinearProgram, load_backend
from mdpdsl.programs.uncertain import known_model

PROGRAMS = ("oracle", "interior")


@runtime_checkable
class ProgramWriter(Protocol):
    """A backend that can write programs to files."""

    def write(self, program: LinearProgram, path: Path, file_format: str) -> None:
        """Write a program to a file in the format `lp` or `mps`."""


def planning_program(
    graph: TransitionGraph,
    name: str = "oracle",
    *,
    formulation: str = "compact",
    kappa: float = 1.0,
    eta: float = 0.0,
    radius: float = 0.0,
) -> LinearProgram:
    """Return a planning program of a model's true P."""
    require_rows(graph, "there is nothing to plan")
    model = known_model(graph, radius)
    c = squared_l2_complexity(graph)
    # Relative to the largest, so that no kappa overflows; equal if the model is deterministic.
    weights = (c / c.max()) ** kappa if c.max() > 0 else np.ones(graph.n_pairs)
    try:
        program, _ = FORMULATIONS[formulation](model, weights, eta)
    except ProgramError as error:  # too large
        raise FormatError(str(error)) from None
    return interior_program(program, graph.n_pairs)[0] if name == "interior" else program


def write_program(program: LinearProgram, path: Path, file_format: str) -> None:
    """Write a program to a file, with the names of states and actions."""
    writer = load_backend("pyomo-highs")
    if not isinstance(writer, ProgramWriter):
        raise BackendError("the installed backend pyomo-highs cannot write programs")
    writer.write(program, path, file_format)


class Lp(Format):
    """A planning program in the LP format; the options are those of `planning_program`."""

    name, title, suffix = "lp", "a planning program", ".lp"

    def write(
        self, model: Model, path: Path, *, program: str = "oracle", **options: Any
    ) -> list[Path]:
        """Write a planning program of a model."""
        self.require_truth(model)
        self.require_folder(path)
        write_program(planning_program(model.graph, program, **options), path, self.name)
        return [path]


class Mps(Lp):
    """A planning program in the MPS format."""

    name, title, suffix = "mps", "the same as MPS", ".mps"
