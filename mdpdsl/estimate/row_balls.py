"""Balls around estimated rows that contain the true ones.

With K possible successors, n visits and the risk r of a row, P_hat = counts/n satisfies

- `time-uniform`: n KL(P_hat, P) <= log(1/r) + (K-1) log(e (1 + n/(K-1))) for all n at once
  (Jonsson et al. 2020), and so |P_hat - P|_1 <= sqrt(2 KL) (Pinsker). If the K successors are
  known, the bound is tighter: the likelihood of the outcomes mixed over P by a Dirichlet prior,
  divided by the true likelihood, is a martingale (Robbins 1970, Ville 1939), so that
  n KL(P_hat, P) <= log(1/r) + R for all n at once, where R is the logarithm of the largest
  likelihood divided by the mixed one. The prior is uniform up to three successors; with more, it
  favours rows in which few are likely, all of its parameters being 3/K.
- `weissman`: |P_hat - P|_1 <= sqrt(2 log((2^K - 2)/r_n)/n) (Weissman et al. 2003), for all n at
  once with r_n = r/(n(n+1)), which sums to r.
- `clopper-pearson`: Weissman's bound with r_n = r, for one look at an n that was fixed beforehand.

A row with one possible successor is known. K and r must not depend on the data.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.counts import Counts
from mdpdsl.graph.row_sets import entry_pairs, row_sums
from mdpdsl.graph.space import FloatArray, IntArray

#: The largest sum of the parameters of the prior over rows.
PRIOR_WEIGHT = 3


def row_balls(
    kind: str,
    visits: IntArray,
    n_possible: IntArray,
    exponent: float,
    regret: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the radii in KL (infinite if there is none) and l1 (at most 2), [n_pairs].

    Each ball has the risk exp(-exponent). `regret` is R where the successors are known, NaN where
    they are not.
    """
    n, K = np.maximum(visits, 1).astype(np.float64), np.maximum(n_possible, 2).astype(np.float64)
    is_known, is_seen = n_possible <= 1, visits > 0
    if kind == "time-uniform":
        price = (K - 1) * (1 + np.log1p(n / (K - 1)))
        if regret is not None:
            price = np.where(np.isnan(regret), price, regret)
        kl = (exponent + price) / n
        l1 = np.sqrt(2 * kl)
    else:
        log_sets = K * np.log(2) + np.log1p(-np.exp2(1 - K))
        looks = np.log(n) + np.log1p(n) if kind == "weissman" else 0.0
        kl, l1 = np.full(len(n), np.inf), np.sqrt(2 * (log_sets + exponent + looks) / n)
    kl = np.where(is_known, 0.0, np.where(is_seen, kl, np.inf))
    return kl, np.where(is_known, 0.0, np.where(is_seen, np.minimum(2.0, l1), 2.0))


def mixture_regret(counts: Counts, n_possible: IntArray) -> FloatArray:
    """Return R of every row: by how much its largest likelihood exceeds the mixed one, in logs."""
    from scipy.special import gammaln, xlogy

    n = counts.visits.astype(np.float64)
    total = np.minimum(n_possible, PRIOR_WEIGHT).astype(np.float64)  # of the prior's parameters
    pair, k = entry_pairs(counts.successor_start), counts.count.astype(np.float64)
    each = (total / n_possible)[pair]
    logs = np.asarray(xlogy(k, k / np.maximum(n[pair], 1.0)), np.float64)
    largest = row_sums(pair, logs, len(n))
    gained: FloatArray = gammaln(k + each) - gammaln(each)
    seen = row_sums(pair, gained, len(n))
    mixed: FloatArray = gammaln(total) - gammaln(n + total) + seen
    return np.maximum(largest - mixed, 0.0)
