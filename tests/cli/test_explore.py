"""`mdpdsl explore` and `mdpdsl compare` as a person or a program runs them."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mdpdsl.formats.npz import from_npz
from mdpdsl.solve.robust_answer import outward_text
from tests.cli.run import GOOD, quick, written

MDPDSL = [sys.executable, "-m", "mdpdsl"]
#: The command line, saving so often that a run need not be watched for long before it is killed.
IMPATIENT = [
    sys.executable,
    "-c",
    "from mdpdsl.explore import trial; trial.SAVE_SECONDS = 0.1; "
    "from mdpdsl.cli import main; main()",
]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MDPDSL, *arguments], cwd=cwd, capture_output=True, text=True)


def started_and_saved(*arguments: str, folder: str, cwd: Path) -> subprocess.Popen[str]:
    """Start a run, and wait until it has saved its state for the first time."""
    process = subprocess.Popen(
        [*IMPATIENT, *arguments, "--out", folder, "--jobs", "1"],
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (cwd / folder / "trial-000" / "state.npz").exists() and process.poll() is None:
        time.sleep(0.01)
    return process


def test_explore_says_what_the_contract_says(tmp_path: Path) -> None:
    done = run(
        "explore",
        "riverswim",
        "--kappa",
        "10",
        "--steps",
        "5_000",
        "--trials",
        "2",
        "--json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    keys = {
        "model",
        "hash",
        "algorithm",
        "kappa",
        "horizon",
        "steps",
        "seed",
        "trials",
        "worst",
        "failure_rate",
        "average",
        "optimum",
        "ratio",
        "steps_per_second",
        "run",
    }
    assert keys <= record.keys()
    assert (record["kappa"], record["horizon"], record["steps"]) == (10, "inf", 5_000)
    trial = record["trials"][0]
    assert {"seed", "failed", "unvisited", "worst", "average", "seconds"} <= trial.keys()
    folder = tmp_path / record["run"]
    assert json.loads((folder / "summary.json").read_text()) == record
    with np.load(folder / "trial-001" / "counts.npz") as counts:
        assert counts["count"].sum() == 5_000
    estimate = from_npz(folder / "trial-000" / "estimate.npz")
    estimate.validate()
    assert estimate.n_pairs == 12
    with np.load(folder / "trial-000" / "metrics.npz") as metrics:
        assert metrics["step"][-1] == 5_000
        assert metrics["worst"][-1] == trial["worst"]
        assert np.isnan(metrics["worst"][0])  # after one step all but one pair are unvisited


def test_a_prior_draws_the_saved_estimate_towards_uniform(tmp_path: Path) -> None:
    def largest(*options: str) -> float:
        arguments = ["explore", "riverswim", "--steps", "2_000", "--json", *options]
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        folder = tmp_path / json.loads(done.stdout)["run"]
        graph = from_npz(folder / "trial-000" / "estimate.npz")
        uncertain = graph.probability[graph.probability < 1]
        return float(uncertain.max())

    assert largest("--prior", "50") < largest() - 0.05


def test_the_explore_block_of_a_model_is_overridden_by_flags(tmp_path: Path) -> None:
    done = run("explore", "pendulum", "--steps", "1e3", "--gamma", "0.9", "--json", cwd=tmp_path)
    record = json.loads(done.stdout)
    assert (record["kappa"], record["gamma"], record["steps"]) == (10, 0.9, 1_000)


def test_a_person_sees_a_table(tmp_path: Path) -> None:
    done = run("explore", "riverswim", "--steps", "2000", cwd=tmp_path)
    assert done.returncode == 0
    assert "L_Worst" in done.stdout
    assert "runs/riverswim-kappa-dp-" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithm", "kapa-dp"], "did you mean `kappa-dp`"),
        (["--kappa", "0.5"], "kappa must be 1 or more"),
        (["--steps", "0"], "steps must be 1 or more"),
        (["--prior", "-1"], "prior must be 0 or more"),
        (["--steps", "1.5"], "is not a whole number"),
        (["--gamma", "1"], "gamma must be between 0 and 1"),
        (["--horizon", "few"], "horizon must be 1 or more, or inf"),
        (["--out", "/proc/nowhere/run"], "cannot write to /proc/nowhere/run"),
        (["--jobs", "many"], "--jobs takes a number"),
        (["--set", "m=3"], "unknown parameter `m`"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    done = run("explore", "riverswim", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_pairs_that_cannot_be_visited_are_named(tmp_path: Path) -> None:
    done = run("explore", "cliff_walking", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert "40 of 188 pairs can never be visited" in json.loads(done.stdout)["errors"][0]["message"]


def test_an_existing_folder_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    done = run("explore", "riverswim", "--out", "mine", cwd=tmp_path)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def counts_of(folder: Path) -> bytes:
    with np.load(folder / "trial-000" / "counts.npz") as counts:
        return b"".join(counts[name].tobytes() for name in sorted(counts.files))


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl-c"])
def test_a_run_that_was_stopped_continues_as_if_it_had_not_been(
    sign: signal.Signals, tmp_path: Path
) -> None:
    arguments = ["explore", "pendulum", "--kappa", "2", "--steps", "6_000_000", "--seed", "4"]
    whole = run(*arguments, "--out", "whole", "--json", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    process = started_and_saved(*arguments, folder="parts", cwd=tmp_path)
    process.send_signal(sign)
    _, said = process.communicate()
    assert process.returncode != 0
    if sign == signal.SIGINT:
        assert "--resume parts continues it" in said.replace("`", "")
    assert not (tmp_path / "parts" / "summary.json").exists()
    resumed = run("explore", "--resume", "parts", "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert counts_of(tmp_path / "parts") == counts_of(tmp_path / "whole")
    record, expected = json.loads(resumed.stdout), json.loads(whole.stdout)
    assert record["worst"] == expected["worst"]


def test_resuming_takes_no_other_settings(tmp_path: Path) -> None:
    run("explore", "riverswim", "--steps", "100", "--out", "r", cwd=tmp_path)
    done = run("explore", "--resume", "r", "--kappa", "3", cwd=tmp_path)
    assert done.returncode == 2
    assert "keeps its model and settings" in done.stderr
    done = run("explore", "--resume", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert "is not a run directory" in done.stderr


def test_compare_prints_rows_in_every_format(tmp_path: Path) -> None:
    arguments = [
        "compare",
        "riverswim",
        "--algorithm",
        "random",
        "--algorithm",
        "kappa-dp",
        "--kappa",
        "1",
        "--kappa",
        "2",
        "--steps",
        "3000",
        "--trials",
        "3",
    ]
    record = json.loads(run(*arguments, "--json", cwd=tmp_path).stdout)
    names = [(row["algorithm"], row["kappa"]) for row in record["rows"]]
    assert names[1:] == [("kappa-dp", 1.0), ("kappa-dp", 2.0)]
    keys = {
        "algorithm",
        "kappa",
        "horizon",
        "failure_rate",
        "worst",
        "average",
        "worst_sd",
        "average_sd",
        "ratio_worst",
        "ratio_average",
        "steps_per_second",
    }
    assert keys <= record["rows"][0].keys()
    text = run(*arguments, cwd=tmp_path).stdout
    assert f"{record['rows'][1]['worst']:,.1f}" in text
    table = list(
        csv.DictReader(io.StringIO(run(*arguments, "--format", "csv", cwd=tmp_path).stdout))
    )
    assert float(table[1]["worst"]) == record["rows"][1]["worst"]
    latex = run(*arguments, "--format", "latex", "--out", "t.tex", cwd=tmp_path).stdout
    assert latex.strip() == (tmp_path / "t.tex").read_text().strip()
    assert r"\toprule" in latex


def test_without_rows_compare_has_those_of_the_paper(tmp_path: Path) -> None:
    done = run("compare", "weather", "--steps", "200", "--trials", "1", "--json", cwd=tmp_path)
    rows = json.loads(done.stdout)["rows"]
    assert [row["algorithm"] for row in rows] == (
        ["kappa-dp"] * 4 + ["weighted-maxent", "smm", "maxent", "random"]
    )


def test_help_does_not_start_the_compiler() -> None:
    code = "import sys, mdpdsl.cli; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)


def test_a_property_has_bounds_in_the_table_the_record_and_the_plan(tmp_path: Path) -> None:
    model = written(tmp_path, GOOD)
    asked = ("--property", 'Pmax=? [ F<=2 "there" ]')
    done = quick("explore", model, "--steps", "500", *asked, "--out", tmp_path / "a", "--json")
    record = done.json()
    assert record["property"] == asked[1]
    assert 0 < record["guaranteed"] < 0.75 < record["possible"] < 1
    table = quick("explore", model, "--steps", "500", *asked, "--out", tmp_path / "b").stdout
    guaranteed = outward_text(record["guaranteed"], is_lower=True)
    assert f"guaranteed     {guaranteed} (with confidence 0.9)" in table
    possible = outward_text(record["possible"], is_lower=False)
    assert f"possible       {possible} (no policy can do better)" in table
    plan = quick("plan", tmp_path / "a", "--json").json()
    assert [plan[name] for name in ("guaranteed", "possible")] == [
        record[name] for name in ("guaranteed", "possible")
    ]
    assert plan["pairs_to_visit"][0]["action"] == "go"
    shown = quick("plan", tmp_path / "b", "--property", 'Pmax=? [ F<=3 "there" ]').stdout
    assert "more data here would close the gap fastest" in shown


def test_a_wrong_property_leaves_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = quick("explore", written(tmp_path, GOOD), "--property", "ther", "--out", out)
    assert done.status == 2
    assert "the model has no property `ther`" in done.stderr
    assert not out.exists()
