"""Optimistic planning as the textbook linear program, with a variable for every transition.

q(s,a,s') = d(s,a) p~(s'|s,a), and e >= |q - p_hat d| makes the ball linear:

    q - p_hat d <= e,  p_hat d - q <= e                above, below, every s,a,s'
    sum_s' e(s,a,s') <= b(s,a) d(s,a)                  ball
    sum_s' q(s,a,s') = d(s,a)                          mass
    sum_a d(s',a) = sum_{s,a} q(s,a,s')                flow (for ends see `programs.optimistic`)
    sum d = 1,  d >= 2 eta,  q, e >= 0

It has more than 2 S n_pairs columns and is impractical beyond a hundred states. It is the reference
for the compact form (`programs.optimistic`) and is scaled in the same way.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.programs.direction import (
    Direction,
    ProgramSize,
    policy_of,
    require_buildable,
    solved_values,
)
from mdpdsl.programs.optimistic import (
    Decode,
    assembled,
    ended_column,
    flow_row,
    scaled_objective,
    start_rows,
)
from mdpdsl.programs.program import Block, LinearProgram, Solution
from mdpdsl.programs.uncertain import OptimisticKernel, UncertainModel


def full_size(model: UncertainModel) -> ProgramSize:
    """Return the size of the full program without building it."""
    n, S = model.n_pairs, model.n_states
    is_empty = np.diff(model.successor_start) == 0
    n_p_hat = len(model.successor) + int(np.count_nonzero(is_empty)) * S
    n_radii = int(np.count_nonzero(model.radius > 0))
    return ProgramSize(
        rows=2 * n * S + 2 * n + S + 1,
        columns=n + 2 * n * S + int(model.is_end.any()),
        nonzeros=2 * (2 * n * S + n_p_hat)
        + (n * S + n_radii)
        + (n * S + n)
        + (n + n * S)
        + n
        + len(start_rows(model)),
    )


def full_program(
    model: UncertainModel, weights: FloatArray, eta: float
) -> tuple[LinearProgram, Decode]:
    """Return the program, and the decoder of its solution into an occupancy, a policy and p~."""
    require_buildable(full_size(model), "full")
    n, S = model.n_pairs, model.n_states
    pair, target, p_hat = _estimate(model)
    cell = np.arange(n * S)
    cell_pair, cell_state = cell // S, cell % S
    q, e = n + cell, n + n * S + cell
    below, ball, mass, flow = n * S, 2 * n * S, 2 * n * S + n, 2 * n * S + 2 * n
    total = flow + S
    ones, with_radius = np.ones(n * S), np.flatnonzero(model.radius > 0)
    pieces: list[tuple[IntArray, IntArray, FloatArray]] = [
        (cell, e, ones),
        (cell, q, -ones),
        (pair * S + target, pair, p_hat),
        (below + cell, e, ones),
        (below + cell, q, ones),
        (below + pair * S + target, pair, -p_hat),
        (ball + with_radius, with_radius, model.radius[with_radius]),
        (ball + cell_pair, e, -ones),
        (mass + cell_pair, q, ones),
        (mass + np.arange(n), np.arange(n), -np.ones(n)),
        (flow + model.pair_state.astype(np.int64), np.arange(n), np.ones(n)),
        (flow + cell_state, q, -ones),
        (np.full(n, total), np.arange(n), np.ones(n)),
    ]
    if model.is_end.any():
        pieces[-2] = (flow + flow_row(model)[cell_state], q, -ones)
        pieces.append(ended_column(model, n + 2 * n * S, flow))
    row_lower, row_upper = np.zeros(total + 1), np.zeros(total + 1)
    row_upper[:mass] = np.inf
    row_lower[-1] = row_upper[-1] = n
    n_columns = n + 2 * n * S + int(model.is_end.any())
    lower = np.zeros(n_columns)
    lower[:n] = 2 * eta * n

    def cell_label(i: int) -> tuple[str, str, str]:
        return (*model.pair_label(i // S), *model.state_label(i % S))

    program = LinearProgram(
        name="optimistic_full",
        objective=scaled_objective(weights, n_columns),
        matrix=assembled(pieces, (total + 1, n_columns)),
        row_lower=row_lower,
        row_upper=row_upper,
        lower=lower,
        upper=np.full(n_columns, np.inf),
        columns=(
            Block("d", 0, n, model.pair_label),
            Block("q", n, n + n * S, cell_label),
            Block("e", n + n * S, n + 2 * n * S, cell_label),
            *([Block("ended", n_columns - 1, n_columns)] if model.is_end.any() else []),
        ),
        rows=(
            Block("above", 0, below, cell_label),
            Block("below", below, ball, cell_label),
            Block("ball", ball, mass, model.pair_label),
            Block("mass", mass, flow, model.pair_label),
            Block("flow", flow, total, model.state_label),
            Block("total", total, total + 1),
        ),
    )

    def decode(solution: Solution) -> Direction:
        x = solved_values(solution, eta)
        psi = np.maximum(x[:n] / n, 2 * eta)
        psi /= psi.sum()
        rows = np.maximum(x[n : n + n * S].reshape(n, S) / n, 0.0)
        sums = rows.sum(axis=1)
        estimate = csr_array((p_hat, (pair, target)), shape=(n, S)).toarray()
        rows = np.where((sums > 0)[:, None], rows / np.maximum(sums, 1e-300)[:, None], estimate)
        kernel = OptimisticKernel(csr_array(rows), np.zeros(n), np.full(S, 1 / S))
        return Direction(psi, policy_of(psi, model.pair_start), kernel)

    return program, decode


def _estimate(model: UncertainModel) -> tuple[IntArray, IntArray, FloatArray]:
    """Return p_hat as triplets, with the uniform placeholder for unknown rows."""
    n, S = model.n_pairs, model.n_states
    empty = np.flatnonzero(np.diff(model.successor_start) == 0)
    pair = np.concatenate([model.entry_pair, np.repeat(empty, S)])
    target = np.concatenate([model.successor.astype(np.int64), np.tile(np.arange(S), len(empty))])
    p_hat = np.concatenate([model.probability, np.full(len(empty) * S, 1.0 / S)])
    assert pair.max(initial=0) < n
    return pair, target, p_hat
