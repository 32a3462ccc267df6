"""`mdpdsl check`: all diagnostics of each file."""

from __future__ import annotations

import sys

import click

from mdpdsl.cli.arguments import json_option, model_options, parsed_settings
from mdpdsl.cli.output import print_diagnostics, print_json
from mdpdsl.compile.model import Model, read_source
from mdpdsl.diagnostics import Diagnostic, ModelError


@click.command("check")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@model_options
@json_option
def command(
    models: tuple[str, ...],
    settings: tuple[str, ...],
    all_states: bool,
    max_states: int | None,
    as_json: bool,
) -> None:
    """Find every mistake of model files.

    Names and types, and what shows only in states: probabilities, guards, ranges. Each mistake
    comes with its place, and with a state in which it shows.
    """
    overrides = parsed_settings(settings)
    records = []
    is_good = True
    for path in models:
        summary = ""
        try:
            model = Model(
                read_source(path), overrides, keeps_all_states=all_states, most_states=max_states
            )
            found: list[Diagnostic] = model.diagnose()
            if not any(d.is_error for d in found):
                summary = f"{model.graph.n_states:,} states, {model.graph.n_pairs:,} pairs"
        except ModelError as error:
            found = list(error.diagnostics)
        errors = [d for d in found if d.is_error]
        is_good &= not errors
        records.append(
            {
                "path": path,
                "ok": not errors,
                "errors": [d.record() for d in errors],
                "warnings": [d.record() for d in found if not d.is_error],
            }
        )
        if not as_json:
            print_diagnostics(found)
            count = f"{len(errors)} mistake{'s' if len(errors) != 1 else ''}"
            click.echo(f"{path}: {count if errors else f'ok ({summary})'}")
    if as_json:
        print_json({"files": records})
    sys.exit(0 if is_good else 2)
