"""`mdpdsl models`: the shipped models."""

from __future__ import annotations

import click

from mdpdsl.cli.arguments import json_option
from mdpdsl.cli.output import fail, print_json
from mdpdsl.compile.model import Model, read_source, shipped_models
from mdpdsl.diagnostics import Diagnostic, ModelError, did_you_mean


@click.command("models")
@click.argument("name", metavar="[NAME]", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the shipped models, or print the file of one.

    `mdpdsl models riverswim > mine.mdp` is a start for a model of your own.
    """
    names = shipped_models()
    if name is not None and name not in names:
        hint = did_you_mean(name, names) or "`mdpdsl models` lists them"
        message = f"no shipped model is named `{name}`"
        fail(ModelError([Diagnostic("E603", message, None, hint)]), as_json)
    records = []
    for each in [name] if name is not None else names:
        source = read_source(each)
        model = Model(source)
        record: dict[str, object] = {
            "name": model.name,
            "title": model.title,
            "states": model.graph.n_states,
            "pairs": model.graph.n_pairs,
        }
        if name is not None:
            record["text"] = source.text
        records.append(record)
    if as_json:
        print_json({"models": records})
    elif name is not None:
        click.echo(records[0]["text"], nl=False)
    else:
        _print(records)


def _print(records: list[dict[str, object]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("states", justify="right")
    table.add_column("pairs", justify="right")
    table.add_column("title")
    for record in records:
        title = str(record["title"] or "")
        table.add_row(str(record["name"]), f"{record['states']:,}", f"{record['pairs']:,}", title)
    Console(highlight=False, markup=False).print(table)
