"""Exploring a live system: a rig, another simulator, a Gymnasium environment.

A system is any object with `reset()`, which begins an episode and returns what is observed, and
`step(action)`, which does an action and returns what is observed then and whether the episode is
over. Observations are mappings from columns to values, which the model reads as those of a log;
actions are mappings from the model's action variables to values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import RunError, SettingsError, did_you_mean
from mdpdsl.estimate.confidence_sets import confidence_sets
from mdpdsl.estimate.empirical import estimated_graph
from mdpdsl.estimate.saved import save_estimate
from mdpdsl.explore.live.live_loop import Checkpoint, LiveLoop, LiveSystem, Watch
from mdpdsl.explore.live.observed import live_columns
from mdpdsl.explore.metrics import Measures, history_arrays
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.explore.warm_start import WarmStart, load_warm_start
from mdpdsl.explore.warm_start import warm_start as counts_of
from mdpdsl.files import write_arrays, write_json
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.rejections import Rejections
from mdpdsl.representation import represented
from mdpdsl.runs.directory import RunDirectory
from mdpdsl.runs.records import RunConfiguration, RunOptions, SystemRecord
from mdpdsl.versions import current_versions

LOG = "log.csv"
PROGRESS = "progress.json"
EPISODES = "episodes.json"
#: What of a run that goes on would be out of date.
_RESULTS = (
    "counts.npz",
    "estimate.npz",
    "radii.npz",
    "intervals.npz",
    "metrics.npz",
    "rejected.json",
    "summary.json",
)


@dataclass(frozen=True, eq=False)
class LiveResult:
    """What came of a live run so far."""

    run: Path
    is_finished: bool  # else it was stopped
    steps: int  # of the system, rejected ones included
    transitions: int  # observed in these steps
    warm_transitions: int  # that the run began with
    episodes: int
    counts: Counts  # of both
    measures: Measures  # with the estimated complexities
    history: tuple[Measures, ...]
    rejected: Rejections
    clipped: dict[str, int]
    seconds: float
    system_seconds: float  # of these, in the system
    timed_steps: int  # the steps that took these seconds
    residual: float
    estimate_missing: str | None  # why there is no estimate.npz
    rewards_missing: str | None  # why it has no rewards
    spaces: TransitionGraph
    settings: ExploreSettings

    def estimate(self) -> TransitionGraph:
        """Return the model estimated from all counts."""
        return estimated_graph(self.counts, self.spaces, self.settings.prior)

    def _repr_html_(self) -> str | None:
        return represented("live_html", self)


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
    """Explore a live system, and keep everything that is observed in a run directory.

    A heater of which only the temperature can be read, and that is either on or off:

        class Heater:
            def reset(self):
                rig.switch("off"), rig.wait_until_cold()
                return {"temperature": rig.read()}

            def step(self, action):
                rig.switch(action["action"]), time.sleep(1)
                return {"temperature": rig.read()}, rig.is_too_hot()

        model = mdpdsl.loads("mdp heater  state temperature in [20, 90] bins 14  action on, off")
        result = mdpdsl.explore_live(model, Heater(), "runs/heater", kappa=10, steps=5_000)

    Every observed transition is in `run/log.csv` before the explorer learns from it. Ctrl-C stops
    the run; what is there then, or after a crash of any kind, goes on with `resume=True` (which
    begins where there is nothing yet). `settings` are those of ExploreSettings; they override the
    model's `explore` block. `warm_start` names logs and earlier runs whose counts to begin with.
    `progress` is told the steps done after each of them, and stops the run where it returns False;
    `checkpoint` is told the measures, a few times in every decade of steps.

    Raise LiveError where the system fails, with everything kept; SettingsError, RunError or
    LogError where nothing was done.
    """
    folder = Path(run)
    name = str(getattr(system, "name", type(system).__name__))
    if resume and folder.is_dir() and any(folder.iterdir()):
        loop = _resumed(model, system, name, folder, seed, settings)
    else:
        loop = _started(model, system, name, folder, seed, settings, warm_start)
    try:
        loop.run(progress, checkpoint)
        loop.close()
    except BaseException:
        with suppress(Exception):  # what went wrong first is what matters
            loop.close()
            _saved(loop, folder)
        raise
    return _saved(loop, folder)


def chosen_settings(model: Model, given: Mapping[str, object]) -> ExploreSettings:
    """Return the settings of a live run; raise SettingsError where they cannot be."""
    known = [field.name for field in fields(ExploreSettings)]
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise SettingsError(f"there is no setting `{name}`; {hint}")
    chosen = settings_from(model.checked.explore, given)
    if given.get("simulate") == "continuous":
        raise SettingsError("a live system is explored as it is; leave out `simulate`")
    return replace(chosen, simulate="model")


def _started(
    model: Model,
    system: LiveSystem,
    name: str,
    folder: Path,
    seed: int,
    settings: Mapping[str, object],
    warm: Sequence[str | Path] | WarmStart,
) -> LiveLoop:
    """Begin a run: look at the system first, then make the folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} exists already; choose another, or resume it")
    chosen = chosen_settings(model, settings)
    start = warm if isinstance(warm, WarmStart) else counts_of(model.checked, model.graph, warm)
    loop = LiveLoop(model, chosen, system, name, seed)
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
    )
    RunDirectory.create(folder, configuration, model.source.text)
    if start is not None:
        start.save(folder)
    counts = None if start is None else start.counts
    loop.open(model.checked, columns, folder / LOG, counts)
    return loop


