"""`mdpdsl simulate`: a trajectory of a model under a policy, as a log."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mdpdsl.cli.arguments import json_option, model_options, parsed_settings, whole_number
from mdpdsl.cli.output import built_model, fail, print_json, print_warnings, stored_keys
from mdpdsl.compile.model import Model
from mdpdsl.compile.system import RawSystem
from mdpdsl.diagnostics import ModelError
from mdpdsl.formats.policy_files import PolicyError, check_policy_path, load_policy
from mdpdsl.graph.policy import Policy
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    from mdpdsl.simulate.columns import ColumnNames
    from mdpdsl.simulate.trajectory import Schedule

RANDOM = "random"
#: More than anyone waits for, and what still can be counted.
MOST_STEPS = 10**15


@click.command("simulate")
@click.argument("model", metavar="MODEL")
@click.option(
    "steps", "--steps", type=whole_number, default="10_000", show_default=True, help="Steps in all."
)
@click.option(
    "policy",
    "--policy",
    default=RANDOM,
    show_default=True,
    metavar="random|FILE",
    help="Every action alike, or a policy that solve or allocate wrote.",
)
@click.option(
    "episode_length",
    "--episode-length",
    type=whole_number,
    metavar="N",
    help="Start anew from `init` after N steps.  [default: one episode]",
)
@click.option(
    "simulate",
    "--simulate",
    type=click.Choice(("model", "continuous")),
    default="model",
    show_default=True,
    help="The finite model, or the continuous system that it discretizes.",
)
@click.option(
    "seed", "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the log."
)
@click.option(
    "out",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The log: .parquet, .csv, .csv.gz, .jsonl or .jsonl.gz.  [default: NAME-log.parquet]",
)
@model_options
@click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress.")
@json_option
def command(
    model: str,
    steps: int,
    policy: str,
    episode_length: int | None,
    simulate: str,
    seed: int,
    out: Path | None,
    settings: tuple[str, ...],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Simulate a model and write its trajectory as a log.

    Each row is a state with the action taken there; the last row of an episode has the state that
    was reached, and no action. The columns are named as the model itself reads a log.
    """
    from mdpdsl.simulate.trajectory import Schedule

    _check_usage(steps, episode_length, policy, out)
    try:
        loaded = built_model(
            model,
            parsed_settings(settings),
            all_states=all_states,
            max_states=max_states,
            is_quiet=is_quiet or as_json,
        )
    except ModelError as error:
        fail(error, as_json)
    if not loaded.graph.has_dynamics:
        raise click.UsageError(
            f"{loaded.name} does not say how it moves, so there is nothing to simulate; add "
            "`on … ->` lines or equations"
        )
    system = _system(loaded, simulate)
    chosen = _policy(loaded, policy)
    schedule = Schedule(steps, episode_length)
    path = Path(f"{loaded.name}-log.parquet") if out is None else out
    names = _checked_names(loaded, schedule, path)
    if not as_json:
        print_warnings(loaded)
        if names.note is not None:
            click.echo(f"note: {names.note}", err=True)
    origin = {
        "model": loaded.name,
        "hash": loaded.graph.hash,
        "parameters": dict(loaded.parameters),
        "seed": seed,
        "policy": policy if chosen is None else Path(policy).name,
        "simulate": simulate,
        "steps": steps,
        "episode_length": episode_length,
        "episodes": schedule.n_episodes,
        "versions": current_versions(),
    }
    began = time.perf_counter()
    _write(loaded, schedule, seed, chosen, system, names, path, origin, is_quiet or as_json)
    seconds = time.perf_counter() - began
    record = origin | {
        "policy": policy,
        "rows": schedule.n_steps if names.next_variables else schedule.n_rows,
        "columns": list(names.all),
        "note": names.note,
        "seconds": seconds,
        "steps_per_second": steps / seconds,
        "path": str(path),
        **stored_keys(loaded),
    }
    if as_json:
        print_json(record)
    else:
        _print(record)


