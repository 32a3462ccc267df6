"""The occupancy polytope: the long-run shares of visits to pairs that policies can attain.

D = {d >= 0,  sum_a d(s,a) = sum_{s',a'} P(s|s',a') d(s',a') for every s,  sum d = 1}
(paper, eq. contrainedD_def with eta = 0). Columns are the available pairs, rows the states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
