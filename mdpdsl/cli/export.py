"""`mdpdsl export`: a model in another format."""

from __future__ import annotations

from pathlib import Path

import click

from mdpdsl.cli.arguments import json_option, model_options, parsed_settings
from mdpdsl.cli.output import built_model, fail, print_json
from mdpdsl.diagnostics import ModelError


@click.command("export")
@click.argument("model", metavar="MODEL")
@click.option(
    "target",
    "--to",
    type=click.Choice(["npz", "dot"]),
    required=True,
    help="npz: NumPy arrays; dot: Graphviz.",
)
@click.option(
    "out",
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where to write; the model's name by default.",
)
@model_options
@click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress.")
@json_option
def command(
    model: str,
    target: str,
    out: str | None,
    settings: tuple[str, ...],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Write a model in another format."""
    overrides = parsed_settings(settings)
    try:
        loaded = built_model(
            model,
            overrides,
            all_states=all_states,
            max_states=max_states,
            is_quiet=is_quiet or as_json,
        )
        graph = loaded.graph
    except ModelError as error:
        fail(error, as_json)
    path = Path(out or f"{loaded.name}.{target}")
    try:
        if target == "npz":
            from mdpdsl.graph.npz import to_npz

            to_npz(graph, path)
        else:
            from mdpdsl.report.exports.dot import to_dot

            path.write_text(to_dot(graph), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    if as_json:
        print_json({"path": str(path), "format": target})
    else:
        click.echo(f"written to {path}")
