"""The optimum beside the figures of runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mdpdsl as package
from mdpdsl.explore.optimum import Limits, exploration_limits
from tests.cli.run import written
from tests.graph.build import ruin


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mdpdsl", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def test_a_run_says_how_far_from_the_optimum_it_is(tmp_path: Path) -> None:
    outcome = run("explore", "riverswim", "--steps", "20_000", "--json", cwd=tmp_path)
    record = json.loads(outcome.stdout)
    assert record["optimum"]["worst"] == pytest.approx(3.77764, abs=1e-4)
    for name in ("worst", "average"):
        assert record["ratio"][name] == pytest.approx(record[name] / record["optimum"][name])
    assert record["ratio"]["worst"] >= 0.99
    saved = json.loads((tmp_path / record["run"] / "summary.json").read_text())
    assert saved["ratio"] == record["ratio"]
    text = run("explore", "riverswim", "--steps", "20_000", cwd=tmp_path).stdout
    assert "times the optimum, 3.8)" in text


def test_a_comparison_has_a_row_for_the_optimum(tmp_path: Path) -> None:
    arguments = [
        "compare",
        "riverswim",
        "--algorithm",
        "random",
        "--steps",
        "20000",
        "--trials",
        "2",
    ]
    record = json.loads(run(*arguments, "--json", cwd=tmp_path).stdout)
    (row,) = record["rows"]
    assert row["ratio_worst"] == pytest.approx(row["worst"] / record["optimum"]["worst"])
    assert row["ratio_average"] == pytest.approx(row["average"] / record["optimum"]["average"])
    lines = run(*arguments, cwd=tmp_path).stdout.splitlines()
    assert lines[-1].split() == ["optimum", "3.8", "1.9"]
    assert f"{row['ratio_worst']:.2f}" in lines[-2]
    latex = run(*arguments, "--format", "latex", cwd=tmp_path).stdout
    assert r"optimum & & 3.8 & 1.9 \\" in latex
    header, values = run(*arguments, "--format", "csv", cwd=tmp_path).stdout.splitlines()
    assert header.endswith("ratio_worst,ratio_average")
    assert float(values.split(",")[-2]) == pytest.approx(row["ratio_worst"])


def test_an_infinite_optimum_is_null_with_its_reason(tmp_path: Path) -> None:
    trap = written(
        tmp_path,
        """mdp trap state x in 0..2 action left, right init x = 0
        on left when x < 2 -> x' = max(x - 1, 0)
        on right when x < 2 -> 0.5: x' = x + 1 | 0.5: stay
        on any otherwise -> stay""",
    )
    arguments = ["explore", str(trap), "--algorithm", "random", "--steps", "500"]
    record = json.loads(run(*arguments, "--json", cwd=tmp_path).stdout)
    assert (record["optimum"], record["ratio"]) == (None, None)
    assert "infinitely often" in record["optimum_reason"]
    noted = run(*arguments, cwd=tmp_path).stderr
    assert "no optimum to compare with: no policy visits 1 of 6 pairs infinitely often" in noted
    assert "set --recurrent to leave them out" in noted


def test_a_large_model_does_without() -> None:
    limits = exploration_limits(package.load("gridworld", n=120).graph)
    assert limits.record() is None
    assert "large" in str(limits.reason)


def test_where_nothing_is_to_estimate_there_is_no_ratio() -> None:
    graph = package.load("windy_gridworld").graph
    limits = exploration_limits(graph)
    assert limits.record() == {"worst": 0.0, "average": 0.0}
    assert limits.ratio_worst(0.0) is None
    assert Limits(2.0, 1.0).ratio_worst(None) is None
    assert exploration_limits(ruin(9)).reason is not None
