"""Upper bounds of c(s,a) = 1 - sum P^2 that `tracking` plans with.

A pair's own counts give the bound c_hat + sqrt(c_hat (1 - c_hat) / T) / 4 + 8/T: Bernstein's bonus,
with a separate weight for rare outcomes. The counts of all pairs together show how c is distributed
over the pairs of a model, even if each of them shows little: in a maze with certain moves, a few
equal outcomes mean c = 0; in a slippery grid, they were luck. The distribution is estimated by
maximum likelihood without assuming its shape (an empirical Bayes estimate, found by expectation
maximisation). The smaller of the two bounds is used.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray

#: The weights of a pair's own bound, of deviations and of rare outcomes. With Bernstein's beta and
#: beta^2, either the first is too large, so that pairs with a large c get too few visits, or the
#: second too small: among some hundred pairs, there is one whose first T outcomes agree although
#: its c is 8/T.
DEVIATION, RARITY = 0.25, 8.0
#: How many standard deviations the other bound lies above the mean of c, given the counts.
DEVIATIONS = 4.0
#: The values of c that are considered.
VALUES = np.concatenate([[0.0], np.geomspace(0.003, 0.3, 16), np.linspace(0.325, 0.99, 20)])
#: Rounds of expectation maximisation.
ROUNDS = 40
#: The part of the distribution that is spread evenly, whatever the counts are.
DOUBT = 0.02


def planning_bounds(visits: IntArray, squares: FloatArray) -> FloatArray:
    """Return upper bounds of c, from visits T and the sums of squared counts, [n_pairs]."""
    if len(visits) == 0:
        return np.empty(0)
    bounds: FloatArray = np.minimum(own_bounds(visits, squares), pooled_bounds(visits, squares))
    return bounds


def own_bounds(visits: IntArray, squares: FloatArray) -> FloatArray:
    """Return the bounds from each pair's own counts, 1 for pairs with fewer than two visits."""
    T = np.maximum(visits, 2.0)
    c = np.minimum(1.0, (1 - squares / T**2) * T / (T - 1))
    bound = c + DEVIATION * np.sqrt(c * (1 - c) / T) + RARITY / T
    return np.where(visits < 2, 1.0, np.minimum(1.0, bound))


def pooled_bounds(visits: IntArray, squares: FloatArray) -> FloatArray:
    """Return the bounds from each pair's counts together with those of all other pairs."""
    chances = _posterior(*_attempts(visits.astype(np.float64), squares))
    c = chances @ VALUES
    deviation = np.sqrt(np.maximum(chances @ VALUES**2 - c**2, 0.0))
    bounds: FloatArray = np.minimum(c + DEVIATIONS * deviation, 1.0)
    return bounds


def _attempts(T: FloatArray, squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the number of attempts that a pair's counts amount to, and of successes among them.

    1 - sum T(s') (T(s') - 1) / (T (T - 1)) is an unbiased estimate of c. It is treated as the share
    of successes in (T - 1) / 2 attempts, which gives T equal outcomes about the right likelihood:
    it is q^T, where q is the largest probability of a successor, nearly 1 - c/2.
    """
    attempts = np.maximum(T - 1, 0.0) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        c = np.where(T > 1, 1 - (squares - T) / (T * (T - 1)), 0.0)
    return attempts, np.clip(c, 0.0, 1.0) * attempts


def _posterior(attempts: FloatArray, successes: FloatArray) -> FloatArray:
    """Return the posterior probabilities of the values of c, [n_pairs, n_values]."""
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
