"""Upper bounds of c(s,a) = 1 - sum P^2 that `tracking` plans with.

A pair's own counts bound it by c_hat + sqrt(c_hat (1 - c_hat) / T) + 8/T: Bernstein's bonus with a
weight of its own for what is rare. And of how c is distributed over the pairs of a model the counts
of all pairs tell much, even where each says little: in a maze with certain moves, that a few equal
outcomes mean c = 0; in a slippery grid, that they were luck. The distribution is estimated by
maximum likelihood, without a shape of its own (an empirical Bayes estimate, found by expectation
maximisation). Of the two bounds the smaller one holds.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray

#: Of a pair's own bound, for deviations and for what is rare. Bernstein's beta and beta^2 are too
#: much for the one, so that pairs with a large c get too little, or too little for the other: of
#: some hundred pairs, there is one whose first T outcomes agree though its c is 8/T.
DEVIATION, RARITY = 0.25, 8.0
#: By how many standard deviations the other bound lies above the mean of c, given the counts.
DEVIATIONS = 4.0
#: The values that c may have.
VALUES = np.concatenate([[0.0], np.geomspace(0.003, 0.3, 16), np.linspace(0.325, 0.99, 20)])
#: Of expectation maximisation.
ROUNDS = 40
#: How much of the distribution is spread evenly, whatever the counts say.
DOUBT = 0.02


def planning_bounds(visits: IntArray, squares: FloatArray) -> FloatArray:
    """Return upper bounds of c, from visits T and the sums of squared counts, [n_pairs]."""
    bounds: FloatArray = np.minimum(own_bounds(visits, squares), pooled_bounds(visits, squares))
    return bounds


def own_bounds(visits: IntArray, squares: FloatArray) -> FloatArray:
    """Return the bounds that each pair's counts give, 1 up to one visit."""
    T = np.maximum(visits, 2.0)
    c = np.minimum(1.0, (1 - squares / T**2) * T / (T - 1))
    bound = c + DEVIATION * np.sqrt(c * (1 - c) / T) + RARITY / T
    return np.where(visits < 2, 1.0, np.minimum(1.0, bound))


def pooled_bounds(visits: IntArray, squares: FloatArray) -> FloatArray:
    """Return the bounds that a pair's counts give together with those of all the others."""
    chances = _posterior(*_attempts(visits.astype(np.float64), squares))
    c = chances @ VALUES
    deviation = np.sqrt(np.maximum(chances @ VALUES**2 - c**2, 0.0))
    bounds: FloatArray = np.minimum(c + DEVIATIONS * deviation, 1.0)
    return bounds


def _attempts(T: FloatArray, squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how many attempts a pair's counts are taken for, and how many had success.

    1 - sum T(s') (T(s') - 1) / (T (T - 1)), an estimate of c without bias, is taken for the share
    of successes in half as many attempts as there are pairs of successive visits: that T visits
    all lead to a state of chance q, which is nearly 1 - c/2, has chance q^T.
    """
    attempts = np.maximum(T - 1, 0.0) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        c = np.where(T > 1, 1 - (squares - T) / (T * (T - 1)), 0.0)
    return attempts, np.clip(c, 0.0, 1.0) * attempts


def _posterior(attempts: FloatArray, successes: FloatArray) -> FloatArray:
    """Return the chances of the values of c, [n_pairs, n_values]."""
    with np.errstate(divide="ignore"):
        log_c = np.where(VALUES > 0, np.log(VALUES), -1e30)  # times 0 successes it is 0
    logs = np.outer(successes, log_c) + np.outer(attempts - successes, np.log1p(-VALUES))
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = np.full(len(VALUES), 1 / len(VALUES))
    for _ in range(ROUNDS):
        chances: FloatArray = likelihood * prior
        chances /= chances.sum(axis=1, keepdims=True)
        prior = (1 - DOUBT) * chances.mean(axis=0) + DOUBT / len(VALUES)
    return chances
