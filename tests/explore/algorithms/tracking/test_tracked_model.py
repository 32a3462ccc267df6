"""The model that plans are made on."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import mdpdsl
from mdpdsl.explore.algorithms.tracking.tracked_model import HOPE, WEIGHTS, frontier, tracked_model
from mdpdsl.explore.executor import run_trials
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.convert import from_scipy
from mdpdsl.graph.counts import counts_from, no_counts


@given(st.data())
@settings(deadline=None)
def test_the_model_to_plan_on_is_between_the_counts_and_the_mean_of_the_state(
    data: st.DataObject,
) -> None:
    graph = mdpdsl.load("riverswim").graph
    n = data.draw(st.integers(1, 60))
    pair = np.array(data.draw(st.lists(st.integers(0, 11), min_size=n, max_size=n)))
    following = np.array(data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)))
    counts = counts_from(pair, following, np.ones(n, np.int64), graph.n_pairs)
    here = data.draw(st.integers(-1, 5))
    model = tracked_model(counts, graph, here, graph.initial)
    assert model.weight in WEIGHTS
    rows = model.graph.transition_matrix().toarray()
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    shape = (graph.n_pairs, graph.n_states)
    T = csr_array((counts.count, counts.successor, counts.successor_start), shape=shape).toarray()
    visits = T.sum(axis=1)
    of_state = np.add.reduceat(T, graph.pair_start[:-1], axis=0)
    for p in range(graph.n_pairs):
        state = of_state[graph.pair_state[p]]
        if state.sum() == 0:
            continue
        mean, w = state / state.sum(), model.weight
        expected = T[p] + w * mean if visits[p] else mean
        for other in (graph.pair_state[p] - 1, graph.pair_state[p] + 1):
            if 0 <= other < graph.n_states and not model.is_seen[other]:
                expected[other] += HOPE
        np.testing.assert_allclose(rows[p], expected / expected.sum(), atol=1e-12)
    # A state that was reached and never left may be planned for, and one next to it.
    seen = {*following.tolist(), *graph.pair_state[pair].tolist(), here} - {-1}
    assert set(np.flatnonzero(model.is_seen).tolist()) == seen
    near = {s + step for s in seen for step in (-1, 0, 1)}
    assert {int(s) for s in graph.pair_state[model.is_planned]} <= near


def test_the_frontier_is_what_was_seen_next_to_what_was_not() -> None:
    states = mdpdsl.load("pendulum").graph.states  # 10 angles that wrap, 10 speeds that do not
    is_seen = np.ones(100, np.bool_)
    is_seen[[0, 55, 56]] = False
    near, unseen = frontier(states, is_seen)
    found = {u: sorted(near[unseen == u].tolist()) for u in (0, 55, 56)}
    assert found == {0: [1, 10, 90], 55: [45, 54, 65], 56: [46, 57, 66]}
    assert len(unseen) == 9
    for nothing in (np.ones(100, np.bool_), np.zeros(100, np.bool_)):
        assert len(frontier(states, nothing)[0]) == 0
    named = mdpdsl.load("weather").graph.states  # members of an enumeration have no order
    assert len(frontier(named, np.array([True, False]))[0]) == 0


def test_actions_that_do_the_same_are_learnt_from_each_other() -> None:
    rng = np.random.default_rng(0)
    row = rng.dirichlet(np.ones(6), size=6)
    alike = from_scipy([row] * 4)
    other = from_scipy([np.eye(6)[rng.permutation(6)] for _ in range(4)])
    chosen, weights = ExploreSettings(algorithm="random", steps=500), []
    for graph in (alike, other):
        counts = run_trials(graph, chosen, seed=0, trials=1, jobs=1)[0].counts
        weights.append(tracked_model(counts, graph, 0, graph.initial).weight)
    assert weights[0] >= 30 > 1 >= weights[1]


def test_nothing_seen_is_nothing_to_plan() -> None:
    graph = mdpdsl.load("riverswim").graph
    assert not tracked_model(no_counts(graph.n_pairs), graph, -1, graph.initial).is_planned.any()
