"""`mdpdsl compare`: several explorers on one model or one log; the paper's table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mdpdsl.cli.console import as_flags, noticing_compilation, print_json, progress
from mdpdsl.cli.explorer_options import log_options, named_logs, run_options, setting_options
from mdpdsl.cli.options import (
    json_option,
    learn_option,
    load_model,
    model_options,
    print_model_warnings,
)

if TYPE_CHECKING:
    from mdpdsl.explore.comparison import Comparison


@click.command("compare")
@click.argument("model", metavar="MODEL")
@log_options
@click.option("algorithms", "--algorithm", multiple=True, help="An explorer; may be repeated.")
@click.option(
    "kappas",
    "--kappa",
    type=float,
    multiple=True,
    help="Curvature, for kappa-dp, kappa-lp and tracking; may be repeated.",
)
@click.option(
    "horizons", "--horizon", multiple=True, help="Depth of planning, for kappa-dp; may be repeated."
)
@click.option(
    "trials",
    "--trials",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Independent trials of each explorer.",
)
@setting_options
@click.option(
    "layout",
    "--format",
    type=click.Choice(["text", "csv", "latex"]),
    default="text",
    help="Format of the table.",
)
@click.option(
    "out",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the table to a file.",
)
@click.option(
    "save",
    "--save",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep a run for each row in a new folder, for `mdpdsl report DIR`.",
)
@run_options
@model_options
@learn_option
@json_option
def command(
    model: str,
    log: tuple[str, ...],
    more_logs: tuple[str, ...],
    layout: str,
    out: Path | None,
    seed: int | None,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    learn: str | None,
    is_quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare explorers over trials; if none are named, those of the paper's table."""
    from mdpdsl.explore.comparison import compare
    from mdpdsl.files import require_absent, write_text

    if out is not None:
        require_absent(out, given["overwrite"])
    logs = named_logs(log, more_logs)
    is_quiet = is_quiet or as_json
    loaded = load_model(
        model, parameters, all_states, max_states, learn, is_quiet=is_quiet, is_built=logs is None
    )
    if logs is None and not as_json:
        print_model_warnings(loaded)
    with noticing_compilation(is_quiet):
        found = compare(loaded, log=logs, seed=seed or 0, progress=progress(is_quiet), **given)
    if not found.is_finished:
        click.echo("stopped; the rows finished so far follow", err=True)
    table = _table(found, layout)
    if out is not None:
        write_text(out, table.rstrip("\n") + "\n")
    if as_json:
        print_json(found.record())
    else:
        click.echo(table.rstrip("\n"))
        if found.log is None and found.limits.reason is not None:
            reason = as_flags(found.limits.reason)
            click.echo(f"note: no optimum to compare with: {reason}", err=True)
        if found.path is not None:
            click.echo(f"saved; `mdpdsl report {found.path}` makes a page of it", err=True)
    sys.exit(0 if found.is_finished else 1)


def _table(found: Comparison, layout: str) -> str:
    from mdpdsl.report import comparison_tables, replay_tables

    if found.log is not None:
        rows, steps = found.replay, found.common_steps
        if layout == "csv":
            return replay_tables.replay_csv_table(rows, steps)
        make = {
            "text": replay_tables.replay_text_table,
            "latex": replay_tables.replay_latex_table,
        }[layout]
        return make(found.title, rows, steps)
    if layout == "csv":
        return comparison_tables.csv_table(found.rows, found.limits)
    make_plain = {"text": comparison_tables.text_table, "latex": comparison_tables.latex_table}
    return make_plain[layout](found.title, found.rows, found.limits)
