"""Exploring a live system: a rig, another simulator, a Gymnasium environment.

A system is any object with `reset()`, which begins an episode and returns what is observed, and
`step(action)`, which takes an action and returns what is observed next and whether the episode is
over. With two truth values it says more: whether the episode ended in this state, and whether it
was cut, as by a limit of time. Observations are mappings from columns to values, which the model
reads like those of a log; actions are mappings from the model's action variables to values. A
Gymnasium environment is a system, too.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import MdpdslWarning, RunError, SettingsError, did_you_mean
from mdpdsl.estimate.confidence_sets import settled_sets
from mdpdsl.estimate.estimate_records import mixed_text
from mdpdsl.estimate.metrics import history_arrays
from mdpdsl.estimate.reference import estimate_reference
from mdpdsl.estimate.run_result import RunTrial
from mdpdsl.estimate.saved import save_estimate, what_is_left_out, with_data_starts
from mdpdsl.explore.contradicted import contradicted_text
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.live.live_loop import Checkpoint, LiveError, LiveLoop, LiveSystem, Watch
from mdpdsl.explore.live.live_result import LiveResult, live_record
from mdpdsl.explore.live.observed import live_columns
from mdpdsl.explore.plugins import ExplorerFactory
from mdpdsl.explore.result import ExploreRun
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.explore.value_bounds import bounds_of
from mdpdsl.explore.warm_start import WarmStart, load_warm_start, warm_start_of
from mdpdsl.files import write_arrays, write_json
from mdpdsl.runs.arrays import save_counts
from mdpdsl.runs.directory import (
    EPISODES,
    LIVE_LOG,
    METRICS,
    PROGRESS,
    RESULTS,
    WARM_START,
    RunDirectory,
    require_new,
)
from mdpdsl.runs.records import (
    RunConfiguration,
    RunOptions,
    SystemRecord,
)
from mdpdsl.versions import current_versions


def explore_live(
    model: Model,
    system: LiveSystem,
    run: str | Path,
    *,
    seed: int = 0,
    resume: bool = False,
    warm_start: Sequence[str | Path] | WarmStart = (),
    progress: Watch | None = None,
    checkpoint: Checkpoint | None = None,
    **settings: object,
) -> LiveResult:
    """Explore a live system, and keep everything that is observed in the folder of a run.

    For example, a heater that is either on or off, and shows only its temperature:

        class Heater:
            def reset(self):
                rig.switch(False), rig.wait_until_cold()
                return {"temperature": rig.read()}

            def step(self, action):
                rig.switch(action["action"] == "heat"), time.sleep(1)
                return {"temperature": rig.read()}, rig.is_too_hot()

        model = mdpdsl.loads("mdp heater  state temperature in [20, 90] bins 14  action heat, cool")
        result = mdpdsl.explore_live(model, Heater(), "runs/heater", kappa=10, steps=5_000)

    Every transition is written to `run/log.csv` before the explorer learns from it. Ctrl-C stops
    the run. After that, or after a crash of any kind, `resume=True` continues it (or starts it, if
    the folder is empty). `settings` are those of ExploreSettings; they override the model's
    `explore` block. `warm_start` names logs and earlier runs whose counts the explorer starts with.
    `progress` is called after each step with the number of steps done, and stops the run by
    returning False; `checkpoint` is called with the measures, a few times per decade of steps.

    Raise LiveError if the system fails; everything observed is kept. Raise SettingsError, RunError
    or LogError if the run cannot start.
    """
    with LiveSession.begun(
        model, system, Path(run), seed=seed, resume=resume, warm_start=warm_start, settings=settings
    ) as session:
        return session.run(progress, checkpoint)


def chosen_settings(model: Model, given: Mapping[str, object]) -> ExploreSettings:
    """Return the settings of a live run; raise SettingsError if they are not valid."""
    known = [field.name for field in fields(ExploreSettings)]
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise SettingsError(f"there is no setting `{name}`; {hint}")
    chosen = settings_from(model.checked.explore, given)
    if given.get("simulate") == "continuous":
        raise SettingsError("a live system is explored as it is; leave out `simulate`")
    return replace(chosen, simulate="model")


def _require_same(
    kept: ExploreSettings, asked: ExploreSettings, given: Mapping[str, object]
) -> None:
    for name in given:
        was, now = getattr(kept, name), getattr(asked, name)
        if was != now:
            raise RunError(
                f"a resumed run keeps its settings: {name} is {was}, not {now}; to change them, "
                "start a new run with this one as its warm start"
            )


class LiveSession:
    """A live run, new or resumed, until its results are saved."""

    def __init__(
        self,
        loop: LiveLoop,
        configuration: RunConfiguration,
        name: str,
        run: RunDirectory | None,
    ) -> None:
        self.loop = loop
        self.configuration = configuration
        self.name = name
        self._run = run

    @classmethod
    def begun(
        cls,
        model: Model,
        system: LiveSystem,
        folder: Path | None,
        *,
        seed: int,
        resume: bool,
        warm_start: Sequence[str | Path] | WarmStart,
        settings: Mapping[str, object],
        explorer: ExplorerFactory | None = None,
        overwrite: bool = False,
        property: str | None = None,
    ) -> LiveSession:
        """Begin a run, or continue the one in the folder if there is one."""
        name = str(getattr(system, "name", type(system).__name__))
        if resume and folder is not None and folder.is_dir() and any(folder.iterdir()):
            return cls._resumed(model, system, name, folder, settings, explorer)
        return cls._started(
            model, system, name, folder, seed, settings, warm_start, explorer, overwrite, property
        )

    @classmethod
    def _started(
        cls,
        model: Model,
        system: LiveSystem,
        name: str,
        folder: Path | None,
        seed: int,
        settings: Mapping[str, object],
        warm: Sequence[str | Path] | WarmStart,
        explorer: ExplorerFactory | None,
        overwrite: bool,
        property: str | None,
    ) -> LiveSession:
        """Start a new run: try the system first, then make the folder."""
        if folder is not None:
            require_new(folder, overwrite=overwrite)
        chosen = chosen_settings(model, settings)
        start = warm_start_of(model, warm)
        loop = LiveLoop(model, chosen, system, name, seed, explorer)
        columns = live_columns(model.checked, loop.reset(), name)
        record: SystemRecord = getattr(system, "record", SystemRecord("callback", name))
        configuration = RunConfiguration(
            model=model.name,
            hash=model.graph.hash,
            parameters=dict(model.parameters),
            options=RunOptions(**model.options),
            settings=asdict(chosen),
            seed=seed,
            trials=1,
            versions=current_versions("gymnasium", "pyarrow"),
            system=replace(record, observed=list(columns.observed)),
            warm_start=None if start is None else start.record(),
            property=property,
        )
        loop.keep_for(bounds_of(model, configuration))
        counts = None if start is None else start.counts
        run = None
        if folder is not None:
            source = model.source.text
            run = RunDirectory.create(folder, configuration, source, overwrite=overwrite)
        session = cls(loop, configuration, name, run)
        try:
            if run is not None and counts is not None:
                save_counts(counts, run.path / WARM_START)
            loop.open(model.checked, columns, None if run is None else run.path / LIVE_LOG, counts)
        except BaseException:
            session.close()
            raise
        return session

    @classmethod
    def _resumed(
        cls,
        model: Model,
        system: LiveSystem,
        name: str,
        folder: Path,
        settings: Mapping[str, object],
        explorer: ExplorerFactory | None,
    ) -> LiveSession:
        """Resume a run: the explorer learns from its log."""
        run, configuration = RunDirectory.open(folder, to_write=True)
        try:
            if configuration.system is None:
                raise RunError(f"{folder} is not a live run")
            if configuration.hash != model.graph.hash:
                raise RunError(
                    f"{folder} is a run of another model than the present {model.name}; "
                    "start a new one"
                )
            chosen = ExploreSettings(**configuration.settings)
            if settings:
                _require_same(chosen, chosen_settings(model, settings), settings)
            loop = LiveLoop(model, chosen, system, name, configuration.seed, explorer)
            columns = live_columns(model.checked, configuration.system.observed, name)
            warm = load_warm_start(configuration, run.path, model.graph)
            loop.keep_for(bounds_of(model, configuration))
            for result in RESULTS:
                (folder / result).unlink(missing_ok=True)
            loop.open(model.checked, columns, folder / LIVE_LOG, warm)
            with suppress(OSError, ValueError, KeyError):  # only the time it took is lost
                took = json.loads((folder / PROGRESS).read_text("utf-8"))
                loop.seconds, loop.system_seconds = took["seconds"], took["system_seconds"]
                loop.timed_steps = took["timed_steps"]
        except BaseException:
            run.close()
            raise
        return cls(loop, configuration, name, run)

    @property
    def settings(self) -> ExploreSettings:
        """The settings of the run."""
        return self.loop.settings

    @property
    def folder(self) -> Path | None:
        """The folder of the run; None if nothing is saved."""
        return None if self._run is None else self._run.path

    def __enter__(self) -> LiveSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the log, and let others write to the folder."""
        with suppress(AttributeError):  # the log was never opened
            self.loop.close()
        if self._run is not None:
            self._run.close()

    def run(self, progress: Watch | None, checkpoint: Checkpoint | None) -> LiveResult:
        """Explore to the end, or until Ctrl-C; whatever happens, save what is known."""
        loop = self.loop
        try:
            loop.run(progress, checkpoint)
            loop.close()
        except BaseException:
            with suppress(Exception):  # the first error is the one that matters
                loop.close()
                self._saved()
            raise
        result = self._saved()
        if len(result.settled.mixed):
            warnings.warn(mixed_text(result.settled), MdpdslWarning, stacklevel=3)
        contradicted = contradicted_text(result.spaces, [result.counts])
        if contradicted is not None:
            warnings.warn(contradicted, MdpdslWarning, stacklevel=3)
        return result

    def stopped(self, error: BaseException) -> BaseException:
        """Return the error of a run that failed; it says how to continue."""
        if self.folder is None:
            return error
        again = f"`mdpdsl explore --resume {self.folder}` continues it"
        if isinstance(error, KeyboardInterrupt):
            return LiveError(f"stopped; {again}")
        return LiveError(f"{error}\neverything observed is kept; {again}")

    def _saved(self) -> LiveResult:
        """Write what is known so far, and return it."""
        loop, folder = self.loop, self.folder
        explorer, chosen, rejected = loop.explorer, loop.settings, loop.observer.rejected
        settled = with_data_starts(loop.model, loop.settled())
        counts, graph = settled.counts, settled.graph
        loop.add_bounds()
        if folder is None:
            missing = what_is_left_out(counts, loop.model, graph, chosen.prior)
        else:
            sets = settled_sets(settled, chosen.delta)
            missing = save_estimate(folder, settled, sets, loop.model, chosen.prior, rejected)
            write_arrays(folder / METRICS, history_arrays(loop.history))
            took = ("seconds", "system_seconds", "timed_steps")
            write_json(folder / PROGRESS, {name: getattr(loop, name) for name in took})
            if isinstance(explorer, Explorer) and explorer.episodes is not None:
                earlier = []
                with suppress(OSError, ValueError, KeyError):
                    earlier = json.loads((folder / EPISODES).read_text("utf-8"))["episodes"]
                write_json(folder / EPISODES, {"episodes": earlier + explorer.episodes.saved()})
        return LiveResult(
            run=folder,
            is_finished=loop.is_finished,
            steps=loop.done,
            transitions=loop.transitions,
            warm_transitions=counts.n_transitions - loop.transitions,
            episodes=loop.episodes,
            settled=settled,
            measures=loop.final_measures(settled),
            history=tuple(loop.history),
            rejected=rejected,
            clipped=dict(loop.observer.clipped),
            residual=explorer.residual(),
            **missing,
            settings=chosen,
            seconds=loop.seconds,
            system_seconds=loop.system_seconds,
            timed_steps=loop.timed_steps,
        )

    def explore_run(self, result: LiveResult) -> ExploreRun:
        """Return the result in the form of any run; write the summary if the run is finished."""
        counts, chosen = result.counts, result.settings
        run = ExploreRun(
            model=self.loop.model,
            configuration=self.configuration,
            trials=(RunTrial(0, counts, history_arrays(result.history), result.measures),),
            reference=estimate_reference([counts], result.spaces),
            sets=settled_sets(result.settled, chosen.delta),
            settled=result.settled,
            path=result.run,
            settings=chosen,
            summary=live_record(self.loop.model, self.configuration, result),
        )
        if self._run is not None and result.is_finished:
            self._run.write_summary(run.record())
        return run
