"""`mdpdsl plot`: one figure of runs as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from mdpdsl.cli.arguments import json_option
from mdpdsl.cli.output import print_json
from mdpdsl.cli.report import read_runs

PICTURES = (".png", ".svg", ".pdf")


@click.command("plot")
@click.argument("paths", metavar="RUN...", nargs=-1)
@click.option(
    "name", "--figure", required=True, metavar="NAME", help="Which; `list` names all of them."
)
@click.option(
    "out",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The picture: .png, .svg or .pdf.  [default: NAME.png]",
)
@click.option(
    "axes",
    "--axes",
    metavar="X,Y",
    help="Two variables (or one and `action`) for a map.  [default: the first two]",
)
@click.option("action", "--action", metavar="NAME", help="For a map of one action.  [default: all]")
@json_option
def command(
    paths: tuple[str, ...],
    name: str,
    out: Path | None,
    axes: str | None,
    action: str | None,
    as_json: bool,
) -> None:
    """Draw one figure of runs: a measure over time, a map over two variables, the graph.

    RUN is as for report; several runs are drawn into one picture.
    """
    path = out or Path(f"{name}.png")
    if path.suffix.lower() not in PICTURES:
        raise click.UsageError(f"--out takes a file ending in {', '.join(PICTURES)}")
    from mdpdsl.report.figures.plane_map import AxesError
    from mdpdsl.report.figures.plots import FIGURES, FigureError, draw_figure, save_figure

    if name == "list":
        _list(FIGURES, as_json)
        return
    if not paths:
        raise click.UsageError("give a RUN, or `--figure list`")
    try:
        figure = draw_figure(read_runs(paths, as_json), name, axes, action)
        save_figure(figure, path)
    except (AxesError, FigureError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    if as_json:
        print_json({"path": str(path), "figure": name})
    else:
        click.echo(f"{name} drawn to {path}")


def _list(figures: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json({"figures": [{"name": n, "shows": text} for n, text in figures.items()]})
        return
    width = max(map(len, figures))
    for each, text in figures.items():
        click.echo(f"{each:<{width}}  {text}")
