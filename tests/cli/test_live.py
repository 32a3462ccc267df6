"""`mdpdsl explore --env` and `--warm-start` as a person or a program runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.explore.live.session import explore_live
from mdpdsl.formats.npz import from_npz
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.ends import Settled, settle
from mdpdsl.logs.count import count_logs
from tests.cli.run import TIMEOUT, Outcome, quick, written
from tests.cli.run import mdpdsl as process

PENDULUM = ("explore", "pendulum_unknown", "--env", "Pendulum-v1")

CART = """\
mdp cart
state x in [-4.8, 4.8] bins 4
state tilt in [-0.42, 0.42] bins 6
action left, right
log { x = obs_0  tilt = obs_2 }
"""
LAKE = """\
mdp lake
state row in 0..3
state column in 0..3
action left, down, right, up
log { row = floor(obs / 4)  column = obs % 4 }
"""
#: Goes round 0..9 and raises, says NaN or hangs where it is asked to.
ENVIRONMENT = """
import os
import time

import gymnasium
import numpy as np


class Ring(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, raises_at=None, nan_at=None):
        self.raises_at, self.nan_at, self.n, self.x = raises_at, nan_at, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = int(self.np_random.integers(10))
        return np.array([float(self.x)]), {}

    def step(self, action):
        self.n += 1
        if self.n == self.raises_at and not os.path.exists("repaired"):
            raise RuntimeError("the belt slipped")
        self.x = (self.x + (1 if action else -1) * int(self.np_random.integers(2))) % 10
        value = np.nan if self.n == self.nan_at else float(self.x)
        return np.array([value]), 0.0, False, self.n % 50 == 0, {}


gymnasium.register("Ring-v0", Ring)
"""
RING = "mdp ring\nstate x in 0..9\naction back, forth\nlog { x = obs_0 }\n"


def counts_of(run: Path) -> Counts:
    with np.load(run / "counts.npz") as saved:
        return Counts(saved["successor_start"], saved["successor"], saved["count"])


def log_settled(run: Path) -> Settled:
    """Return what the log of a run says by itself: its counts, with the ends that it shows."""
    model = mdpdsl.load(run / "model.mdp", all_states=True)
    read = count_logs(model.checked, model.graph, [run / "log.csv"])
    return settle(model.graph, read.counts, read.starts, read.has_stops)


def log_counts(run: Path) -> Counts:
    return log_settled(run).counts


def ends_of(run: Path) -> dict[str, list[int]]:
    """Return the ends that a run has saved, and where its episodes started."""
    with np.load(run / "counts.npz") as saved:
        return {name: saved[name].tolist() for name in ("found_ends", "mixed_ends", "starts")}


def log_ends(run: Path) -> dict[str, list[int]]:
    found = log_settled(run)
    arrays = {"found_ends": found.found, "mixed_ends": found.mixed, "starts": found.starts}
    return {name: array.tolist() for name, array in arrays.items()}


def same(one: Counts, other: Counts) -> bool:
    names = ("successor_start", "successor", "count")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def started(*arguments: str | Path, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "mdpdsl", *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for_rows(log: Path, n_bytes: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if log.exists() and log.stat().st_size > n_bytes:
            return
        time.sleep(0.01)
    raise AssertionError(f"{log} did not grow")


# Killed, interrupted, failing


def test_nothing_is_lost_when_a_run_is_killed_and_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = (*PENDULUM, "--kappa", "10", "--steps", "20_000", "--out", run)
    victim = started(*arguments, folder=tmp_path)
    wait_for_rows(run / "log.csv", 300_000)
    victim.kill()
    victim.communicate(timeout=TIMEOUT)
    assert victim.returncode == -signal.SIGKILL
    before = (run / "log.csv").read_bytes()
    # The last row is the state it was in, with no action yet; all the others have one, or end.
    assert before.endswith(b",\n")
    n_killed = log_counts(run).n_transitions
    n_rows, n_episodes = before.count(b"\n") - 1, len({r.split(b",")[0] for r in _rows(before)})
    assert n_killed == n_rows - n_episodes
    outcome = process("explore", "--resume", run, "--json")
    assert outcome.status == 0, outcome.stdout
    record = outcome.json()
    after = (run / "log.csv").read_bytes()
    assert after.startswith(before)
    assert (record["steps"], record["transitions"], record["truth"]) == (20_000, 20_000, False)
    assert counts_of(run).n_transitions == 20_000
    assert same(counts_of(run), log_counts(run))
    estimated = quick("estimate", "pendulum_unknown", run / "log.csv", "--json")
    assert estimated.json()["transitions"] == 20_000
    assert estimated.json()["rejected"] == record["rejected"] == {}
    shutil.rmtree(estimated.json()["run"])


def _rows(log: bytes) -> list[bytes]:
    return log.splitlines()[1:]


def test_ctrl_c_saves_and_says_how_to_continue(tmp_path: Path) -> None:
    run = tmp_path / "run"
    running = started(*PENDULUM, "--steps", "10_000_000", "--out", run, folder=tmp_path)
    wait_for_rows(run / "log.csv", 50_000)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=TIMEOUT)
    assert running.returncode == 1
    assert f"mdpdsl explore --resume {run}` continues it" in stderr.decode()
    assert same(counts_of(run), log_counts(run))
    assert not (run / "summary.json").exists()


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a model of an environment that a module registers."""
    (tmp_path / "ring_environment.py").write_text(ENVIRONMENT)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.chdir(tmp_path)
    return written(tmp_path, RING)


