"""Planning on the estimate, against value iteration written down plainly."""

from __future__ import annotations

import numba as nb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.incentives import Strategy
from mdpdsl.kernels.iteration import iterate
from mdpdsl.kernels.memory import NEXT_SURVEY, QUEUE_SIZE, Memory
from mdpdsl.kernels.prioritized import settle, survey

#: Incremental sums against fresh ones.
ROUNDING = 1e-9


@nb.njit()
def sweep_until_settled(memory: Memory, strategy: Strategy) -> None:
    """Plan by whole sweeps."""
    iterate(memory, strategy, 0)


@nb.njit()
def settle_often(memory: Memory, strategy: Strategy, n_times: int, with_surveys: bool) -> None:
    """Plan by prioritized sweeping as often as so many steps would."""
    for _ in range(n_times):
        if with_surveys:
            survey(memory, strategy)
        settle(memory, strategy)


def explored(
    name: str, n_steps: int, seed: int, **changes: object
) -> tuple[Explorer, TransitionGraph]:
    """Return an explorer that has done some steps of its own choice."""
    graph = mdpdsl.load(name).graph
    explorer = Explorer(
        graph,
        ExploreSettings(steps=max(1, n_steps), **changes),  # type: ignore[arg-type]
        np.random.default_rng(seed),
    )
    rng = np.random.default_rng(seed + 1)
    state = int(rng.choice(graph.n_states, p=graph.initial))
    for _ in range(n_steps):
        action = explorer.act(state)
        pair = graph.pair(state, action)
        row = slice(graph.successor_start[pair], graph.successor_start[pair + 1])
        following = int(rng.choice(graph.successor[row], p=graph.probability[row]))
        explorer.observe(state, action, following)
        state = following
    return explorer, graph


def dense_estimate(explorer: Explorer, graph: TransitionGraph) -> FloatArray:
    """Return P_hat with its uniform rows written out."""
    counts = explorer.counts
    P = np.zeros((graph.n_pairs, graph.n_states))
    pairs = np.repeat(np.arange(graph.n_pairs), np.diff(counts.successor_start))
    P[pairs, counts.successor] = counts.count
    T = P.sum(axis=1, keepdims=True)
    return np.where(T > 0, P / np.maximum(T, 1), 1 / graph.n_states)


def plain_values(explorer: Explorer, graph: TransitionGraph) -> FloatArray:
    """Solve the planning problem by value iteration to the last digit."""
    P, gamma = dense_estimate(explorer, graph), explorer.strategy.gamma
    values = np.zeros(graph.n_states)
    for _ in range(5_000):
        q = explorer.memory.reward + gamma * (P @ values)
        values = np.maximum.reduceat(q, graph.pair_start[:-1])
    return values


CASES = st.fixed_dictionaries(
    {
        "kappa": st.sampled_from([1.0, 2.0, 5.0]),
        "algorithm": st.sampled_from(["kappa-dp", "weighted-maxent", "smm", "maxent"]),
        "bonus": st.sampled_from(["paper", "bernstein", "none"]),
        "gamma": st.sampled_from([0.8, 0.95]),
    }
)


@pytest.mark.parametrize("planner", ["full", "prioritized"])
@given(case=CASES, n_steps=st.integers(0, 400), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_both_planners_come_as_close_to_the_solution_as_their_tolerance(
    planner: str, case: dict[str, object], n_steps: int, seed: int
) -> None:
    explorer, graph = explored("riverswim", n_steps, seed, planner=planner, tolerance=1e-6, **case)
    if planner == "full":
        sweep_until_settled(explorer.memory, explorer.strategy)
    else:  # a step renews the mean of V in the unseen rows 20 times at the most
        settle_often(explorer.memory, explorer.strategy, 30, False)
    found, wanted = explorer.memory.value, plain_values(explorer, graph)
    # A residual of 1e-6 spans, of V as it was a few steps ago, is an error of 1e-6 / (1 - gamma).
    error = found - wanted
    span = max(np.ptp(found), ROUNDING)
    assert (
        np.ptp(error)
        <= 1e-5 / (1 - explorer.strategy.gamma) * span + ROUNDING * np.abs(found).max()
    )


@given(case=CASES, n_steps=st.integers(1, 600), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_incremental_q_is_reward_plus_discounted_expectation(
    case: dict[str, object], n_steps: int, seed: int
) -> None:
    explorer, graph = explored("gridworld", n_steps, seed, planner="prioritized", **case)
    memory, gamma = explorer.memory, explorer.strategy.gamma
    fresh = memory.reward + gamma * (dense_estimate(explorer, graph) @ memory.value)
    seen = memory.visits > 0
    assert np.allclose(
        memory.q[seen], fresh[seen], rtol=0, atol=ROUNDING * np.abs(memory.value).max()
    )


@given(n_steps=st.integers(1, 500), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_no_state_outside_the_queue_has_a_residual_beyond_the_threshold(
    n_steps: int, seed: int
) -> None:
    explorer, graph = explored("riverswim", n_steps, seed, planner="prioritized", gamma=0.95)
    memory = explorer.memory
    memory.integers[NEXT_SURVEY] = 0
    settle_often(memory, explorer.strategy, 1, False)
    # The span by which residuals are judged falls as they do.
    settle_often(memory, explorer.strategy, 20, True)
    assert memory.integers[QUEUE_SIZE] == 0
    best = np.maximum.reduceat(memory.q, graph.pair_start[:-1])
    residual = np.abs(best - memory.value)
    span = np.ptp(memory.value) + ROUNDING * np.abs(memory.value).max()
    rounding = 2e-12 * np.abs(memory.value).max()  # below that nothing is settled
    assert residual.max() <= 1.01 * 0.5 * explorer.strategy.tolerance * span + rounding


@pytest.mark.parametrize("kappa", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("planner", ["full", "prioritized"])
def test_steep_rewards_stay_finite_and_do_not_all_vanish(planner: str, kappa: float) -> None:
    explorer, _ = explored("riverswim", 2_000, 3, planner=planner, kappa=kappa)
    memory = explorer.memory
    assert np.isfinite(memory.reward).all()
    assert np.isfinite(memory.value).all()
    assert memory.reward.max() > 1e-14
    assert (memory.visits > 0).all()
