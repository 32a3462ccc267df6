"""The kernels do what the explorers' files say: rewards, values and choices, on random counts."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.explore.algorithms import ALGORITHMS, random
from mdpdsl.explore.algorithms.lookahead import action_values, upper_bounds
from mdpdsl.explore.algorithms.tracking import rule
from mdpdsl.explore.algorithms.tracking.targets import TargetProgram
from mdpdsl.explore.algorithms.tracking.tracked_model import TrackedModel
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.counts import Counts, counts_from
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.following import complexity_bounds
from mdpdsl.kernels.loop import choose_pair
from mdpdsl.kernels.memory import TIME
from mdpdsl.kernels.merging import plan_afresh

GRAPH = mdpdsl.load("riverswim", n=5).graph
S, N_PAIRS = GRAPH.n_states, GRAPH.n_pairs

#: Values are solved to this, relative to their span, and choices compared to a hundred times that.
SOLVED = 1e-9

LOOKING_AHEAD = ("kappa-dp", "maxent", "weighted-maxent", "smm")

quick = settings(max_examples=60, deadline=None)


@st.composite
def many_settings(draw: st.DrawFn) -> ExploreSettings:
    return ExploreSettings(
        algorithm=draw(st.sampled_from(LOOKING_AHEAD)),
        kappa=draw(st.sampled_from([1.0, 1.5, 2.0, 10.0, 40.0])),
        horizon=draw(st.sampled_from([None, 1, 2, 3, 5])),
        gamma=draw(st.sampled_from([0.5, 0.9, 0.95])),
        bonus=draw(st.sampled_from(["paper", "bernstein", "none"])),
        epsilon=draw(st.sampled_from([0.1, 0.5, 1.0])),
        target=draw(st.sampled_from(["complexity", "uniform"])),
        beta=draw(st.sampled_from([None, 0.5, 3.0])),
        xi=0.0,
        steps=5_000,
        planner=draw(st.sampled_from(["full", "prioritized"])),
        tolerance=SOLVED,
    )


@st.composite
def some_counts(draw: st.DrawFn, most: int = 100_000) -> Counts:
    """Draw counts with pairs of no visit, few visits, many visits, and certain outcomes."""
    entries = draw(
        st.dictionaries(
            st.tuples(st.integers(0, N_PAIRS - 1), st.integers(0, S - 1)),
            st.one_of(st.integers(1, 5), st.integers(1, most)),
            min_size=1,
            max_size=3 * N_PAIRS,
        )
    )
    keys = np.array(list(entries))
    return counts_from(keys[:, 0], keys[:, 1], np.array(list(entries.values())), N_PAIRS)


def explorer_with(chosen: ExploreSettings, counts: Counts) -> Explorer:
    explorer = Explorer(GRAPH, chosen, seed=0)
    explorer.learn_counts(counts)
    return explorer


def rule_rewards(explorer: Explorer, chosen: ExploreSettings) -> FloatArray:
    """Return the rewards by the algorithm's file, with the bounds that the kernel has."""
    module = import_module(f"mdpdsl.explore.algorithms.{ALGORITHMS[chosen.algorithm]}")
    # A run that begins with counts has these steps besides its own.
    n_steps = round(math.exp(explorer.strategy.log_steps))
    rewards: FloatArray = module.rewards(
        explorer.memory.upper, explorer.visits, GRAPH.pair_state, replace(chosen, steps=n_steps)
    )
    return rewards


def kernel_rewards(explorer: Explorer, chosen: ExploreSettings) -> FloatArray:
    found = explorer.memory.reward
    is_scaled = chosen.algorithm == "kappa-dp" and found.max() > 0
    return found / found.max() if is_scaled else found


@quick
@given(many_settings(), some_counts())
def test_rewards_are_those_of_the_rule(chosen: ExploreSettings, counts: Counts) -> None:
    explorer = explorer_with(chosen, counts)
    found, expected = kernel_rewards(explorer, chosen), rule_rewards(explorer, chosen)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-280)


@quick
@given(many_settings(), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=150))
def test_rewards_kept_up_to_date_step_by_step_are_those_of_the_rule(
    chosen: ExploreSettings, steps: list[tuple[int, int]]
) -> None:
    explorer = Explorer(GRAPH, chosen, seed=0)
    for pair, following in steps:
        explorer.observe(int(GRAPH.pair_state[pair]), int(GRAPH.pair_action[pair]), following)
    found, expected = kernel_rewards(explorer, chosen), rule_rewards(explorer, chosen)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-280)


@quick
@given(many_settings(), some_counts())
def test_bounds_of_c_are_those_of_the_bonus(chosen: ExploreSettings, counts: Counts) -> None:
    explorer = explorer_with(chosen, counts)
    t = int(explorer.memory.integers[TIME])
    expected = upper_bounds(estimated_complexity(counts), counts.visits, S, t, chosen)
    found = complexity_bounds(explorer.memory, explorer.strategy)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@quick