def test_an_environment_that_raises_is_reported_and_the_run_continues_later(ring: Path) -> None:
    run = ring.parent / "run"
    env = ("--env", "ring_environment:Ring-v0", "--env-arg", "raises_at=101")
    outcome = process("explore", ring, *env, "--steps", "300", "--out", run)
    assert outcome.status == 1
    assert "after 100 steps: RuntimeError: the belt slipped" in outcome.stderr
    assert f"mdpdsl explore --resume {run}` continues it" in outcome.stderr
    assert log_counts(run).n_transitions == counts_of(run).n_transitions == 100
    (ring.parent / "repaired").touch()
    record = process("explore", "--resume", run, "--json").json()
    assert (record["steps"], record["transitions"]) == (300, 300)
    assert (record["env"], record["env_arguments"]) == (env[1], {"raises_at": 101})
    assert same(counts_of(run), log_counts(run))


def test_an_observation_that_is_no_number_is_rejected(ring: Path) -> None:
    run = ring.parent / "run"
    env = ("--env", "ring_environment:Ring-v0", "--env-arg", "nan_at=60")
    record = process("explore", ring, *env, "--steps", "200", "--out", run, "--json").json()
    assert record["rejected"] == {"missing value": 1}
    assert record["transitions"] == 199
    # One after 50, 100, 150 and 200 steps ends; one was broken; the last step ends one, too.
    assert record["episodes"] == 5
    estimated = quick("estimate", ring, run / "log.csv", "--json").json()
    assert (estimated["transitions"], estimated["rejected"]) == (199, {"missing value": 1})


# What it says


def test_the_json_keeps_the_contract_and_the_run_has_every_file(tmp_path: Path) -> None:
    run = tmp_path / "run"
    record = quick(*PENDULUM, "--steps", "1_000", "--json", "--out", run).json()
    explored = quick(
        "explore", "riverswim", "--steps", "10", "--json", "--out", tmp_path / "simulated"
    ).json()
    assert explored.keys() <= record.keys()
    assert explored["trials"][0].keys() - {"transitions"} <= record["trials"][0].keys()
    assert (record["truth"], record["optimum"], record["ratio"]) == (False, None, None)
    assert (record["env"], record["episodes"], record["run"]) == ("Pendulum-v1", 5, str(run))
    trial = record["trials"][0]
    assert trial["failed"]
    assert trial["unvisited"] == len(record["unvisited"]) > 0
    assert (counts_of(run).visits == 0).sum() == trial["unvisited"]
    assert json.loads((run / "summary.json").read_text()) == record
    from_npz(run / "estimate.npz").validate()
    with np.load(run / "metrics.npz") as metrics:
        assert metrics["step"][-1] == 1_000
        assert metrics["unvisited"][-1] == trial["unvisited"]
    for name in ("run.json", "model.mdp", "log.csv", "radii.npz", "intervals.npz"):
        assert (run / name).exists()


def test_the_table_is_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = quick(*PENDULUM, "--steps", "500", "--out", "run")
    assert outcome.status == 0
    for words in ("kappa-dp (kappa=1)", "Pendulum-v1, 3 episodes", "never visited", "run/log.csv"):
        assert words in outcome.stdout
    assert re.search(r"failed +yes: \d+ pairs never tried where others were", outcome.stdout)


def test_the_same_seed_gives_the_same_log(tmp_path: Path) -> None:
    def log(name: str, seed: str) -> bytes:
        quick(*PENDULUM, "--steps", "500", "--seed", seed, "--out", tmp_path / name)
        return (tmp_path / name / "log.csv").read_bytes()

    assert log("a", "3") == log("b", "3") != log("c", "4")


# Other environments


