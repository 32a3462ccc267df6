"""`mdpdsl compare`: several explorers on one model, the paper's table."""

from __future__ import annotations

import itertools
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mdpdsl.cli.arguments import json_option, model_options, parsed_jobs, parsed_settings
from mdpdsl.cli.compare_saving import ComparisonFolder, require_new_folder
from mdpdsl.cli.exploring import (
    print_missing_optimum,
    remote_workers,
    run_options,
    setting_options,
    simulated_system,
)
from mdpdsl.cli.live_view import showing
from mdpdsl.cli.output import built_model, fail, print_json, print_warnings, stored_keys
from mdpdsl.cli.planning import oracle_options, oracle_warnings, require_oracle, telling_failures
from mdpdsl.cli.replaying import log_options, requested_log
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import ModelError, RunError, SettingsError
from mdpdsl.explore.algorithms import strategy_for
from mdpdsl.explore.executor import run_trials
from mdpdsl.explore.feasible import require_explorable
from mdpdsl.explore.optimum import Limits, exploration_limits
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.explore.summary import Summary, summarize
from mdpdsl.files import write_text
from mdpdsl.report.comparison_tables import csv_table, latex_table, text_table

#: The rows of the paper's table (paper, table compPolicy).
PAPER_ROWS: tuple[dict[str, Any], ...] = (
    {"algorithm": "kappa-dp", "kappa": 10.0, "horizon": "inf"},
    {"algorithm": "kappa-dp", "kappa": 1.0, "horizon": "inf"},
    {"algorithm": "kappa-dp", "kappa": 1.0, "horizon": "2"},
    {"algorithm": "kappa-dp", "kappa": 1.0, "horizon": "1"},
    {"algorithm": "weighted-maxent", "kappa": 1.0, "horizon": "inf"},
    {"algorithm": "smm", "kappa": 1.0, "horizon": "inf"},
    {"algorithm": "maxent", "kappa": 1.0, "horizon": "inf"},
    {"algorithm": "random", "kappa": 1.0, "horizon": "inf"},
)


