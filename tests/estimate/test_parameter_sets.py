"""Time-uniform sets of unknown numbers: mixed likelihoods, covers, and how often they hold."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import betainc, betaln, ndtr

from mdpdsl.diagnostics import SolveError
from mdpdsl.estimate.likelihood import Likelihood
from mdpdsl.estimate.mixture_likelihood import mixed_likelihood
from mdpdsl.estimate.parameter_estimate import parameter_estimate
from mdpdsl.estimate.parameter_fit import fit
from mdpdsl.estimate.parameter_sets import Boxes, cover, numerical_cover
from mdpdsl.graph.space import FloatArray
from tests.estimate.likelihood_cases import (
    Bounded,
    Normal,
    Trials,
    inverse,
    product_trials,
    trials,
)

#: Mixed likelihoods are at most this much too small, in logs, and never too large.
ACCURACY = 1.2e-3
ROUNDING = 1e-7

#: That of importance sampling, with five numbers or more.
SAMPLED = 0.05


def mixed(likelihood: Likelihood) -> float:
    return mixed_likelihood(likelihood, fit(likelihood)).value


def is_slightly_less(found: float, exact: float, accuracy: float = ACCURACY) -> bool:
    return exact - accuracy <= found <= exact + ROUNDING


def random_normal(k: int, seed: int) -> tuple[Normal, FloatArray]:
    root = np.random.default_rng(seed).normal(size=(k, k))
    covariance = 1e-4 * (root @ root.T + 0.3 * np.eye(k))
    likelihood = Normal(np.full(k, 0.5), inverse(covariance), np.zeros(k), np.ones(k))
    return likelihood, covariance


@pytest.mark.parametrize(
    ("k", "n"),
    [(0, 0), (0, 1), (1, 3), (30, 100), (0, 50), (5, 5), (1, 100_000), (300_000, 1_000_000)],
)
def test_the_mixed_likelihood_of_a_chance_is_a_beta_function(k: int, n: int) -> None:
    assert is_slightly_less(mixed(trials(k, n)), float(betaln(k + 1, n - k + 1)))


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(80, 100, 0.0, 0.5), (0, 50, 0.1, 0.5), (10, 50, 0.1, 0.2), (500, 1_000, 0.2, 0.5)],
)
def test_ranges_may_cut_the_likelihood(k: int, n: int, low: float, high: float) -> None:
    inside = betainc(k + 1, n - k + 1, high) - betainc(k + 1, n - k + 1, low)
    exact = betaln(k + 1, n - k + 1) + np.log(inside / (high - low))
    assert is_slightly_less(mixed(trials(k, n, low, high)), float(exact))


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_mixed_likelihood_of_a_normal_law_is_its_volume(k: int) -> None:
    likelihood, covariance = random_normal(k, seed=k)
    exact = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    assert is_slightly_less(mixed(likelihood), float(exact))


def test_many_numbers_are_sampled_and_the_result_is_on_the_safe_side() -> None:
    likelihood, covariance = random_normal(6, seed=0)
    exact = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    found = mixed_likelihood(likelihood, fit(likelihood))
    assert found.is_sampled
    assert is_slightly_less(found.value, float(exact), SAMPLED)


@pytest.mark.parametrize("mean", [(0.5, 0.5), (0.0, 0.5), (-0.05, 0.1), (1.0, 0.0)])
def test_correlated_numbers_may_be_cut_by_their_ranges(mean: tuple[float, float]) -> None:
    covariance = 1e-2 * np.array([[1, 0.95], [0.95, 1]])
    spread = np.sqrt(covariance[1, 1] - covariance[0, 1] ** 2 / covariance[0, 0])

    def density(x: float) -> float:
        middle = mean[1] + 0.95 * (x - mean[0])
        inside = ndtr((1 - middle) / spread) - ndtr(-middle / spread)
        return float(np.exp(-((x - mean[0]) ** 2) / 2e-2) * inside)

    area = quad(density, 0, 1, limit=400, epsabs=1e-15, points=np.linspace(0.1, 0.9, 9))[0]
    exact = np.log(area) + np.log(spread * np.sqrt(2 * np.pi))
    likelihood = Normal(np.array(mean), inverse(covariance), np.zeros(2), np.ones(2))
    assert is_slightly_less(mixed(likelihood), float(exact))


@pytest.mark.parametrize(("k", "n"), [(24, 100), (970, 1_000), (2_400, 10_000)])
def test_a_ridge_is_integrated_along_its_curve(k: int, n: int) -> None:
    """The product z of two uniform numbers has the density -log z."""
    p, deviation = k / n, np.sqrt(k * (n - k) / n**3)
    top = k * np.log(p) + (n - k) * np.log1p(-p)

    def density(z: float) -> float:
        return float(-np.log(z) * np.exp(k * np.log(z) + (n - k) * np.log1p(-z) - top))

    ends = max(1e-9, p - 9 * deviation), min(1 - 1e-9, p + 9 * deviation)
    exact = top + np.log(quad(density, *ends, points=[p], limit=400)[0])
    assert is_slightly_less(mixed(product_trials(k, n)), float(exact))


def test_numbers_that_play_no_part_do_not_change_the_mixed_likelihood() -> None:
    for inner in (trials(30, 100), product_trials(24, 100)):
        assert mixed(Bounded(inner)) == pytest.approx(mixed(inner), abs=ACCURACY)


def test_two_maxima_both_count() -> None:
    """Of (p - 1/2)^2 = c, both roots fit."""

    class Mirrored(Trials):
        def chance(self, theta: FloatArray) -> float:
            return 4 * (float(theta[0]) - 0.5) ** 2

        def _slopes(self, theta: FloatArray) -> FloatArray:
            return np.array([8 * (theta[0] - 0.5)])

    likelihood = Mirrored(30, 100)
    grid = (np.arange(200_000) + 0.5) / 200_000
    q = 4 * (grid - 0.5) ** 2
    exact = np.log(np.mean(np.exp(30 * np.log(q) + 70 * np.log1p(-q) + 61))) - 61
    assert is_slightly_less(mixed(likelihood), float(exact))


def proved(
    likelihood: Likelihood, delta: float = 0.1, most_boxes: int = 2_000
) -> tuple[Boxes, float]:
    fitted = fit(likelihood)
    threshold = mixed_likelihood(likelihood, fitted).value + np.log(delta)
    return cover(likelihood, fitted, threshold, most_boxes=most_boxes), threshold


@pytest.mark.parametrize(("k", "n"), [(1, 3), (30, 100), (0, 50), (5, 5), (1, 100_000)])
def test_the_ends_of_one_interval_are_sharp_and_outside(k: int, n: int) -> None:
    likelihood = trials(k, n)
    boxes, threshold = proved(likelihood)
    numerical = numerical_cover(likelihood, fit(likelihood), threshold)

    def excess(p: float) -> float:
        return max(likelihood.value(np.array([p])) - threshold, -1e6)

    low = brentq(excess, 1e-16, k / n, xtol=1e-16) if k and excess(1e-16) < 0 else 0.0
    high = brentq(excess, k / n, 1 - 1e-16) if k < n and excess(1 - 1e-16) < 0 else 1.0
    for found in (boxes, numerical):
        ends = np.array(found.hull)[:, 0]
        width = high - low
        assert low - 1e-3 * width <= ends[0] <= low + 1e-12
        assert high - 1e-12 <= ends[1] <= high + 1e-3 * width


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_cover_contains_the_set_and_its_hull_is_close(seed: int) -> None:
    likelihood, covariance = random_normal(2, seed)
    boxes, threshold = proved(likelihood)
    radius = np.sqrt(-2 * threshold)
    directions = np.random.default_rng(seed).normal(size=(300, 2))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    edge = likelihood.mean + radius * directions @ np.linalg.cholesky(covariance).T
    assert all(boxes.contain(point) for point in edge)
    half = radius * np.sqrt(np.diag(covariance))
    low, high = boxes.hull
    assert np.all(low <= likelihood.mean - half + 1e-12)
    assert low == pytest.approx(likelihood.mean - half, abs=0.02 * half.max())
    assert high == pytest.approx(likelihood.mean + half, abs=0.02 * half.max())


def test_fewer_boxes_are_coarser_but_contain_the_set() -> None:
    likelihood = product_trials(240, 1_000)
    fine, _ = proved(likelihood)
    coarse, threshold = proved(likelihood, most_boxes=50)
    assert len(coarse.low) <= 51
    generator = np.random.default_rng(0)
    points = [p for p in generator.random((3_000, 2)) if likelihood.value(p) >= threshold]
    assert len(points) > 50
    for boxes in (fine, coarse):
        assert all(boxes.contain(point) for point in points)

    def area(boxes: Boxes) -> float:
        return float(np.prod(boxes.high - boxes.low, axis=1).sum())

    assert area(fine) < area(coarse)


def test_a_set_is_found_numerically_if_nothing_can_be_proved() -> None:
    found = parameter_estimate(trials(30, 100, can_prove=False), 0.1)
    exact = parameter_estimate(trials(30, 100), 0.1)
    assert not found.is_proved
    assert exact.is_proved
    width = exact.interval_high - exact.interval_low
    assert found.interval_low == pytest.approx(exact.interval_low, abs=1e-3 * width[0])
    assert found.interval_high == pytest.approx(exact.interval_high, abs=1e-3 * width[0])


def test_numerical_boxes_contain_a_curved_set() -> None:
    likelihood = product_trials(240, 1_000)
    fitted = fit(likelihood)
    threshold = mixed_likelihood(likelihood, fitted).value + np.log(0.1)
    boxes = numerical_cover(likelihood, fitted, threshold, most_boxes=256)
    generator = np.random.default_rng(1)
    points = [p for p in generator.random((3_000, 2)) if likelihood.value(p) >= threshold]
    assert all(boxes.contain(point) for point in points)


def test_hopeless_bounds_are_given_up() -> None:
    class Loose(Normal):
        def upper(self, low: FloatArray, high: FloatArray) -> float:
            return super().upper(low, high) + 1e4 * float(np.max(high - low))

    likelihood, _ = random_normal(3, 0)
    loose = Loose(likelihood.mean, likelihood.precision, likelihood.low, likelihood.high)
    with pytest.raises(SolveError, match="no close bounds"):
        proved(loose)
    found = parameter_estimate(loose, 0.1, has_profiles=False)
    assert not found.is_proved
    assert not found.is_empty


def test_the_set_of_no_data_is_the_whole_range() -> None:
    found = parameter_estimate(Bounded(trials(0, 0)), 0.1)
    assert found.interval_low.tolist() == [0, 0]
    assert found.interval_high.tolist() == [1, 4]


def test_sets_shrink_like_the_root_of_the_data() -> None:
    widths = []
    for n in (1_000, 16_000):
        found = parameter_estimate(trials(3 * n // 10, n), 0.1, has_profiles=False)
        widths.append(float(found.interval_high[0] - found.interval_low[0]))
    assert 3 < widths[0] / widths[1] < 4.2


def test_sets_hold_at_every_look_as_often_as_promised() -> None:
    """Looking again and again, and stopping at the worst time, misses the truth in 10 % at most."""
    truth, delta, n_runs = 0.12, 0.1, 1_000
    looks = (1, 2, 3, 4, 6, 8, 11, 14, 19, 24, 32, 40, 50, 65, 80, 100, 130, 160, 200)

    @cache
    def misses(k: int, n: int) -> bool:
        likelihood = trials(k, n, 0.0, 0.5)
        return bool(likelihood.value(np.array([truth])) < mixed(likelihood) + np.log(delta))

    slips = np.random.default_rng(5).random((n_runs, looks[-1])) < truth
    counts = np.cumsum(slips, axis=1)[:, np.array(looks) - 1]
    missed = sum(
        any(misses(k, n) for k, n in zip(run, looks, strict=True)) for run in counts.tolist()
    )
    assert 0 < missed <= delta * n_runs
