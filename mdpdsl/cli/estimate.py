"""`mdpdsl estimate`: a model's counts, probabilities and confidence sets from logs."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mdpdsl.cli.arguments import (
    cluster_option,
    json_option,
    model_options,
    parsed_jobs,
    parsed_settings,
)
from mdpdsl.cli.observed import print_missing, print_rejections, print_unseen
from mdpdsl.cli.output import built_spaces, counting_rows, fail, print_json
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import Diagnostic, ModelError, RunError
from mdpdsl.files import write_json
from mdpdsl.runs.directory import RunDirectory, new_folder
from mdpdsl.runs.records import RunConfiguration, RunOptions, decoded
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    from mdpdsl.logs.count import LogCounts

#: Pairs never seen that the JSON lists.
LISTED_UNSEEN = 1000
DELTA = 0.1
#: Rows from which on the speed says something.
LARGE_LOG = 100_000


@click.command("estimate")
@click.argument("model", metavar="MODEL")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option(
    "delta",
    "--delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Risk of the confidence sets.  [default: the model's, or 0.1]",
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
    help="Added to the count of every successor seen.",
)
@click.option(
    "time_step",
    "--time-step",
    type=click.FloatRange(0, min_open=True),
    help="Time between rows that follow each other.  [default: the usual one]",
)
@click.option(
    "is_separate",
    "--separate-files",
    is_flag=True,
    help="Episodes of one name in two files are two episodes.",
)
@click.option(
    "out",
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the run.  [default: runs/MODEL-estimate-TIME]",
)
@model_options
@cluster_option
@click.option("jobs", "--jobs", default="auto", help="Processes, for several files.")
@click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress.")
@json_option
def command(
    model: str,
    logs: tuple[str, ...],
    delta: float | None,
    radius: str,
    prior: float,
    time_step: float | None,
    is_separate: bool,
    out: Path | None,
    settings: tuple[str, ...],
    all_states: bool,
    max_states: int | None,
    cluster: str | None,
    jobs: str,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Estimate a model from logs: Parquet, CSV, JSON lines or Arrow files, folders or globs.

    A Minari dataset is a log, too: minari:ID for a local one, or its folder.

    The model's `log` block says which columns are what. Consecutive rows of an episode make a
    transition; what cannot be counted is told by reason, with examples.
    """
    if not math.isfinite(prior) or (time_step is not None and not math.isfinite(time_step)):
        raise click.UsageError("--prior and --time-step take finite numbers")
    _check_out(out)
    n_jobs = parsed_jobs(jobs) or os.cpu_count() or 1
    from mdpdsl.diagnostics import LogError
    from mdpdsl.logs.count import count_logs
    from mdpdsl.logs.readers.files import expand_paths
    from mdpdsl.workers import ClusterError

    try:
        loaded = built_spaces(
            model, parsed_settings(settings), max_states=max_states, is_quiet=is_quiet or as_json
        )
        with (
            _workers(cluster, min(n_jobs, len(expand_paths(logs)[0]))) as (executor, n_workers),
            counting_rows(is_quiet or as_json) as progress,
        ):
            read = count_logs(
                loaded.checked,
                loaded.graph,
                logs,
                are_files_separate=is_separate,
                time_step=time_step,
                progress=progress,
                executor=executor,
                n_workers=n_workers,
            )
    except ClusterError as error:
        raise click.UsageError(str(error)) from None
    except ModelError as error:
        fail(error, as_json)
    except LogError as error:
        fail(
            ModelError([Diagnostic("E603", p.message, help=p.help) for p in error.problems]),
            as_json,
        )
    chosen = {
        "delta": delta if delta is not None else float(loaded.checked.explore.get("delta", DELTA)),
        "radius": radius,
        "prior": prior,
        "time_step": read.time_step,
        "separate_files": is_separate,
    }
    record = _saved(loaded, read, chosen, out, max_states)
    if as_json:
        print_json(record)
    else:
        _print(loaded, read, record)
    sys.exit(0 if record["transitions"] else 1)


@contextmanager
def _workers(cluster: str | None, n_jobs: int) -> Iterator[tuple[Executor | None, int]]:
    """Give an executor for the files of a log; None for one process, this one."""
    from mdpdsl.workers import cluster_workers, process_pool

    if cluster is not None:
        with cluster_workers(cluster) as found:
            yield found
    elif n_jobs > 1:
        with process_pool(n_jobs) as pool:
            yield pool, n_jobs
    else:
        yield None, 1


def _check_out(out: Path | None) -> None:
    """Refuse a folder that holds something before any log is read."""
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise click.UsageError(f"{out} exists already; choose another --out")


