"""`mdpdsl models`: the shipped models."""

from __future__ import annotations

import click

from mdpdsl.cli.console import print_columns, print_json
from mdpdsl.cli.options import json_option
from mdpdsl.compile.model import Model, read_source, shipped_models
from mdpdsl.diagnostics import Diagnostic, ModelError, did_you_mean


@click.command("models")
@click.argument("name", metavar="[NAME]", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the shipped models, or print the file of one.

    Start a model of your own with `mdpdsl models riverswim > mine.mdp`.
    """
    names = shipped_models()
    if name is not None and name not in names:
        hint = did_you_mean(name, names) or "`mdpdsl models` lists them"
        message = f"no shipped model is named `{name}`"
        raise ModelError([Diagnostic("E603", message, None, hint)])
    models = [Model(read_source(each)) for each in ([name] if name is not None else names)]
    if as_json:
        records = [
            {
                "name": model.name,
                "title": model.title,
                "states": model.graph.n_states,
                "pairs": model.graph.n_pairs,
            }
            | ({} if name is None else {"text": model.source.text})
            for model in models
        ]
        print_json({"models": records})
    elif name is not None:
        click.echo(models[0].source.text, nl=False)
    else:
        rows = [
            (m.name, m.title or "", f"{m.graph.n_states:,}", f"{m.graph.n_pairs:,}") for m in models
        ]
        print_columns(("name", "title", "states", "pairs"), rows, left=2)
