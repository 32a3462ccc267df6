"""Fits of unknown numbers against closed forms, what the data do not tell, and estimates."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import chi2

from mdpdsl.diagnostics import SettingsError
from mdpdsl.estimate.parameter_estimate import ParameterEstimate, parameter_estimate
from mdpdsl.estimate.parameter_fit import fit
from mdpdsl.graph.space import FloatArray
from tests.estimate.likelihood_cases import (
    Bounded,
    Normal,
    Trials,
    inverse,
    product_trials,
    trials,
)

#: Fits are exact to this, in deviations.
EXACT = 1e-4


def normal(mean: FloatArray, seed: int = 0) -> tuple[Normal, FloatArray]:
    """Return a normal likelihood in a unit box, and its covariance."""
    k = len(mean)
    root = np.random.default_rng(seed).normal(size=(k, k))
    covariance = 1e-4 * (root @ root.T + np.eye(k))
    return Normal(mean, inverse(covariance), np.zeros(k), np.ones(k)), covariance


def impossible() -> Trials:
    """Return trials with successes although no values allow any."""
    low, high = np.array([0.0, 0.5]), np.array([0.3, 1.0])
    return Trials(1, 2, ("a", "b"), (0, 1), low, high, form="difference")


@pytest.mark.parametrize(("k", "n"), [(30, 100), (1, 3), (1, 100_000), (300_000, 1_000_000)])
def test_the_fit_of_a_chance_is_its_share(k: int, n: int) -> None:
    found, p = fit(trials(k, n)), k / n
    deviation = np.sqrt(p * (1 - p) / n)
    assert found.theta[0] == pytest.approx(p, abs=EXACT * deviation)
    assert found.deviations[0] == pytest.approx(deviation, rel=1e-3)
    assert not found.is_at_bound.any()
    assert found.flat == ()


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_deviations_are_those_of_the_inverse_information(k: int) -> None:
    likelihood, covariance = normal(np.linspace(0.3, 0.7, k))
    found = fit(likelihood)
    deviations = np.sqrt(np.diag(covariance))
    assert found.theta == pytest.approx(likelihood.mean, abs=EXACT * deviations.min())
    assert found.deviations == pytest.approx(deviations)


def test_a_number_at_an_end_of_its_range_says_so() -> None:
    found = fit(trials(0, 50))
    assert found.theta[0] == 0
    assert found.is_at_bound[0]
    assert 0.5 / 50 < found.deviations[0] < 2 / 50
    beyond = fit(trials(80, 100, 0.0, 0.5))
    assert beyond.theta[0] == 0.5
    assert beyond.gradient[0] > 0


def test_the_others_are_fitted_best_if_one_is_at_its_end() -> None:
    likelihood, covariance = normal(np.array([-0.02, 0.5]))
    found = fit(likelihood)
    slope = covariance[0, 1] / covariance[0, 0]
    assert found.theta == pytest.approx([0, 0.5 + 0.02 * slope])
    conditional = covariance[1, 1] - covariance[0, 1] * slope
    assert found.deviations[1] == pytest.approx(np.sqrt(conditional))


def test_a_maximum_is_found_if_the_information_misleads() -> None:
    """Scoring takes tiny steps, so that L-BFGS-B has to help."""

    class Misled(Normal):
        def information(self, theta: FloatArray) -> FloatArray:
            return 1e6 * self.precision

    likelihood, _ = normal(np.array([0.3, 0.6]))
    misled = Misled(likelihood.mean, likelihood.precision, likelihood.low, likelihood.high)
    assert fit(misled).theta == pytest.approx(likelihood.mean, abs=1e-4)


def test_a_fit_is_the_same_every_time() -> None:
    one, other = (fit(product_trials(240, 1_000)) for _ in range(2))
    assert np.array_equal(one.theta, other.theta)
    assert one.flat[0].sentence == other.flat[0].sentence


def test_no_values_fit_impossible_data() -> None:
    found = fit(impossible())
    assert found.value == -np.inf
    assert np.isnan(found.theta).all()


def test_a_product_is_named_as_what_shows() -> None:
    (direction,) = fit(product_trials(240, 1_000)).flat
    assert direction.names == ("gain", "load")
    assert direction.expression == "gain*load"
    assert "`gain` and `load` cannot be told apart" in direction.sentence
    assert "only their product `gain*load` = 0.24 shows" in direction.sentence


@pytest.mark.parametrize(
    ("form", "low", "high", "expression"),
    [
        ("sum", (0.0, 0.0), (0.5, 0.5), "a + b"),
        ("difference", (0.3, 0.0), (0.9, 0.3), "a - b"),
        ("ratio", (0.1, 1.0), (1.0, 4.0), "a/b"),
    ],
)
def test_sums_differences_and_ratios_are_named(
    form: str, low: tuple[float, ...], high: tuple[float, ...], expression: str
) -> None:
    likelihood = Trials(400, 1_000, ("a", "b"), (0, 1), np.array(low), np.array(high), form=form)
    (direction,) = fit(likelihood).flat
    assert direction.expression == expression


def test_a_short_ridge_is_flat_too() -> None:
    (direction,) = fit(product_trials(970, 1_000)).flat
    assert direction.expression == "gain*load"


def test_two_flat_directions_of_three_numbers_are_one_group() -> None:
    found = fit(product_trials(240, 1_000, ("p", "q", "r")))
    (direction,) = found.flat
    assert len(direction.vectors) == 2
    assert direction.expression == "p*q*r"
    assert np.isinf(found.deviations).all()


def test_a_number_that_plays_no_part_does_not_show() -> None:
    found = fit(Bounded(trials(30, 100)))
    assert [each.sentence for each in found.flat] == ["`x` does not show in the data"]
    assert np.isfinite(found.deviations[0])
    assert np.isinf(found.deviations[1])


def test_without_data_no_number_shows() -> None:
    found = fit(Bounded(trials(0, 0), extra=2))
    assert sorted(each.names[0] for each in found.flat) == ["p", "x", "y"]


class Periodic(Trials):
    """A chance that comes back with every turn of a number."""

    def chance(self, theta: FloatArray) -> float:
        return 0.5 + 0.4 * float(np.sin(theta[0]))

    def _slopes(self, theta: FloatArray) -> FloatArray:
        return np.array([0.4 * np.cos(theta[0])])


def test_maxima_that_fit_alike_are_all_known() -> None:
    likelihood = Periodic(650, 1_000, low=np.zeros(1), high=np.full(1, 20.0), can_prove=False)
    found = parameter_estimate(likelihood, 0.1, has_profiles=False)
    root = float(np.arcsin(0.15 / 0.4))
    turns = 2 * np.pi * np.arange(4)
    places = np.array([*(root + turns), *(np.pi - root + turns[:3])])
    assert "other values fit the data almost as well: p = " in found.notes[0]
    assert found.interval_low[0] < places.min()
    assert found.interval_high[0] > places.max()
    assert all(found.boxes.contain(np.array([place])) for place in places)


def test_few_data_are_not_taken_for_a_flat_direction() -> None:
    """The deviation exceeds the range, but the likelihood does change."""
    assert fit(trials(1, 3, 0.3, 0.6)).flat == ()


def test_profile_intervals_are_those_of_a_normal_law() -> None:
    likelihood, covariance = normal(np.array([0.5, 0.4]))
    found = parameter_estimate(likelihood, 0.05)
    half = np.sqrt(chi2.ppf(0.95, 1) * np.diag(covariance))
    assert found.profile_low == pytest.approx(likelihood.mean - half, abs=2e-4 * half.max())
    assert found.profile_high == pytest.approx(likelihood.mean + half, abs=2e-4 * half.max())
    grid, values = found.profiles["a"]
    assert len(grid) == 41
    assert values == pytest.approx(-((grid - 0.5) ** 2) / (2 * covariance[0, 0]), abs=1e-6)


def test_an_estimate_survives_as_arrays() -> None:
    found = parameter_estimate(product_trials(240, 1_000), 0.1)
    back = ParameterEstimate.from_arrays(found.arrays())
    assert back.records() == found.records()
    assert back.notes == found.notes
    assert back.delta == found.delta
    assert np.array_equal(back.boxes.low, found.boxes.low)
    assert np.array_equal(back.profiles["load"][1], found.profiles["load"][1])
    assert np.array_equal(back.flat[0].vectors, found.flat[0].vectors)


def test_records_are_plain_json() -> None:
    found = parameter_estimate(Bounded(trials(0, 50)), 0.1)
    text = json.dumps(found.records(), allow_nan=False)
    first, second = json.loads(text)
    assert first["name"] == "p"
    assert first["low"] == 0
    assert first["range"] == [0, 1]
    assert second["deviation"] is None
    assert [second["low"], second["high"]] == [0, 4]
    assert "`p` is at the lower end of its range, 0" in found.notes


def test_data_that_no_values_fit_leave_an_empty_set() -> None:
    found = parameter_estimate(impossible(), 0.1)
    assert found.is_empty
    assert found.notes[0] == "no values of `a` and `b` in their ranges fit the data"
    assert found.records()[0]["low"] is None
    assert ParameterEstimate.from_arrays(found.arrays()).is_empty


def test_delta_is_a_probability() -> None:
    with pytest.raises(SettingsError, match="between 0 and 1"):
        parameter_estimate(trials(1, 2), 1.5)