def _saved(
    model: Model, read: LogCounts, chosen: dict[str, Any], out: Path | None, max_states: int | None
) -> dict[str, Any]:
    """Write the run directory and return what the command says."""
    from mdpdsl.estimate.confidence_sets import confidence_sets
    from mdpdsl.estimate.saved import save_estimate

    graph = model.graph
    configuration = RunConfiguration(
        model=model.name,
        hash=graph.hash,
        parameters=dict(model.parameters),
        options=decoded(
            RunOptions,
            {
                "all_states": graph.n_states == graph.states.product.size,
                "max_states": max_states,
            },
        ),
        settings={**chosen, "files": [asdict(file) for file in read.files]},
        seed=0,
        trials=0,
        versions=current_versions("pyarrow"),
        command="estimate",
    )
    sets = confidence_sets(read.counts, graph.n_states, chosen["delta"], chosen["radius"])
    try:
        run = RunDirectory.create(
            out or new_folder(f"{model.name}-estimate"), configuration, model.source.text
        )
        missing = save_estimate(run.path, read.counts, sets, model, chosen["prior"], read.rejected)
        record = _record(model, read, chosen, configuration, float(sets.radius.max()))
        record |= missing | {"run": str(run.path)}
        write_json(run.path / "summary.json", record)
    except RunError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"cannot write the run: {error.strerror}") from None
    return record


def _record(
    model: Model,
    read: LogCounts,
    chosen: dict[str, Any],
    configuration: RunConfiguration,
    worst_radius: float,
) -> dict[str, Any]:
    import numpy as np

    from mdpdsl.estimate.empirical import estimated_complexity
    from mdpdsl.explore.metrics import measure

    graph = model.graph
    unseen = np.flatnonzero(read.counts.visits == 0)
    c_hat = estimated_complexity(read.counts)
    measures = measure(read.rows, read.counts.visits, c_hat, 1.0, over_visited=True)
    examples = {
        reason: [asdict(example) for example in kept]
        for reason, kept in read.rejected.examples.items()
    }
    return {
        "model": model.name,
        "hash": graph.hash,
        "parameters": dict(model.parameters),
        "states": graph.n_states,
        "pairs": graph.n_pairs,
        "transitions": read.counts.n_transitions,
        "rows": read.rows,
        "files": [asdict(file) for file in read.files],
        "problems": [asdict(problem) for problem in read.problems],
        "rejected": read.rejected.counts,
        "examples": examples,
        "clipped": read.clipped,
        "in_order": read.was_sorted,
        "pairs_seen": graph.n_pairs - len(unseen),
        "pairs_unseen": len(unseen),
        "unseen": [
            {
                "state": graph.states.native(int(graph.pair_state[pair])),
                "action": graph.actions.labels[graph.pair_action[pair]],
            }
            for pair in unseen[:LISTED_UNSEEN].tolist()
        ],
        "worst_radius": worst_radius,
        "truth": False,
        "worst": measures.worst,
        "average": measures.average,
        **chosen,
        "seconds": read.seconds,
        "rows_per_second": read.rows / read.seconds,
        "versions": dict(configuration.versions),
    }


def _print(model: Model, read: LogCounts, record: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    for problem in read.problems:
        hint = f" ({problem.help})" if problem.help else ""
        click.echo(f"warning: {problem.message}{hint}", err=True)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    order = "" if read.was_sorted else ", sorted by episode and time"
    table.add_row("rows", f"{read.rows:,} in {len(read.files)} file(s){order}")
    table.add_row("transitions", f"{record['transitions']:,}")
    step = "none: rows are in order of time" if read.time_step is None else f"{read.time_step:g}"
    table.add_row("time step", step)
    table.add_row("rejected", f"{read.rejected.total:,}")
    table.add_row("pairs seen", f"{record['pairs_seen']:,} of {record['pairs']:,}")
    kind = f"l1, {record['radius']}, delta = {record['delta']:g}"
    table.add_row("worst radius", f"{record['worst_radius']:.4g} ({kind})")
    for name, value in (("L_Worst", record["worst"]), ("L_Avg", record["average"])):
        if value is not None:
            table.add_row(name, f"{value:,.1f} (with estimated c, over the pairs seen)")
    if read.rows >= LARGE_LOG:
        table.add_row("speed", f"{record['rows_per_second']:,.0f} rows/s")
    table.add_row("run", record["run"])
    console = Console(highlight=False, markup=False)
    console.print(f"{record['model']} ({record['hash']})")
    console.print(table)
    print_rejections(read.rejected, read.clipped)
    print_unseen(model.graph, read.counts)
    print_missing(record)
