"""The complexity c(s,a): how hard the transition distribution of a pair is to estimate.

After T visits, E D(P, P_hat) = c(s,a) / T^rate to first order, where

- squared-l2: D = ||P - P_hat||^2, c = 1 - sum P^2, exactly (paper, the motivating example);
- root-l2: c = sqrt(1 - sum P^2), with which kappa = 2 is the average case (paper, fact kappa2);
- l1: D = ||P - P_hat||_1, c = sum sqrt(2 P (1 - P) / pi), rate 1/2 (each entry is nearly normal);
- kl: D = KL(P_hat || P), c = (m - 1)/2 for m possible successors (Wilks);
- hellinger: D = squared Hellinger distance, c = (m - 1)/8.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: The rate at which the expected distance decreases: the exponent of T.
RATES = {"squared-l2": 1.0, "root-l2": 1.0, "l1": 0.5, "kl": 1.0, "hellinger": 1.0}


def complexity(graph: TransitionGraph, distance: str = "squared-l2") -> FloatArray:
    """Return c(s,a) of every pair for a distance, [n_pairs]."""
    P, start = graph.probability, graph.successor_start
    if distance in ("squared-l2", "root-l2"):
        c = np.maximum(0.0, 1.0 - np.add.reduceat(P * P, start[:-1]))
        return np.sqrt(c) if distance == "root-l2" else c
    if distance == "l1":
        spread = np.sqrt(2 * np.maximum(0.0, P * (1 - P)) / np.pi)
        return np.asarray(np.add.reduceat(spread, start[:-1]))
    if distance in ("kl", "hellinger"):
        return (np.diff(start) - 1) / (2.0 if distance == "kl" else 8.0)
    raise ValueError(f"unknown distance {distance!r}; use one of {', '.join(RATES)}")


def squared_l2_complexity(graph: TransitionGraph) -> FloatArray:
    """Return c(s,a) = 1 - sum_s' P(s'|s,a)^2 of every pair, [n_pairs]."""
    return complexity(graph)
