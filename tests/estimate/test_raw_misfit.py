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
