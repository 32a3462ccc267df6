"""The same optima by another method: power and exponential cones, solved by Clarabel.

With needs b, visits u = offset + x and curvature kappa, the largest G with
t^(1/kappa) u^(1 - 1/kappa) >= b G for every pair and sum t = G is 1/F:
sum b^kappa G^kappa u^(1-kappa) = G. Needs are divided by (sum b)^(1/kappa), which divides F by
(sum b)^(1/(kappa-1)) and brings G near 1. For kappa = 1, sum b log u is maximised by exponential
cones, and for kappa = infinity, u >= b G is linear.
"""

from __future__ import annotations

import clarabel
import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array, hstack, vstack

from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph


def least_mean(
    graph: TransitionGraph, need: FloatArray, kappa: float, offset: FloatArray | None = None
) -> float | None:
    """Return the least F of `programs.objective` over x with sum n_pairs; for kappa = 1, the
    largest sum b log u; None where the solver is not sure."""
    n = graph.n_pairs
    P = np.zeros((n, graph.n_states))
    for pair in range(n):
        successors, probabilities = graph.row(pair)
        P[pair, successors] = probabilities
    leaving = np.zeros((graph.n_states, n))
    leaving[graph.pair_state, np.arange(n)] = 1
    equality = csr_array(np.vstack([leaving - P.T, np.ones((1, n))])[1:])
    right = np.append(np.zeros(graph.n_states - 1), float(n))
    offset = np.zeros(n) if offset is None else offset
    needed = np.flatnonzero(need > 0)
    m = len(needed)
    total_need = float(need.sum())
    if 1 < kappa < np.inf:
        need = need / total_need ** (1 / kappa)
    n_columns = n + m + 1  # x, t, G
    blocks = [_padded(equality, n_columns)]
    b = [right]
    cones = [clarabel.ZeroConeT(graph.n_states), clarabel.NonnegativeConeT(n)]
    blocks.append(_padded(-eye_array(n).tocsr(), n_columns))
    b.append(np.zeros(n))
    cost = np.zeros(n_columns)
    values: list[tuple[int | None, float]] = []
    offsets: list[float] = []
    if kappa == 1:
        cost[n : n + m] = -need[needed]
        for index, pair in enumerate(needed.tolist()):  # (t, 1, u)
            values += [(n + index, -1.0), (None, 0.0), (pair, -1.0)]
            offsets += [0.0, 1.0, float(offset[pair])]
            cones.append(clarabel.ExponentialConeT())
    else:
        cost[-1] = -1.0
        for index, pair in enumerate(needed.tolist()):
            if np.isinf(kappa):
                continue
            values += [(n + index, -1.0), (pair, -1.0), (n + m, -float(need[pair]))]
            offsets += [0.0, float(offset[pair]), 0.0]
            cones.append(clarabel.PowerConeT(1 / kappa))
        if np.isinf(kappa):
            matrix = np.zeros((m, n_columns))
            matrix[np.arange(m), needed] = -1
            matrix[:, -1] = need[needed]
            blocks.append(csr_array(matrix))
            b.append(offset[needed])
            cones.append(clarabel.NonnegativeConeT(m))
        else:
            total = np.zeros((1, n_columns))
            total[0, n : n + m], total[0, -1] = 1.0, -1.0
            blocks.insert(1, csr_array(total))
            b.insert(1, np.zeros(1))
            cones[0] = clarabel.ZeroConeT(graph.n_states + 1)
    if values:
        matrix = np.zeros((len(values), n_columns))
        for row, (column, value) in enumerate(values):
            if column is not None:
                matrix[row, column] = value
        blocks.append(csr_array(matrix))
        b.append(np.array(offsets))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    solver = clarabel.DefaultSolver(
        csc_array((n_columns, n_columns)),
        cost,
        csc_array(vstack(blocks)),
        np.concatenate(b),
        cones,
        settings,
    )
    solution = solver.solve()
    if str(solution.status) != "Solved":
        return None
    value = -float(solution.obj_val)
    return value if kappa == 1 else total_need ** (1 / (kappa - 1)) / value


def _padded(matrix: csr_array, n_columns: int) -> csr_array:
    missing = n_columns - matrix.shape[1]
    return csr_array(hstack([matrix, csr_array((matrix.shape[0], missing))]))
