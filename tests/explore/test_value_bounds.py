"""A run with a property: what its data guarantee, and what they leave possible, over time."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import ModelError, RunError
from mdpdsl.estimate import run_result
from mdpdsl.estimate.metrics import checkpoints
from mdpdsl.explore.executor import trial_seeds
from mdpdsl.explore.result import ExploreRun
from mdpdsl.explore.trial import continue_trial, load_trial, new_trial
from mdpdsl.explore.value_bounds import MOST_TIMES, bounds_of
from tests.explore.systems import WALK, Walk

ROOMS = """\
mdp rooms
state room in {start, left, right, trap}
action go, wait
init room = start
on go when room == start -> 0.6: room' = right | 0.3: room' = left | 0.1: room' = trap
on go when room == left -> 0.5: room' = start | 0.5: stay
on go when room == right -> 0.9: room' = start | 0.1: stay
on go otherwise -> room' = start
on wait -> stay
label won when room == right
label lost when room == trap
property win = Pmax=? [ !"lost" U "won" ]
"""
WIN = 'Pmax=? [ !"lost" U "won" ]'
TRUTH = 6 / 7  # w = 0.6 + 0.3 w
STEPS = 3_000


def explored(**more: Any) -> ExploreRun:
    return mdpdsl.explore(mdpdsl.loads(ROOMS), steps=STEPS, property="win", jobs=1, **more)


def require_those_of_solve(run: ExploreRun) -> None:
    """Compare the last values of every trial with those that `solve` finds afterwards."""
    for trial in run.trials:
        found = mdpdsl.solve(replace(run, trials=(trial,)), WIN, robust=True)
        assert isinstance(found, mdpdsl.RobustSolution)
        values = (trial.metrics["guaranteed"][-1], trial.metrics["possible"][-1])
        assert values == (found.guaranteed, found.possible)
        assert (trial.final.guaranteed, trial.final.possible) == values


def test_the_last_values_are_those_of_solve_and_enclose_the_truth() -> None:
    run = explored(trials=3)
    require_those_of_solve(run)
    record = run.record()
    assert record["property"] == "win"
    for name in ("guaranteed", "possible"):
        values = [trial[name] for trial in record["trials"]]
        assert record[name] == getattr(run, name) == pytest.approx(np.mean(values))
    assert record["bounds_missing"] is None
    assert 0 < run.guaranteed < TRUTH < run.possible < 1  # type: ignore[operator]
    assert run.true_value == pytest.approx(TRUTH, abs=1e-6)


def test_bounds_are_computed_at_the_last_checkpoints_and_close_in() -> None:
    metrics = explored().metrics
    known = ~np.isnan(metrics["guaranteed"][0])
    assert metrics["step"][known].tolist() == checkpoints(STEPS)[-MOST_TIMES:]
    assert np.array_equal(known, ~np.isnan(metrics["possible"][0]))
    gap = (metrics["possible"] - metrics["guaranteed"])[0][known]
    assert gap[-1] < gap[0] / 2


def test_a_run_is_the_same_with_and_without_a_property() -> None:
    model = mdpdsl.loads(ROOMS)
    plain = mdpdsl.explore(model, steps=STEPS, jobs=1)
    assert np.array_equal(plain.counts.count, explored().counts.count)
    names = {"property", "guaranteed", "possible", "bounds_missing"}
    assert not names & plain.record().keys()
    assert not names & plain.record()["trials"][0].keys()
    assert not names & plain.metrics.keys()
    assert (plain.guaranteed, plain.possible, plain.true_value) == (None, None, None)


def test_processes_find_the_same_values() -> None:
    model = mdpdsl.loads(ROOMS)
    runs = [mdpdsl.explore(model, steps=500, property=WIN, trials=2, jobs=n) for n in (1, 2)]
    one, other = (run.metrics["guaranteed"] for run in runs)
    assert np.array_equal(one, other, equal_nan=True)


def test_a_trial_that_was_stopped_has_the_same_values(tmp_path: Path) -> None:
    run = explored()
    graph, bounds = run.graph, bounds_of(run.model, run.configuration)
    for stop in (40, 700, STEPS):
        trial = load_trial(graph, run.settings, trial_seeds(0, 0), tmp_path)
        continue_trial(trial, graph, lambda s, stop=stop: s.steps < stop, tmp_path, bounds)  # type: ignore[misc]
    whole = new_trial(graph, run.settings, trial_seeds(0, 0))
    continue_trial(whole, graph, lambda _: True, None, bounds)
    assert trial.history == whole.history
    assert trial.history[-1].guaranteed == run.guaranteed


def test_a_saved_run_keeps_its_property(tmp_path: Path) -> None:
    run = explored(trials=2, out=tmp_path / "run")
    opened = mdpdsl.open_run(tmp_path / "run")
    assert isinstance(opened, ExploreRun)
    assert opened.configuration.property == "win"
    assert opened.record() == run.record()
    assert (opened.guaranteed, opened.possible) == (run.guaranteed, run.possible)
    (tmp_path / "run" / "summary.json").unlink()
    again = mdpdsl.explore(resume=tmp_path / "run")
    assert again.record()["guaranteed"] == run.guaranteed
    with pytest.raises(RunError, match="a resumed run keeps its model and settings"):
        mdpdsl.explore(resume=tmp_path / "run", property="win")


def test_a_replay_has_those_of_the_log_so_far(tmp_path: Path) -> None:
    model, log = mdpdsl.loads(ROOMS), tmp_path / "log.csv"
    mdpdsl.simulate(model, steps=2_000, seed=1, out=log)
    run = mdpdsl.explore(model, log=log, property="win", trials=2, jobs=1)
    require_those_of_solve(run)
    assert run.record()["guaranteed"] == run.guaranteed
    assert run.true_value is None


def test_a_live_run_has_them_too_and_resumes_with_them(tmp_path: Path) -> None:
    model = mdpdsl.loads(WALK + "label top when x == 4\n")
    asked = 'Pmax=? [ F<=20 "top" ]'
    run = mdpdsl.explore(
        model, system=Walk(), steps=3_000, property=asked, out=tmp_path / "run", delta=0.2
    )
    found = mdpdsl.solve(run, asked, robust=True)
    assert isinstance(found, mdpdsl.RobustSolution)
    assert (run.guaranteed, run.possible) == (found.guaranteed, found.possible)
    assert found.delta == 0.2
    values = run.metrics["possible"][0]
    assert np.count_nonzero(~np.isnan(values)) == MOST_TIMES
    again = mdpdsl.explore(model, system=Walk(), resume=tmp_path / "run")
    assert np.array_equal(again.metrics["possible"][0], values, equal_nan=True)
    assert mdpdsl.open_run(tmp_path / "run").record()["possible"] == run.possible


@pytest.mark.parametrize("kind", ["simulated", "replayed", "live"])
@pytest.mark.parametrize("asked", ["wim", 'Pmax=? [ F "wun" ]', "Pmax=? [ F"])
def test_a_wrong_property_is_refused_before_anything_is_written(
    tmp_path: Path, kind: str, asked: str
) -> None:
    model, log, out = mdpdsl.loads(ROOMS), tmp_path / "log.csv", tmp_path / "run"
    mdpdsl.simulate(model, steps=50, out=log)
    system = Walk()
    kinds: dict[str, dict[str, Any]] = {"replayed": {"log": log}, "live": {"system": system}}
    with pytest.raises(ModelError):
        mdpdsl.explore(model, property=asked, steps=50, out=out, **kinds.get(kind, {}))
    assert not out.exists()
    assert system.resets == 0


def test_a_run_says_why_it_has_no_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "it would have too many transitions"
    monkeypatch.setattr(run_result, "too_large_estimate", lambda *_, **__: reason)
    run = explored()
    record = run.record()
    assert (record["property"], record["guaranteed"], record["possible"]) == ("win", None, None)
    assert reason in record["bounds_missing"]
    assert run.guaranteed is None


def test_an_infinite_value_is_a_text_in_the_record() -> None:
    model = mdpdsl.loads(ROOMS + "reward : 1\n")
    run = mdpdsl.explore(model, steps=2, property='Rmin=? [ F "won" ]')
    assert run.guaranteed == math.inf
    assert run.record()["guaranteed"] == run.record()["trials"][0]["guaranteed"] == "inf"


def test_a_plan_names_the_pairs_that_close_the_gap(tmp_path: Path) -> None:
    run = explored(out=tmp_path / "run")
    found = mdpdsl.solve(run, WIN, robust=True)
    assert isinstance(found, mdpdsl.RobustSolution)
    for given in (run, tmp_path / "run"):
        todo = mdpdsl.plan(given, steps=100)
        assert (todo.guaranteed, todo.possible) == (found.guaranteed, found.possible)
        assert todo.solution is not None
        assert todo.solution.pairs_to_visit == found.pairs_to_visit
    other = mdpdsl.plan(run, steps=100, property='Pmax=? [ F "lost" ]').record()
    assert other["property"] != todo.record()["property"]
    plain = mdpdsl.explore(mdpdsl.loads(ROOMS), steps=500)
    assert "guaranteed" not in mdpdsl.plan(plain, steps=100).record()
    with pytest.raises(ModelError):
        mdpdsl.plan(run, steps=100, property="wim", out=tmp_path / "plan.csv")
    assert not (tmp_path / "plan.csv").exists()
