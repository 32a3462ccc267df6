"""Sums over raw steps give the likelihood that the steps give one by one."""

from __future__ import annotations

import numpy as np
import pytest

from mdpdsl.estimate.raw_likelihood import RawLikelihood
from tests.estimate.raw_cases import (
    CLIPPED,
    GYMNASIUM,
    LINEAR,
    WRAPPED,
    law_of,
    likelihood_of,
    pendulum_steps,
)

NARROW = WRAPPED.replace("[-20, 20]", "[0.8, 1.2]").replace("[0.1, 30]", "[0.1, 0.5]")
KNOWN = CLIPPED.replace("unknown sd in [0.2, 3]", "param sd = 1.2")
LINE = """\
mdp line
unknown d in [-5, 5]
state x in [0, HIGH] bins 20
action go
noise w ~ normal(0, 0.1)
x' = 0.9*x + d + w
"""
STILL = """\
mdp still
unknown g in [0, 1]
unknown s in [0.01, 1]
state x in [-5, 5] bins 10
action u in {0, 1}
noise w ~ normal(0, s)
x' = x + (if u == 0 then 0 else g + w)
"""


def drawn(name: str) -> RawLikelihood:
    rng = np.random.default_rng(8)
    x = rng.uniform(1, 9, 400)
    if name == "pendulum":
        return RawLikelihood(law_of(GYMNASIUM), pendulum_steps(400, seed=3))
    if name == "wrapped":
        return likelihood_of(NARROW, x, x + 1 + rng.normal(0, 0.3, 400))
    if name == "clipped":
        return likelihood_of(KNOWN, x, np.clip(x + 0.5 + rng.normal(0, 1.2, 400), 0, 10))
    return likelihood_of(LINEAR, x - 5, x - 4.7 + rng.normal(0, 0.8, 400))


def one_by_one(likelihood: RawLikelihood, theta: np.ndarray) -> tuple[float, np.ndarray]:
    parts = [likelihood.logs(group, theta) for group in likelihood.groups]
    slopes = sum((slopes.sum(axis=1) for _, slopes in parts), np.zeros(len(theta)))
    return float(sum(logs.sum() for logs, _ in parts)), slopes


@pytest.mark.parametrize("name", ["pendulum", "wrapped", "clipped", "linear"])
def test_sums_give_the_likelihood_of_all_steps(name: str) -> None:
    likelihood, rng = drawn(name), np.random.default_rng(1)
    assert likelihood.n_terms < sum(len(group.steps) for group in likelihood.groups)
    for _ in range(50):
        theta = rng.uniform(likelihood.low, likelihood.high)
        expected, slopes = one_by_one(likelihood, theta)
        value, gradient = likelihood.value_and_gradient(theta)
        assert value == pytest.approx(expected, rel=1e-10)
        assert likelihood.value(theta) == value
        assert gradient == pytest.approx(slopes, rel=1e-7, abs=1e-6)


@pytest.mark.parametrize("name", ["pendulum", "wrapped", "clipped", "linear"])
def test_bounds_of_sums_contain_all_values_and_are_close_in_small_boxes(name: str) -> None:
    likelihood, rng = drawn(name), np.random.default_rng(2)
    width = likelihood.high - likelihood.low
    for share in (1.0, 0.3, 0.03, 1e-4):
        low = likelihood.low + (1 - share) * rng.random(len(width)) * width
        high = low + share * width
        least, most = likelihood.lower(low, high), likelihood.upper(low, high)
        values = [one_by_one(likelihood, rng.uniform(low, high))[0] for _ in range(60)]
        assert least <= min(values)
        assert max(values) <= most
        if share == 1e-4:
            assert most - max(values) <= 0.1 * (max(values) - min(values)) + 1e-4


@pytest.mark.parametrize("high", ["100", "1e7"])
def test_a_wide_range_changes_nothing(high: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(5, 15, 300)
    likelihood = likelihood_of(LINE.replace("HIGH", high), x, 0.9 * x + 1 + rng.normal(0, 0.1, 300))
    assert len(likelihood.contradictions.step) == 0
    theta = np.array([1.02])
    r = (likelihood.steps.after - 0.9 * likelihood.steps.before)[:, 0] - 1.02
    expected = -np.sum((r / 0.1) ** 2) / 2 - 300 * np.log(0.1 * np.sqrt(2 * np.pi))
    assert likelihood.value(theta) == pytest.approx(expected, rel=1e-9)


def test_noise_of_unknown_size_may_vanish_at_some_steps() -> None:
    rng = np.random.default_rng(6)
    x, u = rng.uniform(-2, 2, 200), np.arange(200) % 2
    after = x + np.where(u == 0, 0.0, 0.3 + rng.normal(0, 0.2, 200))
    likelihood = likelihood_of(STILL, x, after, u)
    assert len(likelihood.contradictions.step) == 0
    r = (after - x)[u == 1] - 0.25
    expected = -np.sum((r / 0.3) ** 2) / 2 - 100 * np.log(0.3 * np.sqrt(2 * np.pi))
    assert likelihood.value(np.array([0.25, 0.3])) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["pendulum", "clipped"])
def test_with_known_deviations_the_information_is_what_was_observed(name: str) -> None:
    likelihood = drawn(name)
    theta, k = likelihood.low + 0.4 * (likelihood.high - likelihood.low), len(likelihood.names)
    step = 1e-5 * (likelihood.high - likelihood.low)
    observed = np.empty((k, k))
    for j in range(k):
        move = np.eye(k)[j] * step
        ends = [likelihood.value_and_gradient(theta + sign * move)[1] for sign in (-1, 1)]
        observed[j] = (ends[0] - ends[1]) / (2 * step[j])
    assert likelihood.information(theta) == pytest.approx(observed, rel=1e-3)
