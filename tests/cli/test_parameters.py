"""`--set` and the other options that say which model a file makes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.cli.run import mdpdsl, quick, written

MODEL = """\
mdp typed
param n = 3
param p = 0.5
param fast = false
state x in 0..n-1
action go
init x = 0
on go when fast -> x' = n - 1
on go otherwise -> p: x' = (x + 1) % n | 1 - p: stay
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path, MODEL)


@pytest.mark.parametrize("option", ["--set", "--const"])
def test_a_parameter_takes_the_value_given(model: Path, option: str) -> None:
    shown = mdpdsl("show", model, option, "n=7", "--json").json()
    assert shown["parameters"] == {"n": 7, "p": 0.5, "fast": False}
    assert shown["states"] == 7


@pytest.mark.parametrize(
    ("text", "value"),
    [("pi/8", math.pi / 8), ("1e-3", 1e-3), ("1", 1.0), (" 1/4 ", 0.25), ("min(0.1, 2)", 0.1)],
)
def test_a_value_may_be_an_expression(model: Path, text: str, value: float) -> None:
    shown = quick("show", model, "--set", f"p={text}", "--json").json()
    assert shown["parameters"]["p"] == value


def test_a_parameter_may_be_pi_half(tmp_path: Path) -> None:
    text = "mdp turn\nparam angle = 0.0\nstate x in 0..1\naction go\ninit any\non go -> stay\n"
    shown = quick("show", written(tmp_path, text), "--set", "angle=pi/2", "--json").json()
    assert shown["parameters"] == {"angle": math.pi / 2}


def test_a_true_parameter_stays_true_in_json(model: Path) -> None:
    shown = quick("show", model, "--set", "fast=true", "--json").json()
    assert shown["parameters"]["fast"] is True
    assert shown["states"] == 2


def test_a_misspelt_parameter_gets_a_hint_and_the_list(tmp_path: Path) -> None:
    path = written(tmp_path, MODEL.replace("fast", "quickly"))
    outcome = mdpdsl("show", path, "--set", "quikly=true")
    assert outcome.status == 2
    assert outcome.stdout == ""
    assert "unknown parameter `quikly`" in outcome.stderr
    assert "did you mean `quickly`?" in outcome.stderr
    assert "n, p, quickly" in outcome.stderr


def test_an_unknown_parameter_is_an_error_in_json(model: Path) -> None:
    outcome = quick("show", model, "--set", "zzz=1", "--json")
    assert outcome.status == 2
    (record,) = outcome.json()["errors"]
    assert record["code"] == "E601"
    assert "n, p, fast" in record["help"]


@pytest.mark.parametrize(
    "setting",
    [
        "n=2.5", "n=true", "n=0.5 + 2", "n=abc", "n=(", "n=1 2", "n=pi", "n=inf",
        "p=true", "p=nan", "p=inf", "p=0/0", "p=\"0.5\"", "p=x", "p=n", "p=x'",
        "fast=1", "fast=yes", "fast=0.0",
    ],
)  # fmt: skip
def test_an_ill_typed_value_is_refused_with_the_list_of_types(model: Path, setting: str) -> None:
    outcome = quick("show", model, "--set", setting, "--json")
    assert outcome.status == 2
    (record,) = outcome.json()["errors"]
    assert record["code"] == "E602"
    assert f"`{setting.partition('=')[0]}`" in record["message"]
    assert "n (integer), p (real), fast (true or false)" in record["help"]


def test_a_value_that_breaks_the_model_is_reported_at_its_place(model: Path) -> None:
    outcome = quick("show", model, "--set", "n=0", "--json")
    assert outcome.status == 2
    assert [(e["code"], e["line"]) for e in outcome.json()["errors"]] == [("E401", 5)]
    outcome = quick("show", model, "--set", "p=1.5", "--json")
    assert outcome.status == 2
    assert "E502" in {record["code"] for record in outcome.json()["errors"]}


@pytest.mark.parametrize("setting", ["n", "n=", "=3", "", " =1"])
def test_a_setting_without_name_or_value_is_a_usage_error(model: Path, setting: str) -> None:
    outcome = mdpdsl("show", model, "--set", setting)
    assert outcome.status == 2
    assert outcome.stdout == ""
    assert "NAME=VALUE" in outcome.stderr


def test_a_parameter_given_twice_is_a_usage_error(model: Path) -> None:
    outcome = mdpdsl("show", model, "--set", "n=4", "--const", "n=5", "--json")
    assert outcome.status == 2
    (record,) = outcome.json()["errors"]
    assert "`n`" in record["message"]
    assert "twice" in record["message"]


def test_all_states_keeps_what_cannot_be_reached(model: Path) -> None:
    reached = quick("show", model, "--set", "fast=true", "--json").json()
    everything = quick("show", model, "--set", "fast=true", "--all-states", "--json").json()
    assert (reached["states"], everything["states"]) == (2, 3)
    assert (reached["unreachable"], everything["unreachable"]) == (0, 1)


def test_max_states_bounds_the_model(model: Path) -> None:
    assert quick("show", model, "--max-states", "3").status == 0
    outcome = quick("show", model, "--max-states", "2", "--json")
    assert outcome.status == 2
    (record,) = outcome.json()["errors"]
    assert record["code"] == "E701"
    assert "3 states" in record["message"]


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5"])
def test_max_states_needs_a_positive_integer(model: Path, number: str) -> None:
    outcome = mdpdsl("show", model, "--max-states", number, "--json")
    assert outcome.status == 2
    assert "--max-states" in outcome.json()["errors"][0]["message"]
