"""`allocate` for unknown numbers: values, deviations, weights, records, and mistakes."""

from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import SettingsError
from mdpdsl.programs.visitable import AllocationError
from tests.explore.laws import DOOR, RIVER, law_model

COIN = """
mdp coin
unknown heads in [0, 1] = 0.2
state side in 0..1
action toss, wait
on toss -> heads: side' = 1 | 1 - heads: side' = 0
on wait -> stay
"""


def test_a_coin_that_is_tossed_every_time_has_the_binomial_deviation() -> None:
    found = mdpdsl.allocate(mdpdsl.loads(COIN), purpose="parameters", steps=400)
    assert found.is_optimal
    assert found.deviations == pytest.approx([np.sqrt(0.2 * 0.8 / 400)], rel=1e-4)
    assert found.random.deviations == pytest.approx(found.deviations * np.sqrt(2), rel=1e-3)
    assert found.policy.probability == pytest.approx([1, 0, 1, 0], abs=1e-3)


def test_the_record_says_what_was_asked_and_found() -> None:
    record = mdpdsl.allocate(law_model(RIVER), purpose="parameters", steps=10_000).record()
    assert record["purpose"] == "parameters"
    assert record["criterion"] == "a"
    assert record["status"] == "optimal"
    assert record["gap"] <= 1e-4
    assert [each["name"] for each in record["parameters"]] == ["swim", "last"]
    assert all(each["deviation"] < each["random_deviation"] for each in record["parameters"])
    assert record["random"]["objective"] > record["objective"]
    assert record["mix"] is None


def test_without_a_value_the_design_is_for_the_middle_of_the_range() -> None:
    model = mdpdsl.loads(COIN.replace("[0, 1] = 0.2", "[0, 0.6]"))
    found = mdpdsl.allocate(model, purpose="parameters", steps=100)
    assert found.theta == pytest.approx([0.3])
    assert found.record()["assumed"] == ["heads"]


def test_rows_of_unknown_probabilities_have_their_part() -> None:
    model = law_model(DOOR)
    knock = model.graph.pair(0, model.graph.actions.labels.index("knock"))
    both = mdpdsl.allocate(model, purpose="parameters")
    numbers = mdpdsl.allocate(model, purpose="parameters", mix=0)
    assert both.mix == 1.0
    assert both.occupancy[knock] > 0.1
    assert numbers.occupancy[knock] < 1e-3
    assert numbers.deviations[0] < both.deviations[0]


def test_weights_choose_which_number_matters() -> None:
    model = law_model(RIVER)
    swim = mdpdsl.allocate(model, purpose="parameters", weights={"swim": 1.0, "last": 1e-4})
    last = mdpdsl.allocate(model, purpose="parameters", weights={"swim": 1e-4, "last": 1.0})
    assert swim.deviations[0] < last.deviations[0]
    assert swim.deviations[1] > last.deviations[1]
    by_value = mdpdsl.allocate(model, purpose="parameters", weights="value")
    assert by_value.weights == pytest.approx(1 / by_value.theta**2)


def test_an_estimate_is_designed_for_at_its_own_values(tmp_path: Path) -> None:
    model = law_model(DOOR)
    log = mdpdsl.simulate(model, steps=2_000, seed=0)
    estimate = mdpdsl.estimate(model, log.table())
    found = mdpdsl.allocate(estimate, purpose="parameters")
    assert estimate.numbers is not None
    assert found.theta[0] == pytest.approx(estimate.numbers.values["slip"])
    assert found.theta[0] != 0.1


def test_a_stored_estimate_is_refused_for_it_may_have_the_truth(tmp_path: Path) -> None:
    run = mdpdsl.explore(law_model(DOOR), steps=200, out=tmp_path / "run")
    assert run.path is not None
    with pytest.raises(SettingsError, match="open_run"):
        mdpdsl.allocate(mdpdsl.load(run.path), purpose="parameters")
    mdpdsl.allocate(mdpdsl.open_run(run.path), purpose="parameters")


def test_mistakes_are_named() -> None:
    model = law_model(RIVER)
    with pytest.raises(SettingsError, match="no purpose `rows`"):
        mdpdsl.allocate(model, purpose="rows")
    with pytest.raises(SettingsError, match="criterion"):
        mdpdsl.allocate(model, purpose="parameters", criterion="e")
    with pytest.raises(SettingsError, match="swim"):
        mdpdsl.allocate(model, purpose="parameters", weights={"swum": 1.0})
    with pytest.raises(SettingsError, match="no unknown numbers"):
        mdpdsl.allocate(mdpdsl.load("riverswim"), purpose="parameters")


def test_numbers_that_only_show_as_a_product_cannot_be_told_apart() -> None:
    model = mdpdsl.loads(
        """
mdp lever
unknown gain in [0.1, 1] = 0.5
unknown load in [0.1, 1] = 0.5
state x in 0..1
action pull
on pull -> gain*load: x' = 1 - x | 1 - gain*load: stay
"""
    )
    with pytest.raises(AllocationError, match="gain and load cannot be told apart"):
        mdpdsl.allocate(model, purpose="parameters")
    found = mdpdsl.allocate(model, purpose="parameters", identifiable=True)
    assert np.isinf(found.deviations).all()
    assert found.record()["parameters"][0]["deviation"] is None
