"""What a policy is guaranteed, and what is possible, if one theta rules all rows of a law.

With unknown numbers theta in a set B that boxes cover, rows p_theta of the law, and rows q of the
other pairs in sets of their own,

    guaranteed = max_pi  min_{theta in B}  min_q  V_pi(p_theta, q),
    possible   = max_{theta in B}  max_q  max_pi  V_pi(p_theta, q).

If every row had a theta of its own, both would be robust values (see `robust_objective`). On a
small cell that hardly matters: there the rows of a law are in narrow intervals. So a policy is
evaluated on cells, each time against the worst rows of that cell, and the worst cell counts. That
is a lower bound of what it is guaranteed, and cells are split until it is close (`family_cells`).
Likewise the best cell bounds what is possible from above.

No policy is guaranteed more than the optimum at any theta. So the policy for the estimate is
evaluated first. If the optimum at its worst theta is larger, others are tried: those that are best
at the worst theta, on the worst cell, and on all of B, if every row has a theta of its own there.
The guarantee of the policy returned always holds. Another policy may have a larger one, of which
`upper` is a bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdpdsl.compile.set_model import FamilySets, listing_all
from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.objectives import Average, Discounted, Objective, Total, Until
from mdpdsl.graph.row_sets import RowSets, entry_pairs, places
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.set_rows import SetRows
from mdpdsl.solve.discounted import check_options
from mdpdsl.solve.family_cells import Cell, CellSearch, Sought
from mdpdsl.solve.policy_value import guaranteed_values
from mdpdsl.solve.robust_ending import player_of, require_losses
from mdpdsl.solve.robust_objective import (
    SMALLEST,
    ending_of,
    outcome_of,
    set_rows,
    solve_robust_objective,
)
from mdpdsl.solve.robust_player import solve_player
from mdpdsl.solve.solution import (
    SolveOutcome,
    SolveStatus,
    Watch,
    keep_going,
    until_late,
    value_at_start,
)

#: How far a bound may be from an attained value if no tolerance is given: relative to the value, or
#: to what is lost if every row has a theta of its own.
TOLERANCE, SHARE = 1e-4, 2e-3
#: Robust values of single cells are more precise by this factor than their least one has to be.
PRECISE = 0.02
#: The most cells of one search, fewer if they have more entries than this in all, and the fewest.
MOST_CELLS, MOST_ENTRIES, FEWEST_CELLS = 256, 20_000_000, 16
#: Averages and discounted values smaller than this are not sought with a relative precision.
LEAST_FLOOR = 0.05
#: Rounds in which better policies are sought.
MOST_ROUNDS = 4
#: The share of a time limit that guarantees may take.
FIRST_SHARE = 0.6
#: Rows of cells that are kept, in entries.
KEPT_ENTRIES = 4_000_000

#: Returns sets in which every transition with a reward is listed, and its rewards, if it has any.
Listed = Callable[[RowSets], tuple[RowSets, FloatArray | None]]


@dataclass(frozen=True, eq=False)
class FamilyFound:
    """What a policy is guaranteed and what is possible, and for which numbers."""

    guaranteed: SolveOutcome
    possible: SolveOutcome
    worst: FloatArray  # [n_numbers]  the theta that is worst for the policy, of those tried
    best: FloatArray  # [n_numbers]  the theta with which most is possible
    n_cells: int


def solve_family(
    graph: TransitionGraph,
    numbers: FamilySets,
    objective: Objective,
    *,
    is_minimised: bool = False,
    listed: Listed | None = None,
    tolerance: float | None = None,
    time_limit: float | None = None,
    watch: Watch = keep_going,
) -> FamilyFound:
    """Find the guaranteed and the possible outcome, with a policy each.

    The rows of the graph are not used. `listed` gives rewards of transitions; without it, rewards
    are those of pairs. The `value` of an outcome is the certified one at the start: below what the
    policy is guaranteed, and above what is possible, or the other way round for a minimum.
    """
    check_options("auto", tolerance)
    late = None if time_limit is None else FIRST_SHARE * time_limit
    run = _Run(graph, numbers, objective, is_minimised, listed, tolerance)
    whole = until_late(watch, time_limit)
    guaranteed, worst = run.guaranteed(until_late(whole, late))
    possible, best = run.possible(whole)
    return FamilyFound(guaranteed, possible, worst, best, run.n_cells)


class _Run:
    """The question, signed as a maximum, and the rows of its cells."""

    def __init__(
        self,
        graph: TransitionGraph,
        numbers: FamilySets,
        objective: Objective,
        is_minimised: bool,
        listed: Listed | None,
        tolerance: float | None,
    ) -> None:
        self._graph, self._numbers, self._objective = graph, numbers, objective
        self._is_minimised, self._sign = is_minimised, -1.0 if is_minimised else 1.0
        self._listed: Listed = listed or (lambda sets: (sets, None))
        self._tolerance = tolerance
        self._precision = PRECISE * (TOLERANCE if tolerance is None else tolerance)
        self._root = Cell.hull(
            np.asarray(numbers.boxes.low, np.float64), np.asarray(numbers.boxes.high, np.float64)
        )
        self._hull, self._entry_reward = self._listed(numbers.hull_rows)
        n_entries = max(1, len(self._hull.successor))
        self._most_cells = int(np.clip(MOST_ENTRIES // n_entries, FEWEST_CELLS, MOST_CELLS))
        self._most_kept = max(1, KEPT_ENTRIES // n_entries)
        self._kept: dict[bytes, RowSets] = {}
        self._floor, self._lost = 1.0, 0.0
        self.n_cells = 0  # of all searches
        self._is_rough = False  # whether rounding prevents precise values even at a single theta
        self._iterations, self._began = 0, time.perf_counter()

    def guaranteed(self, watch: Watch) -> tuple[SolveOutcome, FloatArray]:
        """Find a policy with a large guarantee, and certify that."""
        root, theta = self._root, np.asarray(self._numbers.theta_hat, np.float64)
        policy = self._solved(theta, theta, watch)
        lower, upper = self._signed(policy)
        if self._tolerance is None:
            is_exact = not isinstance(self._objective, Discounted | Average)
            least = SMALLEST if is_exact else LEAST_FLOOR
            self._floor = min(1.0, max(abs(self._at_start(lower)), least))
        if not root.contains(theta):
            upper = np.full(len(lower), math.inf)
        whole = self._evaluated(policy, root.low, root.high, watch)
        lost = self._at_start(lower) - self._at_start(whole)
        self._lost = lost if math.isfinite(lost) else 0.0
        found, seen = self._search(policy, watch), [policy]
        found.run()
        worst = [found.theta]
        self.n_cells += found.n_cells
        for turn in range(MOST_ROUNDS):
            if not _goes_on(watch):
                break
            at_worst = self._solved(found.theta, found.theta, watch)
            upper = np.minimum(upper, self._signed(at_worst)[1])
            if self._at_start(upper) <= found.bound + self._slack(found.bound):
                break
            is_better = False
            for one in [at_worst, *self._hedging(found.worst, turn == 0, watch)]:
                if any(_is_same(one, other) for other in seen):
                    continue
                seen.append(one)
                search = self._search(one, watch)
                least_gain = self._slack(found.bound)
                is_done = search.run(worst, cutoff=found.bound + least_gain)
                self.n_cells += search.n_cells
                worst.append(search.theta)
                if is_done and search.bound > found.bound:
                    found, policy, is_better = search, one, True
            if not is_better:
                break
        lower = found.lower
        variant = f"one policy, cells of {', '.join(self._numbers.names)}: {self.n_cells:,}"
        outcome = self._outcome(lower, np.maximum(lower, upper), policy, found, variant, watch)
        value = self._sign * found.bound + 0.0
        return replace(outcome, values=self._sign * lower + 0.0, value=value), found.theta

    def possible(self, watch: Watch) -> tuple[SolveOutcome, FloatArray]:
        """Bound what any policy can get with any theta and the best rows."""

        def bound(cell: Cell) -> FloatArray:
            try:
                return 0.0 - self._most(cell.low, cell.high, watch)
            except SolveError:  # the cell is too large for any answer
                return np.full(self._graph.n_states, -math.inf)

        search = self._searching(bound, lambda x: 0.0 - self._most(x, x, watch), watch)
        search.run()
        self.n_cells += search.n_cells
        upper = 0.0 - search.lower
        policy = self._solved(search.theta, search.theta, watch, is_optimistic=True)
        lower = np.minimum(upper, self._signed(policy)[0])
        variant = f"best rows, cells of {', '.join(self._numbers.names)}: {search.n_cells:,}"
        outcome = self._outcome(lower, upper, policy, search, variant, watch)
        value = 0.0 - self._sign * search.bound
        return replace(outcome, values=self._sign * upper + 0.0, value=value), search.theta

    def _search(self, policy: SolveOutcome, watch: Watch) -> CellSearch:
        """Return the search for the worst theta of a policy."""
        return self._searching(
            lambda cell: self._evaluated(policy, cell.low, cell.high, watch),
            lambda theta: self._evaluated(policy, theta, theta, watch),
            watch,
        )

    def _searching(
        self,
        bound: Callable[[Cell], FloatArray],
        attained: Callable[[FloatArray], FloatArray],
        watch: Watch,
    ) -> CellSearch:
        sought = Sought(bound, attained, self._at_start, self._slack, self._most_cells, watch)
        return CellSearch(self._root, sought)

    def _hedging(self, worst: Cell, with_hull: bool, watch: Watch) -> list[SolveOutcome]:
        """Return policies that are best if every row has a theta of its own, in some cells."""
        cells, found = [self._root, worst] if with_hull else [worst], []
        for cell in cells:
            try:
                found.append(self._solved(cell.low, cell.high, watch))
            except SolveError:  # the cell is too large for any answer
                continue
        return found

    def _outcome(
        self,
        lower: FloatArray,
        upper: FloatArray,
        policy: SolveOutcome,
        search: CellSearch,
        variant: str,
        watch: Watch,
    ) -> SolveOutcome:
        """Return signed bounds and a policy as an outcome."""
        goes_on = _goes_on(watch)
        found = outcome_of(
            self._graph,
            lower,
            upper,
            self._sign,
            self._tolerance or TOLERANCE,
            goes_on,
            choice=policy.choice,
            plan=policy.plan,
            replay=policy.replay,
            variant=variant,
            iterations=self._iterations,
            seconds=time.perf_counter() - self._began,
        )
        status, message = SolveStatus.OPTIMAL, ""
        if not goes_on:
            status = SolveStatus.STOPPED
        elif not search.is_close:
            status, message = SolveStatus.PRECISION, f"after {search.n_cells:,} cells"
        elif self._is_rough:
            status = SolveStatus.PRECISION
        return replace(found, status=status, message=message)

    def _evaluated(
        self, policy: SolveOutcome, low: FloatArray, high: FloatArray, watch: Watch
    ) -> FloatArray:
        """Return what a policy is guaranteed if every row has a theta of its own, from a box."""
        self._iterations += 1
        return guaranteed_values(
            self._graph,
            self._objective,
            self._rows(low, high),
            policy,
            self._sign,
            tolerance=self._precision,
            floor=self._floor,
            watch=_silent(watch),
        )

    def _most(self, low: FloatArray, high: FloatArray, watch: Watch) -> FloatArray:
        """Return an upper bound of what is possible if every row has a theta of its own."""
        objective = self._objective
        is_limited = isinstance(objective, Until) and objective.steps is not None
        if is_limited or not isinstance(objective, Until | Total):
            return self._signed(self._solved(low, high, watch, is_optimistic=True))[1]
        self._iterations += 1
        ending = ending_of(self._graph, objective, self._rows(low, high), self._sign)
        if ending.is_total and ending.limits == (-math.inf, math.inf):
            require_losses(ending, watch)
        player = player_of(ending, ending.rows, ending.acts, is_nature=False)
        return solve_player(player, self._precision, _silent(watch), floor=self._floor).upper

    def _solved(
        self, low: FloatArray, high: FloatArray, watch: Watch, is_optimistic: bool = False
    ) -> SolveOutcome:
        """Solve the question with rows that each have a theta of their own, from a box."""
        found = solve_robust_objective(
            self._graph,
            self._sets(low, high),
            self._objective,
            is_minimised=self._is_minimised,
            is_optimistic=is_optimistic,
            entry_reward=self._entry_reward,
            tolerance=None if self._tolerance is None else PRECISE * self._tolerance,
            watch=_silent(watch),
        )
        self._iterations += found.iterations
        is_point = np.array_equal(low, high)
        self._is_rough |= is_point and found.status is SolveStatus.PRECISION
        return found

    def _rows(self, low: FloatArray, high: FloatArray) -> SetRows:
        """Return the sets of all rows if theta lies in a box, with signed rewards."""
        sets = self._sets(low, high)
        return set_rows(
            self._graph, sets, "intervals", self._objective, self._entry_reward, self._sign
        )

    def _sets(self, low: FloatArray, high: FloatArray) -> RowSets:
        """Return the sets of all rows if theta lies in a box, with the entries of the hull."""
        name = low.tobytes() + high.tobytes()
        if name not in self._kept:
            if len(self._kept) >= self._most_kept:
                self._kept.pop(next(iter(self._kept)))
            sets = self._numbers.rows(low, high)
            if self._entry_reward is not None:
                sets = listing_all(sets, self._graph.n_states)
            self._kept[name] = _with_entries_of(self._hull, sets, self._graph.n_states)
        return self._kept[name]

    def _signed(self, outcome: SolveOutcome) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of an outcome as those of a maximum."""
        if self._sign > 0:
            return outcome.lower, outcome.upper
        return 0.0 - outcome.upper, 0.0 - outcome.lower

    def _at_start(self, values: FloatArray) -> float:
        return value_at_start(self._graph, values)

    def _slack(self, value: float) -> float:
        """Return how far a bound may be from a value that is attained."""
        if not math.isfinite(value):
            return 0.0
        if self._tolerance is not None:
            return self._tolerance * max(1.0, abs(value))
        return max(TOLERANCE * max(self._floor, abs(value)), SHARE * self._lost)


