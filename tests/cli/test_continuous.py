"""`--simulate continuous` as a person or a program runs it."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_explore import counts_of, run, started_and_saved

DRIFT = """
mdp drift
state x in [0, 1] clip bins 4
action left, right
noise w ~ uniform(-0.02, 0.02)
init x = 0.1
x' = x + (if action == right then 0.1 else -0.1) + w
discretize center
"""


def test_the_record_says_what_was_simulated(tmp_path: Path) -> None:
    arguments = ("explore", "pendulum", "--steps", "5_000", "--algorithm", "random", "--json")
    continuous = run(*arguments, "--simulate", "continuous", "--out", "c", cwd=tmp_path)
    finite = run(*arguments, "--out", "f", cwd=tmp_path)
    assert continuous.returncode == finite.returncode == 0, continuous.stderr
    record, other = json.loads(continuous.stdout), json.loads(finite.stdout)
    assert (record["simulate"], other["simulate"]) == ("continuous", "model")
    assert json.loads((tmp_path / "c" / "run.json").read_text())["settings"]["simulate"] == (
        "continuous"
    )
    assert record["truth"] is True
    assert counts_of(tmp_path / "c") != counts_of(tmp_path / "f")


def test_a_person_reads_it_too(tmp_path: Path) -> None:
    arguments = ("--steps", "2_000", "--simulate", "continuous")
    explored = run("explore", "fishery", *arguments, cwd=tmp_path)
    assert "the continuous system, seen through its bins" in explored.stdout, explored.stderr
    rows = ("fishery", "--algorithm", "random", "--trials", "2", *arguments)
    compared = run("compare", *rows, cwd=tmp_path)
    assert "the continuous system seen through its bins" in compared.stdout, compared.stderr
    record = json.loads(run("compare", *rows, "--json", cwd=tmp_path).stdout)
    assert record["simulate"] == "continuous"


def test_a_model_may_ask_for_it_and_a_flag_overrides_it(tmp_path: Path) -> None:
    block = "explore { simulate = continuous  steps = 500  algorithm = random }\n"
    (tmp_path / "m.mdp").write_text(DRIFT + "states all\n" + block)
    record = json.loads(run("explore", "m.mdp", "--json", cwd=tmp_path).stdout)
    assert record["simulate"] == "continuous"
    record = json.loads(
        run("explore", "m.mdp", "--simulate", "model", "--json", cwd=tmp_path).stdout
    )
    assert "can never be visited" in record["errors"][0]["message"]


@pytest.mark.parametrize(
    ("command", "model", "word", "message"),
    [
        ("explore", "riverswim", "continuous", "riverswim has no continuous variables"),
        ("compare", "riverswim", "continuous", "riverswim has no continuous variables"),
        ("explore", "pendulum", "continous", "unknown simulate `continous`; did you mean"),
        ("explore", "pendulum_unknown", "continuous", "the model has no dynamics to simulate"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    command: str, model: str, word: str, message: str, tmp_path: Path
) -> None:
    done = run(command, model, "--simulate", word, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["explore", "compare"])
def test_a_system_that_fails_is_a_run_that_failed(command: str, tmp_path: Path) -> None:
    """From the centre of a cell, a tenth of the range never leaves it."""
    (tmp_path / "drift.mdp").write_text(DRIFT)
    arguments = ("drift.mdp", "--simulate", "continuous", "--algorithm", "random")
    done = run(command, *arguments, "--steps", "2_000", "--trials", "2", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "the continuous system failed" in done.stderr
    assert "lies in the cell x = 0.375, which the built model does not have" in done.stderr
    assert "build with --all-states" in done.stderr
    done = run(command, *arguments, "--steps", "2_000", "--all-states", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the continuous system may visit them" in done.stderr


def test_a_run_that_was_killed_continues_as_if_it_had_not_been(tmp_path: Path) -> None:
    arguments = ["explore", "mountain_car", "--simulate", "continuous", "--kappa", "2"]
    arguments += ["--steps", "400_000", "--seed", "4"]
    whole = run(*arguments, "--out", "whole", "--json", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    process = started_and_saved(*arguments, folder="parts", cwd=tmp_path)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    with np.load(tmp_path / "parts" / "trial-000" / "state.npz") as saved:
        assert saved["raw_values"].shape == (2,)
        assert 0 < saved["visits"].sum() < 400_000
    resumed = run("explore", "--resume", "parts", "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["simulate"] == "continuous"
    assert counts_of(tmp_path / "parts") == counts_of(tmp_path / "whole")
