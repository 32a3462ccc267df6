"""The best rows of balls of KL, by duality."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from tests.solve.robust_games import Game

#: Largest duality gap, and largest distance from the ball, of rows with losses up to 1.
GAP = 1e-11
#: Bounds of log(mu - max v), in units of the range of v.
LEAST, MOST = -60.0, 40.0


def best_rows(game: Game, pairs: IntArray, worth: FloatArray, is_maximised: bool) -> FloatArray:
    """Return rows [n, n_states] of pairs [n] in balls of KL with the best expected worth [n, ...].

    With the estimate e, the largest p v under KL(e, p) <= kl is, by duality, the least of

        mu - exp(-kl) prod_i (mu - v_i)^e_i    over  mu >= max v,

    which is convex in mu. Its derivative vanishes where the KL of p_i ~ e_i / (mu - v_i) is kl, or
    it is positive at once, at mu = max v: then the rest of the row goes to where v is largest.
    """
    n = game.n_states
    possible = np.array([game.rows[pair].possible(n, "kl") for pair in pairs])
    e = np.array([game.rows[pair].estimates(n) for pair in pairs])
    kl = np.array([game.rows[pair].kl for pair in pairs])
    signed = np.where(possible, worth if is_maximised else -worth, -np.inf)
    top = signed.max(axis=1)
    loss = np.where(possible, top[:, None] - signed, 0.0)  # mu - v is t + loss
    scale = loss.max(axis=1)
    is_free = (e.sum(axis=1) == 0) | np.isinf(kl)
    is_given = ~is_free & ((kl == 0) | (scale == 0))
    found = np.where(is_given[:, None], e, 0.0)
    best = possible & (loss == 0)
    single = np.eye(n)[np.argmax(best, axis=1)]
    found[is_free] = single[is_free]
    rest = ~is_free & ~is_given
    found[rest] = _tilted(e[rest], loss[rest] / scale[rest, None], kl[rest], single[rest])
    return found


def _tilted(e: FloatArray, loss: FloatArray, kl: FloatArray, single: FloatArray) -> FloatArray:
    """Return the rows with the least loss, whose range is [0, 1]; and check it by duality."""
    least, most = np.full(len(e), LEAST), np.full(len(e), MOST)
    for _ in range(100):
        middle = (least + most) / 2
        t = np.exp(middle)[:, None]
        is_steep = _mean_log(e, t + loss) + np.log((e / (t + loss)).sum(axis=1)) >= kl
        least, most = np.where(is_steep, middle, least), np.where(is_steep, most, middle)
    t = np.exp((least + most) / 2)[:, None]
    weights = e / (t + loss)
    found: FloatArray = weights / weights.sum(axis=1)[:, None]
    at_top = (least == LEAST) & ~np.any((e > 0) & (loss == 0), axis=1)
    if at_top.any():
        loss_top = np.where(e > 0, loss, 1.0)[at_top]
        factor = np.exp(_mean_log(e[at_top], loss_top) - kl[at_top])
        found[at_top] = factor[:, None] * e[at_top] / loss_top
        missing = np.maximum(1 - found[at_top].sum(axis=1), 0.0)
        found[at_top] += missing[:, None] * single[at_top]
        t[at_top] = 0.0
    dual = np.exp(_mean_log(e, np.where(e > 0, t + loss, 1.0)) - kl) - t[:, 0]
    primal = (found * loss).sum(axis=1)
    assert np.all(np.abs(primal - dual) <= GAP), "the duality gap is not closed"
    divergence = (e * np.log(np.where(e > 0, e, 1) / np.where(e > 0, found, 1))).sum(axis=1)
    assert np.all(divergence <= kl + GAP), "a row is outside of its ball"
    return found


def _mean_log(e: FloatArray, x: FloatArray) -> FloatArray:
    """Return the sum of e log x."""
    return np.asarray((e * np.log(x)).sum(axis=1))
