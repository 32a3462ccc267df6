"""Intervals of single probabilities against their definitions, and against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq
from scipy.special import betaln, xlog1py, xlogy

from mdpdsl.estimate.intervals import (
    SETS,
    clopper_pearson,
    interval,
    time_uniform,
    unseen_upper,
)
from mdpdsl.graph.space import IntArray


def excess(p: float, k: float, n: float, delta: float) -> float:
    """Return the logarithm of the right side of the definition over the left: positive inside."""
    likelihood = float(xlogy(k, p) + xlog1py(n - k, -p))
    mixture = float(betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5))
    return likelihood - float(np.log(delta)) - mixture


@given(st.integers(1, 3_000), st.floats(0, 1), st.floats(1e-12, 0.5))
def test_the_ends_are_the_roots_of_the_definition(n: int, share: float, delta: float) -> None:
    k = round(share * n)
    (low,), (high,) = time_uniform(np.array([k]), np.array([n]), delta)
    lowest, highest = 0.0, 1.0
    if k > 0:
        least = 1e-300
        lowest = np.exp(
            brentq(
                lambda x: excess(np.exp(x), k, n, delta), np.log(least), np.log(k / n), xtol=1e-13
            )
            if k < n
            else (np.log(delta) + betaln(k + 0.5, 0.5) - betaln(0.5, 0.5)) / n
        )
    if k < n:
        gap = (
            brentq(lambda x: excess(-np.expm1(x), k, n, delta), -600, np.log1p(-k / n), xtol=1e-13)
            if k > 0
            else (np.log(delta) + betaln(0.5, n + 0.5) - betaln(0.5, 0.5)) / n
        )
        highest = -np.expm1(gap)
    assert low == pytest.approx(lowest, rel=1e-8, abs=1e-290)
    assert high == pytest.approx(highest, rel=1e-8)


@pytest.mark.parametrize("n", [10**6, 10**9])
@pytest.mark.parametrize("delta", [0.1, 1e-12])
def test_a_billion_visits_lose_no_digits(n: int, delta: float) -> None:
    """Where the logarithms of the definition are as large as n, they still agree to its digits."""
    few = np.array([0, 1, 7, n // 1_000, n // 2])
    k = np.append(few, n - few[-2::-1])
    lower, upper = time_uniform(k, np.full(len(k), n), delta)
    assert np.all((lower <= k / n) & (k / n <= upper))
    assert (lower[0], upper[-1]) == (0, 1)
    for place, count in enumerate(few.tolist()):
        if count > 0:
            assert abs(excess(lower[place], count, n, delta)) < 1e-6 * n**0.5
        assert abs(excess(upper[place], count, n, delta)) < 1e-6 * n**0.5
    # Symmetric, down to the rounding of 1 - p.
    assert lower == pytest.approx(1 - upper[::-1], abs=1e-15)
    # Few visits of many are Poisson: k log(lambda) - lambda, without the digits of 1 - p.
    rate = n * lower[1]
    level = 0.5 * np.log(np.pi * n) + np.log(2) - np.log(delta)
    assert rate - np.log(rate) == pytest.approx(level, rel=0, abs=2 / n)


@pytest.mark.parametrize("kind", SETS)
def test_without_visits_nothing_is_known(kind: str) -> None:
    lower, upper = interval(kind, np.array([0]), np.array([0]), 3.0)
    assert (lower[0], upper[0]) == (0, 1)


@pytest.mark.parametrize("kind", SETS)
def test_an_interval_contains_the_estimate_and_grows_with_certainty(kind: str) -> None:
    n = np.repeat([1, 5, 80, 4_000], 4)
    k = (n * np.tile([0, 0.1, 0.5, 1], 4)).astype(np.int64)
    before = (np.ones(16), np.zeros(16))
    for exponent in (1.0, 5.0, 30.0, 900.0):
        lower, upper = interval(kind, k, n, exponent)
        assert np.all((lower <= k / n) & (upper >= k / n))
        assert np.all((lower <= before[0]) & (upper >= before[1]))
        before = (lower, upper)


def test_clopper_and_pearson_are_quantiles_of_beta_distributions() -> None:
    n, delta = 40, 0.1
    k = np.arange(n + 1)
    lower, upper = clopper_pearson(k, np.full(n + 1, n), delta)
    assert stats.binom.sf(k[1:] - 1, n, lower[1:]) == pytest.approx(delta / 2)
    assert stats.binom.cdf(k[:-1], n, upper[:-1]) == pytest.approx(delta / 2)
    assert (lower[0], upper[-1]) == (0, 1)
    inside = k[1:-1]
    assert lower[1:-1] == pytest.approx(stats.beta.ppf(delta / 2, inside, n - inside + 1))
    assert upper[1:-1] == pytest.approx(stats.beta.ppf(1 - delta / 2, inside + 1, n - inside))


def test_weissmans_risk_is_shared_among_all_numbers_of_visits() -> None:
    n, r = 50, 0.01
    lower, upper = interval("weissman", np.array([20]), np.array([n]), -np.log(r))
    width = np.sqrt(np.log(2 * n * (n + 1) / r) / (2 * n))
    assert (lower[0], upper[0]) == pytest.approx((0.4 - width, 0.4 + width))
    n_visits = np.arange(1, 10**6)
    assert np.sum(r / (n_visits * (n_visits + 1.0))) <= r


@pytest.mark.parametrize("kind", SETS)
def test_what_was_never_seen_has_the_upper_end_of_no_count(kind: str) -> None:
    n = np.array([1, 5, 10**6])
    upper = interval(kind, np.zeros(3, np.int64), n, 20.0)[1]
    assert unseen_upper(kind, n, 20.0) == pytest.approx(upper, rel=1e-12)
    # A risk that no float can have: exp(-5000).
    rare = unseen_upper(kind, n, 5_000.0)
    assert np.all((rare > upper) | (rare == 1))
    assert rare[2] < 0.06


def test_time_uniform_intervals_are_hardly_wider_than_those_for_one_look() -> None:
    n, k = np.full(7, 1_000), np.array([0, 1, 5, 50, 300, 500, 999])
    for delta in (1e-3, 1e-4, 1e-6, 1e-9):
        (a, b), (c, d) = time_uniform(k, n, delta), clopper_pearson(k, n, delta)
        assert np.all(b - a <= 1.5 * (d - c))


def missed_at_some_look(kind: str, delta: float, hits: IntArray) -> float:
    n = np.broadcast_to(np.arange(1, hits.shape[1] + 1), hits.shape)
    lower, upper = interval(kind, hits.cumsum(axis=1), n, -np.log(delta))
    return float(np.mean(((lower > P) | (upper < P)).any(axis=1)))


P = 0.3


def test_looking_at_every_visit_breaks_the_intervals_for_one_look_only() -> None:
    hits = (np.random.default_rng(4).random((300, 600)) < P).astype(np.int64)
    assert missed_at_some_look("time-uniform", 0.1, hits) <= 0.1
    assert missed_at_some_look("weissman", 0.1, hits) <= 0.1
    assert missed_at_some_look("clopper-pearson", 0.1, hits) > 0.3
