"""`mdpdsl report`, `mdpdsl plot` and `mdpdsl compare --save` as people run them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cli.run import GOOD, mdpdsl, quick, written

STEPS = ("--steps", "500", "--jobs", "1", "--quiet")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    model = written(folder, GOOD)
    assert quick("explore", model, *STEPS, "--trials", "2", "--out", folder / "run").status == 0
    return folder / "run"


def test_report_writes_a_page_and_says_where(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    record = quick("report", run, "--out", out, "--json").json()
    assert record["path"] == str(out)
    assert record["bytes"] == out.stat().st_size
    assert record["runs"] == [str(run)]
    assert out.read_text("utf-8").startswith("<!doctype html>")


def test_the_page_of_a_run_lies_in_its_folder(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    assert quick("report", copy).status == 0
    assert (copy / "report.html").exists()


def test_report_works_as_a_process_with_json_alone_on_standard_output(
    run: Path, tmp_path: Path
) -> None:
    done = mdpdsl("report", run, run, "--json", folder=tmp_path)
    assert done.status == 0
    assert done.json()["path"] == "report.html"
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("command", [("report",), ("plot", "--figure", "loss")])
def test_what_is_no_run_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, said in ((empty, "it has no run.json"), (tmp_path / "no", "no such folder")):
        done = quick(*command, path)
        assert done.status == 2
        assert said in done.stderr


def test_an_unfinished_run_is_refused_with_the_command_that_continues_it(
    run: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "summary.json").unlink()
    done = quick("report", copy)
    assert done.status == 2
    assert f"mdpdsl explore --resume {copy}" in done.stderr


def test_wrong_axes_are_refused(run: Path) -> None:
    for command in (("report",), ("plot", "--figure", "visits")):
        done = quick(*command, run, "--axes", "room,door")
        assert done.status == 2
        assert "no variable `door`; choose from room, action" in done.stderr


def test_plot_draws_one_figure(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "loss.svg"
    record = quick("plot", run, "--figure", "loss", "--out", out, "--json").json()
    assert record["path"] == str(out)
    assert "<svg" in out.read_text("utf-8")


def test_plot_lists_its_figures(run: Path) -> None:
    listed = quick("plot", "--figure", "list", "--json").json()["figures"]
    names = [each["name"] for each in listed]
    assert {"worst", "average", "visits", "loss", "error", "graph"} <= set(names)
    done = quick("plot", run, "--figure", "picture")
    assert done.status == 2
    assert all(name in done.stderr for name in names)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--figure", "loss", "--out", "loss.gif"),
        ("--figure", "loss", "--action", "jump"),
        ("--figure", "radius"),
    ],
)
def test_what_cannot_be_drawn_is_refused(run: Path, arguments: tuple[str, ...]) -> None:
    assert quick("plot", run, *arguments).status == 2


def test_a_page_that_cannot_be_written_is_a_failure(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    done = quick("report", run, "--out", tmp_path / "file" / "page.html")
    assert done.status == 1
    assert "cannot write" in done.stderr


def test_a_saved_comparison_has_the_runs_that_explore_would_make(tmp_path: Path) -> None:
    model = written(tmp_path, GOOD)
    rows = ("--algorithm", "random", "--algorithm", "kappa-dp", "--kappa", "2")
    saved = tmp_path / "saved"
    compared = quick(
        *("compare", model, *rows, *STEPS, "--trials", "2", "--seed", "3"),
        *("--save", saved, "--json"),
    ).json()
    assert compared["saved"] == str(saved)
    listed = json.loads((saved / "comparison.json").read_text("utf-8"))["rows"]
    assert listed == ["01-random", "02-kappa-dp-kappa2"]
    alone = tmp_path / "alone"
    explored = quick(
        *("explore", model, "--algorithm", "kappa-dp", "--kappa", "2", *STEPS),
        *("--trials", "2", "--seed", "3", "--out", alone, "--json"),
    ).json()
    summary = json.loads((saved / listed[1] / "summary.json").read_text("utf-8"))
    for key in ("worst", "average", "optimum", "ratio", "failure_rate"):
        assert summary[key] == explored[key]
    assert compared["rows"][1]["worst"] == explored["worst"]
    for trial in ("trial-000", "trial-001"):
        with (
            np.load(saved / listed[1] / trial / "counts.npz") as one,
            np.load(alone / trial / "counts.npz") as other,
        ):
            assert np.array_equal(one["count"], other["count"])
    assert len(quick("report", saved, "--json").json()["runs"]) == 2


def test_a_comparison_is_not_saved_over_something(tmp_path: Path) -> None:
    model = written(tmp_path, GOOD)
    done = quick("compare", model, *STEPS, "--save", tmp_path)
    assert done.status == 2
    assert "exists already" in done.stderr


def test_a_comparison_of_a_stored_model_is_reported(run: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    arguments = ("--algorithm", "random", "--trials", "2", *STEPS, "--save", saved)
    done = quick("compare", run, *arguments)
    assert done.status == 0, done.stderr
    assert quick("report", saved, "--out", tmp_path / "page.html").status == 0
