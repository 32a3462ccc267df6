"""`mdpdsl explore` with explorers that plan in episodes, and `export --to lp|mps`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.run import mdpdsl, quick


def test_a_run_keeps_its_episodes(tmp_path: Path) -> None:
    outcome = mdpdsl(
        *("explore", "riverswim", "--algorithm", "kappa-lp", "--kappa", "2", "--steps", "500"),
        *("--out", tmp_path / "run", "--json"),
    )
    assert outcome.status == 0
    record = json.loads(outcome.stdout)
    assert (record["algorithm"], record["backend"], record["eta"]) == (
        "kappa-lp",
        "pyomo-highs",
        None,
    )
    saved = json.loads((tmp_path / "run" / "trial-000" / "episodes.json").read_text("utf-8"))
    steps = [episode["step"] for episode in saved["episodes"]]
    assert steps == [0, 10, 50, 140, 300]
    assert {"utility", "value", "eta", "status", "seconds"} <= set(saved["episodes"][-1])


def test_compare_has_kappa_lp_for_every_kappa() -> None:
    outcome = quick(
        *("compare", "riverswim", "--algorithm", "kappa-lp", "--algorithm", "fw-modest"),
        *("--kappa", "1", "--kappa", "2", "--steps", "200", "--trials", "1", "--json"),
        *("--backend", "highs"),
    )
    rows = json.loads(outcome.stdout)["rows"]
    assert [(row["algorithm"], row["kappa"]) for row in rows] == [
        ("kappa-lp", 1.0),
        ("kappa-lp", 2.0),
        ("fw-modest", 1.0),
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--backend", "gurobi"], 2, "one of evi, highs, pyomo-highs"),
        (["--formulation", "ful"], 2, "did you mean `full`"),
        (["--eta", "much"], 2, "eta must be auto or a number"),
        (["--eta", "0.2", "--strict"], 2, "at most"),
        (["--oracle-seconds", "1e-9", "--backend", "highs"], 1, "time limit"),
    ],
)
def test_mistakes_say_what_would_work(
    arguments: list[str], status: int, message: str, tmp_path: Path
) -> None:
    outcome = mdpdsl(
        *("explore", "riverswim", "--algorithm", "kappa-lp", "--steps", "300"),
        *("--out", tmp_path / "run", "--json"),
        *arguments,
    )
    assert outcome.status == status
    (error,) = json.loads(outcome.stdout)["errors"]
    assert message in error["message"]


def test_an_eta_that_is_too_large_is_clipped_with_a_warning(tmp_path: Path) -> None:
    outcome = mdpdsl(
        *("explore", "riverswim", "--algorithm", "kappa-lp", "--steps", "100", "--eta", "0.2"),
        *("--backend", "highs", "--out", tmp_path / "run"),
    )
    assert outcome.status == 0
    assert "warning: eta = 0.2 is too large" in outcome.stderr
    assert "t* is" in outcome.stderr


@pytest.mark.parametrize("target", ["lp", "mps"])
def test_a_planning_program_is_written(target: str, tmp_path: Path) -> None:
    path = tmp_path / f"plan.{target}"
    outcome = mdpdsl("export", "riverswim", "--to", target, "--out", path, "--json")
    assert json.loads(outcome.stdout) == {"path": str(path), "format": target}
    assert outcome.status == 0
    assert "pos_5" in path.read_text("utf-8")


def test_a_program_that_is_too_large_is_refused() -> None:
    outcome = mdpdsl(
        *("export", "gridworld", "--set", "n=60", "--to", "lp", "--formulation", "full"),
        "--json",
    )
    assert outcome.status == 2
    (error,) = json.loads(outcome.stdout)["errors"]
    assert "the compact formulation" in error["message"]
