"""`mdpdsl plan`: what to run next."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

import mdpdsl
from mdpdsl.formats.policy_files import load_policy
from tests.cli.run import mdpdsl as run_process
from tests.cli.run import quick, written

#: Spaces alone; the log is of a line on which 4 was never reached.
MODEL = "mdp line\nstate x in 0..4\naction left, right\ninit x = 0\nexplore { kappa = 5 }\n"
ROWS = [(0, "right"), (1, "right"), (2, "right"), (3, "left"), (2, "left"), (1, "left")] * 20


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of estimate."""
    folder = tmp_path_factory.mktemp("plan")
    model = written(folder, MODEL)
    text = "x,action\n" + "".join(f"{x},{action}\n" for x, action in ROWS)
    log = written(folder, text, "log.csv")
    assert quick("estimate", model, log, "--out", folder / "run", "--json").status == 0
    return folder / "run"


def test_the_json_keeps_its_contract(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "next.json"
    options = ("--kappa", "2", "--steps", "1_000", "--policy-out", path, "--json")
    outcome = quick("plan", run, *options)
    assert outcome.status == 0
    record = outcome.json()
    assert (record["kappa"], record["steps"], record["policy"]) == (2, 1000, str(path))
    assert record["transitions"] == len(ROWS) - 1
    assert len(record["pairs"]) == 10
    for pair in record["pairs"]:
        assert {"state", "action", "visits", "expected_visits"} <= pair.keys()
        assert pair["expected_visits"] == pytest.approx(pair["visits"] + pair["added_visits"])
    assert sum(pair["visits"] for pair in record["pairs"]) == record["transitions"]
    assert sum(pair["added_visits"] for pair in record["pairs"]) == pytest.approx(1000)
    first = record["pairs"][0]
    assert (first["state"], first["action"], first["visits"]) in [
        ({"x": 0}, "left", 0),
        ({"x": 3}, "right", 0),
    ]
    assert (record["unseen_pairs"], record["left_out"], record["episode_length"]) == (4, 2, None)
    assert record["by_hand"] == [{"state": {"x": 4}, "action": a} for a in ("left", "right")]
    assert record["now"]["worst"] is None
    assert record["planned"]["worst"] > record["planned"]["average"] > 0
    assert record["with_c_hat"]["planned"]["worst"] <= record["planned"]["worst"]


def test_the_policy_is_one_of_the_model_and_is_in_the_run_by_default(run: Path) -> None:
    record = quick("plan", run, "--overwrite", "--json").json()
    assert record["kappa"] == 5  # of the model's explore block
    assert record["policy"] == str(run / "plan.csv")
    graph = mdpdsl.load(run / "model.mdp").graph
    assert load_policy(run / "plan.csv", graph).probability.sum() == pytest.approx(5)
    outcome = quick("simulate", run, "--all-states", "--policy", run / "plan.csv", "--steps", "9",
                    "--out", run.parent / "next.csv")  # fmt: skip
    assert outcome.status == 0


def test_the_text_says_where_it_adds_most_and_what_it_cannot_reach(run: Path) -> None:
    outcome = quick("plan", run, "--kappa", "inf", "--overwrite")
    assert outcome.status == 0
    assert "left in x = 0" in outcome.stdout
    assert "with the plan  as before" in outcome.stdout
    assert "infinite" in outcome.stdout
    assert "2 of 10 pairs" in outcome.stderr
    assert "try by hand, the nearest first: left in x = 4; right in x = 4" in outcome.stderr


def test_counts_alone_are_enough(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "estimate.npz").unlink()
    one, other = (
        quick("plan", each, "--json", "--overwrite").json() for each in (run, tmp_path / "run")
    )
    assert one["pairs"] == other["pairs"]


def test_a_run_that_ends_somewhere_is_started_again(tmp_path: Path) -> None:
    model = written(tmp_path, MODEL)
    text = "x,action\n" + "0,left\n0,right\n1,right\n2,right\n3,left\n" + "3,right\n3,left\n" * 9
    log = written(tmp_path, text, "log.csv")
    quick("estimate", model, log, "--out", tmp_path / "run")
    outcome = quick("plan", tmp_path / "run")
    assert "say so with --episode-length" in outcome.stderr
    options = ("--episode-length", "8", "--overwrite", "--json")
    again = quick("plan", tmp_path / "run", *options).json()
    assert (again["episode_length"], again["left_out"]) == (8, 2)
    assert all(pair["added_visits"] > 0 for pair in again["pairs"] if pair["state"]["x"] < 4)


def test_a_run_of_explore_is_planned_for_by_trial(tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ("--steps", "400", "--trials", "2", "--jobs", "1", "--out", out, "--json")
    assert quick("explore", "weather", *options).status == 0
    first, second = (quick("plan", each, "--json").json() for each in (out, out / "trial-001"))
    assert first["policy"] == str(out / "trial-000" / "plan.csv")
    assert second["policy"] == str(out / "trial-001" / "plan.csv")
    assert first["pairs"] != second["pairs"]
    found = mdpdsl.plan(out, 1.0, episode_length=math.inf)
    assert found.transitions == 400
    assert found.expected_visits.sum() == pytest.approx(800)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kappa", "0.5"), "kappa must be 1 or more, or inf"),
        (("--kappa", "many"), "kappa must be 1 or more, or inf"),
        (("--steps", "0"), "--steps takes 1 or more"),
        (("--episode-length", "0"), "--episode-length takes 1 or more"),
        (("--policy-out", "plan.txt"), "end in .npz, .csv, .json"),
        (("--policy-out", "nowhere/plan.csv"), "there is no folder nowhere"),
    ],
)
def test_mistakes_exit_with_2(run: Path, options: tuple[str, ...], message: str) -> None:
    outcome = quick("plan", run, *options)
    assert outcome.status == 2
    assert message in outcome.stderr


@pytest.mark.parametrize("name", ["riverswim", "."])
def test_what_is_no_run_is_refused(tmp_path: Path, name: str) -> None:
    outcome = run_process("plan", name, "--json", folder=tmp_path)
    assert outcome.status == 2
    assert "not a run directory" in outcome.json()["errors"][0]["message"]


def test_a_run_without_a_transition_has_no_plan(tmp_path: Path) -> None:
    log = written(tmp_path, "x,action\n0,left\n", "log.csv")
    mdpdsl.estimate(mdpdsl.loads(MODEL), log).save(tmp_path / "run")
    outcome = quick("plan", tmp_path / "run")
    assert outcome.status == 2
    assert "not a single transition" in outcome.stderr


def test_damaged_counts_are_refused(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "counts.npz").write_bytes(b"PK")
    for command in ("plan", "show"):
        (tmp_path / "run" / "plan.csv").unlink(missing_ok=True)
        outcome = quick(command, tmp_path / "run")
        assert outcome.status == 2
        assert "does not hold counts" in outcome.stderr
