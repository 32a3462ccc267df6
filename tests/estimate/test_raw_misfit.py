"""Tests of the law of raw steps pass where it holds, and say what is off where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from mdpdsl.estimate.raw_likelihood import RawLikelihood
from mdpdsl.estimate.raw_misfit import raw_misfit
from tests.estimate.raw_cases import (
    CLIPPED,
    GYMNASIUM,
    LINEAR,
    TRUTH,
    UNIFORM,
    WRAPPED,
    fitted,
    law_of,
    likelihood_of,
    pendulum_steps,
)


def test_the_scores_of_a_right_law_pass_the_tests() -> None:
    p_values: list[float] = []
    for seed in range(6):
        likelihood = RawLikelihood(law_of(GYMNASIUM), pendulum_steps(2_000, seed=20 + seed))
        misfit = raw_misfit(likelihood, TRUTH)
        assert misfit.n.sum() == 2_000
        p_values += misfit.p_value.tolist()
    assert np.mean(np.array(p_values) < 0.05) < 0.07
    assert min(p_values) > 1e-4


@pytest.mark.parametrize("name", ["clipped", "wrapped", "uniform"])
def test_scores_are_standard_normal_at_bounds_and_on_circles(name: str) -> None:
    rng = np.random.default_rng(17)
    x = rng.uniform(0, 10, 4_000)
    text, theta, after = {
        "clipped": (CLIPPED, [0.5, 2.0], np.clip(x + 0.5 + rng.normal(0, 2, 4_000), 0, 10)),
        "wrapped": (WRAPPED, [1.0, 1.4], x + 1 + rng.normal(0, 1.4, 4_000)),
        "uniform": (UNIFORM, [4.0], np.clip(x - 2 * rng.uniform(-1, 4, 4_000), 0, 10)),
    }[name]
    pair = np.repeat(np.arange(20), 200)
    likelihood = likelihood_of(text, x, after, None, pair)
    right = raw_misfit(likelihood, np.array(theta))
    assert right.p_value.min() > 1e-3
    wrong = raw_misfit(likelihood, np.array(theta) * 1.5)
    assert np.median(wrong.p_value) < 1e-2


def test_wrong_gravity_shows_after_the_best_fit() -> None:
    likelihood = RawLikelihood(law_of(GYMNASIUM), pendulum_steps(5_000, seed=14, g=9.0))
    misfit = raw_misfit(likelihood, fitted(likelihood))
    worst = int(np.argmin(misfit.p_value))
    assert misfit.p_value[worst] < 1e-6
    assert misfit.words[worst].startswith("omega' is ")
    assert misfit.words[worst].endswith("on average")


def test_a_spread_that_is_off_is_said_in_words() -> None:
    rng = np.random.default_rng(15)
    x = rng.normal(0, 1, 200)
    likelihood = likelihood_of(LINEAR, x, x + rng.normal(0, 1, 200))
    misfit = raw_misfit(likelihood, np.array([1.0, 0.0]))
    assert misfit.p_value[0] < 1e-9
    assert misfit.words[0] == "x' varies 1.96 times as much as the law says"


def test_a_constant_that_is_off_a_little_shows_in_all_rows_together() -> None:
    likelihood = RawLikelihood(law_of(GYMNASIUM), pendulum_steps(5_000, seed=14, g=9.6))
    misfit = raw_misfit(likelihood, fitted(likelihood))
    assert misfit.p_value.min() > 1e-6
    least = min(misfit.trends, key=lambda trend: trend.p_value)
    assert least.p_value < 1e-6
    assert least.words.startswith("omega' is smaller than the law says by 0.0")
    assert least.words.endswith("times sin(theta)")


def test_trends_of_a_right_law_are_as_likely_as_they_say() -> None:
    p_values: list[float] = []
    for seed in range(12):
        likelihood = RawLikelihood(law_of(GYMNASIUM), pendulum_steps(600, seed=40 + seed))
        found = raw_misfit(likelihood, fitted(likelihood)).trends
        p_values += [trend.p_value for trend in found]
    found_values = np.array(p_values)
    assert found_values.min() > 1e-4
    for level in (0.1, 0.3, 0.6):
        assert np.mean(found_values < level) == pytest.approx(level, abs=0.1)


def test_steps_that_decide_a_number_are_not_held_against_the_law() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(0, 1, 100)
    after = x + rng.normal(0, 1, 100)
    pair = np.where(np.arange(100) < 98, 0, 1)
    x[98:], after[98:] = (3.0, 4.0), (2.0, 5.0)
    text = """\
mdp line
unknown b in [-9, 9]
unknown c in [-9, 9]
state x in [-5, 5] bins 10
action go
noise w ~ normal(0, 1)
x' = (if x > 2.5 then b + c*x else x) + w
"""
    likelihood = likelihood_of(text, x, after, None, pair)
    misfit = raw_misfit(likelihood, fitted(likelihood))
    assert misfit.p_value[1] == 1.0
