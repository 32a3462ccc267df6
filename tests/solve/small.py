"""Small MDPs of every kind, and the values of all their policies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.build import graph_from_rows

MOST_STATES = 5
MOST_ACTIONS = 3


@st.composite
def small_graphs(draw: st.DrawFn) -> TransitionGraph:
    """Draw an MDP: unavailable actions, self-loops, absorbing states, ties, several classes."""
    n_states = draw(st.integers(1, MOST_STATES))
    rows, rewards = [], {}
    for state in range(n_states):
        actions = draw(st.sets(st.integers(0, MOST_ACTIONS - 1), min_size=1))
        row = {}
        for action in sorted(actions):
            kind = draw(st.sampled_from(["loop", "sure", "spread"]))
            if kind == "loop":
                weights = {state: 1}
            elif kind == "sure":
                weights = {draw(st.integers(0, n_states - 1)): 1}
            else:
                targets = draw(st.sets(st.integers(0, n_states - 1), min_size=1, max_size=3))
                weights = {t: draw(st.integers(1, 5)) for t in sorted(targets)}
            total = sum(weights.values())
            row[action] = {target: weight / total for target, weight in weights.items()}
            rewards[state, action] = float(draw(st.integers(-3, 3)))
        rows.append(row)
    start = np.array([draw(st.integers(0, 2)) for _ in range(n_states)], dtype=float)
    start[0] += not start.any()
    goal = np.array([draw(st.booleans()) for _ in range(n_states)])
    return graph_from_rows(
        rows,
        initial=start / start.sum(),
        reward=lambda s, a: rewards[s, a],
        labels={"goal": goal},
    )


def policies(graph: TransitionGraph) -> Iterator[IntArray]:
    """Yield every deterministic policy as the pair taken in each state."""
    choices = [range(graph.pair_start[s], graph.pair_start[s + 1]) for s in range(graph.n_states)]
    for policy in itertools.product(*choices):
        yield np.array(policy)


def discounted_worth(graph: TransitionGraph, policy: IntArray, discount: float) -> FloatArray:
    """Return the values of a policy, by linear equations."""
    assert graph.reward is not None
    P = graph.transition_matrix().toarray()[policy]
    system = np.eye(graph.n_states) - discount * P
    return np.asarray(np.linalg.solve(system, graph.reward[policy]))


def best_worth(graph: TransitionGraph, discount: float) -> FloatArray:
    """Return the largest discounted reward over all deterministic policies."""
    every = np.stack([discounted_worth(graph, p, discount) for p in policies(graph)])
    return np.asarray(every.max(axis=0))


def chance(graph: TransitionGraph, policy: IntArray, goal: BoolArray) -> FloatArray:
    """Return the probability that a policy reaches a goal, by search and linear equations."""
    P = graph.transition_matrix().toarray()[policy]
    can_reach = goal.copy()
    for _ in range(graph.n_states):
        can_reach |= (P[:, can_reach] > 0).any(axis=1)
    unknown = can_reach & ~goal
    values = goal.astype(float)
    inner = np.eye(int(unknown.sum())) - P[np.ix_(unknown, unknown)]
    values[unknown] = np.linalg.solve(inner, P[np.ix_(unknown, goal)].sum(axis=1))
    return values


def best_chance(graph: TransitionGraph, goal: BoolArray, is_minimised: bool) -> FloatArray:
    """Return the maximal or minimal probability over all deterministic policies."""
    every = np.stack([chance(graph, p, goal) for p in policies(graph)])
    return np.asarray(every.min(axis=0) if is_minimised else every.max(axis=0))
