"""Two processes cannot write one folder, and a killed one locks nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import mdpdsl
from mdpdsl.diagnostics import RunError
from mdpdsl.runs.directory import RunDirectory
from mdpdsl.runs.lock import LOCK, FolderLock
from mdpdsl.runs.records import RunConfiguration, RunOptions

N_RACES = 50


def configuration(seed: int) -> RunConfiguration:
    return RunConfiguration("walk", "0" * 16, {}, RunOptions(), {}, seed, 1, {})


def create(folder: Path, seed: int, barrier: Any, done: Any, results: Any) -> None:
    """Make a run's folder at the same moment as another process, and hold it until both tried."""
    barrier.wait()
    try:
        with RunDirectory.create(folder, configuration(seed), "mdp walk\n") as run:
            results.put((seed, "created"))
            done.wait()
            run.write_summary({})  # a run without results would be removed
    except RunError as error:
        results.put((seed, str(error)))
        done.wait()


def test_of_two_processes_at_once_one_gets_the_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for race in range(N_RACES):
        folder = tmp_path / f"run-{race}"
        barrier, done, results = context.Barrier(2), context.Barrier(2), context.Queue()
        processes = [
            context.Process(target=create, args=(folder, seed, barrier, done, results))
            for seed in (0, 1)
        ]
        for process in processes:
            process.start()
        found = dict(results.get(timeout=20) for _ in processes)
        for process in processes:
            process.join()
        (winner,) = [seed for seed, text in found.items() if text == "created"]
        loser = found[1 - winner]
        # The winner may have written its files before the other one looks.
        assert "is being written by" in loser or "exists already" in loser, loser
        assert RunDirectory.open(folder)[1].seed == winner
        assert not (folder / LOCK).exists()


def test_the_second_command_names_the_process_that_holds_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    arguments = [sys.executable, "-m", "mdpdsl", "explore", "riverswim", "--steps", "100"]
    with FolderLock(folder):
        done = subprocess.run(
            [*arguments, "--out", str(folder)], capture_output=True, text=True, check=False
        )
    assert done.returncode == 2
    assert f"is being written by process {os.getpid()} on" in done.stderr
    assert list(folder.iterdir()) == []


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from mdpdsl.runs.lock import FolderLock\n"
        "lock = FolderLock(pathlib.Path(sys.argv[1]))\n"
        "print('locked', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(RunError, match=f"is being written by process {process.pid} on"):
            FolderLock(tmp_path)
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / LOCK).exists()
    with FolderLock(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_a_process_does_not_lock_a_folder_twice(tmp_path: Path) -> None:
    with FolderLock(tmp_path), pytest.raises(RunError, match="already being written"):
        FolderLock(tmp_path)


def test_helpers_that_are_forked_do_not_hold_the_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    lock = FolderLock(tmp_path)
    helper = context.Process(target=time.sleep, args=(60,))
    helper.start()
    try:
        lock.release()
        with FolderLock(tmp_path):
            pass
    finally:
        helper.kill()
        helper.join()


def test_a_run_that_is_being_resumed_cannot_be_resumed_again(tmp_path: Path) -> None:
    model = mdpdsl.load("riverswim")
    mdpdsl.explore(model, steps=100, out=tmp_path / "run")
    with (
        FolderLock(tmp_path / "run"),
        pytest.raises(RunError, match="already being written by this process"),
    ):
        mdpdsl.explore(resume=tmp_path / "run")
