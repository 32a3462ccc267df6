"""Bounds of c that plans are made with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdpdsl.explore.algorithms.tracking.tracked_complexity import (
    own_bounds,
    planning_bounds,
    pooled_bounds,
)


def test_bounds_of_plans_are_above_the_estimate_and_come_down_to_it() -> None:
    shares = np.array([0.7, 0.2, 0.1])
    before = np.ones(1)
    for T in (1, 2, 10, 100, 1_000, 10**6):
        visits, squares = np.array([T]), np.array([float(np.sum((shares * T) ** 2))])
        bound = own_bounds(visits, squares)
        assert 1 - float(np.sum(shares**2)) < bound <= before
        before = bound
    assert before == pytest.approx(0.46, abs=1e-3)
    # Outcomes that agree leave a part open that is rare.
    assert own_bounds(np.array([40]), np.array([1600.0])) == pytest.approx(0.2)


@given(st.integers(0, 10**6))
def test_pooled_bounds_are_those_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 400
    visits = np.full(n, 20)
    all_agree = np.full(n, 400.0)  # squares of 20 equal outcomes
    bounds = pooled_bounds(visits, all_agree)
    assert bounds.max() < 0.03  # so a maze with certain moves
    half = rng.binomial(20, 0.5, n).astype(np.float64)
    squares = half**2 + (20 - half) ** 2
    squares[0] = 400.0  # one that agrees by luck, among others with c = 1/2
    bounds = pooled_bounds(visits, squares)
    assert bounds[0] > 0.3
    assert ((bounds > 0.3) & (bounds <= 1)).all()
    assert pooled_bounds(np.zeros(3, np.int64), np.zeros(3)).min() > 0.3  # nothing is known


@given(st.integers(0, 10**6))
def test_plans_take_the_smaller_of_two_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(4, 10 ** rng.uniform(-1, 1)), size=100)
    visits = rng.integers(0, 200, 100)
    counts = np.array([rng.multinomial(T, row) for T, row in zip(visits, shares, strict=True)])
    squares = (counts.astype(np.float64) ** 2).sum(axis=1)
    bounds = planning_bounds(visits, squares)
    assert (bounds == np.minimum(own_bounds(visits, squares), pooled_bounds(visits, squares))).all()
    # Bounds for planning, not for proofs: few of them are below the truth.
    assert np.mean(bounds < 1 - (shares**2).sum(axis=1)) < 0.3
