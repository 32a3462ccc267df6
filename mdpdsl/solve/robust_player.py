"""The largest value of one player who chooses pairs and rows from sets, bounded from above.

The player leaves the open states for closed ones, whose values are known, or stops in a group whose
stopping value is known. Values V are the least solution of  V = T V,  or the largest over policies
that leave with probability 1; either way  T u <= u  implies  V <= u  (Park's induction, or as in
`transient`). So bounds are guessed above approximate values and proved by sweeps (Hartmanns and
Kaminski 2020). The values themselves come from sweeps and, in small models, from the equations of
the best rows so far (policy iteration).

If nature is against a policy of the agent, nature is the player, and minus its bound is what the
policy is guaranteed to achieve. If nature helps, both together are the player.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.kernels.affine_rows import Rows
from mdpdsl.kernels.best_row import nature_rows
from mdpdsl.kernels.bounding import approach_policy
from mdpdsl.kernels.set_rows import SetRows, ranking, room_for
from mdpdsl.kernels.set_sweeps import LEAVING, Groups, prove_player, sweep_player
from mdpdsl.solve.bellman import ROUNDING
from mdpdsl.solve.policy_iteration import ELIMINATED_STATES
from mdpdsl.solve.solution import Watch

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Bounds are guessed at this share of the tolerance, once values are probably much closer.
GUESS, CLOSE = 0.5, 0.05
#: Sweeps before the equations of the best rows are solved; large ones by so many plain sweeps.
SWEEPS_PER_JUMP, POLICY_SWEEPS = 10, 1_000
#: Large systems are eliminated if they have at most so many entries per row, and a band of at most
#: so many in all.
SHORT_ROWS, MOST_BAND = 8, 60_000_000
#: Sweeps of a proof. If they do not suffice, steps get a bonus: the distance of the guess divided
#: by this, and again, down to a least one, each swept so often at the most.
PROOF_SWEEPS = 10
BONUS, LEAST_BONUS, BONUS_SWEEPS = 100.0, 1e-12, 100
#: Values that change by less than this do not improve any more.
STALLED = 1e-14
#: If values stall, guesses are wider each time by a factor, until this multiple of the tolerance.
WIDER, WIDEST = 16.0, 300.0
#: Values without a lower bound begin at minus this times the largest reward.
PESSIMISM = 1e6
#: Failed proofs make the estimate of the error larger, and after some values count as stalled.
CAUTION, MOST_CAUTION = 4.0, 500.0
#: Values also count as stalled after so many sweeps.
MOST_SWEEPS = 200_000
#: Equations are not solved once values change by less than this: sweeps are more exact.
EXACT = 1e-9


@dataclass(frozen=True, eq=False)
class Player:
    """What one player maximises: sums of rewards, and the values of the closed states."""

    rows: SetRows
    groups: Groups
    known: FloatArray  # [S]  the values of closed states, infinite ones included
    least: float = -math.inf  # known bounds of all open values
    most: float = math.inf
    is_proper: bool = False  # whether every choice of rows leaves for ever


@dataclass(frozen=True, eq=False)
class PlayerFound:
    """An upper bound of the player's values, and the values that it is close to."""

    values: FloatArray  # [S]
    upper: FloatArray  # [S]
    choice: IntArray  # [n_groups]  rows; -1: stop
    is_close: bool  # whether the bound is within the tolerance
    goes_on: bool  # False if the watch stopped it
    iterations: int


def groups_of(
    rows: SetRows,
    is_open: BoolArray,
    component: IntArray | None = None,
    stop: FloatArray | None = None,
) -> Groups:
    """Return the open states in groups: components [S], -1 for none, and single states.

    They are ordered by their distance from the closed states. `stop` [S] has what a state may be
    stopped with.
    """
    S = len(is_open)
    of = np.full(S, -1)
    alone = S + np.arange(S)
    number = alone if component is None else np.where(component >= 0, component, alone)
    of[is_open] = number[is_open]
    order = sweep_order(rows, is_open)
    rank = np.empty(S, np.int64)
    rank[order] = np.arange(S)
    states = np.flatnonzero(is_open)
    states = states[np.argsort(rank[states], kind="stable")]
    _, first, inverse = np.unique(of[states], return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))[inverse]  # groups in order of their first state
    member = states[np.argsort(place, kind="stable")]
    of[states] = place
    sizes = np.bincount(place, minlength=len(first))
    stopping = np.full(len(first), -np.inf)
    if stop is not None and len(states):
        np.maximum.at(stopping, place, stop[states])
    return Groups(np.concatenate([[0], np.cumsum(sizes)]), member, of, stopping)


def sweep_order(rows: SetRows, is_open: BoolArray) -> IntArray:
    """Return all states by their distance from the closed ones."""
    from mdpdsl.kernels.solving import order_from

    plain = Rows(
        rows.pair_start.astype(np.uint32),
        rows.row_start.astype(np.uint32),
        rows.target.view(np.uint32),
        rows.low,
        rows.constant,
    )
    order: IntArray = order_from(plain, np.flatnonzero(~is_open).astype(np.uint32))
    return order.astype(np.int64)


