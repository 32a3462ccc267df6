"""`mdpdsl estimate`: a model's counts, probabilities and confidence sets from logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mdpdsl.cli.console import (
    noticing_compilation,
    print_json,
    print_missing,
    print_rejections,
    print_table,
    print_unseen,
    print_warning,
    progress,
    several,
)
from mdpdsl.cli.options import (
    cluster_option,
    jobs_option,
    json_option,
    load_model,
    model_options,
    quiet_option,
)

if TYPE_CHECKING:
    from mdpdsl.estimate.estimate_logs import Estimate

#: The speed is printed for logs of at least this many rows.
LARGE_LOG = 100_000


@click.command("estimate")
@click.argument("model", metavar="MODEL")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option(
    "delta",
    "--delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Risk that a confidence set is wrong.  [default: the model's, or 0.1]",
)
@click.option(
    "radius",
    "--radius",
    type=click.Choice(("paper", "weissman")),
    default="paper",
    show_default=True,
    help="l1 radii: the paper's, or Weissman's, which hold for every row.",
)
@click.option(
    "prior",
    "--prior",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Number added to the count of every successor seen.",
)
@click.option(
    "time_step",
    "--time-step",
    type=click.FloatRange(0, min_open=True),
    help="Time between consecutive rows.  [default: the usual one]",
)
@click.option(
    "separate_files",
    "--separate-files",
    is_flag=True,
    help="Episodes with the same name in two files are different episodes.",
)
@click.option(
    "out",
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="New folder for the run.  [default: runs/MODEL-estimate-TIME]",
)
@model_options
@cluster_option
@jobs_option
@quiet_option
@json_option
def command(
    model: str,
    logs: tuple[str, ...],
    delta: float | None,
    radius: str,
    prior: float,
    time_step: float | None,
    separate_files: bool,
    out: Path | None,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    cluster: str | None,
    jobs: int | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Estimate a model from logs: Parquet, CSV, JSON lines or Arrow files, folders or patterns.

    A Minari dataset is a log, too: minari:ID for a local one, or its folder.

    The model's `log` block says what the columns mean. Two consecutive rows of an episode are a
    transition; rows that cannot be counted are listed by reason, with examples.
    """
    from mdpdsl.estimate.estimate_logs import estimate

    is_quiet = is_quiet or as_json
    loaded = load_model(model, parameters, all_states, max_states, is_built=False)
    with noticing_compilation(is_quiet):
        found = estimate(
            loaded,
            *logs,
            delta=delta,
            radius=radius,
            prior=prior,
            time_step=time_step,
            separate_files=separate_files,
            out=out or True,
            jobs=jobs,
            cluster=cluster,
            progress=progress(is_quiet),
        )
    if as_json:
        print_json(found.record())
    else:
        _print(found)
    sys.exit(0 if found.transitions else 1)


def _print(found: Estimate) -> None:
    summary = found.summary
    for problem in summary.problems:
        print_warning(f"{problem.message} ({problem.help})" if problem.help else problem.message)
    order = "" if summary.in_order else ", sorted by episode and time"
    step = summary.time_step
    losses: list[tuple[str, str | None]] = [
        (name, None if value is None else f"{value:,.1f} (with estimated c, over the pairs seen)")
        for name, value in (("L_Worst", summary.worst), ("L_Avg", summary.average))
    ]
    is_large = summary.rows >= LARGE_LOG
    print_table(
        f"{summary.model} ({summary.hash})",
        [
            ("rows", f"{summary.rows:,} in {several(len(summary.files), 'file')}{order}"),
            ("transitions", f"{summary.transitions:,}"),
            ("time step", "none: rows are in order of time" if step is None else f"{step:g}"),
            ("rejected", f"{sum(summary.rejected.values()):,}"),
            ("pairs seen", f"{summary.pairs_seen:,} of {summary.pairs:,}"),
            (
                "worst radius",
                f"{summary.worst_radius:.4g} (l1, {summary.radius}, delta = {summary.delta:g})",
            ),
            *losses,
            ("speed", f"{summary.rows_per_second:,.0f} rows/s" if is_large else None),
            ("run", str(found.path)),
        ],
    )
    print_rejections(summary.rejected, summary.examples, summary.clipped)
    print_unseen(found.graph, found.counts)
    print_missing(summary.estimate_missing, summary.rewards_missing)
