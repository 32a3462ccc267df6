"""Solving estimates: what the value rests on, and what its bound is about."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.stored import StoredModel
from tests.cli.run import quick, written

#: Going right from 0 reaches the goal; the side branch and the goal itself lead on.
MODEL = """\
mdp fork
state x in 0..4
action go, turn
init x = 0
on go -> 0.9: x' = min(x + 1, 4) | 0.1: stay
on turn -> 0.5: x' = 0 | 0.5: stay
reward when x == 3 : 1
label goal when x == 3
"""
#: Everything in 0, 1 and 2 was tried; 3 was only entered, 4 never.
SEEN = (
    "x,action\n" + "0,turn\n0,go\n1,turn\n0,go\n1,go\n2,turn\n2,turn\n0,go\n1,go\n2,go\n3,\n" * 30
)
OLD = Path(__file__).parents[1] / "golden" / "runs" / "estimated"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fork")
    model = written(folder, MODEL)
    rows = SEEN.splitlines()[1:]
    text = "episode,x,action\n" + "".join(f"{n // 11},{row}\n" for n, row in enumerate(rows))
    log = written(folder, text, "log.csv")
    assert quick("estimate", model, log, "--out", folder / "run", "--quiet").status == 0
    return folder / "run"


def test_a_value_that_rests_on_a_guess_has_no_bound(run: Path) -> None:
    outcome = quick("solve", run)
    assert "none: the value rests on 4 pairs that were never visited" in outcome.stdout
    assert "partly a guess" in outcome.stdout
    record = quick("solve", run, "--json").json()
    assert record["bound"] is None
    assert (record["rests_on_unseen"], record["bound_of"]) == (4, "estimate")
    assert 0 < record["policy_rests_on_unseen"] <= 2
    solution = mdpdsl.solve(mdpdsl.open_run(run))
    assert solution.bound is None
    assert "no bound" in repr(solution)
    assert "never visited" in (solution._repr_html_() or "")


def test_what_follows_the_label_does_not_matter(run: Path) -> None:
    outcome = quick("solve", run, "--reach", "goal")
    assert "(of the estimate; the data's own uncertainty is not in it)" in outcome.stdout
    record = quick("solve", run, "--reach", "goal", "--json").json()
    assert (record["rests_on_unseen"], record["bound_of"]) == (0, "estimate")
    assert 0 <= record["bound"] < 1e-6


def test_a_policy_may_avoid_what_the_optimum_rests_on(run: Path) -> None:
    """The least probability of the goal is attained by turning, for ever and without a guess."""
    solution = mdpdsl.solve(mdpdsl.load(run, all_states=True), reach="goal", minimise=True)
    assert solution.value == 0
    assert (solution.rests_on_unseen, solution.policy_rests_on_unseen) == (0, 0)
    lowest = mdpdsl.solve(mdpdsl.load(run), minimise=True, discount=0.9)
    assert lowest.value == pytest.approx(0)
    assert lowest.policy_rests_on_unseen == 0
    assert (lowest.rests_on_unseen, lowest.bound) == (4, None)


def test_files_of_values_have_no_bound_either(run: Path, tmp_path: Path) -> None:
    solution = mdpdsl.solve(mdpdsl.open_run(run))
    solution.save(tmp_path / "values.json")
    assert json.loads((tmp_path / "values.json").read_text())["bound"] is None
    solution.save(tmp_path / "values.npz")
    with np.load(tmp_path / "values.npz") as file:
        assert np.isnan(file["bound"])


def test_a_copy_of_the_arrays_knows_what_was_guessed(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "estimate.npz", tmp_path / "bare.npz")
    mdpdsl.export(mdpdsl.load(run), tmp_path / "exported.npz")
    for name in ("bare", "exported"):
        assert mdpdsl.solve(mdpdsl.load(tmp_path / f"{name}.npz")).rests_on_unseen == 4


def test_estimates_of_version_1_have_guesses_too(tmp_path: Path) -> None:
    shutil.copy(OLD / "estimate.npz", tmp_path / "bare.npz")
    for model in (mdpdsl.load(OLD, all_states=True), mdpdsl.load(tmp_path / "bare.npz")):
        assert isinstance(model, StoredModel)
        assert model.guessed.tolist() == [10, 11]
        assert mdpdsl.solve(model).rests_on_unseen == 0, "no transition that was seen leads there"


def test_a_successor_that_the_model_makes_certain_is_no_guess(tmp_path: Path) -> None:
    model = mdpdsl.loads(MODEL.replace("0.9: x' = min(x + 1, 4) | 0.1: stay", "x' = min(x + 1, 4)"))
    log = written(tmp_path, "x,action\n0,turn\n0,go\n1,turn\n0,go\n1,\n", "log.csv")
    guessed = mdpdsl.solve(mdpdsl.estimate(model, log))
    assert guessed.rests_on_unseen == 10 - 3
    trusted = mdpdsl.estimate(model, log, support="model")
    assert mdpdsl.solve(trusted).rests_on_unseen == 3, "turning in 2, 3 and 4"
    trusted.save(tmp_path / "run")
    assert mdpdsl.solve(mdpdsl.load(tmp_path / "run")).rests_on_unseen == 3
    assert mdpdsl.open_run(tmp_path / "run").estimate.row(4)[0].tolist() == [3]


def test_guesses_are_found_among_the_states_that_are_left(tmp_path: Path) -> None:
    """The states 0 and 1 are left out, and the row of 4 is certain: only 3 is a guess."""
    text = "mdp right state x in 0..4 action go init x = 2 on go -> 0.5: x' = min(x + 1, 4) | 0.5: "
    model = mdpdsl.loads(f"{text}stay reward when x == 4 : 1")
    log = written(tmp_path, "x,action\n2,go\n2,go\n3,\n", "log.csv")
    found = mdpdsl.estimate(model, log, support="model")
    found.save(tmp_path / "run")
    for each in (found.as_model(), mdpdsl.load(tmp_path / "run")):
        solution = mdpdsl.solve(each)
        assert each.graph.n_states == 3
        assert (solution.rests_on_unseen, solution.policy_rests_on_unseen) == (1, 1)


def test_the_bound_of_a_model_is_about_the_model() -> None:
    record = mdpdsl.solve(mdpdsl.load("riverswim")).record()
    assert (record["rests_on_unseen"], record["bound_of"]) == (0, "model")
    assert 0 <= record["bound"] < 1e-6
    outcome = quick("solve", "riverswim")
    assert "(no state's value is further from the optimum)" in outcome.stdout
