"""Complexities of pairs seen a few times, told from those of all the others.

Of how c is distributed over the pairs of a model the counts of all pairs tell much, even where each
says little: in a maze with certain moves, that a few equal outcomes mean c = 0; in a slippery grid,
that they were luck. The distribution is estimated by maximum likelihood, without a shape of its own
(an empirical Bayes estimate, found by expectation maximisation).
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray

#: The values that c may have.
VALUES = np.concatenate([[0.0], np.geomspace(0.003, 0.3, 16), np.linspace(0.325, 0.99, 20)])
#: Of expectation maximisation.
ROUNDS = 40
#: How much of the distribution is spread evenly, whatever the counts say.
DOUBT = 0.02
#: By how many standard deviations the bounds lie above the mean, at the most.
DEVIATIONS = 3.0


def pooled_bounds(visits: IntArray, squares: FloatArray, beta: float) -> FloatArray:
    """Return upper bounds of c, from visits T and the sums of squared counts, [n_pairs].

    The mean of c given a pair's own counts, and Bernstein's bonus for it, but no more than what
    the spread of c, given the counts, calls for.
    """
    T = visits.astype(np.float64)
    chances = _posterior(*_attempts(T, squares))
    c = chances @ VALUES
    deviation = np.sqrt(np.maximum(chances @ VALUES**2 - c**2, 0.0))
    own = beta * np.sqrt(c * (1 - c) / np.maximum(T, 1.0)) + beta**2 / np.maximum(T, 1.0)
    bounds: FloatArray = np.minimum(c + np.minimum(DEVIATIONS * deviation, own), 1.0)
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
