"""Work on a real Dask cluster: the results are the same, even if a worker is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from distributed import Client, LocalCluster
from pyarrow import parquet

import mdpdsl
from mdpdsl.explore.executor import TrialResult, run_trials
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.standing import Standing
from mdpdsl.logs.count import count_logs
from mdpdsl.workers import ClusterError, cluster_workers, process_pool

SETTINGS = ExploreSettings(steps=20_000, kappa=2.0)
#: A port of the system's own, at which no scheduler listens.
CLOSED = "tcp://127.0.0.1:1"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2,
        threads_per_worker=2,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=100,
    ) as cluster:
        yield cluster.scheduler_address


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "mdpdsl", *arguments]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True)


def are_same(one: list[TrialResult], other: list[TrialResult]) -> bool:
    return len(one) == len(other) and all(
        a.index == b.index
        and a.counts.count.tobytes() == b.counts.count.tobytes()
        and a.measures == b.measures
        for a, b in zip(one, other, strict=True)
    )


def test_trials_on_a_cluster_are_those_of_this_machine(address: str) -> None:
    graph = mdpdsl.load("riverswim").graph
    here = run_trials(graph, SETTINGS, seed=3, trials=4, jobs=1)
    with cluster_workers(address) as (executor, n_workers):
        there = run_trials(graph, SETTINGS, seed=3, trials=4, executor=executor)
    assert n_workers == 2
    assert are_same(here, there)
    assert not are_same(here, run_trials(graph, SETTINGS, seed=4, trials=4, jobs=1))


def test_a_lost_worker_loses_no_trial(address: str) -> None:
    graph = mdpdsl.load("riverswim").graph
    settings = replace(SETTINGS, steps=300_000)
    here = run_trials(graph, settings, seed=5, trials=8, jobs=1)
    killed: list[int] = []
    with Client(address, set_as_default=False) as client:  # type: ignore[no-untyped-call]

        def kill_one(done: list[Standing]) -> None:
            steps = [trial.steps for trial in done]
            if not killed and any(steps) and not all(steps):
                pids: dict[str, int] = client.run(os.getpid)
                killed.append(next(iter(pids.values())))
                os.kill(killed[0], signal.SIGKILL)

        with cluster_workers(address) as (executor, _):
            there = run_trials(
                graph, settings, seed=5, trials=8, executor=executor, progress=kill_one
            )
    assert killed
    assert are_same(here, there)


def test_a_run_on_a_cluster_is_saved_as_one_of_this_machine(address: str, tmp_path: Path) -> None:
    arguments = ["explore", "riverswim", "--steps", "2_000", "--trials", "3", "--json"]
    here = command(*arguments, "--out", "here", cwd=tmp_path)
    there = command(*arguments, "--out", "there", "--cluster", address, cwd=tmp_path)
    assert there.returncode == 0, there.stderr
    assert json.loads(here.stdout)["worst"] == json.loads(there.stdout)["worst"]
    for trial in range(3):
        names = {p.name for p in (tmp_path / "here" / f"trial-{trial:03d}").iterdir()}
        folder = tmp_path / "there" / f"trial-{trial:03d}"
        assert {p.name for p in folder.iterdir()} == names
        other = tmp_path / "here" / folder.name
        assert (folder / "counts.npz").read_bytes() == (other / "counts.npz").read_bytes()
    again = command("explore", "--resume", "there", "--cluster", address, "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["worst"] == json.loads(here.stdout)["worst"]


def test_compare_runs_on_a_cluster(address: str, tmp_path: Path) -> None:
    arguments = ["compare", "riverswim", "--algorithm", "random", "--steps", "1000"]
    arguments += ["--trials", "2", "--json"]
    there = command(*arguments, "--cluster", address, cwd=tmp_path)
    assert there.returncode == 0, there.stderr
    here = command(*arguments, cwd=tmp_path)
    rows = [json.loads(done.stdout)["rows"][0]["worst"] for done in (here, there)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("name", ["riverswim", "pendulum"])
def test_one_file_and_many_shuffled_ones_count_alike_here_and_on_a_cluster(
    name: str, address: str, tmp_path: Path
) -> None:
    made = command("simulate", name, "--steps", "100_000", "--out", "log.parquet", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    model = mdpdsl.load(name)
    table = parquet.read_table(tmp_path / "log.parquet")
    shuffled = np.random.default_rng(0).permutation(len(table))
    for folder, order, n_files in (("parts", shuffled, 100), ("next", np.arange(len(table)), 7)):
        (tmp_path / folder).mkdir()
        for i, rows in enumerate(np.array_split(order, n_files)):
            parquet.write_table(table.take(pa.array(rows)), tmp_path / folder / f"{i}.parquet")

    def found(path: str, executor: Executor | None = None) -> tuple[bytes, ...]:
        read = count_logs(
            model.checked, model.graph, [tmp_path / path], executor=executor, n_workers=2
        )
        assert read.counts.n_transitions == 100_000
        assert not read.rejected.counts
        return read.counts.successor.tobytes(), read.counts.count.tobytes()

    one = found("log.parquet")
    assert found("parts") == one
    with process_pool(2) as pool:
        assert found("parts", pool) == one
        assert found("next", pool) == one
    with cluster_workers(address) as (executor, _):
        assert found("parts", executor) == one


def test_files_of_their_own_episodes_are_counted_once_each(address: str, tmp_path: Path) -> None:
    arguments = ["simulate", "riverswim", "--steps", "9_000", "--episode-length", "1000"]
    arguments += ["--out", "log.parquet"]
    assert command(*arguments, cwd=tmp_path).returncode == 0
    table = parquet.read_table(tmp_path / "log.parquet")
    for i in range(3):
        rows = table.slice(i * 3 * 1001, 3 * 1001)
        parquet.write_table(rows, tmp_path / f"part-{i}.parquet")
    for where in (["--jobs", "3"], ["--cluster", address]):
        done = command(
            "estimate", "riverswim", f"{tmp_path}/part-*", *where, "--json", cwd=tmp_path
        )
        record = json.loads(done.stdout)
        assert (record["transitions"], record["rejected"]) == (9_000, {}), done.stderr
        assert [file["rows"] for file in record["files"]] == [3003] * 3


@pytest.mark.parametrize(
    "arguments", [["explore", "riverswim"], ["estimate", "riverswim", "log.csv"]]
)
def test_an_address_without_a_port_is_refused_and_nothing_is_written(
    arguments: list[str], tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_text("pos,action\n0,left\n0,left\n")
    done = command(*arguments, "--cluster", "127.0.0.1", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert "tcp://host:8786" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_scheduler_that_does_not_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdpdsl.workers.CONNECT_SECONDS", 0.2)
    with pytest.raises(ClusterError, match="no scheduler answered at"), cluster_workers(CLOSED):
        pass


def test_a_cluster_without_workers_says_how_to_start_some() -> None:
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=0, host="127.0.0.1", dashboard_address=":0"
        ) as cluster,
        pytest.raises(ClusterError, match="dask worker tcp://"),
        cluster_workers(cluster.scheduler_address),
    ):
        pass


def test_replays_run_on_a_cluster(address: str, tmp_path: Path) -> None:
    made = command("simulate", "riverswim", "--steps", "5_000", "--out", "a.csv", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    for name in ("explore", "compare"):
        arguments = [name, "riverswim", "--log", "a.csv", "--algorithm", "random", "--json"]
        done = [
            command(*arguments, "--trials", "2", *more, cwd=tmp_path)
            for more in ([], ["--cluster", address])
        ]
        records = [json.loads(each.stdout) for each in done]
        worst = [
            (record if name == "explore" else record["rows"][0])["worst"] for record in records
        ]
        assert worst[0] == worst[1], done[1].stderr