def _with_entries_of(reference: RowSets, sets: RowSets, n_states: int) -> RowSets:
    """Return the same sets with the entries of others, which have at least as many."""
    if np.array_equal(reference.successor_start, sets.successor_start) and np.array_equal(
        reference.successor, sets.successor
    ):
        return sets
    keys, own = (
        entry_pairs(one.successor_start) * n_states + one.successor for one in (reference, sets)
    )
    place = places(keys, own)
    assert np.all(place >= 0), "a part of a box has no other successors than the box"

    def spread(numbers: Any) -> Any:
        found = np.zeros(len(keys), numbers.dtype)
        found[place] = numbers
        return found

    return replace(
        sets,
        successor_start=reference.successor_start,
        successor=reference.successor,
        estimate=spread(sets.estimate),
        lower=spread(sets.lower),
        upper=spread(sets.upper),
        is_other=None if sets.is_other is None else spread(sets.is_other),
    )


def _is_same(policy: SolveOutcome, other: SolveOutcome) -> bool:
    """Return whether two policies do the same."""
    if policy.plan is not None and other.plan is not None:
        return np.array_equal(policy.plan, other.plan)
    is_stationary = policy.replay is None and other.replay is None
    return is_stationary and np.array_equal(policy.choice, other.choice)


def _goes_on(watch: Watch) -> bool:
    return watch(0, math.inf)


def _silent(watch: Watch) -> Watch:
    """Return a watch that stops alike, but shows nothing of the progress in a single cell."""
    return lambda iterations, bound: _goes_on(watch)
