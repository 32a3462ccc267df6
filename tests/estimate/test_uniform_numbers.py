"""Numbers that move the ends of uniform noise, against closed forms and linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from mdpdsl.estimate.likelihood import edges_of
from mdpdsl.estimate.parameter_estimate import ParameterEstimate, parameter_estimate
from mdpdsl.estimate.parameter_fit import fit
from mdpdsl.estimate.profile_likelihood import Profile
from mdpdsl.estimate.raw_densities import EDGE
from mdpdsl.estimate.raw_likelihood import RawLikelihood
from mdpdsl.graph.space import FloatArray
from tests.estimate.raw_cases import LINEAR, law_of, likelihood_of, steps_of

DRIFTING = """\
mdp drifting
unknown d in [-1, 1]
state x in [-5, 5] bins 10
action u in {-1, 0, 1}
noise w ~ uniform(-0.2, 0.2)
x' = 0.8*x + 0.3*u + d + w
"""
TWO = DRIFTING.replace("state", "unknown g in [-1, 1]\nstate").replace("0.3*u", "g*u")
SPREAD = DRIFTING.replace("unknown d", "unknown a in [0.05, 1]\nunknown d")
SPREAD = SPREAD.replace("uniform(-0.2, 0.2)", "uniform(-a, a)")
WRAPPED = """\
mdp turning
unknown speed in [-1, 1]
state x in [0, 10] wrap bins 5
action go
noise w ~ uniform(-0.2, 0.2)
x' = x + speed + w
"""
D, G, HALF = 0.13, 0.3, 0.2
#: Ends of linear programs, as a share of the interval.
EXACT = 1e-5
#: Ends that depend on a sampled mixture.
SAMPLED = 0.02


def logged(n: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return x, u and x' of simulated steps."""
    rng = np.random.default_rng(seed)
    u, w = rng.integers(-1, 2, n).astype(np.float64), rng.uniform(-HALF, HALF, n)
    x = np.zeros(n + 1)
    for t in range(n):
        x[t + 1] = 0.8 * x[t] + G * u[t] + D + w[t]
    return x[:-1], u, x[1:]


def drifting(text: str, n: int, seed: int = 0) -> RawLikelihood:
    x, u, after = logged(n, seed)
    return likelihood_of(text, x, after, (u + 1).astype(int))


def estimated(text: str, n: int, seed: int = 0, *, has_profiles: bool = False) -> ParameterEstimate:
    return parameter_estimate(drifting(text, n, seed), 0.1, has_profiles=has_profiles)


def offsets(n: int, seed: int = 0) -> tuple[float, float]:
    """Return the smallest and the largest value of d + w."""
    x, u, after = logged(n, seed)
    rest = after - 0.8 * x - G * u
    return float(rest.min()), float(rest.max())


@pytest.mark.parametrize("n", [10, 2_000])
def test_a_drift_is_between_the_extremes_of_its_noise(n: int) -> None:
    least, most = offsets(n)
    reach = HALF * (1 + 2 * EDGE)
    found = estimated(DRIFTING, n)
    width = 2 * reach - (most - least)
    assert found.is_proved
    assert found.interval_low[0] == pytest.approx(most - reach, abs=EXACT * width)
    assert found.interval_high[0] == pytest.approx(least + reach, abs=EXACT * width)
    assert found.interval_low[0] <= D <= found.interval_high[0]
    assert found.value[0] == pytest.approx((least + most) / 2, abs=EXACT * width)
    assert found.deviation[0] == pytest.approx(width / 4, rel=EXACT)


def test_a_drift_and_a_half_width_have_their_closed_form() -> None:
    n = 500
    least, most = offsets(n)
    middle, narrow = (least + most) / 2, (most - least) / 2 / (1 + 2 * EDGE)
    found = estimated(SPREAD, n)
    assert found.value == pytest.approx([narrow, middle], abs=1e-8)
    assert found.log_likelihood == pytest.approx(-n * np.log(2 * narrow), abs=1e-4)
    # The integral of 2 (s - narrow)(2 s)^-n over s, relative to the ranges and the maximum.
    mixed = np.log(2 * narrow**2 / ((n - 1) * (n - 2)) / (0.95 * 2))
    wide = narrow * np.exp((np.log(10) - mixed) / n)
    size = wide - narrow
    assert found.is_proved
    assert found.interval_low == pytest.approx([narrow, middle - size], abs=SAMPLED * size)
    assert found.interval_high == pytest.approx([wide, middle + size], abs=SAMPLED * size)


