"""`mdpdsl report`: runs as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from mdpdsl.cli.console import print_json, progress, several
from mdpdsl.cli.options import (
    json_option,
    overwrite_option,
    quiet_option,
)


@click.command("report")
@click.argument("paths", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "out",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File of the page.  [default: RUN/report.html, or report.html for several runs]",
)
@click.option(
    "axes",
    "--axes",
    metavar="X,Y",
    help="Two variables (or one and `action`) for the maps.  [default: the first two]",
)
@overwrite_option
@quiet_option
@json_option
def command(
    paths: tuple[str, ...],
    out: Path | None,
    axes: str | None,
    overwrite: bool,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Write runs to one HTML page that needs no network: results, measures over time, maps, pairs.

    RUN is a folder that explore or estimate wrote, one of its trials (RUN/trial-003), or a folder
    that compare --save wrote, for all of its rows. Several runs are shown side by side.
    """
    from mdpdsl.report.report_runs import report

    shown = progress(is_quiet or as_json)
    page = report(list(paths), out, axes=axes, overwrite=overwrite, progress=shown)
    if as_json:
        print_json(page.record())
    else:
        size = f"{several(page.n_runs, 'run')}, {page.n_bytes / 1e6:.2f} MB"
        click.echo(f"Wrote {page.path} ({size})")
