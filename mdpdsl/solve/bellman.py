"""One full Bellman step and the bound that follows from it (MacQueen 1966; Puterman 1994, 6.6).

If low <= TV - V <= high in every state, then

    TV + gamma/(1-gamma) low  <=  V*  <=  TV + gamma/(1-gamma) high,

so the midpoint of the two is within gamma/(1-gamma) (high - low)/2 of V*. Values are centred first,
T(V + m) = TV + gamma m, which keeps rounding errors in proportion to their spread; the rows of P
are assumed to sum to 1. The bound includes the rounding error of the step itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import Rows, first_best, weight_matrix

#: The relative error of a sum of k products is at most about k times this.
ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Certificate:
    """Values with a bound that holds however they were computed."""

    values: FloatArray  # [n_states]
    choice: IntArray  # [n_states]  greedy pairs
    bound: float
    residual: float
    rounding: float  # the part of the bound that no iteration can remove


def certify(rows: Rows, discount: float, values: FloatArray) -> Certificate:
    """Take one Bellman step on discounted rows and bound its distance from the optimum."""
    middle = float(values.max() + values.min()) / 2
    centred = values - middle
    step, choice = first_best(rows, rows.constant + weight_matrix(rows) @ centred)
    change = step - centred - (1 - discount) * middle
    low, high = float(change.min()), float(change.max())
    ahead = discount / (1 - discount)
    unit = rounding_unit(rows) * (np.abs(rows.constant).max() + np.abs(centred).max())
    rounding = float((1 + ahead) * unit + ROUNDING * (abs(middle) + np.abs(values).max()))
    return Certificate(
        values=step + discount * middle + ahead * (low + high) / 2,
        choice=choice,
        bound=ahead * (high - low) / 2 + rounding,
        residual=max(abs(low), abs(high)),
        rounding=rounding,
    )


def rounding_unit(rows: Rows) -> float:
    """Return the largest relative error of one row's sum."""
    return ROUNDING * (3 + int(np.diff(rows.row_start).max(initial=0)))


def quotient_unit(graph: TransitionGraph) -> float:
    """Return the same for rows whose coefficients are probabilities of a graph divided by sums."""
    return ROUNDING * (8 + 2 * int(np.diff(graph.successor_start).max(initial=0)))