def _resumed(
    model: Model,
    system: LiveSystem,
    name: str,
    folder: Path,
    seed: int,
    settings: Mapping[str, object],
) -> LiveLoop:
    """Go on with a run: the explorer learns its log."""
    run, configuration = RunDirectory.open(folder)
    if configuration.system is None:
        raise RunError(f"{folder} is not a live run")
    if configuration.hash != model.graph.hash:
        raise RunError(f"{folder} is a run of another model than {model.name} is now; start anew")
    chosen = ExploreSettings(**configuration.settings)
    if settings:
        _require_same(chosen, chosen_settings(model, settings), settings)
    loop = LiveLoop(model, chosen, system, name, configuration.seed)
    columns = live_columns(model.checked, configuration.system.observed, name)
    warm = load_warm_start(configuration, run.path, model.graph)
    for result in _RESULTS:
        (folder / result).unlink(missing_ok=True)
    loop.open(model.checked, columns, folder / LOG, warm)
    with suppress(OSError, ValueError, KeyError):  # how long it took so far is no more than that
        took = json.loads((folder / PROGRESS).read_text("utf-8"))
        loop.seconds, loop.system_seconds = took["seconds"], took["system_seconds"]
        loop.timed_steps = took["timed_steps"]
    return loop


def _require_same(
    kept: ExploreSettings, asked: ExploreSettings, given: Mapping[str, object]
) -> None:
    for name in given:
        was, now = getattr(kept, name), getattr(asked, name)
        if was != now:
            raise RunError(
                f"a resumed run keeps its settings: {name} is {was}, not {now}; to go on "
                "otherwise, begin a new run with this one as its warm start"
            )


def _saved(loop: LiveLoop, folder: Path) -> LiveResult:
    """Write what is known by now, and return it."""
    explorer, chosen, graph = loop.explorer, loop.settings, loop.graph
    counts = explorer.counts
    sets = confidence_sets(counts, graph.n_states, chosen.delta, chosen.radius)
    missing = save_estimate(folder, counts, sets, loop.model, chosen.prior, loop.observer.rejected)
    write_arrays(folder / "metrics.npz", history_arrays(loop.history))
    took = {name: getattr(loop, name) for name in ("seconds", "system_seconds", "timed_steps")}
    write_json(folder / PROGRESS, took)
    if explorer.episodes is not None:
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
        counts=counts,
        measures=loop.measured(counts),
        history=tuple(loop.history),
        rejected=loop.observer.rejected,
        clipped=dict(loop.observer.clipped),
        residual=explorer.residual(),
        **missing,
        spaces=graph,
        settings=chosen,
        seconds=loop.seconds,
        system_seconds=loop.system_seconds,
        timed_steps=loop.timed_steps,
    )
