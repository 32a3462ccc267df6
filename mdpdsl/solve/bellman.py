"""One whole Bellman step, and the bound that follows from it (MacQueen 1966; Puterman 1994, 6.6).

With low <= TV - V <= high in every state,

    TV + gamma/(1-gamma) low  <=  V*  <=  TV + gamma/(1-gamma) high,

so the middle of the two is at most gamma/(1-gamma) (high - low)/2 away from V*. Values are centred
before, T(V + m) = TV + gamma m, which keeps rounding in proportion to their spread; the rows of P
are taken to sum to 1. The bound includes the rounding of the step itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.affine_rows import Rows, first_best, weight_matrix

#: Of a sum of k products, the error is at most about k units of this.
ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Certificate:
    """Values with a bound that holds, whatever they came from."""

    values: FloatArray  # [n_states]
    choice: IntArray  # [n_states]  greedy pairs
    bound: float
    residual: float
    rounding: float  # the part of the bound that no iteration can take away


def certify(rows: Rows, discount: float, values: FloatArray) -> Certificate:
    """Do one Bellman step on discounted rows and bound its distance from the optimum."""
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
    """Return the relative error of one row's sum, at most."""
    return ROUNDING * (3 + int(np.diff(rows.row_start).max(initial=0)))
