"""Intervals of single transition probabilities (Clopper and Pearson 1934), exact for every n.

If k of n visits to a pair led to s', and delta is the risk of both sides together, the interval

    lower = the delta/2 quantile of Beta(k, n - k + 1),        0 if k = 0
    upper = the 1 - delta/2 quantile of Beta(k + 1, n - k),    1 if k = n

contains P(s'|s,a) with probability at least 1 - delta. A successor that was never seen has the
upper end 1 - (delta/2)^(1/n). For all intervals of a model to hold jointly with probability
1 - delta, each has the risk delta/(SA S): a union bound over every pair and every state, seen or
not. The number of visits is assumed to be fixed; if it depends on the outcomes, as in a run that
stops when it has enough, the guarantee is only approximate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of all entries of a model that hold jointly."""

    lower: FloatArray  # [n_entries]  as `Counts.count`
    upper: FloatArray  # [n_entries]
    unseen_upper: FloatArray  # [n_pairs]  of every successor that was never seen
    entry_risk: float  # the probability with which a single interval may miss


def clopper_pearson(counts: IntArray, n: IntArray, delta: float) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends for counts out of n; [0, 1] if n = 0."""
    from scipy.special import betainccinv, betaincinv

    k, n = np.broadcast_arrays(np.asarray(counts), np.asarray(n))
    with np.errstate(all="ignore"):
        lower = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, delta / 2), 0.0)
        upper = np.where(k < n, betainccinv(k + 1, np.maximum(n - k, 1), delta / 2), 1.0)
    return lower, upper


def unseen_upper(n: IntArray, delta: float) -> FloatArray:
    """Return 1 - (delta/2)^(1/n), the upper end of a successor unseen in n visits; 1 if n = 0."""
    upper: FloatArray = -np.expm1(np.log(delta / 2) / np.maximum(n, 1))
    return np.where(n > 0, upper, 1.0)


def joint_intervals(counts: Counts, n_states: int, delta: float) -> Intervals:
    """Return intervals that hold jointly for all pairs and successors, with 1 - delta."""
    visits = counts.visits
    risk = delta / (len(visits) * n_states)
    lower, upper = clopper_pearson(
        counts.count, np.repeat(visits, np.diff(counts.successor_start)), risk
    )
    return Intervals(lower, upper, unseen_upper(visits, risk), risk)