def _check_usage(steps: int, episode_length: int | None, policy: str, out: Path | None) -> None:
    """Refuse what can be refused before anything is built."""
    from mdpdsl.diagnostics import LogError
    from mdpdsl.simulate.log import check_log_path

    for flag, number in (("--steps", steps), ("--episode-length", episode_length)):
        if number is not None and not 1 <= number <= MOST_STEPS:
            raise click.UsageError(f"{flag} takes a number from 1 to 1e15, not {number:,}")
    try:
        if policy != RANDOM:
            check_policy_path(Path(policy))
        if out is not None:
            check_log_path(out)
    except PolicyError as error:
        raise click.UsageError(f"--policy takes `random` or a file: {error}") from None
    except LogError as error:
        raise click.UsageError(f"--out: {error}") from None


def _system(model: Model, simulate: str) -> RawSystem | None:
    from mdpdsl.cli.exploring import simulated_system
    from mdpdsl.diagnostics import SettingsError
    from mdpdsl.explore.settings import ExploreSettings

    try:
        return simulated_system(model, ExploreSettings(simulate=simulate))
    except SettingsError as error:
        raise click.UsageError(str(error)) from None


def _policy(model: Model, policy: str) -> Policy | None:
    """Read a policy; None is the random one."""
    if policy == RANDOM:
        return None
    try:
        return load_policy(Path(policy), model.graph)
    except PolicyError as error:
        raise click.UsageError(str(error)) from None


def _checked_names(model: Model, schedule: Schedule, path: Path) -> ColumnNames:
    from mdpdsl.diagnostics import LogError
    from mdpdsl.simulate.columns import column_names
    from mdpdsl.simulate.log import check_log_path

    try:
        check_log_path(path)
        return column_names(model.checked, schedule.n_episodes)
    except LogError as error:
        raise click.UsageError(str(error)) from None


def _write(
    model: Model,
    schedule: Schedule,
    seed: int,
    policy: Policy | None,
    system: RawSystem | None,
    names: ColumnNames,
    path: Path,
    origin: dict[str, Any],
    is_quiet: bool,
) -> None:
    import numpy as np

    from mdpdsl.cli.live_view import showing
    from mdpdsl.cli.solving import watching
    from mdpdsl.explore.standing import Standing
    from mdpdsl.simulate.failures import SimulationError
    from mdpdsl.simulate.log import write_log
    from mdpdsl.simulate.trajectory import draw_trajectory

    done = 0
    try:
        # Ctrl-C is heeded between chunks: an exception in the midst of compiled code may be lost.
        with (
            watching(None, 1.0, is_quiet=True) as watch,
            showing("simulating", schedule.n_steps, 1, is_quiet, model.graph.n_pairs) as bar,
        ):

            def progress(n_steps: int) -> None:
                nonlocal done
                done = n_steps
                if bar is not None:
                    bar([Standing(n_steps)])
                if watch.is_interrupted:
                    raise KeyboardInterrupt

            chunks = draw_trajectory(
                model.graph,
                schedule,
                np.random.default_rng(seed),
                policy=None if policy is None else policy.probability,
                system=system,
            )
            write_log(
                chunks,
                model.graph,
                names,
                path,
                origin,
                is_raw=system is not None,
                progress=progress,
            )
    except KeyboardInterrupt:
        stopped = f"stopped after {done:,} of {schedule.n_steps:,} steps; nothing was written"
        raise click.ClickException(stopped) from None
    except SimulationError as error:
        raise click.ClickException(f"{error}; nothing was written") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise click.ClickException(f"cannot write {path}: {reason}") from None


def _print(record: dict[str, Any]) -> None:
    n_episodes = record["episodes"]
    episodes = f"{n_episodes:,} episode{'s' if n_episodes > 1 else ''}"
    lines = [
        ("policy", record["policy"]),
        ("simulated", "the continuous system" if record["simulate"] == "continuous" else None),
        ("steps", f"{record['steps']:,} in {episodes}, {record['rows']:,} rows"),
        ("columns", ", ".join(record["columns"])),
        ("speed", f"{record['steps_per_second']:,.0f} steps/s"),
        ("log", record["path"]),
    ]
    click.echo(f"{record['model']} ({record['hash']})")
    for name, text in lines:
        if text is not None:
            click.echo(f"{name:<11}{text}")
