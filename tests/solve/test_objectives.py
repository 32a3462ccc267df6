"""Every objective on tiny models, against the best of all policies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Objective, Total, Until
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.solution import SolveOutcome, SolveStatus
from mdpdsl.solve.solve_objective import solve_objective
from tests.graph.build import ruin
from tests.solve.exhaustive import (
    EXACT,
    chain,
    gain,
    gains_before,
    policies,
    tiny_graph,
    total,
    until,
)

METHODS = ("vi", "mpi", "pi", "lp")
N_MODELS = 300
TOLERANCE = 1e-6
#: Ranges of random rewards: costs, gains, both, and often none.
REWARDS = {"costs": (-3, 0), "gains": (0, 3), "both": (-2, 2)}

Evaluate = Callable[[IntArray], FloatArray]


def cases() -> Iterator[tuple[TransitionGraph, np.random.Generator, str]]:
    """Yield models, each with a generator of its own and one of the methods in turn."""
    for number in range(N_MODELS):
        rng = np.random.default_rng([7, number])
        yield tiny_graph(rng), rng, METHODS[number % len(METHODS)]


def random_reward(graph: TransitionGraph, rng: np.random.Generator, kind: str) -> FloatArray:
    low, high = REWARDS[kind]
    drawn = rng.integers(low, high + 1, graph.n_pairs)
    return np.asarray(drawn * (rng.random(graph.n_pairs) < 0.7), dtype=np.float64)


def check(
    graph: TransitionGraph,
    objective: Objective,
    is_minimised: bool,
    method: str,
    expected: FloatArray,
    evaluate: Evaluate,
) -> None:
    """Compare bounds, values and policy with the best of all policies."""
    tolerance = TOLERANCE if isinstance(objective, Discounted) else None
    found = solve_objective(
        graph, objective, is_minimised=is_minimised, method=method, tolerance=tolerance
    )
    assert found.status is SolveStatus.OPTIMAL
    check_bounds(found, expected)
    attained = evaluate(found.choice)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(attained[~finite], expected[~finite])
    error = np.abs(attained[finite] - expected[finite])
    assert np.all(error <= 2 * found.bound + EXACT)
    starts = graph.initial > 0
    if finite[starts].all():
        assert found.value == pytest.approx(
            float(graph.initial @ np.where(starts, found.values, 0))
        )
    ends = np.zeros(graph.n_states, bool) if graph.ends is None else graph.ends
    np.testing.assert_array_equal(found.choice < 0, ends)


def check_bounds(found: SolveOutcome, expected: FloatArray) -> None:
    """Check that bounds are on their sides of the optimum, and close to it."""
    finite = np.isfinite(expected)
    for side in (found.values, found.lower, found.upper):
        np.testing.assert_array_equal(side[~finite], expected[~finite])
    optimum = expected[finite]
    margin = EXACT * np.maximum(1, np.abs(optimum))
    lower, upper, values = (x[finite] for x in (found.lower, found.upper, found.values))
    assert np.all(lower <= optimum + margin)
    assert np.all(upper >= optimum - margin)
    assert np.all(lower <= values)
    assert np.all(values <= upper)
    assert np.all(upper - lower <= 2.01 * TOLERANCE * np.maximum(1, np.abs(optimum)))
    assert np.all(np.abs(values - optimum) <= found.bound + margin)


def best(every: list[FloatArray], is_minimised: bool) -> FloatArray:
    return np.asarray(np.min(every, axis=0) if is_minimised else np.max(every, axis=0))


@pytest.mark.parametrize("is_minimised", [False, True])
def test_until_is_the_best_of_all_policies(is_minimised: bool) -> None:
    for graph, _, method in cases():
        goal, allowed = graph.labels["goal"], graph.labels["safe"]

        def evaluate(policy: IntArray, graph: TransitionGraph = graph) -> FloatArray:
            return until(chain(graph, policy), graph.labels["goal"], graph.labels["safe"])

        expected = best([evaluate(p) for p in policies(graph)], is_minimised)
        check(graph, Until(goal, allowed), is_minimised, method, expected, evaluate)


@pytest.mark.parametrize("is_minimised", [False, True])
@pytest.mark.parametrize("kind", REWARDS)
def test_averages_are_the_best_of_all_policies(kind: str, is_minimised: bool) -> None:
    for graph, rng, method in cases():
        reward = random_reward(graph, rng, kind)

        def evaluate(
            policy: IntArray, graph: TransitionGraph = graph, reward: FloatArray = reward
        ) -> FloatArray:
            return gain(chain(graph, policy, reward))

        expected = best([evaluate(p) for p in policies(graph)], is_minimised)
        check(graph, Average(reward), is_minimised, method, expected, evaluate)


@pytest.mark.parametrize("is_minimised", [False, True])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99])
def test_discounted_rewards_are_the_best_of_all_policies(
    discount: float, is_minimised: bool
) -> None:
    for graph, rng, method in cases():
        reward = random_reward(graph, rng, "both")

        def evaluate(
            policy: IntArray, graph: TransitionGraph = graph, reward: FloatArray = reward
        ) -> FloatArray:
            found = chain(graph, policy, reward)
            system = np.eye(graph.n_states) - discount * found.P
            return np.asarray(np.linalg.solve(system, found.r))

        expected = best([evaluate(p) for p in policies(graph)], is_minimised)
        objective = Discounted(reward, discount)
        check(graph, objective, is_minimised, method, expected, evaluate)


# Total rewards


def expected_total(
    graph: TransitionGraph, reward: FloatArray, goal: BoolArray
) -> tuple[FloatArray, bool]:
    """Return the largest totals by their definition, and whether gains and losses cancel out."""
    n, before = graph.n_states, ~goal[graph.pair_state]
    has_losses = bool(np.any(reward[before] < 0))
    has_gains = bool(np.any(reward[before] > 0))
    chains = [chain(graph, p, reward) for p in policies(graph)]
    every = np.stack([total(each, goal) for each in chains])
    if not has_losses:  # it is infinite where any policy may miss the goal
        return np.where(
            np.isnan(every).any(axis=0), np.inf, np.nan_to_num(every).max(axis=0)
        ), False
    values = np.where(np.isnan(every), -np.inf, every).max(axis=0)
    cancels = False
    for each in chains if has_gains else []:
        for reached_by, average, has_rewards in gains_before(each, goal):
            values[reached_by & (average > EXACT)] = np.inf
            cancels |= has_rewards and abs(average) <= EXACT
    assert values.shape == (n,)
    return values, cancels


def attained_total(
    graph: TransitionGraph, reward: FloatArray, goal: BoolArray, policy: IntArray
) -> FloatArray:
    """Return what a policy earns by the same definition."""
    found = chain(graph, policy, reward)
    values = total(found, goal)
    before = ~goal[graph.pair_state]
    has_losses = bool(np.any(reward[before] < 0))
    values = np.where(np.isnan(values), -np.inf if has_losses else np.inf, values)
    if has_losses and np.any(reward[before] > 0):
        for reached_by, average, _ in gains_before(found, goal):
            values[reached_by & (average > EXACT)] = np.inf
    return values


@pytest.mark.parametrize("is_minimised", [False, True])
@pytest.mark.parametrize("kind", REWARDS)
def test_totals_are_the_best_of_all_policies(kind: str, is_minimised: bool) -> None:
    sign = -1.0 if is_minimised else 1.0
    n_finite, n_infinite, n_cancelling = 0, 0, 0
    for graph, rng, method in cases():
        reward, goal = random_reward(graph, rng, kind), graph.labels["goal"]
        if not np.any(reward[~goal[graph.pair_state]]):
            continue  # no rewards count as >= 0, whatever the direction; see below
        expected, cancels = expected_total(graph, sign * reward, goal)
        objective = Total(reward, goal)
        if cancels:
            n_cancelling += 1
            with contextlib.suppress(SolveError):  # but not where it does not matter
                found = solve_objective(graph, objective, is_minimised=is_minimised, method=method)
                check_bounds(found, sign * expected)
            continue
        n_finite += int(np.isfinite(expected).sum())
        n_infinite += int(np.isinf(expected).sum())

        def evaluate(
            policy: IntArray,
            graph: TransitionGraph = graph,
            reward: FloatArray = sign * reward,
            goal: BoolArray = goal,
        ) -> FloatArray:
            return sign * attained_total(graph, reward, goal, policy)

        check(graph, objective, is_minimised, method, sign * expected, evaluate)
    assert n_finite > 100
    assert n_infinite > 100
    assert n_cancelling < N_MODELS / 3


@pytest.mark.parametrize("is_minimised", [False, True])
def test_without_rewards_only_the_goal_matters(is_minimised: bool) -> None:
    for graph, _, method in cases():
        goal = graph.labels["goal"]
        everywhere = np.ones(graph.n_states, bool)
        every = [until(chain(graph, p), goal, everywhere) for p in policies(graph)]
        # The maximum is infinite if some policy may miss the goal, the minimum if all do.
        chance = best(every, not is_minimised)
        objective = Total(np.zeros(graph.n_pairs), goal)
        found = solve_objective(graph, objective, is_minimised=is_minimised, method=method)
        np.testing.assert_array_equal(found.values, np.where(chance > 1 - EXACT, 0.0, np.inf))


# A limited number of steps


def backed_up(
    graph: TransitionGraph,
    reward: FloatArray,
    stopped: FloatArray,
    steps: int,
    is_minimised: bool,
) -> FloatArray:
    """Return values by plain backward induction; `stopped` values are kept, nan are not."""
    absorbing, is_own = absorb(graph)
    earned = np.zeros(absorbing.n_pairs)
    earned[is_own] = reward
    P, V = absorbing.transition_matrix().toarray(), np.nan_to_num(stopped)
    combine = np.minimum if is_minimised else np.maximum
    for _ in range(steps):
        V = combine.reduceat(earned + P @ V, absorbing.pair_start[:-1])
        V = np.where(np.isnan(stopped), V, stopped)
    return np.asarray(V)


def planned(
    graph: TransitionGraph, found: SolveOutcome, reward: FloatArray, stopped: FloatArray, steps: int
) -> FloatArray:
    """Return what the plan earns."""
    V = np.nan_to_num(stopped)
    for left in range(1, steps + 1):
        each = chain(graph, found.choice_with(left).astype(np.int64), reward)
        V = np.where(np.isnan(stopped), each.r + each.P @ V, stopped)
    return V


@pytest.mark.parametrize("is_minimised", [False, True])
@pytest.mark.parametrize("keeps_plan", [True, False])
@pytest.mark.parametrize("kind", ["until", *REWARDS])
def test_a_limited_number_of_steps_is_backward_induction(
    kind: str, keeps_plan: bool, is_minimised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    horizon = import_module("mdpdsl.solve.horizon")
    if not keeps_plan:
        monkeypatch.setattr(horizon, "MOST_PLAN_BYTES", -1)
    for graph, rng, method in cases():
        steps = int(rng.integers(0, 12))
        objective: Objective
        if kind == "until":
            goal, allowed = graph.labels["goal"], graph.labels["safe"]
            objective = Until(goal, allowed, steps)
            reward = np.zeros(graph.n_pairs)
            stopped = np.where(goal, 1.0, np.where(allowed, np.nan, 0.0))
        else:
            reward = random_reward(graph, rng, kind)
            objective = Cumulative(reward, steps)
            stopped = np.full(graph.n_states, np.nan)
        expected = backed_up(graph, reward, stopped, steps, is_minimised)
        found = solve_objective(graph, objective, is_minimised=is_minimised, method=method)
        assert found.status is SolveStatus.OPTIMAL
        check_bounds(found, expected)
        assert found.bound < EXACT
        attained = planned(graph, found, reward, stopped, steps)
        np.testing.assert_allclose(attained, expected, rtol=0, atol=EXACT)
        assert (found.plan is None) != keeps_plan
        if steps:
            np.testing.assert_array_equal(found.choice, found.choice_with(steps))
        if found.plan is not None:
            assert found.plan.shape == (steps, graph.n_states)


# Bounds hold wherever a solution is stopped


def questions(graph: TransitionGraph, rng: np.random.Generator) -> list[Objective]:
    goal = graph.labels["goal"]
    return [
        Until(goal, graph.labels["safe"]),
        Until(goal, steps=9),
        Total(random_reward(graph, rng, "gains"), goal),
        Total(random_reward(graph, rng, "costs"), goal),
        Cumulative(random_reward(graph, rng, "both"), 9),
        Average(random_reward(graph, rng, "both")),
        Discounted(random_reward(graph, rng, "both"), 0.9),
    ]


@pytest.mark.parametrize("is_minimised", [False, True])
def test_bounds_hold_wherever_solving_is_stopped(is_minimised: bool) -> None:
    for number, (graph, rng, method) in enumerate(cases()):
        if number % 3:
            continue
        for objective in questions(graph, rng):
            exact = solve_objective(graph, objective, is_minimised=is_minimised)
            looks = iter(range(int(rng.integers(0, 5))))
            options: dict[str, Any] = {"is_minimised": is_minimised, "method": method}
            found = solve_objective(
                graph, objective, watch=lambda *_, n=looks: next(n, None) is not None, **options
            )
            assert np.all(found.lower <= exact.upper + EXACT)
            assert np.all(found.upper >= exact.lower - EXACT)


def test_a_time_limit_stops_any_objective() -> None:
    graph = ruin(4_000)
    goal, reward = graph.labels["rich"], np.ones(graph.n_pairs)
    either = goal | graph.labels["ruined"]
    for objective in (Until(goal), Total(reward, either), Cumulative(reward, 10**9)):
        found = solve_objective(graph, objective, time_limit=0.05)
        assert found.status is SolveStatus.STOPPED
        assert found.seconds < 5
        assert np.all(found.lower <= found.upper)


def test_invalid_numbers_of_steps_are_refused() -> None:
    graph = ruin(5)
    with pytest.raises(SolveError, match="whole number"):
        solve_objective(graph, Until(graph.labels["rich"], steps=-1))
    with pytest.raises(SolveError, match="whole number"):
        solve_objective(graph, Cumulative(np.ones(graph.n_pairs), -3))
