"""Counts learnt at once against the same transitions learnt one by one."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.trial import continue_trial, new_trial
from mdpdsl.graph.counts import Counts, counts_from
from mdpdsl.graph.space import IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.memory import N_UNSEEN, TIME

GRAPH = mdpdsl.load("riverswim", n=5).graph
PRECISE = 1e-9

Transition = tuple[int, int]  # pair, next state
TRANSITIONS = st.lists(
    st.tuples(st.integers(0, GRAPH.n_pairs - 1), st.integers(0, GRAPH.n_states - 1)),
    min_size=1,
    max_size=60,
)


def counted(transitions: list[Transition]) -> Counts:
    pairs, following = (np.array(column, np.int64) for column in zip(*transitions, strict=True))
    return counts_from(pairs, following, np.ones(len(pairs), np.int64), GRAPH.n_pairs)


def explorer_for(chosen: ExploreSettings, graph: TransitionGraph = GRAPH) -> Explorer:
    return Explorer(graph, chosen, np.random.default_rng(0))


def one_by_one(explorer: Explorer, transitions: list[Transition]) -> None:
    for pair, following in transitions:
        explorer.observe(int(GRAPH.pair_state[pair]), int(GRAPH.pair_action[pair]), following)


@settings(max_examples=60, deadline=None)
@given(TRANSITIONS, TRANSITIONS)
def test_counts_at_once_are_the_counts_one_by_one(
    first: list[Transition], second: list[Transition]
) -> None:
    bulk, single = explorer_for(ExploreSettings()), explorer_for(ExploreSettings())
    bulk.learn_counts(counted(first))
    bulk.learn_counts(counted(second))
    one_by_one(single, first + second)
    for name in ("visits", "state_visits", "squares", "unseen"):
        assert np.array_equal(getattr(bulk.memory, name), getattr(single.memory, name)), name
    for position in (TIME, N_UNSEEN):
        assert bulk.memory.integers[position] == single.memory.integers[position]
    for name in ("successor_start", "successor", "count"):
        assert np.array_equal(getattr(bulk.counts, name), getattr(single.counts, name))
    expected = single.estimate().transition_matrix().toarray()
    assert np.array_equal(bulk.estimate().transition_matrix().toarray(), expected)


@pytest.mark.parametrize("planner", ["full", "prioritized"])
@pytest.mark.parametrize("algorithm", ["kappa-dp", "maxent", "weighted-maxent", "smm"])
def test_a_plan_from_counts_is_the_plan_of_who_learnt_them_step_by_step(
    algorithm: str, planner: str
) -> None:
    chosen = ExploreSettings(
        algorithm=algorithm, kappa=2, gamma=0.9, planner=planner, tolerance=1e-9, xi=0, steps=800
    )
    trial = new_trial(GRAPH, chosen, np.random.SeedSequence(3))
    continue_trial(trial, GRAPH, lambda _: True, None)
    # Its bounds are of the time of the last visits; these are of now.
    single = explorer_for(chosen)
    single.memory = trial.explorer.memory
    bulk = explorer_for(chosen)
    bulk.learn_counts(trial.counts)
    if algorithm == "weighted-maxent":  # whose rewards know how many steps there will be
        bulk.strategy = bulk.strategy._replace(log_steps=trial.explorer.strategy.log_steps)
    bulk_actions = [bulk.act(state) for state in range(GRAPH.n_states)]
    assert bulk.residual() < 1e-6
    assert bulk_actions == [single.act(state) for state in range(GRAPH.n_states)]


@pytest.mark.parametrize("kappa", [1, 30, 300])
def test_no_kappa_loses_all_values_at_a_warm_start(kappa: float) -> None:
    trial = new_trial(GRAPH, ExploreSettings(steps=5_000), np.random.SeedSequence(0))
    continue_trial(trial, GRAPH, lambda _: True, None)
    explorer = explorer_for(ExploreSettings(kappa=kappa))
    explorer.learn_counts(trial.counts)
    assert np.isfinite(explorer.memory.value).all()
    assert explorer.memory.reward.max() == pytest.approx(1)
    assert explorer.memory.value.max() >= 1


def test_pairs_with_many_successors_find_room() -> None:
    graph = mdpdsl.load("riverswim", n=200).graph
    pairs: IntArray = np.repeat(np.arange(graph.n_pairs), graph.n_states)
    successors = np.tile(np.arange(graph.n_states), graph.n_pairs)
    counts = counts_from(pairs, successors, 1 + pairs % 7, graph.n_pairs)
    explorer = explorer_for(ExploreSettings(), graph)
    explorer.learn_counts(counts)
    assert np.array_equal(explorer.counts.count, counts.count)
    assert np.array_equal(explorer.memory.visits, counts.visits)
    explorer.observe(0, 0, 5)
    assert explorer.counts.n_transitions == counts.n_transitions + 1


@pytest.mark.parametrize("steps", [0, 9, 10, 11, 49, 50, 139, 140, 10**6, 10**9])
def test_an_explorer_in_episodes_begins_in_the_one_where_its_time_falls(steps: int) -> None:
    from mdpdsl.explore.algorithms.oracle_episodes import episode_at, start_of

    m = episode_at(steps, 10)
    assert start_of(m, 10) <= steps < start_of(m + 1, 10)


def test_with_a_warm_start_episodes_do_not_plan_at_every_step() -> None:
    from mdpdsl.explore.algorithms.oracle_episodes import Episodes

    chosen = ExploreSettings(algorithm="kappa-lp", backend="evi", steps=30)
    graph = dataclasses.replace(GRAPH)
    trial = new_trial(graph, ExploreSettings(steps=5_000), np.random.SeedSequence(0))
    continue_trial(trial, graph, lambda _: True, None)
    warm = new_trial(graph, chosen, np.random.SeedSequence(1), None, trial.counts)
    continue_trial(warm, graph, lambda _: True, None)
    assert isinstance(warm.explorer.episodes, Episodes)
    (record,) = warm.explorer.episodes.records
    assert (record.episode, record.step) == (11, 5_000)
    assert warm.counts.n_transitions == 5_030
