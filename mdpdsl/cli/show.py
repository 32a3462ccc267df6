"""`mdpdsl show`: what a model is, as numbers and as a picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from mdpdsl.cli.arguments import json_option, model_options, parsed_settings
from mdpdsl.cli.output import built_model, fail, print_json, print_warnings, stored_keys
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import ModelError
from mdpdsl.report.model_summary import ModelSummary, summarize

PICTURES = (".svg", ".png", ".dot")


@click.command("show")
@click.argument("model", metavar="MODEL")
@click.option(
    "graph_path",
    "--graph",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Draw the model: .svg, .png or .dot.",
)
@model_options
@click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress.")
@json_option
def command(
    model: str,
    graph_path: str | None,
    settings: tuple[str, ...],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Say what a model is: its sizes, classes and complexity; or draw it."""
    if graph_path is not None and Path(graph_path).suffix not in PICTURES:
        raise click.UsageError(f"--graph takes a file ending in {', '.join(PICTURES)}")
    overrides = parsed_settings(settings)
    try:
        loaded = built_model(
            model,
            overrides,
            all_states=all_states,
            max_states=max_states,
            is_quiet=is_quiet or as_json,
        )
        summary = summarize(loaded)
    except ModelError as error:
        fail(error, as_json)
    if graph_path is not None:
        _draw(loaded, Path(graph_path))
    if as_json:
        print_json(asdict(summary) | {"graph": graph_path} | stored_keys(loaded))
        return
    print_warnings(loaded)
    _print(summary)
    if graph_path is not None:
        click.echo(f"drawn to {graph_path}")


def _draw(model: Model, path: Path) -> None:
    title = model.title or model.name
    try:
        if path.suffix == ".dot":
            from mdpdsl.formats.dot import to_dot

            path.write_text(to_dot(model.graph), encoding="utf-8")
        else:
            from mdpdsl.report.graph.picture import draw_graph

            draw_graph(model.graph, path, title)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None


def _print(summary: ModelSummary) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in _rows(summary):
        table.add_row(name, value)
    console = Console(highlight=False, markup=False)
    console.print(f"{summary.name}: {summary.title}" if summary.title else summary.name)
    console.print(table)


def _rows(summary: ModelSummary) -> list[tuple[str, str]]:
    parameters = ", ".join(f"{name} = {value}" for name, value in summary.parameters.items())
    rows = [
        ("variables", "; ".join(summary.variables)),
        ("actions", "; ".join(summary.action_list)),
    ]
    if parameters:
        rows.append(("parameters", parameters))
    rows += [
        ("states", f"{summary.states:,}"),
        ("pairs", f"{summary.pairs:,}"),
    ]
    if summary.classes is None:
        rows.append(("dynamics", "unknown: to be estimated from logs or a live system"))
    else:
        rows += [
            ("branches", f"{summary.branches:,} ({summary.branches / summary.pairs:.3g} per pair)"),
            ("classes", "1: communicating" if summary.communicating else f"{summary.classes:,}"),
            ("unreachable", f"{summary.unreachable:,} states"),
        ]
    if summary.complexity is not None:
        numbers = summary.complexity
        rows.append(
            (
                "complexity",
                f"min {numbers['min']:.4g}, mean {numbers['mean']:.4g}, max {numbers['max']:.4g}",
            )
        )
    if summary.labels:
        labels = ", ".join(
            f"{name} ({count:,} {'state' if count == 1 else 'states'})"
            for name, count in summary.labels.items()
        )
        rows.append(("labels", labels))
    if summary.discretization is not None:
        how = summary.discretization
        rows.append(
            (
                "discretization",
                f"{how['cells']}, {_points(how['points'])} per cell, noise by "
                f"{how['noise']}, error {how['error']:.1e}",
            )
        )
    rows += [("hash", summary.hash), ("built in", f"{summary.build_seconds:.3f} s")]
    return rows


def _points(number: object) -> str:
    return "1 point" if number == 1 else f"{number} points"
