"""Estimates as models: every command that takes a MODEL takes a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.formats.policy_files import load_policy
from tests.cli.run import mdpdsl as run_process
from tests.cli.run import quick, written

MODEL = """\
mdp loop "Round and round"
param slip = 0.3
state x in 0..3
action go, wait
init x = 0
on go -> 1 - slip: x' = (x + 1) % 4 | slip: stay
on wait -> 0.9: stay | 0.1: x' = (x + 3) % 4
reward when x == 3 : 1
label end when x == 3
explore { kappa = 3  steps = 300 }
"""
DISCOUNT = 0.9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, a log of it, an estimate, and one of a short log."""
    path = tmp_path_factory.mktemp("estimates")
    written(path, MODEL)
    simulate = ("simulate", path / "model.mdp", "--steps", "20000", "--out", path / "log.csv")
    assert quick(*simulate, "--json").status == 0
    log = (path / "log.csv").read_text().splitlines(keepends=True)
    (path / "short.csv").write_text("".join(log[:5]))
    for name in ("log", "short"):
        out = ("--out", path / f"{name}-run", "--radius", "weissman", "--json")
        assert quick("estimate", path / "model.mdp", path / f"{name}.csv", *out).status == 0
    return path


def test_solving_the_estimate_agrees_with_the_truth_within_the_radii(folder: Path) -> None:
    options = ("--discount", str(DISCOUNT), "--json")
    truth = quick("solve", folder / "model.mdp", *options).json()
    estimate = quick("solve", folder / "log-run", *options).json()
    with np.load(folder / "log-run" / "radii.npz") as file:
        radius = float(file["radius"].max())
    # The simulation lemma: a row off by b in l1 moves a value by b/2 times the span at the most.
    span = 1 / (1 - DISCOUNT)
    allowed = DISCOUNT / (1 - DISCOUNT) * radius / 2 * span
    assert radius < 0.5
    assert 0 < abs(truth["value"] - estimate["value"]) < min(allowed, 0.05 * truth["value"])
    assert (estimate["model"], estimate["parameters"]) == ("loop", {"slip": 0.3})
    assert (estimate["unseen_pairs"], estimate["stored"]) == (0, str(folder / "log-run"))
    assert "unseen_pairs" not in truth


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve",),
        ("solve", "--reach", "end"),
        ("show",),
        ("allocate", "--kappa", "2"),
        ("simulate", "--steps", "50"),
        ("explore", "--jobs", "1"),
        ("compare", "--algorithm", "random", "--trials", "1", "--jobs", "1"),
        ("export", "--to", "npz"),
    ],
    ids=" ".join,
)
def test_every_command_takes_a_run_and_says_what_was_never_visited(
    folder: Path, tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = arguments
    for model in (folder / "short-run", folder / "short-run" / "estimate.npz"):
        outcome = quick(command, model, *options)
        assert outcome.status == 0
        assert outcome.stderr.count("were never visited; their rows are uniform") == 1
        for file in tmp_path.glob("*.*"):
            file.unlink()
        record = quick(command, model, *options, "--json").json()
        for file in tmp_path.glob("*.*"):
            file.unlink()
        assert record["unseen_pairs"] == 6 or record["unseen_pairs"] == 5
        said = f"{record['unseen_pairs']} of 8 pairs were never visited"
        assert said in outcome.stderr


def test_exported_arrays_are_the_model_again(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.npz"
    assert quick("export", folder / "short-run", "--to", "npz", "--out", path).status == 0
    one, other = (quick("show", m, "--json").json() for m in (folder / "short-run", path))
    for key in ("name", "hash", "parameters", "states", "labels", "unseen_pairs"):
        assert one[key] == other[key]


def test_a_parameter_of_an_estimate_cannot_be_set(folder: Path) -> None:
    outcome = quick("solve", folder / "log-run", "--set", "slip=0.5", "--json")
    assert outcome.status == 2
    (error,) = outcome.json()["errors"]
    assert "`slip` cannot be set" in error["message"]


def test_an_estimate_is_not_estimated_again(folder: Path) -> None:
    outcome = quick("estimate", folder / "log-run", folder / "log.csv")
    assert outcome.status == 2
    assert "log-run/model.mdp" in outcome.stderr


def test_an_estimate_has_no_continuous_system(tmp_path: Path) -> None:
    from mdpdsl.compile.model import load_file
    from mdpdsl.formats.npz import save_graph

    save_graph(load_file("thermostat"), tmp_path / "m.npz")
    for command in ("simulate", "explore"):
        outcome = quick(command, tmp_path / "m.npz", "--simulate", "continuous")
        assert outcome.status == 2
        assert "no continuous system" in outcome.stderr


def test_an_exploration_of_an_estimate_continues_from_its_folder_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "short-run", "first")
    options = ("--trials", "2", "--jobs", "1", "--json")
    record = quick("explore", "first", "--out", "second", *options).json()
    assert (record["stored"], record["kappa"], record["steps"]) == ("first", 3.0, 300)
    assert json.loads(Path("second/run.json").read_text())["options"]["stored"] == "first"
    shutil.rmtree("first")
    (tmp_path / "second" / "summary.json").unlink()
    for trial in ("trial-000", "trial-001"):
        shutil.rmtree(tmp_path / "second" / trial)
    again = quick("explore", "--resume", "second", "--json").json()
    assert {k: again[k] for k in ("worst", "hash", "stored", "unseen_pairs")} == {
        k: record[k] for k in ("worst", "hash", "stored", "unseen_pairs")
    }
    hashes = {
        name: quick("show", name, "--json").json()["hash"]
        for name in ("second", "second/trial-000", "second/trial-001")
    }
    assert hashes["second"] == hashes["second/trial-000"] != hashes["second/trial-001"]
    outcome = quick("show", "second/trial-007")
    assert outcome.status == 2
    assert "no trial-007; there are trial-000 to trial-001" in outcome.stderr


def test_a_run_without_an_estimate_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    for name in ("unfinished", "large"):
        shutil.copytree(folder / "log-run", tmp_path / name)
        (tmp_path / name / "estimate.npz").unlink()
    (tmp_path / "unfinished" / "summary.json").unlink()
    summary = tmp_path / "large" / "summary.json"
    record: dict[str, Any] = json.loads(summary.read_text())
    summary.write_text(json.dumps(record | {"estimate_missing": "it would be too large"}))
    outcome = quick("solve", tmp_path / "unfinished")
    assert outcome.status == 2
    assert "was not finished" in outcome.stderr
    outcome = quick("solve", tmp_path / "large")
    assert outcome.status == 2
    assert "it would be too large" in outcome.stderr
    assert "mdpdsl plan" in outcome.stderr


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04nothing", b"\x80\x04N."])
def test_a_file_of_another_kind_exits_with_2(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    outcome = run_process("solve", path)
    assert outcome.status == 2
    assert "not a transition graph written by mdpdsl" in outcome.stderr


def test_states_that_nothing_seen_leads_to_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    model = written(tmp_path, "mdp spaces\nstate x in 0..2\naction a\ninit x = 0\n")
    log = written(tmp_path, "x,action\n0,a\n1,a\n0,a\n1,a\n", "log.csv")
    quick("estimate", model, log, "--out", tmp_path / "run")
    outcome = quick("show", tmp_path / "run")
    assert "1 of 3 pairs were never visited" in outcome.stderr
    assert "1 state is left out" in outcome.stderr
    assert quick("show", tmp_path / "run", "--json").json()["states"] == 2
    assert quick("show", tmp_path / "run", "--json", "--all-states").json()["states"] == 3


def test_a_policy_solved_on_the_estimate_runs_on_the_model(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "best.npz"
    assert quick("solve", folder / "log-run", "--policy-out", path).status == 0
    graph = mdpdsl.load(folder / "model.mdp").graph
    assert load_policy(path, graph).probability.sum() == graph.n_states
