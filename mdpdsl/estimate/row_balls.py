"""Balls around estimated rows that contain the true ones.

With K possible successors, n visits and the risk r of a row, P_hat = counts/n satisfies

- `time-uniform`: n KL(P_hat, P) <= log(1/r) + (K-1) log(e (1 + n/(K-1))) for all n at once
  (Jonsson et al. 2020), and so |P_hat - P|_1 <= sqrt(2 KL) (Pinsker).
- `weissman`: |P_hat - P|_1 <= sqrt(2 log((2^K - 2)/r_n)/n) (Weissman et al. 2003), for all n at
  once with r_n = r/(n(n+1)), which sums to r.
- `clopper-pearson`: Weissman's bound with r_n = r, for one look at an n that was fixed beforehand.

A row with one possible successor is known. K and r must not depend on the data.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray


def row_balls(
    kind: str, visits: IntArray, n_possible: IntArray, exponent: float
) -> tuple[FloatArray, FloatArray]:
    """Return the radii in KL (infinite if there is none) and l1 (at most 2), [n_pairs].

    Each ball has the risk exp(-exponent).
    """
    n, K = np.maximum(visits, 1).astype(np.float64), np.maximum(n_possible, 2).astype(np.float64)
    is_known, is_seen = n_possible <= 1, visits > 0
    if kind == "time-uniform":
        kl = (exponent + (K - 1) * (1 + np.log1p(n / (K - 1)))) / n
        l1 = np.sqrt(2 * kl)
    else:
        log_sets = K * np.log(2) + np.log1p(-np.exp2(1 - K))
        looks = np.log(n) + np.log1p(n) if kind == "weissman" else 0.0
        kl, l1 = np.full(len(n), np.inf), np.sqrt(2 * (log_sets + exponent + looks) / n)
    kl = np.where(is_known, 0.0, np.where(is_seen, kl, np.inf))
    return kl, np.where(is_known, 0.0, np.where(is_seen, np.minimum(2.0, l1), 2.0))
