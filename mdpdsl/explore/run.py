"""The verb `explore`: run an explorer on a simulated system, a log or a live system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from mdpdsl.compile.model import Model, as_model
from mdpdsl.diagnostics import RunError, SettingsError, did_you_mean
from mdpdsl.explore.executor import TrialResult
from mdpdsl.explore.plugins import ExplorerFactory, explorer_name
from mdpdsl.explore.replay.replayed import ReplayedTarget, read_replayed_log, resumed_replay
from mdpdsl.explore.result import ExploreRun, save_results, save_start
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.target import SimulatedTarget, Target, Trials, configuration_of
from mdpdsl.explore.value_bounds import bounds_of, require_property
from mdpdsl.explore.warm_start import WarmStart, load_warm_start, require_no_new_ends, warm_start_of
from mdpdsl.logs.order import load_transitions
from mdpdsl.logs.reading_options import USUAL, ReadingOptions, split_options
from mdpdsl.progress import Progress
from mdpdsl.runs.arrays import DAMAGE
from mdpdsl.runs.directory import REPLAYED_LOG, RunDirectory, new_folder, require_new
from mdpdsl.runs.records import RunConfiguration
from mdpdsl.runs.run_models import resumed_model

#: Arguments that contradict each other, and why.
_CONTRADICTIONS = (
    ("log", "env", "a run explores a log or a live system, not both"),
    ("log", "system", "a run explores a log or a live system, not both"),
    ("env", "system", "a run explores one live system"),
    ("log", "warm_start", "a replay starts without counts: it learns from the log alone"),
    ("env", "cluster", "a live system is explored here, one step after the other"),
    ("system", "cluster", "a live system is explored here, one step after the other"),
)


def explore(
    model: Model | None = None,
    *,
    algorithm: str | object | None = None,
    kappa: float | None = None,
    steps: int | None = None,
    trials: int | None = None,
    seed: int | None = None,
    property: str | None = None,
    log: Any = None,
    offer: str | None = None,
    separate_files: bool = False,
    time_step: float | None = None,
    system: Any = None,
    env: str | None = None,
    env_arguments: Mapping[str, Any] | None = None,
    warm_start: Sequence[str | Path] | WarmStart = (),
    out: str | Path | bool | None = None,
    overwrite: bool = False,
    resume: str | Path | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: bool | Progress | None = None,
    **settings: object,
) -> ExploreRun:
    """Explore a system, and measure how well its model can be estimated.

    By default the model itself is simulated, in `trials` independent trials of `steps` steps.
    With `log` (files, folders, patterns, or frames in memory) a log is replayed instead; with
    `system` (anything with `reset` and `step`, or a Gymnasium environment) or `env` (the id of a
    Gymnasium environment) a live system is explored.

    `algorithm` is the name of an explorer, or a class with `act` and `observe`. `settings` are
    those of `ExploreSettings`; they override the model's `explore` block. They may also have the
    options of `estimate` for reading logs, such as `decimal`. `warm_start` names logs and runs
    whose counts the explorer starts with. With a `property`, by its name in the model or as PRISM
    writes it, the run also shows how its data narrow down the optimum over time: `guaranteed` and
    `possible` are those of `solve` with `robust`. Everything stays in memory unless `out` names a
    folder (True: a new one under `runs/`). Ctrl-C returns what was done so far; a run with a folder
    continues with `resume`.

    An earlier run in `out` is replaced only if you `overwrite` it.

    >>> import mdpdsl
    >>> run = mdpdsl.explore(mdpdsl.load("riverswim"), kappa=2, steps=1_000, trials=2)
    >>> run.failure_rate, run.worst > run.optimum["worst"]
    (0.0, True)
    """
    reading, others = split_options(settings)
    given = {"kappa": kappa, "steps": steps, **others}
    name, explorer = explorer_of(algorithm)
    given["algorithm"] = name
    require_settings(given)
    arguments = {
        "log": log,
        "env": env,
        "system": system,
        "warm_start": warm_start,
        "cluster": cluster,
    }
    _require_one_system(arguments, env_arguments)
    unused = USUAL if _is_given(warm_start) else reading
    require_about_log(log, offer, time_step, separate_files, unused, given)
    chosen = {key: value for key, value in given.items() if value is not None}
    if resume is not None:
        is_other = model is not None and system is None
        new = (trials, seed, property, log, env, warm_start or None, None if explorer else name)
        if is_other or len(chosen) > (name is not None) or any(one is not None for one in new):
            raise RunError("a resumed run keeps its model and settings; give `resume=` alone")
        return _resumed(Path(resume), model, system, explorer, jobs, cluster, progress)
    if model is None:
        raise SettingsError("give a model, or `resume=` the folder of a run")
    explored = as_model(model)
    if isinstance(out, str | Path):
        hint = "choose another `out=`, continue it with `resume=`"
        require_new(Path(out), hint, overwrite=overwrite)
    if env is not None or system is not None:
        from mdpdsl.explore.live.explored_system import explore_system

        if trials not in (None, 1):
            raise SettingsError("a live system is explored once; leave out `trials=`")
        return explore_system(
            explored,
            system,
            env,
            env_arguments or {},
            warm_start,
            out,
            overwrite,
            _seed(explored, seed),
            progress,
            chosen,
            explorer,
            reading,
            property,
        )
    target: Target
    start: WarmStart | None = None
    if log is not None:
        target = read_replayed_log(
            explored,
            listed_logs(log),
            offer=offer,
            separate_files=separate_files,
            time_step=time_step,
            reading=reading,
            progress=progress,
        )
    else:
        start = warm_start_of(explored, warm_start, progress, reading)
        require_no_new_ends(start, explored)
        target = SimulatedTarget(explored, None if start is None else start.counts)
    if property is not None:
        require_property(target.model, property)
    chosen_settings = target.settings(chosen)
    target.require(chosen_settings, explorer)
    block = explored.checked.explore
    with workers(cluster) as executor:
        number = int(block.get("trials", 1)) if trials is None else trials
        how = Trials(_seed(explored, seed), number, jobs, executor, progress)
        record = None if start is None else start.record()
        configuration = configuration_of(target, chosen_settings, how, record, property)
        if not out:
            bounds = bounds_of(target.model, configuration)
            results = target.run(chosen_settings, how, explorer=explorer, bounds=bounds)
            return target.result(configuration, chosen_settings, _some(results))
        suffix = "-replay" if log is not None else ""
        folder = (
            new_folder(f"{explored.name}-{chosen_settings.algorithm}{suffix}")
            if out is True
            else Path(out)
        )
        source = target.model.source.text
        with RunDirectory.create(folder, configuration, source, overwrite=overwrite) as run:
            logged = target.logged if isinstance(target, ReplayedTarget) else None
            save_start(run, target.model, logged, None if start is None else start.counts)
            return _finished(run, target, configuration, chosen_settings, how, explorer)


def _resumed(
    path: Path,
    model: Model | None,
    system: Any,
    explorer: ExplorerFactory | None,
    jobs: int | None,
    cluster: str | None,
    progress: bool | Progress | None,
) -> ExploreRun:
    """Continue a run that was stopped."""
    _, configuration = RunDirectory.open(path)
    if configuration.command != "explore":
        raise RunError(f"{path} is a run of `{configuration.command}`, which cannot be resumed")
    if configuration.system is not None:
        from mdpdsl.explore.live.explored_system import resume_system

        return resume_system(path, configuration, model, system, progress, explorer)
    if system is not None:
        raise RunError(f"{path} is not a live run; leave out `system=`")
    run, configuration = RunDirectory.open(path, to_write=True)
    with run, workers(cluster) as executor:
        loaded = resumed_model(run, configuration)
        if loaded.graph.hash != configuration.hash:
            raise RunError(
                f"{path}: the model now builds to another hash than when the run started; the "
                "versions differ, so start a new run"
            )
        target: Target
        if configuration.options.log is not None:
            try:
                logged = load_transitions(path / REPLAYED_LOG)
            except (OSError, *DAMAGE):
                raise RunError(f"{path} has no readable {REPLAYED_LOG}; start a new run") from None
            target = resumed_replay(loaded, logged, configuration.options.log, path)
        else:
            target = SimulatedTarget(loaded, load_warm_start(configuration, path, loaded.graph))
        settings = ExploreSettings(**configuration.settings)
        how = Trials(configuration.seed, configuration.trials, jobs, executor, progress)
        target.require(settings, explorer)
        return _finished(run, target, configuration, settings, how, explorer)


def _finished(
    run: RunDirectory,
    target: Target,
    configuration: RunConfiguration,
    settings: ExploreSettings,
    how: Trials,
    explorer: ExplorerFactory | None,
) -> ExploreRun:
    """Run trials in their folders; write the results once all are done."""
    bounds = bounds_of(target.model, configuration)
    results = target.run(settings, how, run.trial, explorer, bounds)
    found = target.result(configuration, settings, _some(results))
    if found.is_finished:
        return save_results(run, found)
    return replace(found, path=run.path)


def _some(results: list[TrialResult]) -> list[TrialResult]:
    """Return the trials that have measures; raise KeyboardInterrupt if there are none."""
    found = [result for result in results if result.history]
    if not found:
        raise KeyboardInterrupt
    return found


def _seed(model: Model, seed: int | None) -> int:
    return seed if seed is not None else int(model.checked.explore.get("seed", 0))


def listed_logs(log: Any) -> list[Any]:
    """Return logs as a list; a frame or a list of episodes is one log."""
    if isinstance(log, tuple) or (
        isinstance(log, list) and all(isinstance(each, str | Path) for each in log)
    ):
        return list(log)
    return [log]


def explorer_of(algorithm: str | object | None) -> tuple[str | None, ExplorerFactory | None]:
    """Return the name of an explorer, and its class if it is not one of ours."""
    if algorithm is None or isinstance(algorithm, str):
        return algorithm, None
    if not callable(algorithm):
        raise SettingsError(
            f"`algorithm=` takes the name of an explorer, or the class of one; not {algorithm}"
        )
    return explorer_name(algorithm), algorithm


def require_settings(given: Mapping[str, object]) -> None:
    """Raise SettingsError if there is no such setting."""
    known = [field.name for field in fields(ExploreSettings)]
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise SettingsError(f"there is no setting `{name}`; {hint}")


def _require_one_system(
    given: Mapping[str, object], env_arguments: Mapping[str, Any] | None
) -> None:
    for one, other, reason in _CONTRADICTIONS:
        if _is_given(given[one]) and _is_given(given[other]):
            raise SettingsError(f"{reason}; leave out `{one}=` or `{other}=`")
    if env_arguments and given["env"] is None:
        raise SettingsError("`env_arguments=` needs an environment; give `env=` as well")


def _is_given(value: object) -> bool:
    return value is not None and not (isinstance(value, tuple | list) and not value)


def require_about_log(
    log: object,
    offer: str | None,
    time_step: float | None,
    separate_files: bool,
    reading: ReadingOptions,
    given: Mapping[str, object],
) -> None:
    """Refuse arguments about a log if there is none."""
    import math

    if log is None:
        about = {"offer": offer, "time_step": time_step, "separate_files": separate_files}
        for name, value in (about | reading.changed).items():
            if value:
                raise SettingsError(f"`{name}=` is about a log; name one with `log=`")
    elif given.get("simulate") is not None:
        raise SettingsError("a log is replayed, not simulated; give `log=` or `simulate=`")
    elif time_step is not None and not (math.isfinite(time_step) and time_step > 0):
        raise SettingsError(f"`time_step=` must be positive and finite, not {time_step}")


@contextmanager
def workers(cluster: str | None) -> Iterator[Executor | None]:
    """Yield an executor on a cluster, if one is named."""
    if cluster is None:
        yield None
        return
    from mdpdsl.workers import cluster_workers

    with cluster_workers(cluster) as (executor, _):
        yield executor
