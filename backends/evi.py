"""Extended value iteration: the planning oracle without a linear program, for large models.

For eta = 0 it solves the oracle to a stated tolerance. For eta > 0 it mixes that answer d0 with an
interior point d1: d = (1 - alpha) d0 + alpha d1 with alpha = 2 eta / min d1. This d is feasible,
since the set of occupancies is convex, and its value is at least 1 - alpha times the best.

d1 is the occupancy of the uniform policy under p_hat with a share b/2 of every row spread evenly;
its least share is a lower bound on t*.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from mdpdsl.graph.space import FloatArray
from mdpdsl.kernels.extended import (
    Balls,
    believed_rows,
    best_pairs,
    iterate_extended,
    visits_before_end,
)
from mdpdsl.programs.direction import Direction, ProgramError
from mdpdsl.programs.interior import Interior
from mdpdsl.programs.optimistic import decoded
from mdpdsl.programs.oracle import Plan
from mdpdsl.programs.program import BackendError, Basis, LinearProgram, Solution, Status
from mdpdsl.programs.uncertain import UncertainModel

#: The relative tolerance of the gain, and the mass of an occupancy that may be left out.
TOLERANCE = 1e-8
MASS_TOLERANCE = 1e-13
MOST_SWEEPS = 200_000
#: The number of sweeps after which an occupancy is computed by elimination instead.
MOST_WAVES = 5_000
#: Sweeps between two checks of the time limit.
CHUNK = 500


class Evi:
    """The optimistic oracle by extended value iteration."""

    name = "evi"

    def __init__(self) -> None:
        self.time_limit: float | None = None

    def solve(
        self,
        program: LinearProgram,
        start: Basis | None = None,
        *,
        time_limit: float | None = None,
    ) -> Solution:
        """Raise BackendError: this method does not solve general linear programs."""
        raise BackendError(
            f"the backend evi plans within confidence sets and cannot solve the program "
            f"`{program.name}`; use highs or pyomo-highs"
        )

    def interior(self, model: UncertainModel) -> Interior:
        """Return an occupancy that gives every pair a positive share."""
        n, S = model.n_pairs, model.n_states
        start = np.unique(model.pair_start)  # of the states that are no ends
        uniform = np.repeat(1.0 / np.diff(start), np.diff(start))
        spread = model.radius / 2
        staying = np.where(
            model.is_known[model.entry_pair], model.probability * (1 - spread[model.entry_pair]), 0
        )
        rows = csr_array((staying, model.successor, model.successor_start), shape=(n, S))
        merge = csr_array((uniform, np.arange(n), start), shape=(len(start) - 1, n))
        evenly = model.closed_rows(csr_array(np.full((1, S), 1.0 / S))).toarray()[0]
        states = _occupancy((merge @ model.closed_rows(rows)).tocsr(), evenly)
        d = np.repeat(states, np.diff(start)) * uniform
        return Interior(d, float(d.min()), is_best=False)

    def answer(
        self,
        model: UncertainModel,
        weights: FloatArray,
        eta: float,
        interior: Interior | None = None,
    ) -> Plan:
        """Return the best direction; for eta > 0, its mixture with the interior point."""
        began = time.perf_counter()
        largest = float(weights.max())
        scaled = weights / largest if largest > 0 else np.ones_like(weights)
        balls = Balls(
            model.pair_start.astype(np.int64),
            model.successor_start.astype(np.int64),
            model.successor.astype(np.int32),
            model.probability.copy(),
            model.radius,
            model.starts,
        )
        values, sweeps = np.zeros(model.n_states), 0
        while True:
            low, high, best_state, done = iterate_extended(balls, scaled, values, TOLERANCE, CHUNK)
            sweeps += done
            seconds = time.perf_counter() - began
            if high - low <= TOLERANCE * abs(high):
                break
            if self.time_limit is not None and seconds > self.time_limit:
                message = f"the gain is between {low:.6g} and {high:.6g} after {seconds:.1f} s"
                return Plan(Status.TIME_LIMIT, seconds=seconds, message=message)
            if sweeps >= MOST_SWEEPS:
                message = (
                    f"the gain is between {low:.6g} and {high:.6g} after {sweeps:,} sweeps; "
                    "if radii are zero and states do not communicate, use the backend highs"
                )
                return Plan(Status.FAILED, seconds=seconds, message=message)
        if 2 * eta > (interior.least if interior is not None else 0.0):
            least = 0.0 if interior is None else interior.least
            message = (
                f"eta = {eta:g} exceeds {least / 2:.4g}, the most that the interior point of evi "
                "allows; choose a smaller `eta=`, `auto`, or the backend highs"
            )
            return Plan(Status.INFEASIBLE, seconds=seconds, message=message)
        try:
            direction = _direction(model, balls, scaled, values, int(best_state), eta, interior)
        except ProgramError as error:
            return Plan(Status.FAILED, seconds=seconds, message=str(error))
        value = float(weights @ direction.occupancy)
        return Plan(Status.OPTIMAL, value, direction, time.perf_counter() - began)


def _direction(
    model: UncertainModel,
    balls: Balls,
    weights: FloatArray,
    values: FloatArray,
    best_state: int,
    eta: float,
    interior: Interior | None,
) -> Direction:
    """Return the occupancy of the best policy and rows, mixed with the interior point."""
    n, S = model.n_pairs, model.n_states
    chosen = best_pairs(balls, weights, values, best_state)
    kept, _ = believed_rows(balls, values, best_state)
    rows = csr_array((kept, balls.successor, balls.entry_start), shape=(n, S))
    rows.sort_indices()  # in the order of the model's entries
    chosen = chosen[~model.is_end]
    begin = int(np.count_nonzero(~model.is_end[:best_state]))  # without the ends before it
    chain = model.closed_rows(rows[chosen]).tocsr()
    chain.data[chain.indices == begin] = 0.0  # what arrives there begins anew
    psi = np.zeros(n)
    psi[chosen] = _occupancy(chain, np.eye(1, len(chosen), begin)[0])
    pair, movable = model.entry_pair, (model.is_known & (model.radius > 0))[model.entry_pair]
    v = psi[pair] * (model.probability - rows.data)
    if eta > 0 and interior is not None:
        alpha = 2 * eta / interior.least
        evenly = interior.occupancy[pair] * model.probability * (model.radius / 2)[pair]
        psi = (1 - alpha) * psi + alpha * interior.occupancy
        v = (1 - alpha) * v + alpha * evenly
    found = decoded(model, n * psi, n * v[movable], eta)
    # In states that psi never visits, the best action is known all the same.
    visited = np.bincount(model.pair_state, psi, minlength=S)[model.pair_state] > 0
    greedy = np.zeros(n)
    greedy[chosen] = 1.0
    return replace(found, policy=np.where(visited, found.policy, greedy))


def _occupancy(chain: csr_array, start: FloatArray) -> FloatArray:
    """Return the visits of a chain that restarts from `start` with the mass its rows lose."""
    visits, has_settled = visits_before_end(
        chain.indptr.astype(np.int64),
        chain.indices.astype(np.int32),
        chain.data,
        start,
        MASS_TOLERANCE,
        MOST_WAVES,
    )
    if not has_settled:
        from scipy.sparse import eye_array
        from scipy.sparse.linalg import splu

        matrix = (eye_array(len(start)) - chain.T).tocsc()
        try:
            visits = np.maximum(splu(matrix).solve(start), 0.0)
        except RuntimeError:  # singular: a part of the chain never ends
            raise ProgramError(
                "the best state cannot be reached from some parts of the model; "
                "use the backend highs"
            ) from None
    occupancy: FloatArray = visits / visits.sum()
    return occupancy
