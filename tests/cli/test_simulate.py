"""`mdpdsl simulate`."""

from __future__ import annotations

import csv
import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.run import BAD_SUM, GOOD, TIMEOUT, quick, written
from tests.cli.run import mdpdsl as process

KEYS = {
    "steps",
    "episodes",
    "path",
    "model",
    "hash",
    "seed",
    "policy",
    "seconds",
    "steps_per_second",
    "rows",
    "parameters",
    "columns",
}
LOGGED = GOOD + "log { episode = run  room = place  action = done }\n"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_json_has_the_keys_of_the_contract_and_the_file_its_rows(tmp_path: Path) -> None:
    outcome = process(
        "simulate", "riverswim", "--steps", "1e3", "--episode-length", "300", "--json",
        "--set", "n=9", "--seed", "4", folder=tmp_path,
    )  # fmt: skip
    assert outcome.status == 0
    found = outcome.json()
    assert found.keys() >= KEYS
    assert (found["steps"], found["episodes"], found["rows"]) == (1000, 4, 1004)
    assert (found["path"], found["policy"]) == ("riverswim-log.parquet", "random")
    file = pq.ParquetFile(tmp_path / "riverswim-log.parquet")
    assert file.metadata.num_rows == 1004
    origin = json.loads(file.schema_arrow.metadata[b"mdpdsl"])
    assert (origin["seed"], origin["hash"]) == (4, found["hash"])
    assert origin["parameters"] == {"n": 9, "drift": 0.05}
    assert [path.name for path in tmp_path.iterdir()] == ["riverswim-log.parquet"]


def test_a_person_reads_what_was_written(tmp_path: Path) -> None:
    out = tmp_path / "log.csv"
    outcome = quick("simulate", "pendulum", "--simulate", "continuous", "--out", out)
    assert outcome.status == 0
    assert outcome.stderr == ""
    for text in ("10,000 in 1 episode, 10,001 rows", "episode, time, theta, omega, u", str(out)):
        assert text in outcome.stdout
    assert len({row["theta"] for row in rows_of(out)}) > 9_000


def test_a_seed_decides_the_bytes(tmp_path: Path) -> None:
    def content(name: str, *arguments: str) -> bytes:
        path = tmp_path / name
        command = ("simulate", "taxi", "--steps", "500", "--overwrite")
        assert quick(*command, "--out", path, *arguments).status == 0
        return path.read_bytes()

    assert content("a.parquet") == content("b.parquet") == content("c.parquet", "--seed", "0")
    assert content("a.parquet") != content("d.parquet", "--seed", "1")
    assert content("a.csv") != content("d.csv", "--seed", "1")


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".json"])
def test_a_policy_comes_from_a_file(suffix: str, tmp_path: Path) -> None:
    best, out = tmp_path / f"best{suffix}", tmp_path / "log.csv"
    assert quick("solve", "riverswim", "--policy-out", best, "--json").status == 0
    outcome = quick("simulate", "riverswim", "--policy", best, "--out", out, "--json")
    assert outcome.json()["policy"] == str(best)
    assert {row["action"] for row in rows_of(out)[:-1]} == {"right"}