@click.command("compare")
@click.argument("model", metavar="MODEL")
@log_options
@click.option("algorithms", "--algorithm", multiple=True, help="An explorer; may be repeated.")
@click.option(
    "kappas",
    "--kappa",
    type=float,
    multiple=True,
    help="For kappa-dp, kappa-lp and tracking; may be repeated.",
)
@click.option("horizons", "--horizon", multiple=True, help="For kappa-dp; may be repeated.")
@click.option(
    "trials",
    "--trials",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Independent trials of each.",
)
@setting_options
@oracle_options
@click.option(
    "layout",
    "--format",
    type=click.Choice(["text", "csv", "latex"]),
    default="text",
    help="How the table is printed.",
)
@click.option(
    "out",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the table to a file as well.",
)
@click.option(
    "save",
    "--save",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep a run of each row in a new folder, for `mdpdsl report DIR`.",
)
@run_options
@model_options
@json_option
def command(
    model: str,
    algorithms: tuple[str, ...],
    kappas: tuple[float, ...],
    horizons: tuple[str, ...],
    trials: int,
    layout: str,
    out: Path | None,
    save: Path | None,
    seed: int | None,
    jobs: str,
    cluster: str | None,
    settings: tuple[str, ...],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Compare explorers over trials; without any named, the rows of the paper's table."""
    n_jobs = parsed_jobs(jobs)
    log = requested_log(flags)
    executor = click.get_current_context().with_resource(remote_workers(cluster))
    if log is not None:
        from mdpdsl.cli.replay_comparing import compare_in_log

        compare_in_log(
            log,
            model=model,
            overrides=parsed_settings(settings),
            max_states=max_states,
            flags=flags,
            rows=chosen_rows(algorithms, kappas, horizons),
            trials=trials,
            seed=seed or 0,
            n_jobs=n_jobs,
            executor=executor,
            layout=layout,
            out=out,
            save=save,
            is_quiet=is_quiet,
            as_json=as_json,
        )
    try:
        require_new_folder(save)
        loaded = built_model(
            model,
            parsed_settings(settings),
            all_states=all_states,
            max_states=max_states,
            is_quiet=is_quiet or as_json,
        )
        graph = loaded.graph
        chosen = [
            settings_from(loaded.checked.explore, flags, row)
            for row in chosen_rows(algorithms, kappas, horizons)
        ]
        for each in chosen:
            strategy_for(each, graph.n_states)
            require_oracle(each)
        warnings = [
            require_explorable(graph, chosen[0].simulate),
            *(warning for each in chosen for warning in oracle_warnings(graph, each)),
        ]
        system = simulated_system(loaded, chosen[0])
    except ModelError as error:
        fail(error, as_json)
    except (SettingsError, RunError) as error:
        raise click.UsageError(str(error)) from None
    if not as_json:
        print_warnings(loaded)
    for warning in dict.fromkeys(warnings):
        if warning is not None and not as_json:
            click.echo(f"warning: {warning}", err=True)
    limits = exploration_limits(graph)
    options = {"all_states": all_states, "max_states": max_states, **stored_keys(loaded)}
    folder = ComparisonFolder.new(save, loaded, options, seed or 0, trials)
    rows = []
    for each in chosen:
        run = None if folder is None else folder.begin(each)
        with (
            telling_failures(explorer_label(each)),
            showing(
                explorer_label(each),
                each.steps,
                trials,
                is_quiet or as_json,
                graph.n_pairs,
                limits,
            ) as bar,
        ):
            results = run_trials(
                graph,
                each,
                seed=seed or 0,
                trials=trials,
                jobs=n_jobs,
                system=system,
                folder_of=None if run is None else run.trial,
                progress=bar,
                executor=executor,
            )
        if len(results) < trials or not all(result.is_finished for result in results):
            click.echo("stopped; what is finished follows", err=True)
            break
        rows.append(summarize(each, results))
        if folder is not None:
            folder.finish(results, rows[-1], limits)
    is_whole = len(rows) == len(chosen)
    title = f"{loaded.name}, n = {chosen[0].steps:,}, {trials} trials"
    if system is not None:
        title += ", the continuous system seen through its bins"
    table = {
        "text": lambda: text_table(title, rows, limits),
        "csv": lambda: csv_table(rows, limits),
        "latex": lambda: latex_table(title, rows, limits),
    }[layout]()
    if out is not None:
        save_table(out, table)
    if as_json:
        record = _record(loaded, chosen, rows, trials, seed or 0) | _compared(rows, limits)
        print_json(record | ({} if save is None else {"saved": str(save)}))
    else:
        click.echo(table.rstrip("\n"))
        print_missing_optimum(limits)
        if save is not None:
            click.echo(f"saved; `mdpdsl report {save}` draws it", err=True)
    sys.exit(0 if is_whole else 1)


def save_table(path: Path, table: str) -> None:
    """Write a table to a file."""
    try:
        write_text(path, table + ("\n" if not table.endswith("\n") else ""))
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None


def chosen_rows(
    algorithms: tuple[str, ...], kappas: tuple[float, ...], horizons: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return the rows that the options name; horizon concerns kappa-dp alone."""
    if not algorithms and not kappas and not horizons:
        return [dict(row) for row in PAPER_ROWS]
    rows: list[dict[str, Any]] = []
    for algorithm in algorithms or ("kappa-dp",):
        if algorithm in ("kappa-lp", "tracking"):
            rows += [
                {"algorithm": algorithm, "kappa": kappa, "horizon": "inf"}
                for kappa in kappas or (None,)
            ]
            continue
        if algorithm != "kappa-dp":
            rows.append({"algorithm": algorithm, "horizon": "inf"})
            continue
        for kappa, horizon in itertools.product(kappas or (None,), horizons or (None,)):
            rows.append({"algorithm": algorithm, "kappa": kappa, "horizon": horizon})
    return rows


def explorer_label(settings: ExploreSettings) -> str:
    """Name an explorer where it runs."""
    return f"{settings.algorithm} kappa={settings.kappa:g} H={settings.horizon_text}"


def _record(
    model: Model, chosen: list[ExploreSettings], rows: list[Summary], trials: int, seed: int
) -> dict[str, Any]:
    return {
        "model": model.name,
        "hash": model.graph.hash,
        "parameters": dict(model.parameters),
        "steps": chosen[0].steps,
        "simulate": chosen[0].simulate,
        "trials": trials,
        "seed": seed,
        **stored_keys(model),
    }


def _compared(rows: list[Summary], limits: Limits) -> dict[str, Any]:
    """Return the rows with their ratios to the optimum, and the optimum."""
    return {
        "rows": [
            asdict(row)
            | {
                "ratio_worst": limits.ratio_worst(row.worst),
                "ratio_average": limits.ratio_average(row.average),
            }
            for row in rows
        ],
        "optimum": limits.record(),
        "optimum_reason": limits.reason,
    }
