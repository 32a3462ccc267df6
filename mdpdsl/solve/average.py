"""The largest (or least) long-run average of the rewards, with certified bounds.

Whatever a policy does, it stays in some end component at last, or arrives in an end, where nothing
is earned (de Alfaro 1997). So the best average of each maximal end component is bounded first
(`gains`). Then each component becomes one state, in which staying for ever is one more choice and
worth that average; the best expected average follows from where to go and where to stay. In this
quotient every policy leaves, and `transient` bounds its values: the lower ones with the lower
averages of the components, the upper ones with the upper.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import Rows
from mdpdsl.solve.arrivals import arrivals_of
from mdpdsl.solve.discounted import check_options, checked_reward
from mdpdsl.solve.gains import GainBounds, GainProblem, solve_gains
from mdpdsl.solve.partial import partial_rows
from mdpdsl.solve.qualitative import first_pairs
from mdpdsl.solve.quotient import Components, Quotient, components_among, lift_rows, quotient_of
from mdpdsl.solve.reachability import residual
from mdpdsl.solve.solution import (
    SolveOutcome,
    SolveStatus,
    Watch,
    keep_going,
    largest_error,
    value_at_start,
)
from mdpdsl.solve.transient import TOLERANCE, Found, Precision, Problem, Task, solve_rows

#: The share of the tolerance that the averages of components may use.
GAIN_SHARE = 0.25
#: How the averages were found, in words.
COMPONENTS = "averages of end components"


def solve_average(
    graph: TransitionGraph,
    reward: FloatArray | None = None,
    *,
    is_minimised: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    backend: str = "highs",
    time_limit: float | None = None,
    watch: Watch = keep_going,
) -> SolveOutcome:
    """Find the largest (or least) long-run average of rewards [n_pairs], and a policy for it.

    The tolerance is in units of each value, but at least 1; it is 1e-6 if none is given, and the
    value at the start is then also precise to six digits.
    """
    began = time.perf_counter()
    earned = checked_reward(graph, reward)
    check_options(method, tolerance)
    sign = -1.0 if is_minimised else 1.0
    search = _Search(graph, sign * earned, method, backend, time_limit, watch)
    limit = TOLERANCE if tolerance is None else tolerance
    found = search.within(limit)
    if tolerance is None and found.status is SolveStatus.OPTIMAL:
        smaller = search.floor_at_start(limit, found)
        if smaller is not None:
            again = search.within(limit, smaller)
            is_limited = again.status is SolveStatus.PRECISION
            found = replace(again, status=SolveStatus.OPTIMAL) if is_limited else again
    lower, upper = (found.upper, found.lower) if is_minimised else (found.lower, found.upper)
    quotient, nothing = search.quotient, np.zeros(graph.n_states)
    values, lower, upper = (
        quotient.expanded(sign * side, nothing) for side in (found.values, lower, upper)
    )
    return SolveOutcome(
        status=found.status,
        method=search.method,
        variant=found.variant,
        values=values,
        lower=lower,
        upper=upper,
        choice=search.choice(found.choice),
        value=value_at_start(graph, values),
        bound=largest_error(values, lower, upper),
        residual=residual(quotient.rows, found.values),
        iterations=search.bounds.iterations + found.iterations,
        seconds=time.perf_counter() - began,
        message=found.message,
    )


@dataclass(frozen=True, eq=False)
class ComponentRows:
    """The rows of end components, for `gains`, and where they come from."""

    problem: GainProblem
    states: IntArray  # [n]  by component
    pairs: IntArray  # [n_rows]

    def choose(self, choice: IntArray, chosen: IntArray) -> None:
        """Write to `choice` [n_states] the pairs behind one row of each state, [n]."""
        choice[self.states] = self.pairs[chosen]


def component_rows(
    graph: TransitionGraph, components: Components, reward: FloatArray
) -> ComponentRows:
    """Return the pairs inside end components as rows, sorted by component."""
    of = components.component_of
    states = np.flatnonzero(of >= 0)
    states = states[np.argsort(of[states], kind="stable")]
    group_of = np.full(graph.n_states, -1)
    group_of[states] = np.arange(len(states))
    pairs = np.flatnonzero(components.is_inside)
    pairs = pairs[np.argsort(group_of[graph.pair_state[pairs]], kind="stable")]
    nothing = np.zeros(graph.n_states)
    rows = partial_rows(graph, group_of, pairs, nothing, reward, is_conditional=False).rows
    sizes = np.unique(of[states], return_counts=True)[1]
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return ComponentRows(GainProblem(rows, start), states, pairs)


class _Search:
    """The components of a graph, what is known about their averages, and the quotient."""

    def __init__(
        self,
        graph: TransitionGraph,
        reward: FloatArray,
        method: str,
        backend: str,
        time_limit: float | None,
        watch: Watch,
    ) -> None:
        self.method, self._asked = method, method
        self._graph, self._watch = graph, watch
        self._backend, self._time_limit = backend, time_limit
        acts = np.diff(graph.pair_start) > 0
        everything = np.ones(graph.n_pairs, np.bool_)
        components = components_among(graph, everything, acts)
        self._inside = component_rows(graph, components, reward)
        self.bounds = GainBounds(self._inside.problem)
        nothing = np.zeros(graph.n_states)
        plain = quotient_of(graph, acts, terminal=nothing, components=components)
        first = self._inside.states[self._inside.problem.start[:-1]]
        self._group = plain.group_of[first]  # of each component
        self.quotient, self._staying = _with_staying(plain, self._group)

    def within(self, tolerance: float, floor: float = 1.0) -> Found:
        """Bound the values within a tolerance, in units of their size, but at least of `floor`."""
        self.bounds.unit = floor
        found = self._bound(tolerance, floor)
        if found.status is SolveStatus.PRECISION:  # large averages may cancel out
            self.bounds.unit = math.inf
            found = self._bound(tolerance, floor)
        return found

    def _bound(self, tolerance: float, floor: float) -> Found:
        self.method, goes_on, failed = solve_gains(
            self.bounds,
            GAIN_SHARE * tolerance * floor,
            self._asked,
            watch=self._watch,
            backend=self._backend,
            time_limit=self._time_limit,
        )
        found = self._where_to_stay(Precision(tolerance, floor))
        if failed:
            return replace(found, status=SolveStatus.FAILED, message=failed)
        return found if goes_on else replace(found, status=SolveStatus.STOPPED)

    def floor_at_start(self, tolerance: float, found: Found) -> float | None:
        """Return a unit in which the value at the start is not precise yet; None if it is."""
        start = self.quotient.gathered(self._graph.initial)
        precision = Precision(tolerance, start=start)
        return precision.floor_at_start(found.lower, found.upper)

    def choice(self, rows: IntArray) -> IntArray:
        """Return the pairs of a policy: where to go, and what to do in components to stay in."""
        graph, quotient = self._graph, self.quotient
        choice = first_pairs(graph)
        self._inside.choose(choice, self.bounds.choice)
        moving = rows[quotient.pair_of[rows] >= 0]
        if len(moving):
            lift_rows(graph, quotient, arrivals_of(graph), moving, choice)
        return choice

    def _where_to_stay(self, precision: Precision) -> Found:
        """Bound the values of the quotient with the averages as they are known."""
        low, high, staying = self.bounds.low, self.bounds.high, self._staying
        rows = self.quotient.rows
        constant, spread = rows.constant.copy(), np.zeros(len(rows.constant))
        constant[staying] = low / 2 + high / 2
        spread[staying] = (high - low) / 2 + np.spacing(np.maximum(np.abs(low), np.abs(high)))
        if len(staying) == len(constant):  # there is nowhere to go
            lower, upper = (np.empty(self.quotient.n_groups) for _ in range(2))
            lower[self._group], upper[self._group] = low, high
            is_met = precision.is_met(lower, upper, precision.floor)
            status = SolveStatus.OPTIMAL if is_met else SolveStatus.PRECISION
            choice = rows.pair_start[:-1].astype(np.int64)
            values = lower / 2 + upper / 2
            return Found(status, values, lower, upper, choice, variant=COMPONENTS)
        ends = [] if self._graph.ends is None else [0.0]
        problem = Problem(
            rows._replace(constant=constant),
            self.quotient.unit,
            least=min([*low.tolist(), *ends]),
            most=max([*high.tolist(), *ends]),
            spread=spread,
        )
        task = Task(problem, precision, self._watch, self._time_limit, self._backend)
        chosen, found = solve_rows(task, self._asked)
        self.method = chosen if self.method == "auto" else self.method
        return replace(found, variant=f"{COMPONENTS}; {found.variant}")


def _with_staying(quotient: Quotient, groups: IntArray) -> tuple[Quotient, IntArray]:
    """Return the quotient with a row without weights for some groups, and these rows."""
    rows = quotient.rows
    at = rows.pair_start[groups].astype(np.int64)
    order = np.argsort(groups)
    counts = np.diff(rows.pair_start).astype(np.int64)
    counts[groups] += 1
    lengths = np.insert(np.diff(rows.row_start).astype(np.int64), at, 0)
    staying = np.empty(len(groups), np.int64)
    staying[order] = at[order] + np.arange(len(groups))
    extended = Rows(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
        rows.target,
        rows.weight,
        np.insert(rows.constant, at, 0.0),
    )
    return (
        replace(
            quotient,
            rows=extended,
            pair_of=np.insert(quotient.pair_of, at, -1),
            leaving=np.insert(quotient.leaving, at, 1.0),
            outside=np.insert(quotient.outside, at, 1.0),
        ),
        staying,
    )