def test_episodes_end_where_the_environment_ends_them(tmp_path: Path) -> None:
    import gymnasium

    model, run = written(tmp_path, CART), tmp_path / "run"
    arguments = ("explore", model, "--env", "CartPole-v1", "--steps", "2_000", "--seed", "5")
    record = quick(*arguments, "--out", run, "--json").json()
    assert record["transitions"] == 2_000
    assert record["episodes"] > 20
    assert same(counts_of(run), log_counts(run))
    assert ends_of(run) == log_ends(run)
    # The environment itself, done again from the log: seeds and actions give the same rows.
    rows = [line.decode().split(",") for line in _rows((run / "log.csv").read_bytes())]
    env: Any = gymnasium.make("CartPole-v1")
    is_over, flags = True, (False, False)
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        if row[1] == "0":
            assert is_over
            seeds = np.random.SeedSequence(5, spawn_key=(0, 1, int(row[0])))
            observed, _ = env.reset(seed=int(seeds.generate_state(1)[0] >> 1))
            flags = (False, False)
        assert [float(text) for text in row[2:6]] == observed.tolist()
        assert row[6:8] == [str(flag).lower() for flag in flags]
        is_over = row[8] == ""
        if is_over:
            assert following is None or (following[1] == "0" and any(flags))
        else:
            assert not any(flags)
            observed, _, *flags, _ = env.step(["left", "right"].index(row[8]))
            assert following is not None


def test_cells_in_which_only_some_episodes_end_are_named(tmp_path: Path) -> None:
    """A fall ends an episode within a cell, where the cart of another episode may still stand."""
    model, run = written(tmp_path, CART), tmp_path / "run"
    outcome = quick("explore", model, "--env", "CartPole-v1", "--steps", "500", "--out", run)
    assert len(ends_of(run)["mixed_ends"]) > 0
    assert "warning: some episodes ended and others continued in x = " in outcome.stderr


def test_a_discrete_observation_is_one_column(tmp_path: Path) -> None:
    model, run = written(tmp_path, LAKE), tmp_path / "run"
    outcome = quick(
        *("explore", model, "--env", "FrozenLake-v1", "--env-arg", "is_slippery=false"),
        *("--steps", "1_500", "--out", run, "--json"),
    )
    record = outcome.json()
    assert record["rejected"] == {}
    assert not record["trials"][0]["failed"]
    counts = counts_of(run)
    assert same(counts, log_counts(run))
    assert ends_of(run) == log_ends(run)
    # Without slipping every action has one outcome; from holes and the goal nothing follows.
    assert (np.diff(counts.successor_start) <= 1).all()
    graph = from_npz(run / "estimate.npz")
    assert graph.ends is not None
    cells = 4 * graph.states.values("row") + graph.states.values("column")
    assert set(cells[graph.ends].tolist()) == {5, 7, 11, 12, 15}
    assert not set(cells[graph.pair_state].tolist()) & {5, 7, 11, 12, 15}


