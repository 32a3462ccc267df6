from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mdpdsl.estimate.intervals import clopper_pearson, joint_intervals, unseen_upper
from mdpdsl.graph.counts import counts_from


def test_the_ends_are_where_a_tail_of_the_binomial_is_half_the_risk() -> None:
    n, delta = 40, 0.1
    k = np.arange(n + 1)
    lower, upper = clopper_pearson(k, np.full(n + 1, n), delta)
    assert stats.binom.sf(k[1:] - 1, n, lower[1:]) == pytest.approx(delta / 2)
    assert stats.binom.cdf(k[:-1], n, upper[:-1]) == pytest.approx(delta / 2)
    assert (lower[0], upper[-1]) == (0, 1)


def test_an_unseen_successor_has_the_upper_end_of_no_count() -> None:
    n = np.array([1, 5, 10**6])
    _, upper = clopper_pearson(np.zeros(3, np.int64), n, 1e-9)
    assert unseen_upper(n, 1e-9) == pytest.approx(upper, rel=1e-9)
    assert unseen_upper(np.array([0]), 0.1) == 1


@pytest.mark.parametrize("p", [0.003, 0.1, 0.5, 0.97])
def test_an_interval_covers_as_often_as_promised(p: float) -> None:
    n, delta, trials = 60, 0.1, 20_000
    k = np.random.default_rng(1).binomial(n, p, trials)
    lower, upper = clopper_pearson(k, np.full(trials, n), delta)
    missed = np.mean((p < lower) | (p > upper))
    assert missed <= delta + 4 * np.sqrt(delta / trials)


def test_all_intervals_hold_jointly() -> None:
    rng = np.random.default_rng(2)
    n_pairs, n_states, delta, trials = 4, 5, 0.3, 1500
    P = rng.dirichlet(np.full(n_states, 0.5), n_pairs)
    missed = 0
    for _ in range(trials):
        drawn = np.array([rng.multinomial(30, row) for row in P])
        pairs, successors = np.nonzero(drawn)
        counts = counts_from(pairs, successors, drawn[pairs, successors], n_pairs)
        found = joint_intervals(counts, n_states, delta)
        truth = P[pairs, successors]
        is_hit = np.all((found.lower <= truth) & (truth <= found.upper))
        unseen = np.where(drawn == 0, P, 0).max(axis=1)
        missed += not (is_hit and np.all(unseen <= found.unseen_upper))
    assert found.entry_risk == pytest.approx(delta / 20)
    assert missed / trials <= delta + 4 * np.sqrt(delta / trials)