def test_two_locations_have_the_ends_of_a_linear_program() -> None:
    x, u, after = logged(500, 1)
    rest, X = after - 0.8 * x, np.column_stack([np.ones(500), u])
    reach = HALF * (1 + 2 * EDGE)
    found = estimated(TWO, 500, seed=1)
    for j in range(2):
        for sign, ends in ((1, found.interval_low), (-1, found.interval_high)):
            oracle: Any = linprog(
                sign * np.eye(2)[j],
                np.vstack([X, -X]),
                np.append(rest + reach, reach - rest),
                bounds=[(-1, 1)] * 2,
            )
            width = found.interval_high[j] - found.interval_low[j]
            assert ends[j] == pytest.approx(oracle.x[j], abs=0.01 * width)


@pytest.mark.parametrize(("text", "truth"), [(DRIFTING, [D]), (TWO, [D, G]), (SPREAD, [HALF, D])])
def test_sets_hold_and_deviations_have_the_right_size(text: str, truth: list[float]) -> None:
    held = [estimated(text, 50, seed=seed).boxes.contain(np.array(truth)) for seed in range(2)]
    assert all(held)
    found = [fit(drifting(text, 50, seed)) for seed in range(25)]
    spread = np.std([each.theta for each in found], axis=0)
    ratio = np.mean([each.deviations for each in found], axis=0) / spread
    assert np.all((ratio > 1 / 2) & (ratio < 2))


def test_profiles_have_their_maximum_and_no_asymptotic_interval() -> None:
    n = 100
    likelihood = drifting(SPREAD, n)
    found = parameter_estimate(likelihood, 0.1)
    assert np.isnan([found.profile_low, found.profile_high]).all()
    assert "no asymptotic interval for `a`, `d`" in found.notes[-1]
    assert all(drop.max() < 1e-6 for _, drop in found.profiles.values())
    profile = Profile(likelihood, fit(likelihood), 1)
    narrow, middle = found.value
    beside = narrow + 1e-3 / (1 + 2 * EDGE)  # the narrowest law around another middle
    assert profile.at(middle + 1e-3) == pytest.approx(-n * np.log(2 * beside), abs=1e-3)


def test_a_law_that_no_value_fits_is_proved_not_to_hold() -> None:
    for text in (DRIFTING, TWO):
        found = estimated(text.replace("d in [-1, 1]", "d in [0.5, 1]"), 100)
        assert found.is_empty
        assert found.is_proved
        assert "fit" in found.notes[0]


def test_a_number_that_is_not_linear_is_found() -> None:
    linear = estimated(DRIFTING, 100)
    curved = estimated(DRIFTING.replace("+ d +", "+ sin(d) +"), 100)
    assert np.sin(curved.interval_low) == pytest.approx(linear.interval_low, abs=1e-5)
    assert np.sin(curved.interval_high) == pytest.approx(linear.interval_high, abs=1e-5)


def test_a_turn_of_a_circle_is_nothing_special() -> None:
    rng = np.random.default_rng(0)
    w = rng.uniform(-HALF, HALF, 200)
    x = np.mod(np.append(0.0, np.cumsum(0.4 + w)), 10)
    found = parameter_estimate(likelihood_of(WRAPPED, x[:-1], x[1:]), 0.1)
    ends = 0.4 + np.array([w.max() - HALF, w.min() + HALF])
    assert [found.interval_low[0], found.interval_high[0]] == pytest.approx(ends, abs=1e-6)


def test_only_the_sum_of_two_drifts_shows() -> None:
    text = DRIFTING.replace("state", "unknown f in [-1, 1]\nstate").replace("+ d +", "+ d + f +")
    found = estimated(text, 100)
    assert found.flat[0].expression == "d + f"
    assert not found.is_at_bound.any()
    assert np.isinf(found.deviation).all()


def test_a_model_without_uniform_noise_has_no_edges() -> None:
    steps = steps_of([0.0, 1.0], [0.5, 0.2], [1, 2])
    assert edges_of(RawLikelihood(law_of(LINEAR), steps)) is None
