"""Episodes that end: closed and absorbing graphs, and ends that data show."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.graph.counts import counts_from
from mdpdsl.graph.ends import absorb, own_choice, settle
from mdpdsl.graph.transition_graph import TransitionGraph

CORRIDOR = """
mdp corridor
state x in 0..4
action left, right
init x ~ {1: 0.25, 2: 0.75}
end when x == 0 or x == 4
on left -> 0.8: x' = x - 1 | 0.2: stay
on right -> 0.5: x' = x + 1 | 0.5: stay
reward when x' == 4 : 1
label goal when x == 4
"""


@pytest.fixture(scope="module")
def graph() -> TransitionGraph:
    found = mdpdsl.loads(CORRIDOR).graph
    found.validate()
    return found


def test_an_end_has_no_pairs_and_no_start(graph: TransitionGraph) -> None:
    assert graph.ends is not None
    assert graph.ends.tolist() == [True, False, False, False, True]
    assert np.diff(graph.pair_start).tolist() == [0, 2, 2, 2, 0]
    assert graph.initial.tolist() == [0, 0.25, 0.75, 0, 0]


def test_in_the_closed_graph_an_end_is_the_start_of_the_next_episode(
    graph: TransitionGraph,
) -> None:
    closed = graph.closed
    closed.validate()
    P, mu = graph.transition_matrix().toarray(), graph.initial
    expected = P + P[:, [0, 4]].sum(axis=1)[:, None] * mu
    assert closed.transition_matrix().toarray() == pytest.approx(expected[:, 1:4])
    assert closed.n_pairs == graph.n_pairs
    assert closed.states.codes.tolist() == [1, 2, 3]
    assert graph.reward == pytest.approx(closed.reward)


def test_a_graph_without_ends_is_its_own_closed_and_absorbing_graph() -> None:
    found = mdpdsl.load("riverswim").graph
    assert found.closed is found
    assert absorb(found)[0] is found


def test_in_the_absorbing_graph_an_end_stays_and_earns_nothing(graph: TransitionGraph) -> None:
    absorbing, is_own = absorb(graph)
    absorbing.validate()
    assert is_own.tolist() == [False, *[True] * 6, False]
    rows = absorbing.transition_matrix().toarray()
    assert rows[is_own] == pytest.approx(graph.transition_matrix().toarray())
    assert rows[~is_own].tolist() == [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]
    assert absorbing.reward is not None
    assert absorbing.reward[~is_own].tolist() == [0, 0]
    choice = own_choice(np.array([0, 2, 3, 5, 7]), is_own)
    assert choice.tolist() == [-1, 1, 2, 4, -1]


def test_data_show_ends_and_states_that_are_both() -> None:
    spaces = mdpdsl.loads("mdp t  state x in 0..3  action a, b  label odd when x % 2 == 1").graph
    pairs, arrivals = np.array([0, 0, 1, 2]), np.array([1, 4 + 3, 4 + 1, 4 + 3])
    counts = counts_from(pairs, arrivals, np.array([3, 2, 1, 5]), spaces.n_pairs)
    found = settle(spaces, counts, np.array([1, 0, 0, 0]))
    found.graph.validate()
    assert found.found.tolist() == [3]  # every arrival ended
    assert found.mixed.tolist() == [1]  # one of four arrivals ended
    assert found.graph.n_states == 5
    assert found.graph.states.native(4) == {"x": 1}
    assert found.graph.states.label(4) == "1 (end)"
    assert found.graph.labels["odd"].tolist() == [False, True, False, True, True]
    assert found.kept_pairs.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.counts.successor.tolist() == [1, 3, 4, 3]
    assert found.counts.count.tolist() == [3, 2, 1, 5]
    assert found.graph.state(x=1) == 1


def test_a_state_in_which_an_episode_started_is_no_end() -> None:
    spaces = mdpdsl.loads("mdp t  state x in 0..1  action a").graph
    counts = counts_from(np.array([0]), np.array([2 + 1]), np.array([3]), 2)
    assert settle(spaces, counts, np.array([1, 0])).mixed.tolist() == []
    assert settle(spaces, counts, np.array([1, 1])).mixed.tolist() == [1]


def test_declared_ends_stay_ends(graph: TransitionGraph) -> None:
    # The episode also ended in x = 2, where the model has no end.
    arrivals = np.array([0, 2, 5 + 2])
    counts = counts_from(np.array([0, 1, 1]), arrivals, np.array([4, 2, 1]), graph.n_pairs)
    found = settle(graph, counts, np.bincount([1], minlength=graph.n_states))
    found.graph.validate()
    assert found.found.tolist() == []
    assert found.mixed.tolist() == [2]
    assert found.graph.ends is not None
    assert found.graph.ends.tolist() == [True, False, False, False, True, True]


def test_a_declared_end_that_the_data_name_too_changes_nothing(graph: TransitionGraph) -> None:
    counts = counts_from(np.array([0, 0]), np.array([0, 5 + 0]), np.array([4, 2]), graph.n_pairs)
    found = settle(graph, counts, np.bincount([1], minlength=graph.n_states))
    assert found.graph is graph
    assert not found.has_changed
    assert (found.counts.successor.tolist(), found.counts.count.tolist()) == ([0], [6])


def test_untried_pairs_are_those_of_states_in_which_other_actions_were_taken() -> None:
    spaces = mdpdsl.loads("mdp t  state x in 0..3  action a, b").graph
    # Only `a` was taken in 0 and both in 2, from where 1 was reached, and where no action followed.
    counts = counts_from(np.array([0, 4, 5]), np.array([2, 2, 1]), np.ones(3, np.int64), 8)
    assert settle(spaces, counts, np.array([1, 0, 0, 0])).untried.tolist() == [1]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=5),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_settled_counts_are_those_of_the_episodes(
    episodes: list[list[tuple[int, int]]], ended: list[bool]
) -> None:
    """Episodes of (state, action); the last state of each is reached and ends it, or is cut."""
    spaces = mdpdsl.loads("mdp t  state x in 0..3  action a, b").graph
    steps = []  # state, action, next state, whether it ended
    for episode, is_end in zip(episodes, ended, strict=False):
        for i, ((state, action), (following, _)) in enumerate(pairwise(episode)):
            steps.append((state, action, following, is_end and i == len(episode) - 2))
    arrivals = np.array([n + 4 * e for _, _, n, e in steps], np.int64)
    pairs = np.array([2 * s + a for s, a, _, _ in steps], np.int64)
    starts = np.array([episode[0][0] for episode in episodes])
    counts = counts_from(pairs, arrivals, np.ones(len(steps), np.int64), 8)
    found = settle(spaces, counts, np.bincount(starts, minlength=4))
    found.graph.validate()
    assert found.counts.n_transitions == len(steps)
    went_on = {s for s, _, _, _ in steps} | {n for _, _, n, e in steps if not e} | set(starts)
    ends = {n for _, _, n, e in steps if e}
    assert set(found.found.tolist()) == ends - went_on
    assert set(found.mixed.tolist()) == ends & went_on
    # An end is reached exactly as often as episodes ended there.
    ends_of = found.graph.ends
    is_there = np.zeros(found.graph.n_states, np.bool_) if ends_of is None else ends_of
    arrived = np.bincount(found.counts.successor, found.counts.count, found.graph.n_states)
    assert arrived[is_there].sum() == sum(e for _, _, _, e in steps)
