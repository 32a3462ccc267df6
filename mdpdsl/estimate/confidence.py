"""Confidence sets around estimated rows: l1 balls, and upper bounds on the complexity.

delta_t = delta / (pi^2/3 SA t^2) is the share of the risk delta of one pair at time t (paper, fact
uniform_conf_P_c_kappa); the sum over pairs and times is below delta.

- `paper`: b = min(2, sqrt(2 log(1/delta_t) / T)) (paper, eq. Pball_confset). It ignores the number
  of successors and is not a valid bound for rows with many of them.
- `weissman`: b = min(2, sqrt(2 (S log 2 + log(1/delta_t)) / T)) (Weissman et al. 2003), a valid
  bound for every row.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray

RADII = ("paper", "weissman")


def pair_risk(delta: float, n_pairs: int, t: int) -> float:
    """Return delta_t, the risk of one pair at time t."""
    return delta / (np.pi**2 / 3 * n_pairs * float(max(1, t)) ** 2)


def l1_radius(
    visits: IntArray, n_states: int, t: int, delta: float, kind: str = "paper"
) -> FloatArray:
    """Return the radius of the l1 ball around each estimated row, 2 if T = 0, [n_pairs]."""
    if kind not in RADII:
        raise ValueError(f"unknown radius {kind!r}; choose one of {', '.join(RADII)}")
    log_term = -np.log(pair_risk(delta, len(visits), t))
    if kind == "weissman":
        log_term += n_states * np.log(2)
    radius: FloatArray = np.sqrt(2 * log_term / np.maximum(visits, 0.5))
    return np.minimum(2.0, radius)


def complexity_upper_bound(
    c_hat: FloatArray, visits: IntArray, n_states: int, t: int, delta: float
) -> FloatArray:
    """Return the upper confidence bound on c, 1 if T = 0 (paper, eq. c_ucb), [n_pairs]."""
    log_term = np.log(2 * n_states / pair_risk(delta, len(visits), t))
    width = n_states * np.sqrt(log_term / (2 * np.maximum(visits, 1)))
    return np.where(visits > 0, np.minimum(1.0, c_hat + width), 1.0)


def bernstein_upper_bound(c_hat: FloatArray, visits: IntArray, beta: float = 2.0) -> FloatArray:
    """Return min(1, c_hat T/(T-1) + beta sqrt(c_hat(1-c_hat)/T) + beta^2/T), 1 if T < 2.

    This is an empirical Bernstein bound on c, [n_pairs], as explorers use it with the bonus
    `bernstein`. The last term keeps it at 1 for up to beta^2 visits, whatever their outcomes.
    """
    T = np.maximum(visits, 2).astype(np.float64)
    c = np.minimum(1.0, c_hat * T / (T - 1))
    bound = c + beta * np.sqrt(np.maximum(0.0, c * (1 - c)) / T) + beta**2 / T
    return np.where(visits >= 2, np.minimum(1.0, bound), 1.0)
