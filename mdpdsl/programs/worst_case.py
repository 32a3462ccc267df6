"""The best worst case as a linear program: maximise z with d >= z c over the occupancy polytope.

1/z is the least possible L_Worst (paper, fact kappa_inf). With x = n d = zeta c + e, zeta = n z,
the columns are e >= 0 and zeta, all of order 1. One row of flow balance follows from the others and
is left out, because rounding would make it inconsistent with them. The multipliers of the flow
rows, divided by that of sum x = n, are the h of a certificate: z* <= sum c (1 + N^T h) / n (see
`objective`). Linear-programming solvers are exact on small models and fail on larger ones, or if
shares span many orders of magnitude; `newton` solves kappa = infinity as well.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import block_array, csr_array

from mdpdsl.graph.space import FloatArray
from mdpdsl.programs.program import Block, LinearProgram, Solution

#: Takes a solution to x, [n_pairs], and h, [n_states].
Decode = Callable[[Solution], tuple[FloatArray, FloatArray]]


def worst_case_program(flow: csr_array, c: FloatArray) -> tuple[LinearProgram, Decode]:
    """Return the program and the way back from its solution."""
    n_states, n_pairs = flow.shape
    balance = flow[: n_states - 1]
    total = csr_array(np.ones((1, n_pairs)))
    if n_states > 1:
        matrix = block_array(
            [
                [balance, csr_array((balance @ c)[:, None])],
                [total, csr_array([[float(c.sum())]])],
            ]
        ).tocsr()
    else:
        matrix = block_array([[total, csr_array([[float(c.sum())]])]]).tocsr()
    matrix.eliminate_zeros()
    right = np.append(np.zeros(n_states - 1), float(n_pairs))
    program = LinearProgram(
        name="worst_case",
        objective=np.append(np.zeros(n_pairs), 1.0),
        matrix=matrix,
        row_lower=right,
        row_upper=right.copy(),
        lower=np.zeros(n_pairs + 1),
        upper=np.full(n_pairs + 1, np.inf),
        columns=(Block("excess", 0, n_pairs), Block("zeta", n_pairs, n_pairs + 1)),
        rows=(Block("flow", 0, n_states - 1), Block("total", n_states - 1, n_states)),
    )

    def decode(solution: Solution) -> tuple[FloatArray, FloatArray]:
        if solution.values is None or solution.row_dual is None:
            raise ValueError(f"the solution has no allocation: {solution.status}")
        x = np.maximum(solution.values[:n_pairs] + solution.values[n_pairs] * c, 0.0)
        h = np.append(solution.row_dual[:-1] / solution.row_dual[-1], 0.0)
        return x * (n_pairs / x.sum()), h

    return program, decode
