"""Trials in processes: the same seed gives the same counts, however many processes there are."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.system import RawSystem
from mdpdsl.estimate.metrics import Measures
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.standing import Standing, new_board, post, standing, standings
from mdpdsl.files import write_bytes
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.simulate.failures import SimulationError
from mdpdsl.workers import process_context, process_pool

if TYPE_CHECKING:
    from mdpdsl.explore.replay.logged import ReplayEnd
    from mdpdsl.explore.replay.queues import LogQueues
    from mdpdsl.explore.trial import Watch

#: Between two looks at how far trials are.
LOOK_SECONDS = 0.2
#: Told how far each trial is, at every look.
Progress = Callable[[list[Standing]], None]


@dataclass(frozen=True, eq=False)
class TrialResult:
    """What came of one trial."""

    index: int
    is_finished: bool
    measures: Measures | None
    history: tuple[Measures, ...]
    counts: Counts
    seconds: float
    residual: float
    replay: ReplayEnd | None = None  # of a log

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
) -> list[TrialResult]:
    """Run trials in processes, or by an executor of others, each in its own folder if it has one.

    An interrupt (Ctrl-C) stops all trials where they are; those with a folder are saved. With
    `settings.simulate` continuous it is `system` that is explored, and `truth` that it is measured
    against; raise SimulationError where a system fails. A log in the place of `system` is replayed,
    and `truth` is its own graph. Every trial begins with the counts
    of the warm start, if there is one.
    """
    from mdpdsl.explore.trial import compile_loop

    # Here, before processes start: an unknown algorithm is told at once, and the compiled code is
    # theirs, too.
    compile_loop(truth, settings, system)
    tasks = [
        _Task(truth, settings, seed, i, folder_of(i) if folder_of else None, system, warm_start)
        for i in range(trials)
    ]
    if executor is not None:
        return _run_remotely(executor, tasks, progress)
    n_jobs = min(trials, jobs or os.cpu_count() or 1)
    if n_jobs == 1:
        return _run_here(tasks, progress)
    context: Any = process_context()
    board, stop = context.Array("d", new_board(trials)), context.Event()
    with process_pool(n_jobs, _adopt, board, stop, system) as pool:
        # A log may be large: processes have it from their start, rather than with each task.
        tasks = [replace(task, system=None) for task in tasks]
        return _collect(pool, tasks, board, stop, progress)


def trial_seeds(seed: int, index: int) -> np.random.SeedSequence:
    """Return the seeds of one trial of a run."""
    return np.random.SeedSequence(seed, spawn_key=(index,))


def _run_here(tasks: list[_Task], progress: Progress | None) -> list[TrialResult]:
    done = [Standing(0)] * len(tasks)
    interrupted = False
    told = time.perf_counter()

    def watch_for(index: int) -> Watch:
        def watch(found: Standing) -> bool:
            nonlocal told
            done[index] = found
            if progress is not None and time.perf_counter() - told > LOOK_SECONDS:
                progress(done)
                told = time.perf_counter()
            return not interrupted

        return watch

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        results = []
        for task in tasks:
            results.append(_run_task(task, watch_for(task.index)))
            if interrupted:
                break
        return results
    finally:
        signal.signal(signal.SIGINT, previous)


_board: Any = None
_stop: Any = None
_system: Any = None


def _adopt(board: Any, stop: Any, system: Any) -> None:
    """Take over, in a new process, the board of progress, the sign to stop and the system."""
    global _board, _stop, _system
    _board, _stop, _system = board, stop, system
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells when to stop


def _run_in_process(task: _Task) -> TrialResult:
    def watch(found: Standing) -> bool:
        post(_board, task.index, found)
        return not _stop.is_set()

    return _run_task(replace(task, system=_system), watch)


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
        except SimulationError:
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
    """Run trials where there are neither our folders nor our memory: files go there and back."""
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
    except KeyboardInterrupt:  # what is finished is saved
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
    try:
        if task.folder is None:
            trial = new_trial(task.truth, task.settings, seeds, task.system, task.warm_start)
        else:
            trial = load_trial(
                task.truth, task.settings, seeds, task.folder, task.system, task.warm_start
            )
        if not trial.is_finished:
            continue_trial(trial, task.truth, watch, task.folder)
    except SimulationError as error:
        raise SimulationError(f"trial {task.index}: {error}") from None
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
