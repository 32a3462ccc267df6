"""Tiny models at random, and all their deterministic policies, evaluated by the definitions."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.build import graph_from_rows

#: The error of linear equations of a handful of states.
EXACT = 1e-9


def tiny_graph(rng: np.random.Generator) -> TransitionGraph:
    """Return 2 to 5 states with few successors, loops, ends, and labels `goal` and `safe`."""
    n_states = int(rng.integers(2, 6))
    ends = rng.random(n_states) < 0.15
    ends[0] = False
    rows: list[dict[int, dict[int, float]]] = []
    for state in range(n_states):
        row: dict[int, dict[int, float]] = {}
        for action in rng.permutation(3)[: 0 if ends[state] else rng.integers(1, 4)]:
            kind = rng.integers(4)
            if kind == 0:
                row[int(action)] = {state: 1.0}
            elif kind == 1:
                row[int(action)] = {int(rng.integers(n_states)): 1.0}
            else:  # quarters to at most three states
                chances: dict[int, float] = {}
                for target in rng.choice(rng.integers(0, n_states, 3), 4).tolist():
                    chances[target] = chances.get(target, 0.0) + 0.25
                row[int(action)] = chances
        rows.append(row)
    start = rng.integers(0, 3, n_states) * ~ends
    start[0] += not start.any()
    labels = {"goal": rng.random(n_states) < 0.35, "safe": rng.random(n_states) < 0.7}
    has_ends = bool(ends.any())
    return graph_from_rows(
        rows, initial=start / start.sum(), labels=labels, ends=ends if has_ends else None
    )


def policies(graph: TransitionGraph) -> list[IntArray]:
    """Return every deterministic policy as the pair taken in each state; -1 in ends."""
    choices = [
        list(range(graph.pair_start[s], graph.pair_start[s + 1])) or [-1]
        for s in range(graph.n_states)
    ]
    return [np.array(policy) for policy in itertools.product(*choices)]


@dataclass(frozen=True, eq=False)
class Chain:
    """What a policy does: nothing is earned in an end, which stays where it is."""

    P: FloatArray  # [n_states, n_states]
    r: FloatArray  # [n_states]


def chain(graph: TransitionGraph, policy: IntArray, reward: FloatArray | None = None) -> Chain:
    """Return the chain of a policy."""
    n, acts = graph.n_states, policy >= 0
    P, r = np.eye(n), np.zeros(n)
    P[acts] = graph.transition_matrix().toarray()[policy[acts]]
    if reward is not None:
        r[acts] = reward[policy[acts]]
    return Chain(P, r)


def until(found: Chain, goal: BoolArray, allowed: BoolArray) -> FloatArray:
    """Return the probabilities of reaching a goal through allowed states."""
    P = np.where((goal | ~allowed)[:, None], np.eye(len(goal)), found.P)
    unknown = _reaches(P)[:, goal].any(axis=1) & ~goal
    values = goal.astype(float)
    inner = np.eye(int(unknown.sum())) - P[np.ix_(unknown, unknown)]
    values[unknown] = np.linalg.solve(inner, P[np.ix_(unknown, goal)].sum(axis=1))
    return values


def total(found: Chain, goal: BoolArray) -> FloatArray:
    """Return the expected rewards before a goal; nan where it may not be reached."""
    P = np.where(goal[:, None], np.eye(len(goal)), found.P)
    reaches = _reaches(P)
    misses = reaches[:, ~reaches[:, goal].any(axis=1)].any(axis=1)
    values = np.where(misses, np.nan, 0.0)
    inside = ~misses & ~goal
    system = np.eye(int(inside.sum())) - P[np.ix_(inside, inside)]
    values[inside] = np.linalg.solve(system, found.r[inside])
    return values


def gain(found: Chain) -> FloatArray:
    """Return the long-run averages."""
    n, P = len(found.r), found.P
    reaches = _reaches(P)
    recurrent = np.array([reaches[reaches[s], s].all() for s in range(n)])
    values = np.zeros(n)
    for state in np.flatnonzero(recurrent):
        members = np.flatnonzero(reaches[state])
        k = len(members)
        system = np.vstack([(P[np.ix_(members, members)] - np.eye(k)).T, np.ones(k)])
        share = np.linalg.lstsq(system, np.append(np.zeros(k), 1.0), rcond=None)[0]
        values[state] = share @ found.r[members]
    transient = ~recurrent
    inner = np.eye(int(transient.sum())) - P[np.ix_(transient, transient)]
    values[transient] = np.linalg.solve(inner, P[np.ix_(transient, recurrent)] @ values[recurrent])
    return values


def gains_before(found: Chain, goal: BoolArray) -> list[tuple[BoolArray, float, bool]]:
    """Return the closed classes outside a goal: who may reach it, its average, any rewards."""
    stopped = Chain(np.where(goal[:, None], np.eye(len(goal)), found.P), found.r * ~goal)
    reaches, average, classes = _reaches(stopped.P), gain(stopped), []
    for state in np.flatnonzero(~goal):
        members = reaches[state]
        if reaches[members, state].all() and state == np.flatnonzero(members)[0]:
            has_rewards = bool(np.any(stopped.r[members] != 0))
            classes.append((reaches[:, state], float(average[state]), has_rewards))
    return classes


def _reaches(P: FloatArray) -> BoolArray:
    """Return which state reaches which."""
    found = np.linalg.matrix_power(np.eye(len(P)) + (P > 0), len(P)) > 0
    return np.asarray(found)
