"""The largest share that every pair can have at once: t* = max {t : d >= t} over the occupancies.

D_eta is nonempty if and only if 2 eta <= t*. With d = y + t, y >= 0, this is the oracle's program
with one more column: the sum of the columns of d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, hstack

from mdpdsl.graph.space import FloatArray
from mdpdsl.programs.direction import ProgramError, solved_values
from mdpdsl.programs.program import Block, LinearProgram, Solution

#: `auto` sets 2 eta to this fraction of t*.
AUTO_FRACTION = 0.01

#: With eta = t*/2 exactly, a single point is feasible, and a solver may miss it by rounding.
CLIP_MARGIN = 1e-6


@dataclass(frozen=True, eq=False)
class Interior:
    """An occupancy that gives every pair a positive share, and the least of these shares."""

    occupancy: FloatArray  # [n_pairs]
    least: float  # t*, or a lower bound on it
    is_best: bool  # whether it is t*


def interior_program(
    oracle: LinearProgram, n_pairs: int
) -> tuple[LinearProgram, Callable[[Solution], Interior]]:
    """Return the program of t*, made from the oracle's, whose first columns are d."""
    matrix = oracle.matrix
    extra = csr_array(matrix[:, :n_pairs].sum(axis=1).reshape(-1, 1))
    objective = np.zeros(oracle.n_columns + 1)
    objective[-1] = 1.0
    lower = np.append(oracle.lower, 0.0)
    lower[:n_pairs] = 0.0
    first, *others = oracle.columns
    end = oracle.n_columns
    program = replace(
        oracle,
        name="interior",
        objective=objective,
        matrix=hstack([matrix, extra], format="csr"),
        lower=lower,
        upper=np.append(oracle.upper, 1.0),
        columns=(replace(first, name="excess"), *others, Block("least", end, end + 1)),
    )

    def decode(solution: Solution) -> Interior:
        x = solved_values(solution, 0.0)
        least = max(0.0, float(x[-1]) / n_pairs)
        d = np.maximum(x[:n_pairs], 0.0) / n_pairs + least
        return Interior(d / d.sum(), least, is_best=True)

    return program, decode


def chosen_eta(
    requested: float | None, interior: Interior, *, is_strict: bool = False
) -> tuple[float, str | None]:
    """Return the eta to use and, if it differs from the requested one, a warning.

    None means `auto`. An eta that is too large is clipped, or rejected if `is_strict`.
    """
    largest = interior.least / 2
    if requested is None:
        return AUTO_FRACTION * largest, None
    if requested <= largest:
        return requested, None
    name = "t*" if interior.is_best else "the least share of the known interior point"
    message = (
        f"eta = {requested:g} is too large: no occupancy gives every pair a share of 2 eta; "
        f"{name} is {interior.least:.4g}, so eta can be at most {largest:.4g}"
    )
    if is_strict:
        raise ProgramError(message)
    return (1 - CLIP_MARGIN) * largest, f"{message} and is clipped to that"
