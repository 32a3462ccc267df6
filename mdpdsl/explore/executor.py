"""Run trials in processes; the same seed gives the same counts for any number of processes."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, replace
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.system import RawSystem
from mdpdsl.estimate.metrics import Measures
from mdpdsl.explore.algorithms import third_party_explorer
from mdpdsl.explore.plugins import ExplorerError, ExplorerFactory, explorer_name
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.standing import Standing, new_board, post, standing, standings
from mdpdsl.files import write_bytes
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.simulate.failures import SimulationError
from mdpdsl.workers import process_context, process_pool

if TYPE_CHECKING:
    from mdpdsl.compile.family import Family
    from mdpdsl.explore.replay.logged import ReplayEnd
    from mdpdsl.explore.replay.queues import LogQueues
    from mdpdsl.explore.trial import Watch
    from mdpdsl.explore.value_bounds import ValueBounds

#: Seconds between two looks at the progress of trials.
LOOK_SECONDS = 0.2
#: Receives the progress of every trial, at each look.
Progress = Callable[[list[Standing]], None]


@dataclass(frozen=True, eq=False)
class TrialResult:
    """The result of one trial."""

    index: int
    is_finished: bool
    measures: Measures | None
    history: tuple[Measures, ...]
    counts: Counts
    seconds: float
    residual: float
    replay: ReplayEnd | None = None  # if a log was replayed

    @property
    def failed(self) -> bool:
        """Whether a pair was left unvisited."""
        return self.measures is not None and self.measures.unvisited > 0


@dataclass(frozen=True, eq=False)
class _Task:
    truth: TransitionGraph
    settings: ExploreSettings
    seed: int
    index: int
    folder: Path | None
    system: RawSystem | LogQueues | None
    warm_start: Counts | None
    explorer: ExplorerFactory | None
    bounds: ValueBounds | None
    family: Family | None


def run_trials(
    truth: TransitionGraph,
    settings: ExploreSettings,
    *,
    seed: int,
    trials: int,
    jobs: int | None = None,
    system: RawSystem | LogQueues | None = None,
    folder_of: Callable[[int], Path] | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    warm_start: Counts | None = None,
    explorer: ExplorerFactory | None = None,
    bounds: ValueBounds | None = None,
    family: Family | None = None,
) -> list[TrialResult]:
    """Run trials in processes, or with `executor`, each saved in its own folder if it has one.

    An interrupt (Ctrl-C) stops all trials where they are; those with a folder are saved. If
    `settings.simulate` is "continuous", `system` is explored, and measured against `truth`; raise
    SimulationError if it fails. If `system` is a log, it is replayed, and `truth` is the log's own
    graph. Every trial begins with the counts of the warm start, if there is one.

    `explorer` is the class of a third party's explorer, or a function that makes one (see
    `plugins`); by default it is the explorer that `settings.algorithm` names, built in or
    installed. Raise ExplorerError if it fails. `bounds` adds those of a property to the measures;
    `family` has the rows as functions of the unknown numbers, if these are explored for.
    """
    from mdpdsl.explore.trial import compile_loop

    if explorer is None:
        explorer = third_party_explorer(settings.algorithm)
    # Before processes start: mistakes in the settings are reported at once, and processes inherit
    # the compiled code.
    compile_loop(truth, settings, system, explorer, family)
    folders = [folder_of(i) if folder_of else None for i in range(trials)]
    tasks = [
        _Task(truth, settings, seed, i, folder, system, warm_start, explorer, bounds, family)
        for i, folder in enumerate(folders)
    ]
    if executor is not None:
        return _run_remotely(executor, tasks, progress)
    n_jobs = min(trials, jobs or os.cpu_count() or 1)
    if n_jobs == 1 or not _can_leave(explorer):
        return _run_here(tasks, progress)
    context: Any = process_context()
    board, stop = context.Array("d", new_board(trials)), context.Event()
    with process_pool(n_jobs, _adopt, board, stop, system, explorer, bounds) as pool:
        # Processes receive these at their start rather than with each task: a log may be large, and
        # a class may be one that only a forked process knows.
        tasks = [replace(task, system=None, explorer=None, bounds=None) for task in tasks]
        return _collect(pool, tasks, board, stop, progress)


def trial_seeds(seed: int, index: int) -> np.random.SeedSequence:
    """Return the seeds of one trial of a run."""
    return np.random.SeedSequence(seed, spawn_key=(index,))


def _can_leave(explorer: ExplorerFactory | None) -> bool:
    """Return whether an explorer can be made in other processes; warn if not."""
    if explorer is None or process_context().get_start_method() == "fork":
        return True
    try:
        ForkingPickler.dumps(explorer)
    except Exception:  # of a kind that depends on what it is made of
        warnings.warn(
            f"the trials of `{explorer_name(explorer)}` run one after the other, as other "
            "processes cannot import it; define it at the top level of a module",
            stacklevel=3,
        )
        return False
    return True


def _run_here(tasks: list[_Task], progress: Progress | None) -> list[TrialResult]:
    done = [Standing(0)] * len(tasks)
    interrupted = False
    shown_at = time.perf_counter()

    def watch_for(index: int) -> Watch:
        def watch(found: Standing) -> bool:
            nonlocal shown_at
            done[index] = found
            if progress is not None and time.perf_counter() - shown_at > LOOK_SECONDS:
                progress(done)
                shown_at = time.perf_counter()
            return not interrupted

        return watch

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True

    is_main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGINT, interrupt) if is_main else None
    try:
        results = []
        for task in tasks:
            results.append(_run_task(task, watch_for(task.index)))
            if interrupted:
                break
        return results
    finally:
        if is_main:
            signal.signal(signal.SIGINT, previous)


_board: Any = None
_stop: Any = None
_system: Any = None
_explorer: Any = None
_bounds: Any = None


def _adopt(board: Any, stop: Any, system: Any, explorer: Any, bounds: Any) -> None:
    """Keep, in a new process, what all its trials share."""
    global _board, _stop, _system, _explorer, _bounds
    _board, _stop, _system, _explorer, _bounds = board, stop, system, explorer, bounds
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process says when to stop


def _run_in_process(task: _Task) -> TrialResult:
    def watch(found: Standing) -> bool:
        post(_board, task.index, found)
        return not _stop.is_set()

    return _run_task(replace(task, system=_system, explorer=_explorer, bounds=_bounds), watch)


def _collect(
    pool: Executor, tasks: list[_Task], board: Any, stop: Any, progress: Progress | None
) -> list[TrialResult]:
    pending: set[Future[TrialResult]] = {pool.submit(_run_in_process, task) for task in tasks}
    results: list[TrialResult] = []
    while pending:
        try:
            finished, pending = wait(pending, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        except KeyboardInterrupt:
            stop.set()
            pending = {future for future in pending if not future.cancel()}
            continue
        try:
            results += [future.result() for future in finished]
        except Exception:
            stop.set()
            for future in pending:
                future.cancel()
            raise
        if progress is not None:
            progress(standings(board))
    return sorted(results, key=lambda result: result.index)


def _run_remotely(
    executor: Executor, tasks: list[_Task], progress: Progress | None
) -> list[TrialResult]:
    """Run trials on machines that do not share our folders: files are sent there and back."""
    done = [Standing(0)] * len(tasks)
    futures = {
        executor.submit(_run_elsewhere, replace(task, folder=None), _files(task.folder)): task
        for task in tasks
    }
    pending, results = set(futures), []
    try:
        while pending:
            finished, pending = wait(pending, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in finished:
                result, files = future.result()
                results.append(result)
                _write_files(futures[future].folder, files)
                last = result.history[-1] if result.history else None
                done[result.index] = standing(futures[future].settings.steps, last)
            if progress is not None:
                progress(done)
    except KeyboardInterrupt:  # finished trials are saved
        pass
    finally:
        for future in pending:
            future.cancel()
    return sorted(results, key=lambda result: result.index)


_one_at_a_time = threading.Lock()  # in a worker of several threads


def _run_elsewhere(task: _Task, files: dict[str, bytes]) -> tuple[TrialResult, dict[str, bytes]]:
    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="mdpdsl-") as name:
        folder = Path(name)
        _write_files(folder, files)
        result = _run_task(replace(task, folder=folder), lambda found: True)
        return result, _files(folder)


def _files(folder: Path | None) -> dict[str, bytes]:
    if folder is None or not folder.exists():
        return {}
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def _write_files(folder: Path | None, files: Mapping[str, bytes]) -> None:
    if folder is not None:
        for name, content in files.items():
            write_bytes(folder / name, content)


def _run_task(task: _Task, watch: Watch) -> TrialResult:
    from mdpdsl.explore.replay.logged import LoggedExperience
    from mdpdsl.explore.trial import continue_trial, final_measures, load_trial, new_trial

    seeds = trial_seeds(task.seed, task.index)
    rest = (task.system, task.warm_start, task.explorer, task.family)
    try:
        if task.folder is None:
            trial = new_trial(task.truth, task.settings, seeds, *rest)
        else:
            trial = load_trial(task.truth, task.settings, seeds, task.folder, *rest)
        if not trial.is_finished:
            continue_trial(trial, task.truth, watch, task.folder, task.bounds)
    except (SimulationError, ExplorerError) as error:
        raise type(error)(f"trial {task.index}: {error}") from error.__cause__
    counts, experience = trial.counts, trial.experience
    return TrialResult(
        index=task.index,
        is_finished=trial.is_finished,
        measures=final_measures(trial, task.truth) if trial.history else None,
        history=tuple(trial.history),
        counts=counts,
        seconds=trial.seconds,
        residual=trial.explorer.residual(),
        replay=experience.end(counts) if isinstance(experience, LoggedExperience) else None,
    )
