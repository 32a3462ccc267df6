"""Values of models whose episodes end: nothing is earned after an end, and arriving counts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.test_ends import CORRIDOR

METHODS = ("vi", "mpi", "pi", "lp")


def brute_force(graph: TransitionGraph, discount: float) -> np.ndarray:
    """Return the best discounted values over all deterministic policies; 0 in ends."""
    assert graph.ends is not None
    assert graph.reward is not None
    P, S = graph.transition_matrix().toarray(), graph.n_states
    acting = np.flatnonzero(~graph.ends)
    best = np.full(S, -np.inf)
    ranges = [range(graph.pair_start[s], graph.pair_start[s + 1]) for s in acting]
    for chosen in product(*ranges):
        rows, earned = np.zeros((S, S)), np.zeros(S)
        rows[acting], earned[acting] = P[list(chosen)], graph.reward[list(chosen)]
        best = np.maximum(best, np.linalg.solve(np.eye(S) - discount * rows, earned))
    return best


@st.composite
def small_models(draw: st.DrawFn) -> mdpdsl.Model:
    """Draw a walk of up to five states with ends, random rewards and slips."""
    n = draw(st.integers(2, 5))
    ends = draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=n - 1))
    start = draw(st.sampled_from(sorted(set(range(n)) - ends)))
    slip = draw(st.sampled_from([0.1, 0.25, 0.5]))
    reward, arrival = draw(st.integers(-3, 3)), draw(st.integers(-3, 3))
    guard = " or ".join(f"x == {end}" for end in sorted(ends))
    return mdpdsl.loads(
        f"mdp walk state x in 0..{n - 1} action a, b init x = {start} end when {guard}"
        f" on a -> {1 - slip}: x' = min(x + 1, {n - 1}) | {slip}: stay"
        f" on b -> {1 - slip}: x' = max(x - 1, 0) | {slip}: x' = mod(x + 2, {n})"
        f" reward on a : {reward} reward when x' == {n - 1} : {arrival}"
        f" label last when x == {n - 1}",
        all_states=True,
    )


@settings(max_examples=60, deadline=None)
@given(small_models(), st.sampled_from([0.5, 0.9, 0.99]), st.sampled_from(METHODS))
def test_discounted_values_are_those_of_the_best_policy(
    model: mdpdsl.Model, discount: float, method: str
) -> None:
    found = mdpdsl.solve(model, discount=discount, method=method)
    assert found.values == pytest.approx(brute_force(model.graph, discount), abs=1e-5)
    assert model.graph.ends is not None
    assert found.values[model.graph.ends] == pytest.approx(0, abs=0)
    for state, action in enumerate(found.actions):
        assert (action == "") == model.graph.ends[state]
    assert found.policy.choice(model.graph).tolist() == found.outcome.choice.tolist()


@settings(max_examples=60, deadline=None)
@given(small_models(), st.booleans(), st.sampled_from(METHODS))
def test_reaching_a_label_counts_arriving_in_an_end(
    model: mdpdsl.Model, minimise: bool, method: str
) -> None:
    found = mdpdsl.solve(model, reach="last", minimise=minimise, method=method)
    absorbing, _ = absorb(model.graph)
    goal = model.graph.labels["last"]
    # Iterate the definition itself from below.
    P, V = absorbing.transition_matrix().toarray(), goal.astype(float)
    combine = np.minimum if minimise else np.maximum
    for _ in range(3_000):
        V = np.where(goal, 1.0, combine.reduceat(P @ V, absorbing.pair_start[:-1]))
    assert found.values == pytest.approx(V, abs=1e-5)


def test_the_corridor_by_hand() -> None:
    model = mdpdsl.loads(CORRIDOR)
    # Going right never fails to arrive in the end.
    assert mdpdsl.solve(model, reach="goal").value == pytest.approx(1)
    # From x = 3, 2, 1: one, two, three geometric waits with chance 1/2.
    ratio = 0.5 * 0.9 / (1 - 0.5 * 0.9)
    expected = 0.25 * ratio**3 / 0.9 + 0.75 * ratio**2 / 0.9
    assert mdpdsl.solve(model, discount=0.9).value == pytest.approx(expected)
