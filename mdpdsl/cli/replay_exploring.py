"""`mdpdsl explore --log`: an explorer that learns from a log in the place of a system."""

from __future__ import annotations

import zipfile
from concurrent.futures import Executor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from mdpdsl.cli.explore import figure_text, resumed_run, run_record, save_run
from mdpdsl.cli.live_view import showing
from mdpdsl.cli.output import fail, print_json
from mdpdsl.cli.planning import telling_failures
from mdpdsl.cli.replaying import (
    LogRequest,
    ReadLog,
    check_explorer,
    print_log_warnings,
    read_log,
    replay_settings,
)
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import ModelError, RunError, SettingsError
from mdpdsl.explore.executor import TrialResult, run_trials
from mdpdsl.explore.replay.queues import log_queues
from mdpdsl.explore.replay.replay_summary import ReplaySummary, summarize_replay
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.order import load_transitions, save_transitions
from mdpdsl.runs.directory import RunDirectory, new_folder
from mdpdsl.runs.records import RunConfiguration, RunOptions, decoded, encoded
from mdpdsl.versions import current_versions

#: The file of a run directory that holds the log.
LOG_FILE = "log.npz"
#: Why there is no optimum.
NO_OPTIMUM = "a log does not tell the truth"

_Run = tuple[RunDirectory, RunConfiguration, Model, ReadLog]


