"""`mdpdsl plot`: one figure of runs as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from mdpdsl.cli.console import print_json
from mdpdsl.cli.options import (
    json_option,
    overwrite_option,
)


@click.command("plot")
@click.argument("paths", metavar="RUN...", nargs=-1)
@click.option(
    "name",
    "--figure",
    required=True,
    metavar="NAME",
    help="The figure to draw; `list` lists all figures.",
)
@click.option(
    "out",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File of the picture: .png, .svg or .pdf.  [default: NAME.png]",
)
@click.option(
    "axes",
    "--axes",
    metavar="X,Y",
    help="Two variables (or one and `action`) for a map.  [default: the first two]",
)
@click.option(
    "action", "--action", metavar="NAME", help="Draw the map for one action.  [default: all]"
)
@overwrite_option
@json_option
def command(
    paths: tuple[str, ...],
    name: str,
    out: Path | None,
    axes: str | None,
    action: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Draw one figure of runs: a measure over time, a map over two variables, the graph.

    RUN is as in `mdpdsl report`; several runs are drawn into one picture.
    """
    from mdpdsl.report.report_runs import figures, plot

    if name == "list":
        _list(figures(), as_json)
        return
    if not paths:
        raise click.UsageError("give a RUN, or `--figure list`")
    path = plot(list(paths), name, out, axes=axes, action=action, overwrite=overwrite)
    if as_json:
        print_json({"path": str(path), "figure": name})
    else:
        click.echo(f"Wrote {path}")


def _list(figures: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json({"figures": [{"name": n, "shows": text} for n, text in figures.items()]})
        return
    width = max(map(len, figures))
    for each, text in figures.items():
        click.echo(f"{each:<{width}}  {text}")
