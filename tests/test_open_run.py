"""`open_run` and `open_runs`: runs as they are read back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import RunError
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.runs.comparison_folder import run_folders

KINDS = {
    "explore": "explore",
    "single": "explore",
    "estimate": "estimate",
    "replay": "replay",
    "live": "live",
}


@pytest.mark.parametrize("name", KINDS)
def test_a_run_knows_its_kind(made: dict[str, Path], name: str) -> None:
    assert mdpdsl.open_run(made[name]).kind == KINDS[name]


@pytest.mark.parametrize("name", ["explore", "single", "replay"])
def test_figures_are_those_of_the_summary(made: dict[str, Path], name: str) -> None:
    run = mdpdsl.open_run(made[name])
    summary = json.loads((made[name] / "summary.json").read_text("utf-8"))
    figures = run.figures
    assert figures.failure_rate == summary["failure_rate"]
    for key in ("worst", "average", "worst_se", "average_se"):
        found, saved = getattr(figures, key), summary[key]
        assert (found is None) == (saved is None)
        if saved is not None:
            assert found == pytest.approx(saved, rel=1e-12)
    if name != "replay":
        assert run.ratio("worst") == pytest.approx(summary["ratio"]["worst"], rel=1e-12)


def test_metrics_are_those_of_the_trials(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["explore"])
    n_times = len(run.metrics["step"])
    assert run.metrics["worst"].shape == (3, n_times)
    for index in range(3):
        with np.load(made["explore"] / f"trial-{index:03d}" / "metrics.npz") as saved:
            assert np.array_equal(run.metrics["worst"][index], saved["worst"], equal_nan=True)


def test_one_trial_is_a_run(made: dict[str, Path]) -> None:
    every, one = (mdpdsl.open_run(made["explore"] / part) for part in ("", "trial-001"))
    assert len(one.trials) == 1
    assert np.array_equal(one.counts.count, every.trials[1].counts.count)
    assert one.figures.worst == every.trials[1].final.worst


def test_complexities_are_true_only_where_the_truth_is_known(made: dict[str, Path]) -> None:
    explored = mdpdsl.open_run(made["explore"])
    assert np.array_equal(explored.reference.complexity, squared_l2_complexity(explored.graph))
    for name, symbol in (("estimate", "ĉ"), ("live", "ĉ"), ("replay", "c")):
        run = mdpdsl.open_run(made[name])
        assert run.reference.symbol == symbol
        assert run.reference.truth is None
        assert run.optimum is None


def test_a_log_estimated_is_measured_with_its_own_complexities(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["estimate"])
    graph, visits = run.estimate, run.counts.visits
    seen = visits > 0
    c = squared_l2_complexity(graph)
    if seen.all():
        assert run.figures.worst == pytest.approx((visits.sum() * c / visits).max())
    assert run.figures.coverage == pytest.approx(seen.mean())


def test_a_comparison_opens_as_the_runs_of_its_rows(made: dict[str, Path]) -> None:
    folders = run_folders([made["compare"], made["single"]])
    names = [folder.name for folder in folders]
    assert names == ["01-kappa-dp-kappa2", "02-random", "single"]
    runs = mdpdsl.open_runs(made["compare"])
    assert [run.label for run in runs] == ["kappa-dp (kappa=2)", "random"]
    assert len(runs[:1]) == 1


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"it has no run\.json"):
        mdpdsl.open_run(tmp_path)
    with pytest.raises(RunError, match="there is no such folder"):
        mdpdsl.open_run(tmp_path / "nowhere")


def test_an_unfinished_run_says_how_to_finish_it(made: dict[str, Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(made["explore"], copy)
    (copy / "summary.json").unlink()
    with pytest.raises(RunError, match=r"not finished.*explore --resume"):
        mdpdsl.open_run(copy)


@pytest.mark.parametrize("file", ["trial-000/counts.npz", "trial-001/metrics.npz", "summary.json"])
def test_a_damaged_run_is_refused(made: dict[str, Path], tmp_path: Path, file: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(made["explore"], copy)
    (copy / file).write_bytes(b"not what it was")
    with pytest.raises(RunError, match=r"cannot be read|does not hold"):
        mdpdsl.open_run(copy)


def test_a_model_that_builds_otherwise_is_refused(made: dict[str, Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(made["explore"], copy)
    text = (copy / "model.mdp").read_text("utf-8")
    (copy / "model.mdp").write_text(text.replace("0.6)", "0.7)"), "utf-8")
    with pytest.raises(RunError, match="another hash"):
        mdpdsl.open_run(copy)


def test_a_live_run_can_be_planned_from_its_folder(made: dict[str, Path]) -> None:
    assert mdpdsl.plan(made["live"]).graph.n_pairs == 10
