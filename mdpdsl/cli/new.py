"""`mdpdsl new`: a first draft of a model file from a log or an environment."""

from __future__ import annotations

from typing import Any

import click

from mdpdsl.cli.console import as_flags, print_json
from mdpdsl.cli.options import json_option, overwrite_option, parsed_arguments, reading_options


@click.command("new")
@click.argument("sources", metavar="FILE...|GYM_ID", nargs=-1, required=True)
@click.option("action", "--action", metavar="COL", multiple=True, help="A column of actions.")
@click.option(
    "state", "--state", metavar="COL", multiple=True, help="A column of states; no others are."
)
@click.option("episode", "--episode", metavar="COL", help="The column that names the episode.")
@click.option("time", "--time", metavar="COL", help="The column of the time.")
@click.option("ignore", "--ignore", metavar="COL", multiple=True, help="A column to leave out.")
@reading_options
@click.option(
    "env_arguments",
    "--env-arg",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument of the environment; may be repeated.",
)
@click.option(
    "seed",
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Seed of the random actions that show how far an environment's observations reach.",
)
@click.option(
    "out",
    "--out",
    metavar="FILE",
    help="The model file, or - for standard output.  [default: NAME.mdp, here]",
)
@overwrite_option
@json_option
def command(
    sources: tuple[str, ...],
    env_arguments: tuple[str, ...],
    out: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Draft a model file from a log or a Gymnasium environment, ready to edit.

    FILE is a log as in `mdpdsl estimate`: CSV, Parquet, JSON lines or Arrow files, folders,
    patterns, or minari:ID. The draft declares states, actions and bins, and says in its `log` block
    how to read them; a comment explains every guess. Options that name columns may be repeated.
    """
    from mdpdsl.drafts.new_model import new

    found = new(
        *sources,
        env_arguments=parsed_arguments(env_arguments),
        out=None if out == "-" else out or True,
        **options,
    )
    if as_json:
        print_json(found.record() | {"notes": [as_flags(note) for note in found.notes]})
        return
    if found.path is None:
        click.echo(found.text, nl=False)
        return
    for note in found.notes:
        click.echo(f"note: {as_flags(note)}", err=True)
    click.echo(f"Wrote {found.path} ({found.states:,} states, {found.pairs:,} pairs)")
