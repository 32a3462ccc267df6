"""Optimistic planning as a linear program, in its compact form (paper, algorithm FW-general).

max <w, d>  over the occupancies d of all models p~ within the balls, with d >= 2 eta. Of the mass
q = p~ d of a row, only the shortfall v = (p_hat d - q)+ of each estimated successor matters. The
mass that is taken away may move anywhere, so only its totals matter:

    sum_a d(s',a) + sum_{s,a} v(s,a,s') >= sum_{s,a} p_hat(s'|s,a) d(s,a)      flow, every s'
    v(s,a,s') <= p_hat(s'|s,a) d(s,a)                                          own
    sum_{s'} v(s,a,s') <= b(s,a)/2 d(s,a)                                      moved
    sum d = 1,  d >= 2 eta,  v >= 0

with p_hat terms and v only for pairs with b < 2, and v only for pairs with b > 0. *Own* rows with
p_hat >= b/2 follow from *moved* and are left out.

*The form is exact.* Given (d, p~), the v above satisfies sum_s' v = ||q - p_hat d||_1 / 2 <= b d/2,
since both rows have the mass d, and the flow rows hold since q >= p_hat d - v. Conversely, let
k = p_hat d - v (0 if b = 2), U = d - sum_s' k >= 0 and W(s') = sum_a d(s',a) - sum k(.,.,s') >= 0.
Then sum U = sum W, so the rows of q = k + U W / sum W have the mass d, the inflow of s' is k + W,
exactly its outflow, and ||q - p_hat d||_1 <= 2 U <= b d. This is how p~ is decoded.

*Ends* share one flow row and one column z, the mass that arrives in them and continues in the
starts mu. It takes no step, so it is not in the sum of d:

    z + sum_{e in E} sum_{s,a} v(s,a,e) >= sum_{e in E} sum_{s,a} p_hat(e|s,a) d(s,a)

and -mu(s') z is added to the left side of the flow row of every other s'. With W(s') as above minus
mu(s') z, and W(E) = z - sum k(.,.,E), sum U = sum W again.

The program is stated in x = n_pairs d, v scaled alike, and w / max w, because solvers' tolerances
are absolute.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import coo_array, csr_array

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.programs.direction import (
    Direction,
    ProgramSize,
    policy_of,
    require_buildable,
    solved_values,
)
from mdpdsl.programs.program import Block, LinearProgram, Solution
from mdpdsl.programs.uncertain import OptimisticKernel, UncertainModel

Decode = Callable[[Solution], Direction]


def compact_size(model: UncertainModel) -> ProgramSize:
    """Return the size of the compact program without building it."""
    kept, movable, capped = _entries(model)
    n_moving = int(np.count_nonzero((model.radius > 0) & model.is_known))
    n_kept, n_movable, n_capped = (int(np.count_nonzero(e)) for e in (kept, movable, capped))
    returning = kept & (model.successor == model.pair_state[model.entry_pair])
    ending = model.entry_pair[kept & model.is_end[model.successor]]
    n_merged = int(np.count_nonzero(returning)) + len(ending) - len(np.unique(ending))
    flow = model.n_pairs + n_kept - n_merged + n_movable
    return ProgramSize(
        rows=model.n_states + n_moving + n_capped + 1,
        columns=model.n_pairs + n_movable + int(model.is_end.any()),
        nonzeros=flow
        + n_moving
        + n_movable
        + 2 * n_capped
        + model.n_pairs
        + len(start_rows(model)),
    )


def compact_program(
    model: UncertainModel, weights: FloatArray, eta: float
) -> tuple[LinearProgram, Decode]:
    """Return the program, and the decoder of its solution into an occupancy, a policy and p~."""
    require_buildable(compact_size(model), "compact")
    kept, movable, capped = _entries(model)
    n, S = model.n_pairs, model.n_states
    entry_pair, p_hat = model.entry_pair, model.probability
    moving = np.flatnonzero((model.radius > 0) & model.is_known)
    entries, limited = np.flatnonzero(movable), np.flatnonzero(capped)
    column_of = n + np.cumsum(movable) - 1  # the column of an entry's v
    moved_row = S + np.searchsorted(moving, entry_pair[entries])
    own_row = S + len(moving) + np.arange(len(limited))
    total_row = S + len(moving) + len(limited)
    row_of, n_columns = flow_row(model), n + len(entries)
    pieces: list[tuple[IntArray, IntArray, FloatArray]] = [
        (model.pair_state.astype(np.int64), np.arange(n), np.ones(n)),
        (row_of[model.successor[kept]], entry_pair[kept], -p_hat[kept]),
        (row_of[model.successor[entries]], column_of[entries], np.ones(len(entries))),
        (S + np.arange(len(moving)), moving, model.radius[moving] / 2),
        (moved_row, column_of[entries], -np.ones(len(entries))),
        (own_row, entry_pair[limited], p_hat[limited]),
        (own_row, column_of[limited], -np.ones(len(limited))),
        (np.full(n, total_row), np.arange(n), np.ones(n)),
    ]
    row_lower = np.zeros(total_row + 1)
    row_upper = np.full(total_row + 1, np.inf)
    row_lower[-1] = row_upper[-1] = n
    if model.is_end.any():
        pieces += [ended_column(model, n_columns, 0)]
        n_columns += 1
    lower = np.zeros(n_columns)
    lower[:n] = 2 * eta * n
    program = LinearProgram(
        name="optimistic",
        objective=scaled_objective(weights, n_columns),
        matrix=assembled(pieces, (total_row + 1, n_columns)),
        row_lower=row_lower,
        row_upper=row_upper,
        lower=lower,
        upper=np.full(n_columns, np.inf),
        columns=(
            Block("d", 0, n, model.pair_label),
            Block("v", n, n + len(entries), lambda i: model.entry_label(int(entries[i]))),
            *([Block("ended", n_columns - 1, n_columns)] if model.is_end.any() else []),
        ),
        rows=(
            Block("flow", 0, S, model.state_label),
            Block("moved", S, S + len(moving), lambda i: model.pair_label(int(moving[i]))),
            Block(
                "own",
                S + len(moving),
                total_row,
                lambda i: model.entry_label(int(limited[i])),
            ),
            Block("total", total_row, total_row + 1),
        ),
    )

    def decode(solution: Solution) -> Direction:
        x = solved_values(solution, eta)
        z = float(x[-1]) if model.is_end.any() else None
        return decoded(model, x[:n], x[n : n + len(entries)], eta, z)

    return program, decode


def decoded(
    model: UncertainModel, x: FloatArray, v: FloatArray, eta: float, z: float | None = None
) -> Direction:
    """Return psi, pi and p~ from scaled columns, with p~ exactly within the balls.

    Without z, no moved mass arrives in an end.

    A v that exceeds its bounds by the solver's tolerance is clipped, so psi is stationary up to
    that tolerance.
    """
    psi = np.maximum(x / model.n_pairs, 2 * eta)
    psi /= psi.sum()
    pair, n = model.entry_pair, model.n_pairs
    kept, movable, _ = _entries(model)
    share = np.where(kept, model.probability * psi[pair], 0.0)  # p_hat d
    taken = np.zeros(len(share))
    taken[movable] = np.clip(v / n, 0.0, share[movable])
    total = np.bincount(pair, taken, minlength=n)
    allowed = model.radius / 2 * psi
    shrink = np.divide(allowed, total, out=np.ones(n), where=total > allowed)
    k = share - taken * shrink[pair]
    U = np.where(model.is_known, np.minimum(total, allowed), psi)
    S = model.n_states
    arrived = np.bincount(flow_row(model)[model.successor], k, minlength=S)
    left = np.bincount(model.pair_state, psi, minlength=S)
    if model.is_end.any():
        first = int(np.argmax(model.is_end))
        ended = arrived[first] if z is None else z / n
        left[first] = ended
        arrived = arrived + model.starts * ended
    W = np.maximum(left - arrived, 0.0)
    arrival = W / W.sum() if U.sum() > 0 and W.sum() > 0 else np.full(S, 1.0 / S)
    # A pair that psi never visits keeps its estimate; an unknown one may have any row.
    visited = psi > 0
    keep = np.divide(k, psi[pair], out=np.where(kept, model.probability, 0.0), where=visited[pair])
    moved = np.divide(U, psi, out=np.where(model.is_known, 0.0, 1.0), where=visited)
    rows = csr_array((keep, model.successor, model.successor_start), shape=(n, S))
    return Direction(psi, policy_of(psi, model.pair_start), OptimisticKernel(rows, moved, arrival))


def ended_column(
    model: UncertainModel, column: int, first_row: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the column of the mass that arrives in ends, in the flow rows from `first_row` on."""
    rows = start_rows(model)
    values = np.append(-model.starts[rows[:-1]], 1.0)
    return first_row + rows, np.full(len(rows), column), values


