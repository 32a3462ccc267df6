"""Facts about reachability, communicating classes and end components."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpdsl.graph import analysis
from mdpdsl.graph.analysis import (
    class_edges,
    communicating_classes,
    end_components,
    is_communicating,
    never_visited_pairs,
    pairs_outside_end_components,
    reachable_states,
)
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.build import graph_from_rows, riverswim, ruin, slippery_grid


@st.composite
def small_graphs(draw: st.DrawFn) -> TransitionGraph:
    n_states = draw(st.integers(1, 7))
    targets = st.sets(st.integers(0, n_states - 1), min_size=1, max_size=3)
    rows = []
    for _ in range(n_states):
        successors = draw(st.lists(targets, min_size=1, max_size=3))
        rows.append({a: {t: 1 / len(ts) for t in ts} for a, ts in enumerate(successors)})
    starts = sorted(draw(st.sets(st.integers(0, n_states - 1), min_size=1)))
    initial = np.zeros(n_states)
    initial[starts] = 1 / len(starts)
    return graph_from_rows(rows, initial=initial)


@pytest.fixture(params=["closure", "scipy", "scipy and wide waves"], autouse=True)
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with the algorithm for small graphs and with those for large ones."""
    if request.param != "closure":
        monkeypatch.setattr(analysis, "SMALL_N_STATES", -1)
    if request.param == "scipy and wide waves":
        monkeypatch.setattr(analysis, "NARROW_WAVE", 0)


def step_graph(graph: TransitionGraph) -> nx.DiGraph:
    """Return the states and the steps between them, for the reference algorithm."""
    steps = nx.DiGraph()
    steps.add_nodes_from(range(graph.n_states))
    for pair in range(graph.n_pairs):
        steps.add_edges_from((int(graph.pair_state[pair]), int(t)) for t in graph.row(pair)[0])
    return steps


@settings(deadline=None)
@given(small_graphs())
def test_reachable_states_are_the_start_and_its_descendants(graph: TransitionGraph) -> None:
    steps = step_graph(graph)
    starts = set(np.flatnonzero(graph.initial).tolist())
    expected = starts.union(*(nx.descendants(steps, s) for s in starts))
    assert set(np.flatnonzero(reachable_states(graph)).tolist()) == expected
    unseen = [p for p in range(graph.n_pairs) if int(graph.pair_state[p]) not in expected]
    assert never_visited_pairs(graph).tolist() == unseen


@settings(deadline=None)
@given(small_graphs(), st.data())
def test_a_start_may_be_a_mask_or_an_array_of_states(
    graph: TransitionGraph, data: st.DataObject
) -> None:
    state = data.draw(st.integers(0, graph.n_states - 1))
    expected = {state} | nx.descendants(step_graph(graph), state)
    by_number = reachable_states(graph, np.array([state]))
    by_mask = reachable_states(graph, np.arange(graph.n_states) == state)
    assert set(np.flatnonzero(by_number).tolist()) == expected
    assert np.array_equal(by_number, by_mask)


def test_without_a_start_nothing_is_reached() -> None:
    assert not reachable_states(riverswim(), np.array([], dtype=np.int64)).any()


@settings(deadline=None)
@given(small_graphs())
def test_classes_are_the_strong_components_in_order_of_their_first_state(
    graph: TransitionGraph,
) -> None:
    steps = step_graph(graph)
    expected = sorted(sorted(c) for c in nx.strongly_connected_components(steps))
    classes = communicating_classes(graph)
    members = [np.flatnonzero(classes.class_of == c).tolist() for c in range(classes.n_classes)]
    assert members == expected
    assert classes.sizes.tolist() == [len(c) for c in expected]
    closed = [all(set(steps[s]) <= set(c) for s in c) for c in expected]
    assert classes.is_closed.tolist() == closed
    assert is_communicating(graph) == (len(expected) == 1)
    edges = {(classes.class_of[s], classes.class_of[t]) for s, t in steps.edges}
    assert [tuple(e) for e in class_edges(graph, classes)] == sorted(
        (a, b) for a, b in edges if a != b
    )


def brute_force_end_component_pairs(graph: TransitionGraph) -> set[int]:
    """Return the pairs of end components, by trying every set of states."""
    found: set[int] = set()
    for mask in range(1, 2**graph.n_states):
        states = {s for s in range(graph.n_states) if mask >> s & 1}
        inside = [
            p
            for p in range(graph.n_pairs)
            if int(graph.pair_state[p]) in states and set(graph.row(p)[0].tolist()) <= states
        ]
        steps = nx.DiGraph()
        steps.add_nodes_from(states)
        steps.add_edges_from(
            (int(graph.pair_state[p]), int(t)) for p in inside for t in graph.row(p)[0]
        )
        if {int(graph.pair_state[p]) for p in inside} == states and nx.is_strongly_connected(steps):
            found.update(inside)
    return found


@settings(deadline=None)
@given(small_graphs())
def test_pairs_outside_end_components_are_those_of_no_closed_connected_set(
    graph: TransitionGraph,
) -> None:
    inside = brute_force_end_component_pairs(graph)
    expected = [p for p in range(graph.n_pairs) if p not in inside]
    assert pairs_outside_end_components(graph).tolist() == expected


def test_every_pair_of_a_communicating_model_can_be_visited_for_ever() -> None:
    assert is_communicating(riverswim())
    assert len(pairs_outside_end_components(riverswim())) == 0


def test_a_gambler_can_stay_only_at_the_ends() -> None:
    classes = communicating_classes(ruin(50))
    assert classes.sizes.tolist() == [1, 48, 1]
    assert classes.is_closed.tolist() == [True, False, True]
    assert pairs_outside_end_components(ruin(50)).tolist() == list(range(1, 49))


def test_a_slip_into_the_goal_is_not_for_ever_but_other_moves_are() -> None:
    graph = slippery_grid(4)
    outside = pairs_outside_end_components(graph)
    goal = graph.n_states - 1
    into_goal = [
        p for p in range(graph.n_pairs) if goal in graph.row(p)[0] and graph.pair_state[p] != goal
    ]
    assert outside.tolist() == into_goal


def test_unknown_dynamics_are_refused() -> None:
    known = riverswim()
    unknown = TransitionGraph(
        known.states,
        known.actions,
        known.pair_start,
        known.pair_action,
        np.zeros(known.n_pairs + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int32),
        np.zeros(0),
        known.initial,
    )
    with pytest.raises(ValueError, match="dynamics of this model are unknown"):
        reachable_states(unknown)


def test_end_components_are_numbered_by_their_first_state() -> None:
    rows = [{0: {1: 0.5, 3: 0.5}}, {0: {1: 1.0}, 1: {2: 1.0}}, {0: {1: 1.0}}, {0: {3: 1.0}}]
    graph = graph_from_rows(rows)
    assert end_components(graph).tolist() == [-1, 0, 0, 0, 1]
    assert pairs_outside_end_components(graph).tolist() == [0]
