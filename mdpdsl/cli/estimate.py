"""`mdpdsl estimate`: a model's counts, probabilities and confidence sets from logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mdpdsl.cli.console import (
    ends_text,
    loss_rows,
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
from mdpdsl.cli.design_options import print_numbers
from mdpdsl.cli.options import (
    clip_option,
    cluster_option,
    jobs_option,
    json_option,
    learn_option,
    load_model,
    model_options,
    overwrite_option,
    quiet_option,
    reading_options,
)

if TYPE_CHECKING:
    from mdpdsl.estimate.log_estimate import Estimate
    from mdpdsl.runs.records import EstimateRecord

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
    "sets",
    "--sets",
    metavar="[time-uniform|clopper-pearson|weissman]",
    default="time-uniform",
    show_default=True,
    help="Confidence sets: time-uniform and weissman hold at every look, clopper-pearson for one "
    "look at a log whose visits were fixed beforehand.",
)
@click.option(
    "support",
    "--support",
    metavar="[seen|all|model]",
    help="Possible successors: any state (those never seen share one bound, or have one each), or "
    "those of the model's dynamics.  [default: model if it has a `?` or an unknown number, else "
    "seen]",
)
@click.option("radius", "--radius", hidden=True, help="The old name of --sets.")
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
@reading_options
@clip_option
@model_options
@learn_option
@cluster_option
@jobs_option
@overwrite_option
@quiet_option
@json_option
def command(
    model: str,
    logs: tuple[str, ...],
    out: Path | None,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    learn: str | None,
    is_quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Estimate a model from logs: Parquet, CSV, JSON lines or Arrow files, folders or patterns.

    A Minari dataset is a log, too: minari:ID for a local one, or its folder.

    The model's `log` block says what the columns mean. Two consecutive rows of an episode are a
    transition; rows that cannot be counted are listed by reason, with examples.
    """
    from mdpdsl.estimate.estimate_logs import estimate

    is_quiet = is_quiet or as_json
    loaded = load_model(model, parameters, all_states, max_states, learn, is_built=False)
    with noticing_compilation(is_quiet):
        found = estimate(loaded, *logs, out=out or True, progress=progress(is_quiet), **given)
    if as_json:
        print_json(found.record())
    else:
        _print(found)
    is_whole = not any(problem.loses_rows for problem in found.summary.problems)
    sys.exit(0 if found.transitions and is_whole else 1)


def _n_learned(summary: EstimateRecord) -> str:
    n_learned = summary.pairs_seen + summary.pairs_unseen
    is_all = n_learned == summary.pairs
    return f"{n_learned:,}" if is_all else f"{n_learned:,} whose rows are not known"


def _print(found: Estimate) -> None:
    from mdpdsl.estimate.confidence_sets import MEANINGS
    from mdpdsl.estimate.contradictions import contradiction_count, impossible_text

    summary = found.summary
    for problem in summary.problems:
        print_warning(f"{problem.message} ({problem.help})" if problem.help else problem.message)
    order = "" if summary.in_order else ", sorted by episode and time"
    step = summary.time_step
    is_large = summary.rows >= LARGE_LOG
    against = summary.contradictions
    contrary = (
        None if against is None else f"{contradiction_count(against)} impossible in the model"
    )
    print_table(
        f"{summary.model} ({summary.hash})",
        [
            ("rows", f"{summary.rows:,} in {several(len(summary.files), 'file')}{order}"),
            ("transitions", f"{summary.transitions:,}"),
            ("episodes", None if summary.episodes is None else f"{summary.episodes:,}"),
            ("ends", ends_text(summary.ends, summary.says_ends)),
            ("time step", "none: rows are in order of time" if step is None else f"{step:g}"),
            ("rejected", f"{sum(summary.rejected.values()):,}"),
            ("pairs seen", f"{summary.pairs_seen:,} of {_n_learned(summary)}"),
            ("sets", f"{summary.sets}, delta = {summary.delta:g}; hold {summary.holds}"),
            ("support", f"{summary.support}: {MEANINGS[summary.support]}"),
            ("contradictions", contrary),
            ("worst radius", f"{summary.worst_radius:.4g} (l1 distance of a row)"),
            *loss_rows(summary.worst, summary.average, "with estimated c, over the pairs seen"),
            ("speed", f"{summary.rows_per_second:,.0f} rows/s" if is_large else None),
            ("run", "none: nothing was counted" if found.path is None else str(found.path)),
        ],
    )
    print_rejections(summary.rejected, summary.examples, summary.clipped)
    print_numbers(found.numbers)
    if against is not None:
        click.echo("impossible in the model:")
        for each in against.examples:
            click.echo(f"  {impossible_text(each)}")
    if found.path is None:
        return
    print_unseen(found.graph, found.counts)
    print_missing(summary.estimate_missing, summary.rewards_missing)
