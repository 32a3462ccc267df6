"""The largest (or least) expected sum of rewards until a goal is reached, with certified bounds.

A pair earns its reward when it is taken, before the goal; in the goal nothing is earned. What a
policy earns that may never reach the goal is a convention. For rewards >= 0 it is PRISM's:

* The maximum is infinite if some policy may miss the goal: where the minimal probability of
  reaching it is below 1. From all other states every policy reaches it.
* The minimum is infinite if every policy may miss the goal: where the maximal probability is below
  1. Elsewhere it is the least over the policies that reach the goal with probability 1. If
  pairs without reward suffice for that, it is 0.

Rewards <= 0 mirror this: the maximum of rewards is minus the minimum of costs, and -inf where no
policy reaches the goal with probability 1. With rewards of both signs, the maximum is

* infinite where a policy can reach an end component, outside the goal, whose best long-run average
  is positive: it can gain there without end, whatever else may happen;
* elsewhere -inf, where no policy reaches the goal with probability 1;
* elsewhere the largest over the policies that do. If the best average of an end component is
  negative, staying there only loses. If it is 0 by gains and losses that cancel out, how long to
  stay is no question that these methods can answer, and SolveError is raised.

All minima are computed as the maximum of the negative. Pairs that may lead to where the maximum is
-inf are left out, and end components of pairs without reward are collapsed: staying there changes
nothing, but would let sweeps stop at values that no policy attains. After that, every policy that
stays loses without end, as `transient` requires.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.arrivals import Arrivals, arrivals_of
from mdpdsl.solve.discounted import check_options, checked_reward
from mdpdsl.solve.endless import endless_gains
from mdpdsl.solve.heading import head_for
from mdpdsl.solve.qualitative import decided_for_least, first_pairs, lost_states, surely_reaching
from mdpdsl.solve.quotient import components_among, lift_rows, quotient_of, shortest_ways
from mdpdsl.solve.reachability import residual
from mdpdsl.solve.solution import SolveOutcome, Watch, keep_going, largest_error, value_at_start
from mdpdsl.solve.transient import TOLERANCE, Precision, Problem, Task, solve_rows


def solve_total(
    graph: TransitionGraph,
    reward: FloatArray | None,
    goal: BoolArray,
    *,
    is_minimised: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    backend: str = "highs",
    time_limit: float | None = None,
    watch: Watch = keep_going,
    is_miss_bad: bool | None = None,
) -> SolveOutcome:
    """Find the largest (or least) expected sum of rewards [n_pairs] until a goal [n_states].

    `is_miss_bad` says whether never reaching the goal is the worst that can happen; if it is None,
    the signs of the rewards say so. The tolerance is in units of each value, but at least 1; it is
    1e-6 if none is given, and the value at the start is then also precise to six digits.
    """
    began = time.perf_counter()
    earned = checked_reward(graph, reward)
    check_options(method, tolerance)
    is_goal = np.asarray(goal, dtype=np.bool_)
    sign = -1.0 if is_minimised else 1.0
    arrivals = arrivals_of(graph)
    case = _case(graph, earned, is_goal, sign, arrivals, watch, is_miss_bad)
    task_reward = np.where(is_goal[graph.pair_state], 0.0, sign * earned)
    components = None
    idle = case.is_allowed & (task_reward == 0)
    if case.has_losers and idle.any():
        components = components_among(graph, idle, case.is_open)
    quotient = quotient_of(
        graph,
        case.is_open,
        terminal=np.zeros(graph.n_states),
        reward=task_reward,
        is_allowed=case.is_allowed,
        components=components,
    )
    quotient = quotient.without(quotient.leaving == 0)  # which would lose for ever
    problem = Problem(
        quotient.rows,
        quotient.unit,
        least=case.least,
        most=case.most,
        is_one_signed=math.isfinite(case.least) or math.isfinite(case.most),
        proper=shortest_ways(quotient) if case.has_losers else None,
    )
    is_finite_start = np.isfinite(case.known[graph.initial > 0]).all()
    precision = Precision(
        TOLERANCE if tolerance is None else tolerance,
        start=quotient.gathered(graph.initial) if tolerance is None and is_finite_start else None,
    )
    chosen, found = solve_rows(Task(problem, precision, watch, time_limit, backend), method)
    choice = case.choice
    lift_rows(graph, quotient, arrivals, found.choice, choice)
    lower, upper = (found.upper, found.lower) if is_minimised else (found.lower, found.upper)
    values, lower, upper = (
        quotient.expanded(sign * side, sign * case.known) + 0.0
        for side in (found.values, lower, upper)
    )
    return SolveOutcome(
        status=found.status,
        method=chosen,
        variant=found.variant,
        values=values,
        lower=lower,
        upper=upper,
        choice=choice,
        value=value_at_start(graph, values),
        bound=largest_error(values, lower, upper),
        residual=residual(quotient.rows, found.values),
        iterations=found.iterations,
        seconds=time.perf_counter() - began,
        message=found.message,
    )


@dataclass(frozen=True, eq=False)
class _Case:
    """What the signs of the rewards and the graph decide, as a maximum."""

    known: FloatArray  # [n_states]  0 in the goal, otherwise infinite; it matters unless open
    is_open: BoolArray  # [n_states]  the value is finite and not known
    is_allowed: BoolArray  # [n_pairs]
    choice: IntArray  # [n_states]  a policy for the states that are not open
    has_losers: bool  # whether policies may stay, and lose without end
    least: float = -math.inf
    most: float = math.inf


def _case(
    graph: TransitionGraph,
    earned: FloatArray,
    is_goal: BoolArray,
    sign: float,
    arrivals: Arrivals,
    watch: Watch,
    is_miss_bad: bool | None,
) -> _Case:
    is_lost = lost_states(graph, is_goal)
    before_goal = ~is_goal[graph.pair_state]
    before = earned[before_goal]
    has_gains, has_losses = bool(np.any(sign * before > 0)), bool(np.any(sign * before < 0))
    if is_miss_bad is None:  # without any rewards, these count as >= 0
        is_miss_bad = has_losses or (not has_gains and sign < 0)
    if not is_miss_bad:
        decided = decided_for_least(graph, is_goal, is_lost, arrivals)
        arrivals.attracted(before_goal, decided.is_zero, decided.choice)
        known = np.where(decided.is_one, 0.0, np.inf)
        is_open = decided.is_one & ~is_goal
        return _Case(known, is_open, before_goal, decided.choice, has_losers=False, least=0.0)
    _, is_sure, is_allowed = surely_reaching(graph, is_goal, is_lost, arrivals)
    choice = first_pairs(graph)
    arrivals.attracted(before_goal, is_goal, choice)
    known = np.where(is_sure, 0.0, -np.inf)
    is_open, most = is_sure & ~is_goal, 0.0
    if has_gains:
        most = math.inf
        is_endless = endless_gains(graph, sign * earned, is_goal, is_sure, arrivals, choice, watch)
        known[is_endless] = np.inf
        is_open &= ~is_endless
    else:  # nothing is better than to lose nothing, however long it takes
        costless = surely_reaching(graph, is_goal, is_lost, arrivals, earned == 0)
        head_for(graph, arrivals, costless[2], is_goal, choice)
        is_open &= ~costless[1]
    return _Case(known, is_open, is_allowed & before_goal, choice, has_losers=True, most=most)
