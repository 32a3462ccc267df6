"""Unknown numbers and probabilities from the command line: estimate, solve, plan, allocate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from tests.cli.run import quick, written

PRODUCT = """\
mdp product
unknown often in [0, 1] = 0.5
unknown well in [0, 1] = 0.6
state x in 0..1
action go
init x = 0
on go -> often*well: x' = 1 | 1 - often*well: x' = 0
"""

WALK = """\
mdp walk
state x in 0..2
action go, rest
init x = 0
on go -> ?=0.6: x' = min(x + 1, 2) | ?=0.4: x' = 0
on rest -> 0.5: stay | 0.5: x' = 0
label far when x == 2
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that estimated the slip of a lake."""
    folder = tmp_path_factory.mktemp("lake")
    log = folder / "log.csv"
    assert quick("simulate", "slippery_lake", "--steps", "2_000", "--out", log).status == 0
    found = quick("estimate", "slippery_lake", log, "--out", folder / "run", "--json")
    assert found.status == 0
    (slip,) = found.json()["parameters"]
    assert {"name", "value", "low", "high", "deviation"} <= slip.keys()
    assert slip["low"] < slip["value"] < slip["high"]
    assert slip["low"] <= 2 / 3 <= slip["high"]
    assert found.json()["misfit"] == []
    return folder / "run"


def test_an_estimate_prints_its_numbers(lake: Path, tmp_path: Path) -> None:
    log = lake.parent / "log.csv"
    text = quick("estimate", "slippery_lake", log, "--out", tmp_path / "run").stdout
    assert "unknown numbers" in text
    assert "  slip  0.6" in text
    assert " ± 0.01" in text


def test_a_run_that_is_read_again_has_the_same_numbers(lake: Path) -> None:
    found = mdpdsl.open_run(lake)
    log = lake.parent / "log.csv"
    again = mdpdsl.estimate(mdpdsl.load("slippery_lake"), log)
    assert found.numbers is not None
    assert again.numbers is not None
    assert found.numbers.parameters.records() == again.numbers.parameters.records()
    assert found.estimate.hash == again.estimate.hash
    assert mdpdsl.load(lake).parameters["slip"] == found.numbers.values["slip"]


def test_one_value_rules_all_rows_of_a_guarantee(lake: Path) -> None:
    record = quick("solve", lake, "--reach", "goal", "--robust", "--json").json()
    assert 0.7 < record["guaranteed"] <= 14 / 17 <= record["possible"] < 0.9
    assert record["numbers"][0]["name"] == "slip"
    separate = quick("solve", lake, "--reach", "goal", "--robust", "--support", "seen", "--json")
    assert separate.json()["guaranteed"] < 0.1


def test_intervals_say_that_they_cannot_share_a_number(lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "lake.drn"
    outcome = quick("export", lake, "--to", "drn", "--intervals", "--out", path)
    assert outcome.status == 0
    assert "intervals cannot share a number" in path.read_text("utf-8")


def test_a_plan_says_how_well_it_will_determine_the_numbers(lake: Path, tmp_path: Path) -> None:
    options = ("--for", "parameters", "--steps", "2_000", "--policy-out", tmp_path / "p.csv")
    record = quick("plan", lake, *options, "--json").json()
    (slip,) = record["parameters"]
    assert slip["expected_deviation"] < slip["continued_deviation"] < slip["deviation"]
    assert sum(pair["added_visits"] for pair in record["pairs"]) == pytest.approx(2_000)


def test_the_best_experiment_promises_deviations() -> None:
    record = quick("allocate", "slippery_lake", "--for", "parameters", "--json").json()
    (slip,) = record["parameters"]
    assert 0 < slip["deviation"] <= slip["random_deviation"]
    assert record["gap"] < 1e-4
    text = quick("allocate", "slippery_lake", "--for", "parameters").stdout
    assert "random actions: ±" in text


def test_errors_of_numbers_are_weighed_as_asked(tmp_path: Path) -> None:
    text = """\
