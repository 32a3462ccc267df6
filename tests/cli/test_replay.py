"""`explore --log` and `compare --log`: from a log to a run directory or a table, and mistakes."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.estimate.metrics import Measures, measure
from mdpdsl.explore import trial as trials
from mdpdsl.formats.npz import from_npz
from tests.cli.run import Outcome, quick, written

MODEL = "mdp spaces\nstate x in 0..2\naction a, b\n"
#: Two episodes that end in 2, which nothing leaves; a in 1 is never logged.
LOG = (
    "episode,time,x,action\n"
    "0,0,0,a\n0,1,1,b\n0,2,0,b\n0,3,0,a\n0,4,1,b\n0,5,2,\n"
    "1,0,0,a\n1,1,1,b\n1,2,2,\n"
)


def explored(*arguments: str | Path) -> dict[str, Any]:
    outcome = quick("explore", *arguments, "--json")
    assert outcome.status == 0, outcome.stdout
    return outcome.json()


@pytest.fixture
def hand_made(tmp_path: Path) -> tuple[Path, Path]:
    return written(tmp_path, MODEL), written(tmp_path, LOG, "log.csv")


def test_the_json_says_how_far_it_got_and_why_not_farther(
    hand_made: tuple[Path, Path], tmp_path: Path
) -> None:
    model, log = hand_made
    out = tmp_path / "run"
    record = explored(model, "--log", log, "--out", out, "--algorithm", "kappa-dp")
    assert (record["truth"], record["optimum"], record["ratio"]) == (False, None, None)
    assert (record["transitions"], record["pairs_in_log"], record["pairs_unseen"]) == (7, 3, 3)
    assert record["log"]["episodes"] == 2
    assert record["log"]["files"][0]["path"] == str(log)
    assert {"state": {"x": 1}, "action": "a"} in record["log"]["unseen"]
    (trial,) = record["trials"]
    # In 0 are a (three times) and b (once), in 1 is b: to 0, then 2; then 2.
    assert trial["ended"] == "no more transitions of b in x = 0"
    assert trial["ended_pair"] == {"state": {"x": 0}, "action": "b", "in_log": 1}
    assert trial["share_of_log"] == trial["steps"] / 7 == record["share_of_log"]
    assert trial["failed"] is False
    assert record["failure_rate"] == 0
    assert record["worst"] is not None
    assert json.loads((out / "summary.json").read_text()) == record
    with np.load(out / "trial-000" / "counts.npz") as counts:
        assert len(counts["successor_start"]) == 7  # the pairs of the model, seen or not
        assert counts["count"].sum() == trial["steps"]
    estimate = from_npz(out / "trial-000" / "estimate.npz")
    estimate.validate()
    assert estimate.n_pairs == 6


def test_the_text_names_the_pair_and_how_often_it_is_in_the_log(
    hand_made: tuple[Path, Path], tmp_path: Path
) -> None:
    model, log = hand_made
    outcome = quick("explore", model, "--log", log, "--out", tmp_path / "run", "--trials", "2")
    assert outcome.status == 0
    text = " ".join(outcome.stdout.split())
    assert "7 transitions in 2 episodes, 1 file; pairs in it 3 of 6" in text
    assert "no more transitions of b in x = 0 (1 in the log)" in text
    assert "the trials are alike" in outcome.stderr


def test_all_actions_may_be_offered(hand_made: tuple[Path, Path], tmp_path: Path) -> None:
    model, log = hand_made
    record = explored(model, "--log", log, "--offer", "all", "--out", tmp_path / "run")
    (trial,) = record["trials"]
    assert trial["ended"] == "the log never has a in x = 1"
    assert trial["ended_pair"]["in_log"] == 0


def test_steps_limit_a_replay_and_the_explore_block_does_not(tmp_path: Path) -> None:
    model = written(tmp_path, MODEL + "explore { steps = 2 }\n")
    log = written(tmp_path, "x,action\n" + "0,b\n1,b\n" * 30, "log.csv")
    record = explored(model, "--log", log, "--out", tmp_path / "whole")
    assert (record["steps"], record["steps_done"]) == (59, 59)
    assert record["ended"] == "every transition of the log was used"
    record = explored(model, "--log", log, "--steps", "10", "--out", tmp_path / "part")
    assert (record["steps_done"], record["ended"]) == (10, "the limit of 10 steps")
    record = explored(model, "--log", log, "--steps", "1e6", "--out", tmp_path / "more")
    assert record["steps_done"] == 59


def simulated(model: str, path: Path, *options: str) -> Path:
    outcome = quick("simulate", model, "--out", path, "--quiet", *options)
    assert outcome.status == 0, outcome.stderr
    return path


def test_a_log_of_the_riverswim_is_replayed(tmp_path: Path) -> None:
    log = simulated("riverswim", tmp_path / "log.parquet", "--steps", "50000", "--seed", "1")
    record = explored("riverswim", "--log", log, "--out", tmp_path / "run")
    assert record["pairs_unseen"] == 0
    assert 0 < record["steps_done"] < 50_000
    assert record["ended"].startswith("no more transitions of right in pos = ")
    assert 0 < record["distance_to_log"] < 1


def test_a_log_of_the_frozen_lake_continues_after_each_episode(tmp_path: Path) -> None:
    """As a recorder of Gymnasium writes it: nothing follows a hole or the goal."""
    graph = mdpdsl.load("frozen_lake").graph
    draw = np.random.default_rng(0)
    P = graph.transition_matrix().toarray()
    lines = ["episode,time,row,col,action"]
    labels = graph.actions.labels
    for episode in range(600):
        state = 0
        for time in range(100):
            row, col = divmod(state, 4)
            pairs = graph.pair_start[state : state + 2]
            is_over = pairs[0] == pairs[1]
            action = int(draw.integers(4))
            lines.append(f"{episode},{time},{row},{col},{'' if is_over else labels[action]}")
            if is_over:
                break
            state = int(draw.choice(16, p=P[pairs[0] + action]))
    log = written(tmp_path, "\n".join(lines) + "\n", "log.csv")
    record = explored("frozen_lake", "--log", log, "--algorithm", "random", "--out", tmp_path / "r")
    assert record["log"]["episodes"] == 600
    assert record["pairs_unseen"] == 0  # holes and the goal have no pairs
    assert record["restarts"] > 100
    assert record["share_of_log"] > 0.2
    assert record["coverage"] > 0.9


def test_a_model_without_dynamics_learns_from_a_log(tmp_path: Path) -> None:
    values = simulated("pendulum", tmp_path / "log.csv", "--steps", "3000", "--seed", "3")
    lines = ["run_id,step,obs_0,obs_1,obs_2,torque"]
    for row in csv.DictReader(values.read_text().splitlines()):
        theta = float(row["theta"])
        cells = [row["episode"], row["time"], np.cos(theta), np.sin(theta), row["omega"], row["u"]]
        lines.append(",".join(map(str, cells)))
    log = written(tmp_path, "\n".join(lines) + "\n", "recorded.csv")
    record = explored("pendulum_unknown", "--log", log, "--out", tmp_path / "unknown")
    assert record["pairs_in_log"] + record["pairs_unseen"] == 500
    assert record["pairs_unseen"] > 0
    assert record["steps_done"] > 100
    same = explored("pendulum", "--log", values, "--kappa", "1", "--gamma", "0.99", "--out",
                    tmp_path / "known")  # fmt: skip
    for key in ("steps_done", "distance_to_log", "ended", "worst"):
        assert same[key] == record[key]  # of a model with dynamics only the spaces count


def test_several_logs_come_in_their_order_by_patterns_or_one_by_one(tmp_path: Path) -> None:
    model = written(tmp_path, MODEL)
    parts = [f"episode,time,x,action\n{e},0,0,a\n{e},1,{e},b\n{e},2,0,\n" for e in (0, 1, 2)]
    paths = [written(tmp_path, text, f"part{n}.csv") for n, text in enumerate(parts)]
    found = [
        explored(model, "--log", tmp_path / "part*.csv", "--out", tmp_path / "1"),
        explored(model, "--log", paths[0], "--log", paths[1], "--log", paths[2], "--out",
                 tmp_path / "2"),
        explored(model, "--log", *paths, "--out", tmp_path / "3"),  # a shell expands a pattern so
    ]  # fmt: skip
    assert {record["log"]["hash"] for record in found} == {found[0]["log"]["hash"]}
    turned = explored(model, "--log", *paths[::-1], "--separate-files", "--out", tmp_path / "4")
    assert turned["log"]["hash"] != found[0]["log"]["hash"]


def test_a_replay_that_was_stopped_continues_without_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulated("riverswim", tmp_path / "log.csv", "--steps", "20000")
    asked = ("riverswim", "--log", log, "--algorithm", "maxent", "--jobs", "1", "--trials", "2")
    whole = explored(*asked, "--out", tmp_path / "whole")

    def interrupted(step: int, *rest: Any) -> Measures:
        if step > 20:
            signal.raise_signal(signal.SIGINT)
        return measure(step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(trials, "measure", interrupted)
        stopped = quick("explore", *asked, "--out", tmp_path / "parts")
    assert stopped.status == 1
    assert "explore --resume" in stopped.stderr
    log.unlink()
    record = explored("--resume", tmp_path / "parts")
    for folder in ("trial-000", "trial-001"):
        for name in ("counts.npz", "metrics.npz", "estimate.npz"):
            one, other = (tmp_path / run / folder / name for run in ("parts", "whole"))
            assert one.read_bytes() == other.read_bytes()
    for key in ("worst", "steps_done", "distance_to_log", "ended", "log"):
        assert record[key] == whole[key]
    assert [t["ended_pair"] for t in record["trials"]] == [t["ended_pair"] for t in whole["trials"]]


#: Explores with the arguments given, saves all the time, and dies without notice on its way.
DYING = """
import os, signal, sys
from mdpdsl.cli import main
from mdpdsl.estimate import metrics
from mdpdsl.explore import trial