def solve_player(
    player: Player,
    tolerance: float,
    watch: Watch,
    *,
    floor: float = 1.0,
    start: FloatArray | None = None,
    is_bounded: bool = True,
) -> PlayerFound:
    """Bound the player's values from above, within a tolerance relative to their size or `floor`.

    `start` [S] are values to begin with; they should not be too large. Without bounds, only the
    values are sought.
    """
    return _Run(player, tolerance, watch, floor, start).run(is_bounded)


class _Run:
    def __init__(
        self,
        player: Player,
        tolerance: float,
        watch: Watch,
        floor: float,
        start: FloatArray | None,
    ) -> None:
        self._player, self._tolerance, self._floor = player, tolerance, floor
        self._watch, self._room = watch, room_for(player.rows)
        self._n_groups = len(player.groups.start) - 1
        self._open = player.groups.of >= 0
        begin = player.least
        if not math.isfinite(begin):
            rows = player.rows
            size = np.abs(rows.constant).max(initial=0.0) + np.abs(rows.gain).max(initial=0.0)
            begin = -PESSIMISM * float(size)
        self._values = np.where(self._open, begin if start is None else start, player.known)
        self._upper = np.where(self._open, player.most, player.known)
        self._choice = np.full(self._n_groups, -1)
        self._iterations = 0
        longest = int(np.diff(player.rows.row_start).max(initial=0))
        self._unit = ROUNDING * (8 + 2 * longest)

    def run(self, is_bounded: bool) -> PlayerFound:
        """Sweep until a bound within the tolerance is proved, or only until values are close."""
        if self._n_groups == 0:
            return self._found(True, True)
        width = GUESS * self._tolerance
        wide, caution, before, since_jump = width, 1.0, math.inf, SWEEPS_PER_JUMP
        while True:
            change = self._sweep(self._values, self._choice)
            if not self._goes_on():
                return self._found(False, False)
            rate = min(max(change / before, 1e-9), 1 - 1e-9) if before < math.inf else 0.5
            error = caution * change * rate / (1 - rate)
            is_late = self._iterations > MOST_SWEEPS or caution > MOST_CAUTION
            is_stalled = change <= STALLED or is_late
            if error <= CLOSE * width or is_stalled:
                if not is_bounded:
                    return self._found(False, True)
                if self._prove(wide if is_stalled else width):
                    return self._found(wide <= width or not is_stalled, True)
                if not self._goes_on():
                    return self._found(False, False)
                caution *= CAUTION
                if is_stalled:
                    wide *= WIDER
                    if wide > WIDEST * width:
                        return self._found(False, True)
            before = max(change, 1e-300)
            since_jump += 1
            if since_jump >= SWEEPS_PER_JUMP and change > EXACT:
                since_jump = 0
                self._jump(self._values, self._choice, change)

    def _sweep(self, values: FloatArray, choice: IntArray, bonus: float = 0.0) -> float:
        player = self._player
        self._iterations += 1
        change: float = sweep_player(
            player.rows,
            player.groups,
            values,
            choice,
            ranking(player.rows, values, 1.0),
            self._room,
            self._floor,
            bonus,
        )
        return change

    def _prove(self, width: float) -> bool:
        """Guess a bound at a relative distance from the values; return whether it is proved."""
        player = self._player
        size = np.maximum(self._floor, np.abs(self._values))
        with np.errstate(invalid="ignore"):
            guess = np.minimum(self._values + width * size, player.most)
        upper = np.where(self._open, guess, player.known)
        for _ in range(PROOF_SWEEPS):
            if self._is_proved(upper):
                return True
            is_wrong = upper[self._open] < (self._values[self._open] - width * size[self._open])
            if not self._goes_on() or is_wrong.any():
                break
        wide = width * self._floor
        return self._prove_by_steps(wide) or self._prove_with_bonus(guess, wide)

    def _is_proved(self, upper: FloatArray) -> bool:
        """Lower a guess by a sweep; return whether that proves it, and keep it then."""
        player = self._player
        self._iterations += 1
        if not prove_player(
            player.rows,
            player.groups,
            self._values,
            upper,
            ranking(player.rows, upper, 1.0),
            self._room,
            player.most,
            self._unit,
        ):
            return False
        self._upper = upper
        return True

    def _prove_by_steps(self, width: float) -> bool:
        """Prove values that are larger the more steps the best rows take until they leave."""
        plain = self._evaluated(self._values, self._choice, 0.0)
        longer = self._evaluated(self._values, self._choice, width)
        if plain is None or longer is None or not (longer > plain).any():
            return False
        more = (longer - plain) * (width / (longer - plain).max())
        upper = self._player.known.copy()
        found = np.minimum(np.maximum(plain, self._first()) + more, self._player.most)
        upper[self._open] = found[self._player.groups.of[self._open]]
        return any(self._is_proved(upper) for _ in range(PROOF_SWEEPS))

    def _first(self) -> FloatArray:
        """Return the value of each group."""
        groups = self._player.groups
        return self._values[groups.member[groups.start[:-1]]]

    def _prove_with_bonus(self, guess: FloatArray, width: float) -> bool:
        """Prove values that every step makes a little larger: no error of rounding matters then."""
        bonus = width / BONUS
        while bonus >= LEAST_BONUS * self._floor and self._goes_on():
            upper, choice, since_jump = self._values.copy(), self._choice.copy(), 0
            for _ in range(BONUS_SWEEPS):
                change = self._sweep(upper, choice, bonus)
                upper[self._open] = np.minimum(upper[self._open], self._player.most)
                is_settled = change * self._floor <= bonus / 4
                if is_settled or np.any(upper > guess) or not self._goes_on():
                    break
                since_jump += 1
                if since_jump >= SWEEPS_PER_JUMP:
                    since_jump = 0
                    self._jump(upper, choice, change, bonus)
            if np.all((upper <= guess) | ~self._open) and is_settled and self._is_proved(upper):
                return True
            bonus /= BONUS
        return False

    def _jump(
        self, values: FloatArray, choice: IntArray, change: float, bonus: float = 0.0
    ) -> None:
        """Solve the equations of the best rows; keep the result if it is better or changes less."""
        chosen = self._evaluated(values, choice, bonus)
        if chosen is None:
            return
        kept_values, kept_choice = values.copy(), choice.copy()
        values[self._open] = chosen[self._player.groups.of[self._open]]
        size = np.maximum(self._floor, np.abs(kept_values[self._open]))
        is_better = np.all(values[self._open] >= kept_values[self._open] - STALLED * size)
        is_kept = is_better or self._player.is_proper  # policy iteration then works from anywhere
        if not (self._sweep(values, choice, bonus) <= change or is_kept):
            values[:], choice[:] = kept_values, kept_choice

    def _evaluated(self, values: FloatArray, choice: IntArray, bonus: float) -> FloatArray | None:
        """Return the values of the groups under the best rows so far; None if some never leave."""
        from scipy.sparse import csc_array, csr_array, eye_array
        from scipy.sparse.linalg import splu

        player, n = self._player, self._n_groups
        ranked = ranking(player.rows, values, 1.0)
        start, state, p, gain, _ = nature_rows(player.rows, values, ranked, self._room, 1.0, 1.0)
        leaves = np.flatnonzero(choice >= 0)
        taken = choice[leaves]
        P = csr_array((p, state, start), shape=(len(start) - 1, len(values)))[taken]
        entries = P.tocoo()
        origin, target = leaves[entries.row], player.groups.of[entries.col]
        is_inside, is_own = target >= 0, target == origin
        constant = player.groups.stop.copy()
        constant[leaves] = player.rows.constant[taken] + gain[taken]
        np.add.at(constant, origin[~is_own], bonus * entries.data[~is_own])
        closed = entries.data[~is_inside] * player.known[entries.col[~is_inside]]
        np.add.at(constant, origin[~is_inside], closed)
        if not np.isfinite(constant).all():
            return None
        stays = np.zeros(n)
        np.add.at(stays, origin[is_own], entries.data[is_own])
        leaving = np.maximum(1 - stays, LEAVING)
        is_moving = is_inside & ~is_own
        moves = entries.data[is_moving], (origin[is_moving], target[is_moving])
        W = csr_array(moves, shape=(n, n))
        W.data /= np.repeat(leaving, np.diff(W.indptr))
        constant /= leaving
        if _is_eliminated_fast(W):
            try:
                found = splu(csc_array(eye_array(n) - W)).solve(constant)
            except RuntimeError:  # singular: some rows never leave
                return None
        else:
            found = values[player.groups.member[player.groups.start[:-1]]]
            plain = Rows(
                np.arange(n + 1, dtype=np.uint32),
                W.indptr.astype(np.uint32),
                W.indices.astype(np.uint32),
                W.data,
                constant,
            )
            approach_policy(plain, found, POLICY_SWEEPS, STALLED, self._floor)
        is_valid = np.isfinite(found).all() and found.max() <= player.most + 1e-9
        return np.asarray(found) if is_valid else None

    def _goes_on(self) -> bool:
        return self._watch(self._iterations, math.inf)

    def _found(self, is_close: bool, goes_on: bool) -> PlayerFound:
        upper = np.maximum(self._upper, self._values) if is_close else self._upper
        return PlayerFound(self._values, upper, self._choice, is_close, goes_on, self._iterations)


def _is_eliminated_fast(W: csr_array) -> bool:
    """Return whether a system can be solved by elimination: it is small, or has a narrow band."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    n = W.shape[0]
    if n <= ELIMINATED_STATES:
        return True
    if W.nnz > SHORT_ROWS * n:
        return False
    place = np.empty(n, np.int64)
    place[reverse_cuthill_mckee(W)] = np.arange(n)
    entries = W.tocoo()
    width = int(np.abs(place[entries.row] - place[entries.col]).max(initial=0))
    return n * width <= MOST_BAND
