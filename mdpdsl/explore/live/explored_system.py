"""The verb `explore` on a live system: connect to it, explore it with progress, resume."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import RunError, SettingsError
from mdpdsl.estimate.estimate_logs import whole_space
from mdpdsl.estimate.metrics import Measures
from mdpdsl.explore.live.live_loop import Checkpoint, LiveError, LiveSystem, Watch
from mdpdsl.explore.live.observed import live_columns
from mdpdsl.explore.live.session import LiveSession, chosen_settings
from mdpdsl.explore.plugins import ExplorerFactory
from mdpdsl.explore.result import ExploreRun
from mdpdsl.explore.standing import standing
from mdpdsl.explore.trial_progress import standing_text
from mdpdsl.explore.value_bounds import require_property
from mdpdsl.explore.warm_start import WarmStart, warm_start_of
from mdpdsl.logs.reading_options import USUAL, ReadingOptions
from mdpdsl.progress import Progress, shown
from mdpdsl.runs.directory import RunDirectory, new_folder, require_new
from mdpdsl.runs.records import RunConfiguration, SystemRecord
from mdpdsl.runs.run_models import resumed_model

#: Seconds between two updates of the progress.
LOOK_SECONDS = 0.2


def explore_system(
    model: Model,
    system: Any,
    env: str | None,
    env_arguments: Mapping[str, Any],
    warm_start: Sequence[str | Path] | WarmStart,
    out: str | Path | bool | None,
    overwrite: bool,
    seed: int,
    progress: bool | Progress | None,
    settings: Mapping[str, object],
    explorer: ExplorerFactory | None = None,
    reading: ReadingOptions = USUAL,
    property: str | None = None,
) -> ExploreRun:
    """Explore a system, or an environment by its id; with `out`, keep every observation."""
    spaces = whole_space(model)
    if property is not None:
        require_property(spaces, property)
    chosen_settings(spaces, settings)
    connected = _connected(spaces, system, env, env_arguments, seed)
    folder = None
    if out:
        algorithm = settings.get("algorithm", "live")
        folder = new_folder(f"{spaces.name}-{algorithm}") if out is True else Path(out)
        require_new(folder, overwrite=overwrite)
    start = warm_start_of(spaces, warm_start, progress, reading)
    return _explored(
        spaces,
        connected,
        folder,
        False,
        start or (),
        progress,
        settings,
        seed,
        explorer,
        closes=env is not None,
        overwrite=overwrite,
        property=property,
    )


def resume_system(
    path: Path,
    configuration: RunConfiguration,
    model: Model | None,
    system: Any,
    progress: bool | Progress | None,
    explorer: ExplorerFactory | None = None,
) -> ExploreRun:
    """Continue a live run; an environment is made again from its record."""
    record = configuration.system
    assert record is not None
    if system is None and record.kind != "gymnasium":
        raise RunError(
            f"{path} explores a system that belongs to a Python program; resume it there, with "
            f'mdpdsl.explore(model, system=system, resume="{path}")'
        )
    loaded = resumed_model(RunDirectory.open(path)[0], configuration)
    if model is not None and whole_space(model).graph.hash != configuration.hash:
        raise RunError(
            f"{path} is a run of another model than the present {model.name}; start a new one"
        )
    env = None if system is not None else str(record.env)
    connected = _connected(loaded, system, env, record.arguments or {}, configuration.seed)
    return _explored(
        loaded,
        connected,
        path,
        True,
        (),
        progress,
        {},
        configuration.seed,
        explorer,
        closes=env is not None,
    )


def _connected(
    model: Model, system: Any, env: str | None, arguments: Mapping[str, Any], seed: int
) -> LiveSystem:
    """Return the system; a Gymnasium environment is wrapped."""
    if env is None and not hasattr(system, "observation_space"):
        for name in ("reset", "step"):
            if not callable(getattr(system, name, None)):
                raise SettingsError(
                    f"a live system needs the method `{name}`, which {type(system).__name__} does "
                    "not have; see mdpdsl.explore"
                )
        found: LiveSystem = system
        return found
    from mdpdsl.explore.live.gym_system import GymSystem, make_environment

    made = make_environment(env, arguments) if env is not None else system
    identifier = env or _environment_name(system)
    product = model.graph.actions.product
    wrapped = GymSystem(made, product, seed=seed, name=identifier, arguments=arguments)
    if env is None:  # cannot be made again from its name
        wrapped.record = SystemRecord("callback", identifier)
    live_columns(model.checked, wrapped.columns, identifier)
    return wrapped


def _environment_name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or type(env).__name__)


def _explored(
    model: Model,
    system: LiveSystem,
    folder: Path | None,
    is_resumed: bool,
    start: Sequence[str | Path] | WarmStart,
    progress: bool | Progress | None,
    settings: Mapping[str, object],
    seed: int,
    explorer: ExplorerFactory | None,
    *,
    closes: bool,
    overwrite: bool = False,
    property: str | None = None,
) -> ExploreRun:
    try:
        with (
            LiveSession.begun(
                model,
                system,
                folder,
                seed=seed,
                resume=is_resumed,
                warm_start=start,
                settings=settings,
                explorer=explorer,
                overwrite=overwrite,
                property=property,
            ) as session,
            shown(progress, session.name) as update,
        ):
            n_pairs = int(np.count_nonzero(model.graph.to_learn))
            watch, checkpoint = _looks(update, session.settings.steps, n_pairs)
            try:
                result = session.run(watch, checkpoint)
            except (LiveError, KeyboardInterrupt) as error:
                raise session.stopped(error) from None
            return session.explore_run(result)
    finally:
        if closes:
            system.close()  # type: ignore[attr-defined]


def _looks(
    update: Progress | None, total: int, n_pairs: int
) -> tuple[Watch | None, Checkpoint | None]:
    """Return callbacks that show the steps done and the last measures, five times a second."""
    if update is None:
        return None, None
    looked, last = 0.0, None

    def watch(done: int) -> None:
        nonlocal looked
        now = time.perf_counter()
        if now - looked > LOOK_SECONDS:
            looked = now
            update(done, total, standing_text([standing(done, last)], n_pairs, None))

    def checkpoint(measures: Measures) -> None:
        nonlocal last
        last = measures

    return watch, checkpoint