def measure(step, *rest):
    if step > 1_000:
        os.kill(os.getpid(), signal.SIGKILL)
    return metrics.measure(step, *rest)

trial.SAVE_SECONDS, trial.measure = 0.0, measure
main()
"""


def test_a_replay_that_was_killed_continues_as_if_it_had_not_been(tmp_path: Path) -> None:
    log = simulated("riverswim", tmp_path / "log.csv", "--steps", "100000")
    asked = ("riverswim", "--log", str(log), "--algorithm", "random", "--jobs", "1")
    explored(*asked, "--out", tmp_path / "whole")
    command = [sys.executable, "-c", DYING, "explore", *asked, "--out", str(tmp_path / "parts")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with np.load(tmp_path / "parts" / "trial-000" / "state.npz") as saved:
        assert 0 < json.loads(str(saved["record"]))["done"] <= 1_000
    assert not (tmp_path / "parts" / "summary.json").exists()
    record = explored("--resume", tmp_path / "parts")
    assert record["steps_done"] > 2_000
    for name in ("counts.npz", "metrics.npz", "estimate.npz"):
        one, other = (tmp_path / run / "trial-000" / name for run in ("parts", "whole"))
        assert one.read_bytes() == other.read_bytes()


def test_a_run_whose_log_was_changed_is_not_resumed(
    hand_made: tuple[Path, Path], tmp_path: Path
) -> None:
    model, log = hand_made
    explored(model, "--log", log, "--out", tmp_path / "run")
    kept = tmp_path / "run" / "log.npz"
    with np.load(kept) as saved:
        arrays = dict(saved)
    np.savez(kept, **(arrays | {"successor": arrays["successor"][::-1]}))
    refused(quick("explore", "--resume", tmp_path / "run"), "its log is not the one that the run")
    kept.write_bytes(b"nothing")
    refused(quick("explore", "--resume", tmp_path / "run"), "no readable log.npz")
    kept.unlink()
    refused(quick("explore", "--resume", tmp_path / "run"), "no readable log.npz")
    outcome = quick("explore", "--resume", tmp_path / "run", "--log", log)
    refused(outcome, "keeps its model and settings; give --resume alone")


def test_the_number_of_processes_changes_no_byte(tmp_path: Path) -> None:
    log = simulated("riverswim", tmp_path / "log.csv", "--steps", "5000")
    asked = ("riverswim", "--log", log, "--algorithm", "random", "--trials", "3")
    for jobs in ("1", "2"):
        explored(*asked, "--jobs", jobs, "--out", tmp_path / jobs)
    for number in range(3):
        for name in ("counts.npz", "metrics.npz", "estimate.npz"):
            one, two = (tmp_path / jobs / f"trial-{number:03d}" / name for jobs in ("1", "2"))
            assert one.read_bytes() == two.read_bytes()


def test_explorers_that_plan_in_episodes_replay_a_log(
    hand_made: tuple[Path, Path], tmp_path: Path
) -> None:
    log = simulated("riverswim", tmp_path / "river.csv", "--steps", "3000")
    for algorithm in ("kappa-lp", "fw-modest"):
        out = tmp_path / algorithm
        explored("riverswim", "--log", log, "--algorithm", algorithm, "--backend", "highs",
                 "--out", out)  # fmt: skip
        episodes = json.loads((out / "trial-000" / "episodes.json").read_text())["episodes"]
        assert len(episodes) > 1
        assert episodes[-1]["utility"] is None  # with c of the log it would not be the true one
        assert episodes[-1]["gap"] is None


def test_compare_shows_explorers_at_their_ends_and_after_equal_steps(tmp_path: Path) -> None:
    log = simulated("riverswim", tmp_path / "log.csv", "--steps", "20000")
    asked = ("compare", "riverswim", "--log", log, "--trials", "2", "--algorithm", "random",
             "--algorithm", "kappa-dp", "--kappa", "1", "--kappa", "5")  # fmt: skip
    outcome = quick(*asked, "--json")
    assert outcome.status == 0
    record = outcome.json()
    rows = record["rows"]
    assert [(row["algorithm"], row["kappa"]) for row in rows][1:] == [
        ("kappa-dp", 1),
        ("kappa-dp", 5),
    ]
    least = min(row["least_steps"] for row in rows)
    assert record["common_steps"] == least > 0
    assert (record["optimum"], record["truth"]) == (None, False)
    for row in rows:
        assert row["share_of_log"] == pytest.approx(row["steps_done"] / 20_000)
        assert row["coverage"] >= row["common_coverage"]
        assert row["ratio_worst"] is None
    # After equal steps a row is what the same run has when it is asked to end there.
    for row in rows[1:]:
        alone = explored("riverswim", "--log", log, "--kappa", str(row["kappa"]),
                         "--out", tmp_path / f"{row['kappa']}")  # fmt: skip
        assert (alone["worst"], alone["coverage"]) == (row["worst"], row["coverage"])
        part = explored("riverswim", "--log", log, "--kappa", str(row["kappa"]),
                        "--steps", str(least), "--out", tmp_path / f"p{row['kappa']}")  # fmt: skip
        assert part["average"] == row["common_average"]
        assert part["distance_to_log"] == row["common_distance_to_log"]
    text = quick(*asked).stdout
    assert f"all after {least:,} steps, the most that all of them did:" in text
    table = list(csv.DictReader(io.StringIO(quick(*asked, "--format", "csv").stdout)))
    assert [float(line["distance_to_log"]) for line in table] == [
        r["distance_to_log"] for r in rows
    ]
    latex = quick(*asked, "--format", "latex", "--out", tmp_path / "table.tex")
    assert (tmp_path / "table.tex").read_text() == latex.stdout
    assert latex.stdout.count(r"\\") == 5


def refused(outcome: Outcome, *messages: str) -> None:
    assert outcome.status == 2
    for message in messages:
        assert message in outcome.stderr


@pytest.mark.parametrize("command", ["explore", "compare"])
def test_mistakes_are_reported_and_nothing_is_written(
    command: str, hand_made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, log = hand_made
    mistakes: list[tuple[list[str | Path], str]] = [
        (["--log", "nowhere.csv"], "nowhere.csv"),
        (["--log", written(tmp_path, "x,action\n", "empty.csv")], "has no rows"),
        (["--log", written(tmp_path, "x,b\n0,1\n", "other.csv")], "has no column `action`"),
        (["--log", written(tmp_path, "not a log", "log.txt")], "log.txt"),
        (["--log", written(tmp_path, "x,action\n9,a\n9,b\n", "out.csv")], "2 of 2 values"),
        (["--log", written(tmp_path, "x,action\n0,a\n", "one.csv")], "no transition to replay"),
        (["--log", log, "--simulate", "model"], "give --log or --simulate"),
        (["--log", log, "--algorithm", "kapa-dp"], "did you mean `kappa-dp`"),
        (["--log", log, "--kappa", "0.1"], "kappa must be 1 or more"),
        (["--log", log, "--steps", "0"], "steps must be 1 or more"),
        (["--log", log, "--time-step", "inf"], "--time-step must be positive and finite, not inf"),
        (["--offer", "all"], "--offer is about a log; name one with --log"),
        (["--separate-files"], "--separate-files is about a log"),
        ([log], "there is one MODEL"),
    ]
    for arguments, message in mistakes:
        refused(quick(command, model, *arguments), message)
    assert not (tmp_path / "runs").exists()
    errors = quick(command, model, "--log", "nowhere.csv", "--json").json()["errors"]
    assert errors[0]["code"] == "E603"


def test_a_folder_that_holds_something_is_refused_before_the_log_is_read(
    hand_made: tuple[Path, Path], tmp_path: Path
) -> None:
    model, _ = hand_made
    outcome = quick("explore", model, "--log", "nowhere.csv", "--out", tmp_path)
    refused(outcome, "exists already")