def test_the_cells_of_the_cliff_are_never_entered_and_fail_no_run(tmp_path: Path) -> None:
    text = "mdp cliff\nstate cell in 0..47\naction move in 0..3\nlog { cell = obs }\n"
    model, run = written(tmp_path, text), tmp_path / "run"
    arguments = ("explore", model, "--env", "CliffWalking-v1", "--steps", "5_000", "--kappa", "10")
    record = quick(*arguments, "--out", run, "--json").json()
    trial = record["trials"][0]
    assert (trial["unvisited"], trial["failed"], record["failure_rate"]) == (40, False, 0)
    assert {pair["state"]["cell"] for pair in record["unvisited"]} == set(range(37, 47))
    assert ends_of(run)["found_ends"] == [47]


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*PENDULUM[:3], "Pendulm-v1"), "there is no environment Pendulm-v1"),
        ((*PENDULUM, "--trials", "2"), "is explored once; leave out --trials"),
        ((*PENDULUM, "--env-arg", "g"), "--env-arg takes NAME=VALUE"),
        ((*PENDULUM, "--env-arg", "gravity=3"), "cannot make the environment"),
        ((*PENDULUM, "--simulate", "continuous"), "as it is"),
        ((*PENDULUM, "--algorithm", "kapa-dp"), "did you mean `kappa-dp`"),
        (
            ("explore", "riverswim", "--env-arg", "g=3"),
            "--env-arg needs an environment; give --env as well",
        ),
        (("explore", "riverswim", "--env", "Pendulum-v1"), "has names"),
        (("explore", "pendulum", "--env", "Pendulum-v1"), "theta = obs_0"),
        (("explore", "pendulum_unknown", "--env", "CartPole-v1"), "u = -2 is not an action"),
        (("explore", "pendulum_unknown"), "explore a live system"),
    ],
)
def test_mistakes_are_reported_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = quick(*arguments)
    assert outcome.status == 2
    assert message in " ".join(outcome.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_an_action_beyond_the_environment_s_is_refused(tmp_path: Path) -> None:
    text = mdpdsl.load("pendulum_unknown").source.text.replace("{-2, -1", "{-3, -1")
    outcome = quick("explore", written(tmp_path, text), "--env", "Pendulum-v1")
    assert outcome.status == 2
    assert (
        "u = -3 is not an action of Pendulum-v1, which takes numbers from -2 to 2" in outcome.stderr
    )


def test_without_gymnasium_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    outcome = quick(*PENDULUM)
    assert outcome.status == 2
    assert 'pip install "mdpdsl[gym]"' in outcome.stderr


def test_a_run_that_python_began_is_resumed_from_python(tmp_path: Path) -> None:
    from tests.explore.systems import Walk, walk_model

    explore_live(walk_model(), Walk(), tmp_path / "run", steps=5)
    outcome = quick("explore", "--resume", tmp_path / "run")
    assert outcome.status == 2
    assert f'mdpdsl.explore(model, system=system, resume="{tmp_path / "run"}")' in outcome.stderr


# Warm starts


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.csv"
    outcome = quick("simulate", "riverswim", "--steps", "700", "--json", "--out", path)
    assert outcome.status == 0
    return path


def explored(run: Path, *more: str | Path) -> Outcome:
    return quick("explore", "riverswim", "--steps", "400", "--json", "--out", run, *more)


def test_a_simulated_run_begins_with_the_counts_of_a_log(tmp_path: Path, log: Path) -> None:
    run = tmp_path / "run"
    record = explored(run, "--trials", "2", "--warm-start", log).json()
    assert record["warm_start"]["transitions"] == 700
    assert [trial["transitions"] for trial in record["trials"]] == [1_100, 1_100]
    model = mdpdsl.load("riverswim")
    of_log = count_logs(model.checked, model.graph, [log]).counts
    for trial in ("trial-000", "trial-001"):
        counts = counts_of(run / trial)
        assert counts.n_transitions == 1_100
        assert (counts.visits >= of_log.visits).all()
        with np.load(run / trial / "metrics.npz") as metrics:
            assert (metrics["step"][-1], metrics["transitions"][-1]) == (400, 1_100)
    # L = n c / T with all visits.
    c = 1 - np.add.reduceat(model.graph.probability**2, model.graph.successor_start[:-1])
    worst = max(1_100 * c / counts_of(run / "trial-001").visits)
    assert record["trials"][1]["worst"] == pytest.approx(worst)


def test_a_warm_started_run_that_is_killed_resumes_without_the_log(
    tmp_path: Path, log: Path
) -> None:
    copy = tmp_path / "copy.csv"
    shutil.copy(log, copy)
    whole = explored(tmp_path / "whole", "--warm-start", copy).json()
    run = tmp_path / "run"
    assert explored(run, "--warm-start", copy).status == 0
    copy.unlink()
    shutil.rmtree(run / "trial-000")  # as if it had been killed before anything was saved
    resumed = quick("explore", "--resume", run, "--json").json()
    assert resumed["trials"][0]["worst"] == whole["trials"][0]["worst"]
    assert same(counts_of(run / "trial-000"), counts_of(tmp_path / "whole" / "trial-000"))
    assert counts_of(run / "trial-000").n_transitions == 1_100


def test_a_live_run_begins_with_an_earlier_one(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    quick(*PENDULUM, "--steps", "600", "--out", one)
    record = quick(*PENDULUM, "--steps", "300", "--warm-start", one, "--out", two, "--json").json()
    assert (record["transitions"], record["total_transitions"]) == (300, 900)
    assert counts_of(two).n_transitions == 900
    assert log_counts(two).n_transitions == 300
    assert (counts_of(two).visits >= counts_of(one).visits).all()


@pytest.mark.parametrize("as_json", [True, False])
def test_a_warm_start_that_is_not_there_is_an_error(tmp_path: Path, as_json: bool) -> None:
    more = ["--json"] if as_json else []
    outcome = quick("explore", "riverswim", "--warm-start", tmp_path / "none.csv", *more)
    assert outcome.status == 2
    assert "there is no file" in (outcome.stdout if as_json else outcome.stderr)


def test_what_of_a_warm_start_is_rejected_is_reported(tmp_path: Path, log: Path) -> None:
    odd = tmp_path / "odd.csv"
    odd.write_text(log.read_text() + "0,701,99,left\n")
    outcome = quick(
        *("explore", "riverswim", "--steps", "50", "--out", tmp_path / "run"),
        *("--warm-start", odd),
    )
    assert outcome.status == 0
    assert "rejected in the warm start, state out of range: 1" in outcome.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--log", "a.csv"), "not both"),
        (("--cluster", "tcp://127.0.0.1:1"), "explored here"),
    ],
)
def test_options_that_contradict_a_live_system_are_refused(
    options: tuple[str, ...], reason: str
) -> None:
    outcome = quick("explore", "pendulum_unknown", "--env", "Pendulum-v1", *options)
    assert outcome.status == 2
    assert reason in outcome.stderr