def test_a_log_block_names_the_columns_and_a_note_says_where_not(tmp_path: Path) -> None:
    out = tmp_path / "log.csv"
    outcome = quick("simulate", written(tmp_path, LOGGED), "--out", out)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert list(rows_of(out)[0]) == ["run", "time", "place", "done"]
    model = written(tmp_path, LOGGED.replace("= run ", "= run + 1 "))
    outcome = quick("simulate", model, "--out", out, "--overwrite")
    assert "note: the log block computes `episode`" in outcome.stderr
    assert list(rows_of(out)[0]) == ["episode", "time", "room", "action"]
    assert (
        "computes" in quick("simulate", model, "--out", out, "--overwrite", "--json").json()["note"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("riverswim", "--steps", "0"), "--steps takes a number from 1"),
        (("riverswim", "--steps", "-5"), "--steps takes a number from 1"),
        (("riverswim", "--steps", "1e30"), "--steps takes a number from 1"),
        (("riverswim", "--steps", "1.5"), "not a whole number"),
        (("riverswim", "--episode-length", "0"), "--episode-length takes a number from 1"),
        (("riverswim", "--out", "log.xlsx"), "end in .parquet, .csv"),
        (("riverswim", "--out", "nowhere/log.csv"), "there is no folder nowhere"),
        (("riverswim", "--policy", "best"), "takes `random` or a file"),
        (("riverswim", "--policy", "missing.csv"), "cannot read missing.csv"),
        (("riverswim", "--policy", "weather.csv"), "has the columns sky"),
        (("riverswim", "--policy", "weather.npz"), "belongs to another model"),
        (("riverswim", "--simulate", "continuous"), "no continuous variables"),
        (("riverswim", "--simulate", "wildly"), "'model', 'continuous'"),
        (("riverswim", "--set", "m=3"), "unknown parameter"),
        (("pendulum_unknown",), "does not say how it moves"),
        (("bad.mdp",), "probabilities sum to 0.75"),
        (("missing.mdp",), "cannot read missing.mdp"),
    ],
)
def test_mistakes_are_reported_and_leave_nothing(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, BAD_SUM, "bad.mdp")
    sky = "sky,action,probability\nsunny,walk,1\nrainy,walk,1\n"
    (tmp_path / "weather.csv").write_text(sky)
    arrays = ("simulate", "weather", "--policy", "weather.csv", "--out", "w.csv")
    assert quick(*arrays).status == 0, "which is the right model for it"
    save_arrays(tmp_path / "weather.npz")
    before = sorted(path.name for path in tmp_path.iterdir())
    outcome = quick("simulate", *arguments)
    assert outcome.status == 2
    assert message in outcome.stderr
    assert outcome.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def save_arrays(path: Path) -> None:
    import mdpdsl
    from mdpdsl.simulate.trajectory import uniform_policy

    graph = mdpdsl.load("weather").graph
    mdpdsl.save_policy(mdpdsl.Policy("weather", graph.hash, uniform_policy(graph)), graph, path)


def test_a_mistake_is_json_where_json_is_asked_for() -> None:
    outcome = process("simulate", "riverswim", "--steps", "0", "--json")
    assert outcome.status == 2
    assert "--steps" in outcome.json()["errors"][0]["message"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".jsonl"])
def test_a_write_that_fails_leaves_nothing(suffix: str, tmp_path: Path) -> None:
    arguments = ("simulate", "pendulum", "--simulate", "continuous", "--quiet")
    out = tmp_path / f"log{suffix}"
    assert quick(*arguments, "--out", out).status == 0, "and the loop is compiled now"
    out.unlink()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        outcome = quick(*arguments, "--steps", "2e5", "--out", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (outcome.status, outcome.stdout) == (1, "")
    assert f"cannot write {out}: File too large" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_interrupting_says_how_far_it_got_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mdpdsl", "simulate", "pendulum", "--steps", "1e12"]
    running = subprocess.Popen(
        [*command, "--out", "log.csv"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + TIMEOUT
        while not any(path.stat().st_size > 0 for path in tmp_path.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=TIMEOUT)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == 1
    assert "of 1,000,000,000,000 steps; nothing was written" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_a_system_that_fails_leaves_nothing(tmp_path: Path) -> None:
    text = """mdp m state x in [0, 4] bins 4 action a init x = 0.5
    x' = x + 1/(3.5 - x) * 0 + 1 discretize uniform points 2"""
    out = tmp_path / "log.csv"
    model = written(tmp_path, text)
    outcome = quick("simulate", model, "--simulate", "continuous", "--out", out)
    assert outcome.status == 1
    assert "step 4: x' has no value" in outcome.stderr
    assert not out.exists()