def explore_log(
    request: LogRequest | None,
    *,
    model: str | None,
    overrides: dict[str, str],
    max_states: int | None,
    flags: dict[str, Any],
    trials: int | None,
    seed: int | None,
    n_jobs: int | None,
    executor: Executor | None,
    out: Path | None,
    resume: Path | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Start a replay, or go on with one, and say what came of it."""
    try:
        if resume is not None:
            if request is not None:
                raise RunError("a resumed run keeps its log; give --resume alone")
            run, configuration, loaded, log = _resumed(resume, model, flags, trials, seed, as_json)
        elif model is None or request is None:
            raise click.UsageError("give a MODEL, or --resume DIR")
        else:
            run, configuration, loaded, log = _started(
                model, overrides, max_states, request, flags, trials, seed, out, is_quiet or as_json
            )
        chosen = ExploreSettings(**configuration.settings)
        warnings = check_explorer(chosen, log)
    except ModelError as error:
        fail(error, as_json)
    except (SettingsError, RunError) as error:
        raise click.UsageError(str(error)) from None
    if not as_json:
        print_log_warnings(log.record)
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
    results = _explored(run, configuration, chosen, log, n_jobs, executor, is_quiet or as_json)
    summary = summarize_replay(chosen, results, log.queues)
    record = run_record(configuration, chosen, results, summary.summary, run)
    record |= replay_keys(loaded.graph, log, results, summary)
    results = [replace(r, counts=log.queues.model_counts(r.counts)) for r in results]
    save_run(run, loaded, results, record, chosen.prior)
    if as_json:
        print_json(record)
    else:
        _print(record, summary)


def _started(
    path: str,
    overrides: dict[str, str],
    max_states: int | None,
    request: LogRequest,
    flags: dict[str, Any],
    trials: int | None,
    seed: int | None,
    out: Path | None,
    is_quiet: bool,
) -> _Run:
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} exists already; choose another --out, or --resume {out}")
    loaded, log = read_log(path, overrides, max_states, request, is_quiet)
    chosen = replay_settings(loaded, log, flags)
    check_explorer(chosen, log)
    graph, block = loaded.graph, loaded.checked.explore
    configuration = RunConfiguration(
        model=loaded.name,
        hash=graph.hash,
        parameters=dict(loaded.parameters),
        options=decoded(
            RunOptions,
            {
                "all_states": graph.n_states == graph.states.product.size,
                "max_states": max_states,
                "log": log.record,
            },
        ),
        settings=asdict(chosen),
        seed=seed if seed is not None else int(block.get("seed", 0)),
        trials=trials or int(block.get("trials", 1)),
        versions=current_versions("duckdb", "pyarrow"),
    )
    folder = out or new_folder(f"{loaded.name}-{chosen.algorithm}-replay")
    run = RunDirectory.create(folder, configuration, loaded.source.text)
    try:
        save_transitions(log.logged, run.path / LOG_FILE)
    except OSError as error:
        raise RunError(f"cannot write to {run.path}: {error.strerror}") from None
    return run, configuration, loaded, log


def _resumed(
    path: Path,
    model: str | None,
    flags: dict[str, Any],
    trials: int | None,
    seed: int | None,
    as_json: bool,
) -> _Run:
    """Open a run; its log is in its folder, whatever has become of the files it was read from."""
    run, configuration, loaded = resumed_run(path, model, flags, trials, seed, as_json)
    record = encoded(configuration.options.log)
    try:
        logged = load_transitions(run.path / LOG_FILE)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise RunError(f"{path} has no readable {LOG_FILE}; start a new run") from None
    if logged.hash != record["hash"]:
        raise RunError(f"{path}: {LOG_FILE} is not the log that the run began with; start anew")
    queues = log_queues(loaded.graph, logged, offers_all=record["offer"] == "all")
    return run, configuration, loaded, ReadLog(logged, queues, record)


def _explored(
    run: RunDirectory,
    configuration: RunConfiguration,
    chosen: ExploreSettings,
    log: ReadLog,
    n_jobs: int | None,
    executor: Executor | None,
    is_quiet: bool,
) -> list[TrialResult]:
    stopped = f"stopped; `mdpdsl explore --resume {run.path}` goes on"
    try:
        with (
            telling_failures(chosen.algorithm),
            showing(
                chosen.algorithm,
                chosen.steps,
                configuration.trials,
                is_quiet,
                len(log.queues.logged),
            ) as bar,
        ):
            results = run_trials(
                log.queues.graph,
                chosen,
                seed=configuration.seed,
                trials=configuration.trials,
                jobs=n_jobs,
                system=log.queues,
                folder_of=run.trial,
                progress=bar,
                executor=executor,
            )
    except KeyboardInterrupt:  # before the trials, which stop by themselves, had begun
        raise click.ClickException(stopped) from None
    if not all(r.is_finished for r in results) or len(results) < configuration.trials:
        raise click.ClickException(stopped)
    return results


def replay_keys(
    graph: TransitionGraph, log: ReadLog, results: list[TrialResult], summary: ReplaySummary
) -> dict[str, Any]:
    """Return what the record of a replay says otherwise, or in addition."""
    trials = []
    for result in results:
        end, measures = result.replay, result.measures
        assert end is not None
        assert measures is not None
        pair = None
        if end.pair is not None:
            pair = {
                "state": graph.states.native(int(graph.pair_state[end.pair])),
                "action": graph.actions.labels[graph.pair_action[end.pair]],
                "in_log": end.in_log,
            }
        trials.append(
            {
                "trial": result.index,
                "failed": result.failed,
                "unvisited": measures.unvisited,
                "worst": measures.worst,
                "average": measures.average,
                "steps": end.steps,
                "share_of_log": end.steps / log.queues.n_transitions,
                "ended": end.text,
                "ended_pair": pair,
                "restarts": end.restarts,
                "distance_to_log": end.distance,
                "seconds": result.seconds,
            }
        )
    return {
        "trials": trials,
        "truth": False,
        "optimum": None,
        "optimum_reason": NO_OPTIMUM,
        "ratio": None,
        "utility_optimum": None,
        "transitions": log.queues.n_transitions,
        "pairs_in_log": log.record["pairs_in_log"],
        "pairs_unseen": log.record["pairs_unseen"],
        "steps_done": summary.steps_done,
        "share_of_log": summary.share_of_log,
        "coverage": summary.coverage,
        "restarts": summary.restarts,
        "distance_to_log": summary.distance_to_log,
        "ended": summary.ended,
        "log": log.record,
    }


def _print(record: dict[str, Any], summary: ReplaySummary) -> None:
    from rich.console import Console
    from rich.table import Table

    from mdpdsl.cli.arguments import several

    console = Console(highlight=False, markup=False, soft_wrap=True)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    log, figures, trials = record["log"], summary.summary, record["trials"]
    n_trials = len(trials)
    table.add_row("explorer", figures.label)
    table.add_row(
        "log",
        f"{log['transitions']:,} transitions in {several(log['episodes'], 'episode')}, "
        f"{several(len(log['files']), 'file')}; pairs in it {log['pairs_in_log']:,} of "
        f"{log['pairs_in_log'] + log['pairs_unseen']:,}",
    )
    mean = " (mean)" if n_trials > 1 else ""
    done = f"{summary.steps_done:,.0f}{mean}, {summary.share_of_log:.1%} of the log"
    restarts = f", {summary.restarts:,.0f} more episodes started" if summary.restarts else ""
    table.add_row("steps", f"{done} x {several(n_trials, 'trial')}{restarts}")
    for text in dict.fromkeys(_end_text(trial) for trial in trials):
        table.add_row("ended", text)
    failed = f"{figures.failure_rate:.0%} (a pair that is in the log was left unvisited)"
    table.add_row("failed", failed)
    table.add_row("visited", f"{summary.coverage:.1%} of the pairs in the log")
    source = "" if figures.worst is None else " with c of the log"
    table.add_row("L_Worst", figure_text(figures.worst, figures.worst_se) + source)
    table.add_row("L_Avg", figure_text(figures.average, figures.average_se) + source)
    distance = f"{summary.distance_to_log:.3g} mean of ||P_hat of the log - P_hat||^2"
    table.add_row("distance", distance)
    table.add_row("speed", f"{figures.steps_per_second:,.0f} steps/s")
    table.add_row("run", record["run"])
    console.print(f"{record['model']} ({record['hash']})")
    console.print(table)
    if n_trials > 1 and len({(trial["ended"], trial["distance_to_log"]) for trial in trials}) == 1:
        click.echo(
            "note: the trials are alike: the log is the same in each, and this explorer draws "
            "nothing",
            err=True,
        )


def _end_text(trial: dict[str, Any]) -> str:
    pair = trial["ended_pair"]
    often = f" ({pair['in_log']:,} in the log)" if pair is not None and pair["in_log"] else ""
    hint = ""
    if pair is not None and trial["ended"].startswith("the log never has"):
        hint = "; --offer logged offers only what it has"
    return f"after {trial['steps']:,} steps: {trial['ended']}{often}{hint}"
