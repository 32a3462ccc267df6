"""`mdpdsl explore --env`: a live system at the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mdpdsl.cli.live_result import live_record, print_live
from mdpdsl.cli.live_view import showing
from mdpdsl.cli.output import built_spaces, print_json
from mdpdsl.cli.warm_starting import read_warm_start
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import RunError
from mdpdsl.explore.executor import Progress
from mdpdsl.explore.metrics import Measures
from mdpdsl.explore.standing import standing
from mdpdsl.files import write_json
from mdpdsl.runs.directory import RunDirectory, new_folder
from mdpdsl.runs.records import RunConfiguration

if TYPE_CHECKING:
    from mdpdsl.explore.live.gym_system import GymSystem
    from mdpdsl.explore.warm_start import WarmStart

F = TypeVar("F", bound=Callable[..., Any])


def live_options(function: F) -> F:
    """Add the options of live systems and of warm starts."""
    for option in (
        click.option(
            "warm_starts",
            "--warm-start",
            multiple=True,
            metavar="LOG|RUN",
            help="Begin with the counts of a log (file, folder, glob) or of an earlier run; may be "
            "repeated.",
        ),
        click.option(
            "env_arguments",
            "--env-arg",
            multiple=True,
            metavar="NAME=VALUE",
            help="Argument of the environment, its value as JSON or as a text; may be repeated.",
        ),
        click.option(
            "env",
            "--env",
            metavar="GYM_ID",
            help="Explore a Gymnasium environment; of the model only the spaces are used, and its "
            "`log` block, which reads the columns obs_0, obs_1, …",
        ),
    ):
        function = option(function)
    return function


def explore_environment(
    path: str,
    identifier: str,
    env_arguments: tuple[str, ...],
    warm_starts: tuple[str, ...],
    parameters: dict[str, str],
    flags: dict[str, Any],
    *,
    max_states: int | None,
    trials: int | None,
    seed: int | None,
    out: Path | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Explore an environment, and say what came of it."""
    if trials is not None and trials > 1:
        raise click.UsageError(
            "--env explores one system in one trial: a second one would not start from the same "
            "state of the world; run the command again with another --seed"
        )
    arguments = _parsed_arguments(env_arguments)
    model = built_spaces(path, parameters, max_states=max_states, is_quiet=is_quiet or as_json)
    if seed is None:
        seed = int(model.checked.explore.get("seed", 0))
    given = {name: value for name, value in flags.items() if value is not None}
    folder = out or new_folder(f"{model.name}-{given.get('algorithm', 'live')}")
    _run(
        model,
        _system(model, identifier, arguments, seed),
        folder,
        steps=None,
        seed=seed,
        start=read_warm_start(model, warm_starts, is_quiet, as_json),
        given=given,
        is_resumed=False,
        is_quiet=is_quiet,
        as_json=as_json,
    )


def resume_environment(
    run: RunDirectory,
    configuration: RunConfiguration,
    model: Model,
    *,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Go on with a run of an environment."""
    assert configuration.system is not None
    if configuration.system.kind != "gymnasium":
        raise RunError(
            f"{run.path} explores a system that a program calls; resume it there, with "
            f'mdpdsl.explore_live(model, system, "{run.path}", resume=True)'
        )
    record = configuration.system
    system = _system(model, str(record.env), dict(record.arguments or {}), configuration.seed)
    _run(
        model,
        system,
        run.path,
        steps=configuration.settings["steps"],
        seed=configuration.seed,
        start=None,
        given={},
        is_resumed=True,
        is_quiet=is_quiet,
        as_json=as_json,
    )


def _run(
    model: Model,
    system: GymSystem,
    folder: Path,
    *,
    steps: int | None,
    seed: int,
    start: WarmStart | None,
    given: dict[str, Any],
    is_resumed: bool,
    is_quiet: bool,
    as_json: bool,
) -> None:
    from mdpdsl.explore.live.live_loop import LiveError
    from mdpdsl.explore.live.session import chosen_settings, explore_live
    from mdpdsl.programs.direction import ProgramError

    again = f"`mdpdsl explore --resume {folder}` goes on"
    total = steps or chosen_settings(model, given).steps
    try:
        n_pairs = model.graph.n_pairs
        with showing(system.name, total, 1, is_quiet or as_json, n_pairs) as bar:
            told = None if bar is None else _LiveProgress(bar)
            result = explore_live(
                model,
                system,
                folder,
                seed=seed,
                resume=is_resumed,
                warm_start=start or (),
                progress=None if told is None else told.progress,
                checkpoint=None if told is None else told.checkpoint,
                **given,
            )
    except (LiveError, ProgramError) as error:
        kept = f"\neverything observed is kept; {again}" if _has_log(folder) else ""
        raise click.ClickException(f"{error}{kept}") from None
    except KeyboardInterrupt:
        raise click.ClickException(
            f"stopped; {again}" if _has_log(folder) else "stopped before anything was done"
        ) from None
    finally:
        system.close()
    if not result.is_finished:
        raise click.ClickException(f"stopped after {result.steps:,} steps; {again}")
    record = live_record(model, RunDirectory.open(folder)[1], result)
    write_json(folder / "summary.json", record)
    if as_json:
        print_json(record)
    else:
        print_live(model, record, result)


def _parsed_arguments(texts: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise click.UsageError(f"--env-arg takes NAME=VALUE, not `{text}`")
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:  # a text needs no quotes
            found[name.strip()] = value
    return found


def _system(model: Model, identifier: str, arguments: dict[str, Any], seed: int) -> GymSystem:
    from mdpdsl.explore.live.gym_system import GymSystem, make_environment
    from mdpdsl.explore.live.observed import live_columns

    env = make_environment(identifier, arguments)
    product = model.graph.actions.product
    system = GymSystem(env, product, seed=seed, name=identifier, arguments=arguments)
    live_columns(model.checked, system.columns, identifier)
    return system


def _has_log(folder: Path) -> bool:
    return (folder / "log.csv").exists()


class _LiveProgress:
    """Tells a view five times a second how far a run is."""

    def __init__(self, view: Progress) -> None:
        self._view = view
        self._told = 0.0
        self._last: Measures | None = None

    def progress(self, done: int) -> None:
        """Take note of a step."""
        now = time.perf_counter()
        if now - self._told > 0.2:
            self._told = now
            self._view([standing(done, self._last)])

    def checkpoint(self, measures: Measures) -> None:
        """Take note of measures."""
        self._last = measures
