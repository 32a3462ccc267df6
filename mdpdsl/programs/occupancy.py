"""The occupancy polytope: the long-run shares of visits to pairs that policies can attain.

D = {d >= 0,  sum_a d(s,a) = sum_{s',a'} P(s|s',a') d(s',a') for every s,  sum d = 1}
(paper, eq. contrainedD_def with eta = 0). Columns are the available pairs, rows the states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.graph.analysis import communicating_classes, reachable_states
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def flow_rows(graph: TransitionGraph, pairs: IntArray | None = None) -> csr_array:
    """Return the rows of flow balance, [n_states, n_pairs]: flow out of a state minus flow in.

    If `pairs` are given, only these are columns, and the rows are their states; none of their
    branches may lead to another state. The probabilities of each pair are normalised first, so
    that columns sum to 0 up to one rounding.
    """
    from scipy.sparse import diags_array

    P = graph.transition_matrix()
    P = diags_array(1 / P.sum(axis=1)) @ P
    rows: csr_array = (graph.pair_incidence() - P.T).tocsr()
    if pairs is not None:
        rows = rows[np.unique(graph.pair_state[pairs])][:, pairs].tocsr()
    return rows


def stationary_policy(graph: TransitionGraph, d: FloatArray) -> FloatArray:
    """Return the policy that visits pairs in the shares d, [n_pairs]; uniform in states with d = 0.

    pi(a|s) = d(s,a) / sum_a' d(s,a').
    """
    total = np.bincount(graph.pair_state, d, minlength=graph.n_states)[graph.pair_state]
    uniform = 1 / np.diff(graph.pair_start)[graph.pair_state]
    return np.where(total > 0, d / np.where(total > 0, total, 1.0), uniform)


def random_occupancy(graph: TransitionGraph) -> FloatArray:
    """Return the long-run shares of visits under uniformly random actions, [n_pairs].

    The run starts in the initial states; if it may end up in several closed classes, the shares are
    the mean over runs.
    """
    from scipy.sparse import csr_array, diags_array, eye_array
    from scipy.sparse.linalg import spsolve

    graph = graph.closed
    uniform = 1 / np.diff(graph.pair_start)[graph.pair_state]
    P = csr_array(graph.pair_incidence() @ diags_array(uniform) @ graph.transition_matrix())
    classes = communicating_classes(graph)
    is_reached = reachable_states(graph)
    is_closed = classes.is_closed[classes.class_of] & is_reached
    passing = np.flatnonzero(is_reached & ~is_closed)
    arrivals = np.where(is_closed, graph.initial, 0.0)
    if len(passing):
        Q = eye_array(len(passing), format="csc") - P[passing][:, passing].T
        passed = np.atleast_1d(spsolve(Q.tocsc(), graph.initial[passing]))
        arrivals = arrivals + np.where(is_closed, P[passing].T @ passed, 0.0)
    shares = np.zeros(graph.n_states)
    for number in np.unique(classes.class_of[is_closed]):
        states = np.flatnonzero(classes.class_of == number)
        balance = (P[states][:, states].T - eye_array(len(states))).tolil()
        balance[0] = 1.0  # one row of flow balance follows from the others
        right = np.zeros(len(states))
        right[0] = arrivals[states].sum()
        shares[states] = np.maximum(np.atleast_1d(spsolve(balance.tocsc(), right)), 0.0)
    d = shares[graph.pair_state] * uniform
    return np.asarray(d / d.sum())