@given(many_settings(), some_counts(most=200))
def test_choices_are_the_best_by_the_rule(chosen: ExploreSettings, counts: Counts) -> None:
    explorer = explorer_with(chosen, counts)
    estimate, memory = explorer.estimate(), explorer.memory
    q = action_values(memory.reward, estimate, chosen)
    V = np.maximum.reduceat(q, GRAPH.pair_start[:-1])
    for state in range(S):
        pair = choose_pair(memory, explorer.strategy, state, explorer.generator)
        first, end = GRAPH.pair_start[state : state + 2]
        assert first <= pair < end
        assert q[pair] >= V[state] - 100 * SOLVED * max(np.ptp(q), np.abs(q).max())
        # Values that tie here may differ by rounding in the kernel, unless their rewards tie, too.
        if np.ptp(q[first:end]) == 0 and np.ptp(memory.reward[first:end]) == 0:
            assert memory.weight[pair] == memory.weight[first:end].max()


@given(st.integers(0, 2**32), st.integers(0, S - 1))
def test_random_choices_are_those_of_the_rule(seed: int, state: int) -> None:
    explorer = Explorer(GRAPH, algorithm="random", seed=seed)
    generator = np.random.default_rng(seed)
    pairs = np.arange(GRAPH.pair_start[state], GRAPH.pair_start[state + 1])
    for _ in range(20):
        found = choose_pair(explorer.memory, explorer.strategy, state, explorer.generator)
        assert found == random.choice(pairs, generator)


def test_random_choices_are_even() -> None:
    generator, pairs = np.random.default_rng(0), np.array([4, 5, 6])
    drawn = np.bincount([random.choice(pairs, generator) for _ in range(30_000)])[4:]
    assert drawn == pytest.approx([10_000] * 3, abs=500)  # six standard deviations


def tracking(**changes: Any) -> ExploreSettings:
    return ExploreSettings(algorithm="tracking", kappa=10, steps=5_000, **changes)


targets = st.lists(st.floats(0, 1e6), min_size=N_PAIRS, max_size=N_PAIRS).map(np.array)


@quick
@given(some_counts(), targets, st.booleans())
def test_targets_are_followed_by_the_rule(
    counts: Counts, target: FloatArray, is_near: bool
) -> None:
    explorer = explorer_with(tracking(), counts)
    memory = explorer.memory
    # Also targets near the visits, where one visit more or less matters.
    memory.target[:] = counts.visits + target / 1e6 - 0.2 if is_near else target
    strategy = rule.following(tracking(), S)
    plan_afresh(memory, strategy)
    for state in range(S):
        pairs = np.arange(GRAPH.pair_start[state], GRAPH.pair_start[state + 1])
        expected = rule.followed_pair(pairs, memory.weight, memory.target, memory.visits)
        assert choose_pair(memory, strategy, state, explorer.generator) == expected
    is_uncertain = memory.upper > 0
    T_plus = np.maximum(memory.visits, tracking().epsilon)
    expected_weight = np.log(memory.upper[is_uncertain] / T_plus[is_uncertain])
    assert memory.weight[is_uncertain] == pytest.approx(expected_weight)


@quick
@given(some_counts(), targets)
def test_steering_rewards_are_those_of_the_rule(counts: Counts, target: FloatArray) -> None:
    explorer = explorer_with(tracking(), counts)
    memory, strategy = explorer.memory, rule.steering(tracking(), S)
    memory.target[:] = target
    plan_afresh(memory, strategy)
    expected = rule.steering_rewards(memory.upper, memory.visits, target, tracking())
    assert memory.reward / memory.reward.max() == pytest.approx(expected, rel=1e-9, abs=1e-280)
    for state in range(S):
        q = action_values(
            memory.reward, explorer.estimate(), ExploreSettings(gamma=rule.STEERING_GAMMA)
        )
        pair = choose_pair(memory, strategy, state, explorer.generator)
        first, end = GRAPH.pair_start[state : state + 2]
        assert q[pair] >= q[first:end].max() - 0.01 * np.ptp(q)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1.0, 2.0, 6.0]),
    st.sampled_from([100, 10_000]),
)
def test_no_policy_has_a_smaller_planned_loss_than_the_targets(
    seed: int, p: float, left: int
) -> None:
    draw = np.random.default_rng(seed)
    c, visits = draw.random(N_PAIRS), draw.integers(1, 200, N_PAIRS).astype(np.float64)
    model = TrackedModel(GRAPH, np.ones(N_PAIRS, np.bool_), 1.0, np.ones(S, np.bool_))
    found = TargetProgram(model, c, visits, left, np.zeros(S)).solve(p)
    d = (found.target - visits) / left
    assert d.sum() == pytest.approx(1.0)
    least = rule.planned_loss(d, c, visits, left, p)
    for _ in range(20):
        other = occupancy(GRAPH, draw.dirichlet(np.ones(2), S).ravel())
        assert least <= 1.02 * rule.planned_loss(other, c, visits, left, p)


def occupancy(graph: TransitionGraph, policy: FloatArray) -> FloatArray:
    """Return the shares of visits in the long run under a policy pi(a|s) [n_pairs]."""
    P = graph.transition_matrix().toarray()
    chain = np.zeros((S, S))
    np.add.at(chain, graph.pair_state, policy[:, None] * P)
    rows = np.vstack([chain.T - np.eye(S), np.ones(S)])
    state: FloatArray = np.linalg.lstsq(rows, np.append(np.zeros(S), 1.0), rcond=None)[0]
    return np.asarray(state[graph.pair_state] * policy)
