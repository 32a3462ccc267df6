"""`mdpdsl report`: runs as one HTML page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mdpdsl.cli.arguments import json_option, several
from mdpdsl.cli.output import fail, print_json
from mdpdsl.diagnostics import ModelError, RunError
from mdpdsl.files import write_text

if TYPE_CHECKING:
    from mdpdsl.report.run import Run


@click.command("report")
@click.argument("paths", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "out",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The page.  [default: RUN/report.html, or report.html for several]",
)
@click.option(
    "axes",
    "--axes",
    metavar="X,Y",
    help="Two variables (or one and `action`) for the maps.  [default: the first two]",
)
@click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress.")
@json_option
def command(
    paths: tuple[str, ...], out: Path | None, axes: str | None, is_quiet: bool, as_json: bool
) -> None:
    """Write runs as one HTML page that needs no network: results, measures over time, maps, pairs.

    RUN is a folder of explore or estimate, one of its trials (RUN/trial-003), or what compare
    --save wrote, which stands for all of its rows. Several runs are told side by side.
    """
    from mdpdsl.report.figures.plane_map import AxesError
    from mdpdsl.report.page.page import report_page

    with _showing(is_quiet or as_json) as progress:
        runs = read_runs(paths, as_json)
        try:
            page = report_page(runs, axes, progress)
        except AxesError as error:
            raise click.UsageError(str(error)) from None
    path = out or _default_path(paths)
    try:
        write_text(path, page)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    n_bytes = len(page.encode("utf-8"))
    if as_json:
        record = {"path": str(path), "bytes": n_bytes, "runs": [str(run.path) for run in runs]}
        print_json(record)
    else:
        click.echo(f"{several(len(runs), 'run')} told in {path} ({n_bytes / 1e6:.2f} MB)")


def read_runs(paths: tuple[str, ...], as_json: bool) -> list[Run]:
    """Read the runs that arguments name; a mistake ends the command."""
    from mdpdsl.report.run import open_run, run_folders

    try:
        folders = run_folders(paths)
        if not folders:
            raise RunError(f"{paths[0]} holds no finished run")
        return [open_run(folder) for folder in folders]
    except RunError as error:
        raise click.UsageError(str(error)) from None
    except ModelError as error:
        fail(error, as_json)


def _default_path(paths: tuple[str, ...]) -> Path:
    only = Path(paths[0])
    return only / "report.html" if len(paths) == 1 and only.is_dir() else Path("report.html")


@contextmanager
def _showing(is_quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Count runs on a terminal; nothing elsewhere."""
    if is_quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield lambda done, total: status.update(f"drawing: {done} of {total} runs")
