"""`mdpdsl simulate`: a trajectory of a model under a policy, as a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mdpdsl.cli.console import noticing_compilation, print_json, print_table, progress, several
from mdpdsl.cli.options import (
    json_option,
    load_model,
    model_options,
    overwrite_option,
    print_model_warnings,
    quiet_option,
    whole_number,
)
from mdpdsl.diagnostics import LogError
from mdpdsl.formats.policy_files import PolicyError, check_policy_path

if TYPE_CHECKING:
    from mdpdsl.simulate.simulate_model import Log


@click.command("simulate")
@click.argument("model", metavar="MODEL")
@click.option(
    "steps",
    "--steps",
    type=whole_number,
    default="10_000",
    show_default=True,
    help="Number of steps.",
)
@click.option(
    "policy",
    "--policy",
    default="random",
    show_default=True,
    metavar="random|FILE",
    help="Random actions, or a policy that solve or allocate wrote.",
)
@click.option(
    "episode_length",
    "--episode-length",
    type=whole_number,
    metavar="N",
    help="Start again from `init` after N steps.  [default: one episode]",
)
@click.option(
    "simulate",
    "--simulate",
    type=click.Choice(("model", "continuous")),
    default="model",
    show_default=True,
    help="Simulate the finite model, or the continuous system that it discretizes.",
)
@click.option(
    "seed", "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the log."
)
@click.option(
    "out",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of the log: .parquet, .csv, .csv.gz, .jsonl or .jsonl.gz.  [default: "
    "NAME-log.parquet]",
)
@overwrite_option
@model_options
@quiet_option
@json_option
def command(
    model: str,
    steps: int,
    policy: str,
    episode_length: int | None,
    simulate: str,
    seed: int,
    out: Path | None,
    overwrite: bool,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Simulate a model and write its trajectory as a log.

    Each row is a state with the action taken there; the last row of an episode has the state that
    was reached, and no action. The columns have the names that the model's `log` block reads.
    """
    from mdpdsl.simulate.log import check_log_path
    from mdpdsl.simulate.simulate_model import simulate as simulate_model

    try:
        if policy != "random":
            check_policy_path(Path(policy))
        if out is not None:
            check_log_path(out)
    except PolicyError as error:
        raise click.UsageError(f"--policy takes `random` or a file: {error}") from None
    except LogError as error:
        raise click.UsageError(f"--out: {error}") from None
    is_quiet = is_quiet or as_json
    loaded = load_model(model, parameters, all_states, max_states, is_quiet=is_quiet)
    if not as_json:
        print_model_warnings(loaded)
    with noticing_compilation(is_quiet):
        log = simulate_model(
            loaded,
            steps=steps,
            policy=policy,
            episode_length=episode_length,
            simulate=simulate,
            seed=seed,
            out=out or Path(f"{loaded.name}-log.parquet"),
            overwrite=overwrite,
            progress=progress(is_quiet),
        )
    if as_json:
        print_json(log.record())
    else:
        _print(log)


def _print(log: Log) -> None:
    if log.note is not None:
        click.echo(f"note: {log.note}", err=True)
    record = log.record()
    episodes = several(record["episodes"], "episode")
    print_table(
        f"{record['model']} ({record['hash']})",
        [
            ("policy", log.policy),
            ("simulated", "the continuous system" if log.simulate == "continuous" else None),
            ("steps", f"{log.steps:,} in {episodes}, {record['rows']:,} rows"),
            ("columns", ", ".join(record["columns"])),
            ("speed", f"{record['steps_per_second']:,.0f} steps/s"),
            ("log", str(log.path)),
        ],
    )
