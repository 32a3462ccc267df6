"""Small MDPs whose episodes end, in some states always and in others now and then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from mdpdsl.formats.loops import with_ends
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.branches import Branches
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.restrict import restrict
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.solve.small import small_graphs


@st.composite
def ended_graphs(draw: st.DrawFn) -> TransitionGraph:
    """Draw an MDP with ends, twins among them, in which every state can be reached."""
    graph = draw(small_graphs())
    ends = np.array([draw(st.booleans()) for _ in range(graph.n_states)])
    ends[int(np.argmax(graph.initial))] = False
    graph = _with_twins(draw, with_ends(graph, ends))
    graph = restrict(graph, reachable_states(absorb(graph)[0]))
    assume(graph.ends is not None)
    return graph


def _with_twins(draw: st.DrawFn, graph: TransitionGraph) -> TransitionGraph:
    """Let some transitions into states where episodes continue end there."""
    n_states = graph.n_states
    ends = np.zeros(n_states, np.bool_) if graph.ends is None else graph.ends
    mixed = ~ends & np.array([draw(st.booleans()) for _ in range(n_states)])
    twins = np.flatnonzero(mixed)
    twin = np.arange(n_states)
    twin[twins] = n_states + np.arange(len(twins))
    moved = np.array([draw(st.booleans()) for _ in range(graph.n_branches)])
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
    assert graph.reward is not None
    branches = Branches(
        state=graph.pair_state[pair].astype(np.int64),
        action=graph.pair_action[pair].astype(np.int64),
        target=np.where(moved, twin[graph.successor], graph.successor),
        probability=graph.probability,
        reward=graph.reward[pair],
    )
    zeros = np.zeros(len(twins))
    return branches.graph(
        graph.states.with_twins(twins),
        graph.actions,
        np.append(graph.initial, zeros),
        {name: np.append(on, on[twins]) for name, on in graph.labels.items()},
        np.append(ends, zeros == 0),
    )


def best_values(graph: TransitionGraph, discount: float = 0.9) -> FloatArray:
    """Return the largest discounted reward by state, by iteration; nothing follows an end."""
    graph, _ = absorb(graph)
    P = graph.transition_matrix()
    assert graph.reward is not None
    values = np.zeros(graph.n_states)
    for _ in range(250):
        worth = graph.reward + discount * (P @ values)
        values = np.maximum.reduceat(worth, graph.pair_start[:-1])
    return values


def renamed(graph: TransitionGraph, like: TransitionGraph) -> TransitionGraph:
    """Return a graph with the spaces and labels of another, to compare what is left."""
    return replace(graph, states=like.states, actions=like.actions, labels=like.labels)
