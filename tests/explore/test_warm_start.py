"""Counts from logs and from run directories, over the pairs of a model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import LogError, RunError
from mdpdsl.explore.warm_start import WarmStart, warm_start
from mdpdsl.graph.counts import Counts, merge
from mdpdsl.logs.count import count_logs
from tests.cli.run import quick

STEPS = 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log and a run of each kind."""
    path = tmp_path_factory.mktemp("sources")
    small = ("--steps", str(STEPS), "--json")
    for name, seed in (("a", "1"), ("b", "2")):
        log = path / f"{name}.csv"
        outcome = quick("simulate", "riverswim", *small, "--seed", seed, "--out", log)
        assert outcome.status == 0, outcome.stderr
    estimated = quick("estimate", "riverswim", path / "a.csv", "--out", path / "estimate")
    assert estimated.status == 0, estimated.stderr
    explored = quick("explore", "riverswim", *small, "--trials", "2", "--out", path / "explore")
    assert explored.status == 0, explored.stderr
    return path


def started(model: Model, *sources: Path | str) -> WarmStart:
    found = warm_start(model.checked, model.graph, sources)
    assert found is not None
    return found


def same(one: Counts, other: Counts) -> bool:
    names = ("successor_start", "successor", "count")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_without_sources_there_is_none() -> None:
    model = mdpdsl.load("riverswim")
    assert warm_start(model.checked, model.graph, ()) is None


def test_logs_and_globs_are_counted_as_estimate_counts_them(folder: Path) -> None:
    model = mdpdsl.load("riverswim")
    logs = [folder / "a.csv", folder / "b.csv"]  # both with an episode 0
    expected = count_logs(model.checked, model.graph, logs, are_files_separate=True)
    assert expected.counts.n_transitions == 2 * STEPS
    assert same(started(model, folder / "*.csv").counts, expected.counts)
    twice = started(model, folder / "a.csv", folder / "b.csv", folder / "a.csv")
    assert same(twice.counts, expected.counts)


def test_an_episode_may_continue_in_another_file(folder: Path, tmp_path: Path) -> None:
    header, *rows = (folder / "a.csv").read_text().splitlines(keepends=True)
    (tmp_path / "1.csv").write_text(header + "".join(rows[:200]))
    (tmp_path / "2.csv").write_text(header + "".join(rows[200:]))
    assert started(mdpdsl.load("riverswim"), tmp_path).counts.n_transitions == STEPS


def test_runs_add_up_with_logs(folder: Path) -> None:
    model = mdpdsl.load("riverswim")
    of_runs = started(model, folder / "estimate", folder / "explore")
    assert of_runs.counts.n_transitions == STEPS + 2 * STEPS
    of_all = started(model, folder / "estimate", folder / "b.csv", folder / "explore")
    assert same(of_all.counts, merge(of_runs.counts, started(model, folder / "b.csv").counts))


def test_a_run_over_other_states_is_translated(tmp_path: Path) -> None:
    text = "mdp part\nparam p = 0.5\nstate x in 0..5\naction a, b\ninit x = 2\n"
    text += "on any -> p: x' = max(2, x - 1) | 1 - p: x' = min(4, x + 1)\n"
    path = tmp_path / "part.mdp"
    path.write_text(text)
    small, whole = mdpdsl.load(path, p=0.3), mdpdsl.load(path, all_states=True)
    assert (small.graph.n_states, whole.graph.n_states) == (3, 6)
    arguments = ("explore", path, "--steps", "300", "--json", "--out", tmp_path / "run")
    outcome = quick(*arguments, "--set", "p=0.4")
    assert outcome.status == 0, outcome.stderr
    counts = started(whole, tmp_path / "run").counts
    assert counts.n_transitions == 300
    of_small = started(small, tmp_path / "run").counts
    for pair in range(small.graph.n_pairs):
        state = small.graph.states.native(int(small.graph.pair_state[pair]))
        there = whole.graph.pair(
            whole.graph.states.index_of(state), int(small.graph.pair_action[pair])
        )
        assert counts.visits[there] == of_small.visits[pair]


def test_a_run_of_other_variables_is_refused(folder: Path) -> None:
    model = mdpdsl.load("riverswim", n=7)
    with pytest.raises(RunError, match=r"other variables: pos in 0\.\.5; the model has pos in 0"):
        started(model, folder / "explore")


def test_transitions_of_states_that_a_model_lacks_are_refused(tmp_path: Path) -> None:
    text = "mdp part\nstate x in 0..5\naction a\ninit x = 0\non a -> x' = 1 - x\n"
    path, log = tmp_path / "part.mdp", tmp_path / "log.csv"
    path.write_text(text.replace("1 - x", "if x < 2 then 1 - x else x"))
    log.write_text("x,action\n4,a\n4,a\n0,a\n")
    outcome = quick("estimate", path, log, "--out", tmp_path / "run")
    assert outcome.status == 0, outcome.stdout
    with pytest.raises(RunError, match="2 transitions of states"):
        started(mdpdsl.load(path), tmp_path / "run")


def test_a_run_without_counts_is_refused(folder: Path, tmp_path: Path) -> None:
    record = json.loads((folder / "explore" / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(RunError, match="has no counts yet; finish it with"):
        started(mdpdsl.load("riverswim"), tmp_path)


def test_counts_that_are_damaged_are_refused(folder: Path, tmp_path: Path) -> None:
    for name in ("run.json", "model.mdp"):
        (tmp_path / name).write_bytes((folder / "estimate" / name).read_bytes())
    (tmp_path / "counts.npz").write_bytes(b"PK\x03\x04rubbish")
    with pytest.raises(RunError, match="cannot read the counts"):
        started(mdpdsl.load("riverswim"), tmp_path)


def test_a_warm_start_without_any_transition_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("pos,action\n1,left\n77,left\n")
    with pytest.raises(RunError, match=r"no transition of riverswim .*state out of range: 1"):
        started(mdpdsl.load("riverswim"), log)
    with pytest.raises(LogError, match="there is no file"):
        started(mdpdsl.load("riverswim"), tmp_path / "none.csv")


def test_a_warm_start_brings_its_ends(tmp_path: Path) -> None:
    lake = mdpdsl.load("frozen_lake")
    log = mdpdsl.simulate(lake, steps=500, seed=1, out=tmp_path / "log.csv")
    found = mdpdsl.explore(lake, steps=200, warm_start=[tmp_path / "log.csv"], seed=0)
    assert found.counts.n_transitions == 700
    spaces = "mdp lake  state row in 0..3  state col in 0..3  action left, down, right, up"
    estimate = mdpdsl.estimate(mdpdsl.loads(spaces), log, out=tmp_path / "run")
    assert len(estimate.settled.found)
    again = mdpdsl.explore(
        mdpdsl.loads(spaces), log=tmp_path / "log.csv", algorithm="random", seed=0
    )
    assert again.graph.n_pairs == estimate.graph.n_pairs
    moving = mdpdsl.loads(f"{spaces}  on any -> stay", all_states=True)
    with pytest.raises(RunError, match="has no end; add `end when`"):
        mdpdsl.explore(moving, steps=9, warm_start=[tmp_path / "run"])
