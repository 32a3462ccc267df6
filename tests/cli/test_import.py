"""`mdpdsl import`, and models of other tools in the place of a MODEL."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import mdpdsl
from tests.cli.run import mdpdsl as run_process
from tests.cli.run import quick, written


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a folder with a lake in every format that can be read."""
    for target in ("explicit", "gym", "npz"):
        suffix = {"explicit": "tra", "gym": "json"}.get(target, target)
        out = tmp_path / f"lake.{suffix}"
        assert quick("export", "frozen_lake", "--to", target, "--out", out).status == 0
    return tmp_path


@pytest.mark.parametrize("suffix", ["tra", "json", "npz"])
def test_every_command_takes_a_model_of_another_tool(lake: Path, suffix: str) -> None:
    file = lake / f"lake.{suffix}"
    record = quick("solve", file, "--reach", "goal", "--json").json()
    assert record["value"] == pytest.approx(14 / 17)
    assert quick("show", file, "--json").json()["states"] == 16
    explore = ("explore", file, "--steps", "50", "--jobs", "1", "--out", lake / "run", "--quiet")
    assert quick(*explore).status in (0, 1)


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_the_file_that_is_written_builds_the_same_graph(lake: Path, suffix: str) -> None:
    out = lake / "again.mdp"
    record = quick("import", lake / f"lake.{suffix}", "--out", out, "--json").json()
    assert record == {"path": str(out), "states": 16, "pairs": 44, "branches": 128}
    assert mdpdsl.load(out).graph.hash == mdpdsl.load("frozen_lake").graph.hash


def test_an_environment_of_toy_text_is_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert quick("import", "gym:FrozenLake-v1").status == 0
    options = ("--discount", "0.99", "--json")
    value = quick("solve", "FrozenLake_v1.mdp", *options).json()["value"]
    assert value == pytest.approx(quick("solve", "frozen_lake", *options).json()["value"])
    assert quick("solve", "gym:FrozenLake-v1", *options).json()["value"] == pytest.approx(value)


def test_a_large_model_is_kept_as_arrays_and_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_module("mdpdsl.exchange"), "MANY_PAIRS", 10)
    quick("export", "riverswim", "--to", "explicit")
    outcome = quick("import", "riverswim.tra")
    assert outcome.status == 0
    assert "kept as arrays" in outcome.stderr
    assert mdpdsl.load("riverswim.npz").graph.n_states == 6
    assert quick("import", "riverswim.tra", "--out", "small.mdp").stderr == ""


def test_an_error_in_a_file_shows_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "2 2 2\n0 0 1 1 a\n1 0 x 1 a\n", "bad.tra")
    outcome = run_process("import", path)
    assert outcome.status == 2
    assert "bad.tra:3:1" in outcome.stderr
    outcome = run_process("solve", path, "--reach", "goal", "--json")
    assert (outcome.status, outcome.json()["errors"][0]["line"]) == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.tra",), "cannot read none.tra"),
        (("none.json",), "cannot read none.json"),
        (("model.drn",), "cannot import `model.drn`"),
        (("none.npz",), "none.npz"),
        (("gym:FrozenLak-v1",), "FrozenLake-v1"),
        (("gym:CartPole-v1",), "has no table P"),
        (("none.tra", "--out", "x.json"), "--out takes a file ending in .mdp or .npz"),
    ],
)
def test_mistakes_are_reported(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = quick("import", *arguments)
    assert outcome.status == 2
    assert said in outcome.stderr


def test_a_path_that_cannot_be_written_fails_the_run(lake: Path) -> None:
    outcome = quick("import", lake / "lake.tra", "--out", lake / "nowhere" / "x.mdp")
    assert outcome.status == 1
    assert "cannot write" in outcome.stderr
    assert not (lake / "nowhere").exists()


def test_parameters_of_another_tools_model_cannot_be_set(lake: Path) -> None:
    outcome = quick("show", lake / "lake.tra", "--set", "n=3")
    assert outcome.status == 2
    assert "`n` cannot be set" in outcome.stderr
