"""`mdpdsl check`: all diagnostics of each file."""

from __future__ import annotations

import sys

import click

from mdpdsl.cli.console import print_diagnostics, print_json, several
from mdpdsl.cli.options import json_option, model_options


@click.command("check")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@model_options
@json_option
def command(
    models: tuple[str, ...],
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    as_json: bool,
) -> None:
    """Find every mistake in model files.

    Mistakes in names and types, and those that show only in some states: in probabilities, guards
    and ranges. Each is shown with its line, and with a state in which it occurs.
    """
    from mdpdsl.compile.check_file import check

    found = [
        check(path, all_states=all_states, max_states=max_states, **parameters) for path in models
    ]
    if as_json:
        print_json({"files": [each.record() for each in found]})
    else:
        for each in found:
            print_diagnostics(each.diagnostics)
            verdict = several(len(each.errors), "mistake")
            if each.size is not None:
                verdict = f"ok ({each.size[0]:,} states, {each.size[1]:,} pairs)"
            click.echo(f"{each.path}: {verdict}")
    sys.exit(0 if all(each.ok for each in found) else 2)
