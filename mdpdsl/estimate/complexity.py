"""How hard each pair's transition distribution is to estimate.

The complexity for the squared l2 distance is c(s,a) = 1 - sum_s' P(s'|s,a)^2: a pair visited T
times has E||P - P_hat||^2 = c / T (paper, section on the problem formulation).
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph


def squared_l2_complexity(graph: TransitionGraph) -> FloatArray:
    """Return c(s,a) = 1 - sum_s' P(s'|s,a)^2 of every pair, [n_pairs]."""
    P = graph.probability  # [n_branches]
    return np.maximum(0.0, 1.0 - np.add.reduceat(P * P, graph.successor_start[:-1]))