def start_rows(model: UncertainModel) -> IntArray:
    """Return the states in which episodes start, then the first end; nothing without ends."""
    if not model.is_end.any():
        return np.empty(0, np.int64)
    return np.append(np.flatnonzero(model.starts > 0), np.argmax(model.is_end))


def flow_row(model: UncertainModel) -> IntArray:
    """Return the flow row of every state; all ends have that of the first."""
    rows = np.arange(model.n_states)
    if model.is_end.any():
        rows[model.is_end] = np.argmax(model.is_end)
    return rows


def scaled_objective(weights: FloatArray, n_columns: int) -> FloatArray:
    """Return w / max w for the first columns, 0 for the others."""
    objective = np.zeros(n_columns)
    largest = float(weights.max())
    if largest > 0:
        objective[: len(weights)] = weights / largest
    return objective


def assembled(
    pieces: list[tuple[IntArray, IntArray, FloatArray]], shape: tuple[int, int]
) -> csr_array:
    """Return the matrix of triplets; duplicate entries are added."""
    rows, columns, values = (np.concatenate(part) for part in zip(*pieces, strict=True))
    matrix = coo_array((values, (rows, columns)), shape=shape).tocsr()
    matrix.sum_duplicates()
    return matrix


def _entries(model: UncertainModel) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Return which stored entries count, which may lose mass, and which need a row of their own."""
    radius = model.radius[model.entry_pair]
    kept = model.is_known[model.entry_pair]
    movable = kept & (radius > 0)
    return kept, movable, movable & (model.probability < radius / 2)