mdp coins
unknown fair in [0, 1] = 0.5
unknown odd in [0, 1] = 0.1
action one, two
state x in 0..1
init x = 0
on one -> fair: x' = 1 | 1 - fair: x' = 0
on two -> odd: x' = 1 | 1 - odd: x' = 0
"""
    design = ("allocate", written(tmp_path, text), "--for", "parameters", "--json")

    def deviations(*options: str) -> list[float]:
        return [each["deviation"] for each in quick(*design, *options).json()["parameters"]]

    alike, first = deviations(), deviations("--weights", "fair=100, odd=1")
    assert first[0] < alike[0]
    assert first[1] > alike[1]
    relative = deviations("--weights", "value")
    assert relative[1] < alike[1]
    for wrong, hint in (("fare=1", "fair"), ("fair=much", "NAME=WEIGHT"), ("volume", "range")):
        outcome = quick(*design[:-1], "--weights", wrong)
        assert outcome.status == 2
        assert hint in outcome.stderr


def test_what_no_experiment_shows_is_left_out_if_asked(tmp_path: Path) -> None:
    design = ("allocate", written(tmp_path, PRODUCT), "--for", "parameters")
    refused = quick(*design)
    assert refused.status != 0
    assert "--identifiable" in refused.stderr
    found = quick(*design, "--identifiable")
    assert found.status == 0
    assert "well         0.6 (no experiment shows it)" in found.stdout


def test_an_explorer_for_parameters_comes_near_the_best_experiment(tmp_path: Path) -> None:
    options = ("--for", "parameters", "--steps", "1_000", "--out", tmp_path / "run", "--json")
    record = quick("explore", "slippery_lake", *options).json()
    assert record["purpose"] == "parameters"
    assert record["numbers"][0]["name"] == "slip"
    assert 1 <= record["design_ratio"] < 1.3


def test_options_of_a_purpose_need_it() -> None:
    outcome = quick("allocate", "slippery_lake", "--criterion", "d")
    assert outcome.status == 2
    assert "--for parameters" in outcome.stderr
    outcome = quick("allocate", "slippery_lake", "--for", "parameters", "--kappa", "3")
    assert outcome.status == 2
    assert "--kappa is about rows; leave it out with --for" in outcome.stderr
    with pytest.raises(mdpdsl.Error, match="`mix=` is about unknown numbers"):
        mdpdsl.allocate(mdpdsl.load("slippery_lake"), mix=2.0)  # type: ignore[call-overload]
    outcome = quick("allocate", "riverswim", "--for", "parameters")
    assert outcome.status == 2
    assert "unknown slip in" in outcome.stderr


def test_a_flat_direction_is_named(tmp_path: Path) -> None:
    model = written(tmp_path, PRODUCT)
    log = tmp_path / "log.csv"
    assert quick("simulate", model, "--steps", "2_000", "--out", log).status == 0
    outcome = quick("estimate", model, log, "--out", tmp_path / "run", "--json")
    (note,) = outcome.json()["notes"][:1]
    assert "often" in note
    assert "well" in note
    assert "product" in note
    assert all(each["deviation"] is None for each in outcome.json()["parameters"])


def test_rows_that_are_known_are_no_pairs_to_learn(tmp_path: Path) -> None:
    model = written(tmp_path, WALK)
    log = tmp_path / "log.csv"
    assert quick("simulate", model, "--steps", "500", "--out", log).status == 0
    record = quick("estimate", model, log, "--out", tmp_path / "run", "--json").json()
    assert record["pairs_seen"] + record["pairs_unseen"] == 3
    assert record["support"] == "model"
    found = mdpdsl.open_run(tmp_path / "run")
    rests = [found.graph.pair(x, 1) for x in range(3)]
    for pair in rests:
        assert np.array_equal(found.estimate.row(pair)[1], found.graph.row(pair)[1])
    learned = quick("estimate", model, log, "--learn", "all", "--out", tmp_path / "all", "--json")
    assert learned.json()["pairs_seen"] == 6


def test_a_model_without_values_cannot_be_simulated(tmp_path: Path) -> None:
    model = written(tmp_path, PRODUCT.replace(" = 0.5", ""))
    for command in ("simulate", "explore", "solve"):
        options = ["--reach", "x"] if command == "solve" else []
        outcome = quick(command, model, *options)
        assert outcome.status == 2, command
        assert "often" in outcome.stderr, command
    outcome = quick("check", model)
    assert outcome.status == 0


def test_data_that_contradict_a_known_row_are_reported(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    other = written(tmp_path, WALK.replace("0.5: stay | 0.5: x' = 0", "0.8: stay | 0.2: x' = 0"))
    assert quick("simulate", other, "--steps", "2_000", "--out", log).status == 0
    model = written(tmp_path, WALK, "wrong.mdp")
    outcome = quick("estimate", model, log, "--out", tmp_path / "run")
    assert "contradict" in outcome.stderr
    record = quick("estimate", model, log, "--out", tmp_path / "again", "--json").json()
    assert {row["action"] for row in record["misfit"]} == {"rest"}
    solved = quick("solve", tmp_path / "run", "--reach", "far", "--robust", "--json").json()
    assert solved["misfit"] == len(record["misfit"])
    assert "do not rely on it" in solved["warning"]
    path = tmp_path / "walk.drn"
    exported = quick("export", tmp_path / "run", "--to", "drn", "--intervals", "--out", path)
    assert "do not rely on it" in exported.stderr
    assert "do not rely on it" in path.read_text("utf-8")
