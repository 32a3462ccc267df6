"""A given policy in a given model: its value, and how often it visits each pair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Next, Objective, Total, Until
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.policy_iteration import ELIMINATED_STATES
from mdpdsl.solve.qualitative import lost_states
from mdpdsl.solve.solution import SolveOutcome, value_at_start
from mdpdsl.solve.solve_objective import solve_objective

#: Steps after which visits of a large model are no longer followed.
MOST_STEPS = 5_000


def policy_value(graph: TransitionGraph, objective: Objective, found: SolveOutcome) -> float:
    """Return the value of a policy at the start, in another model over the same pairs."""
    return value_at_start(graph, policy_values(graph, objective, found))


def policy_values(graph: TransitionGraph, objective: Objective, found: SolveOutcome) -> FloatArray:
    """Return the values of a policy, [n_states]; it may depend on the steps left."""
    if isinstance(objective, Until | Cumulative | Next):
        steps = 1 if isinstance(objective, Next) else objective.steps
        if steps is not None:
            return _backed_up(graph, objective, found, steps)
    chosen, pairs = policy_graph(graph, found.choice)
    if isinstance(objective, Total | Discounted | Average):
        objective = replace(objective, reward=objective.reward[pairs])
    return solve_objective(chosen, objective).values


def policy_graph(graph: TransitionGraph, choice: IntArray) -> tuple[TransitionGraph, IntArray]:
    """Return the graph in which each state has only the pair chosen there, and these pairs."""
    pairs = choice[choice >= 0]
    counts = np.diff(graph.successor_start)[pairs]
    start = np.concatenate([[0], np.cumsum(counts)])
    entry = np.repeat(graph.successor_start[pairs] - start[:-1], counts) + np.arange(start[-1])
    chosen = replace(
        graph,
        pair_start=np.concatenate([[0], np.cumsum(choice >= 0)]),
        pair_action=graph.pair_action[pairs],
        successor_start=start,
        successor=graph.successor[entry],
        probability=graph.probability[entry],
        reward=None,
        branch_reward=None,
        rewards={},
        branch_rewards={},
    )
    return chosen, pairs


def expected_visits(
    graph: TransitionGraph,
    choice: IntArray,
    start: IntArray,
    state: IntArray,
    p: FloatArray,
    is_active: BoolArray,
    discount: float,
) -> FloatArray:
    """Return how often a policy visits each pair, with discounted steps, [n_pairs].

    The rows of all pairs are `start`, `state` and `p`; only active states are left again.
    """
    from scipy.sparse import csc_array, csr_array, eye_array
    from scipy.sparse.linalg import splu

    n = graph.n_states
    acts = (choice >= 0) & is_active
    P = csr_array((p, state, start), shape=(graph.n_pairs, n))[np.where(acts, choice, 0)]
    moves: Any = csr_array(P.multiply(discount * acts[:, None].astype(np.float64))).T
    visits: Any = graph.initial
    if n <= ELIMINATED_STATES:
        visits = splu(csc_array(eye_array(n) - moves)).solve(graph.initial)
    else:
        now = graph.initial
        for _ in range(MOST_STEPS):
            now = moves @ now
            visits = visits + now
            if now.sum() <= 1e-6 * visits.sum():
                break
    found = np.zeros(graph.n_pairs)
    found[choice[acts]] = np.asarray(visits)[acts]
    return found


def _backed_up(
    graph: TransitionGraph,
    objective: Until | Cumulative | Next,
    found: SolveOutcome,
    steps: int,
) -> FloatArray:
    """Return the values of a policy that depends on the steps left, by one backup for each."""
    acts: Any = np.diff(graph.pair_start) > 0
    values = np.zeros(graph.n_states)
    reward = np.zeros(graph.n_pairs)
    if isinstance(objective, Cumulative):
        reward = objective.reward
    else:
        values = objective.goal.astype(np.float64)
    if isinstance(objective, Until):
        acts = acts & ~objective.goal & ~lost_states(graph, objective.goal, objective.allowed)
    P = graph.transition_matrix()
    for left in range(1, steps + 1):
        choice = found.choice_with(left)[acts]
        new = values.copy()
        new[acts] = reward[choice] + P[choice] @ values
        values = new
    return values
