"""Runs that version 0.1 wrote open as before, and one that it left stopped can be resumed."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import mdpdsl

RUNS = Path(__file__).parent.parent / "golden" / "runs"
KINDS = {
    "simulated": "explore",
    "episodes": "explore",
    "warm": "explore",
    "on-estimate": "explore",
    "replayed": "replay",
    "live": "live",
    "estimated": "estimate",
}
#: The counts that version 0.1 has at the end of the run that it left stopped.
FINISHED = "f754bddd539e71bea65d5d684bbf10d8daf0e0eff243d910cce6347150124c7d"


@pytest.mark.parametrize("name", KINDS)
def test_a_run_of_the_version_before_opens_with_its_figures(name: str) -> None:
    written = json.loads((RUNS / name / "summary.json").read_text("utf-8"))
    run = mdpdsl.open_run(RUNS / name)
    assert run.kind == KINDS[name]
    record = run.record()
    for key in ("model", "hash", "parameters", "worst", "average", "truth", "versions"):
        assert record[key] == written[key], key
    if run.kind != "estimate":
        assert [t["worst"] for t in record["trials"]] == [t["worst"] for t in written["trials"]]
        assert record["kappa"] == written["kappa"]
        assert record["optimum"] == written["optimum"]
    if run.kind == "explore":
        assert run.figures.worst == written["worst"]
    assert run.as_model().graph.n_pairs > 0


def test_a_comparison_of_the_version_before_opens() -> None:
    (run,) = mdpdsl.open_runs(RUNS / "compared")
    assert run.label == "random"


def test_a_trial_of_the_version_before_opens_on_its_own() -> None:
    trial = mdpdsl.open_run(RUNS / "simulated" / "trial-001")
    both = mdpdsl.open_run(RUNS / "simulated")
    assert trial.figures.worst == both.trials[1].final.worst


def test_every_run_of_the_version_before_can_be_reported(tmp_path: Path) -> None:
    names = [RUNS / name for name in KINDS]
    assert mdpdsl.report(names, tmp_path / "page.html").n_runs == len(KINDS)


def test_a_run_that_the_version_before_left_stopped_is_resumed_to_the_same_bytes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(RUNS / "stopped", folder)
    run = mdpdsl.explore(resume=folder)
    assert run.is_finished
    counts = (folder / "trial-000" / "counts.npz").read_bytes()
    assert hashlib.sha256(counts).hexdigest() == FINISHED
