"""`mdpdsl explore`: an explorer at work, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mdpdsl.cli.arguments import json_option, model_options, parsed_jobs, parsed_settings
from mdpdsl.cli.exploring import (
    print_missing_optimum,
    remote_workers,
    run_options,
    setting_options,
    simulated_system,
)
from mdpdsl.cli.live import explore_environment, live_options, resume_environment
from mdpdsl.cli.live_view import is_shown, showing
from mdpdsl.cli.output import built_model, fail, print_json, print_warnings, stored_keys
from mdpdsl.cli.planning import oracle_options, oracle_warnings, require_oracle, telling_failures
from mdpdsl.cli.replaying import is_replay, log_options, requested_log
from mdpdsl.cli.warm_starting import read_warm_start, saved_warm_start
from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import StoredModel
from mdpdsl.diagnostics import ModelError, RunError, SettingsError
from mdpdsl.estimate.saved import save_estimated_graph
from mdpdsl.explore.executor import TrialResult, run_trials
from mdpdsl.explore.feasible import require_explorable
from mdpdsl.explore.metrics import history_arrays
from mdpdsl.explore.optimum import Limits, best_utility, exploration_limits
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.explore.summary import Summary, summarize
from mdpdsl.files import write_arrays, write_json
from mdpdsl.formats.npz import save_graph
from mdpdsl.runs.arrays import count_arrays
from mdpdsl.runs.directory import EXPLORED, RunDirectory, new_folder
from mdpdsl.runs.models import resumed_model
from mdpdsl.runs.records import RunConfiguration, RunOptions, decoded, encoded
from mdpdsl.versions import current_versions


@click.command("explore")
@click.argument("model", metavar="MODEL", required=False)
@log_options
@click.option(
    "algorithm",
    "--algorithm",
    help="kappa-dp, tracking, kappa-lp, random, maxent, weighted-maxent, smm, fw-modest.",
)
@click.option(
    "kappa", "--kappa", type=float, help="Curvature: 1 for the average, more for the worst."
)
@click.option("horizon", "--horizon", help="Depth of planning: inf, 1, 2, …")
@click.option("trials", "--trials", type=click.IntRange(1), help="Independent trials.")
@setting_options
@oracle_options
@live_options
@click.option("out", "--out", type=click.Path(path_type=Path), help="The run directory.")
@click.option(
    "resume",
    "--resume",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Go on with an earlier run.",
)
@run_options
@model_options
@json_option
def command(
    model: str | None,
    trials: int | None,
    seed: int | None,
    jobs: str,
    cluster: str | None,
    out: Path | None,
    resume: Path | None,
    env: str | None,
    env_arguments: tuple[str, ...],
    warm_starts: tuple[str, ...],
    settings: tuple[str, ...],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Explore a simulated or live system, or a log, and say how well its model could be estimated.

    Flags override the model's `explore` block, which overrides the defaults.
    """
    n_jobs = parsed_jobs(jobs)
    log = requested_log(flags)
    _require_one_system(
        {
            "--log": log,
            "--env": env,
            "--env-arg": env_arguments,
            "--warm-start": warm_starts,
            "--cluster": cluster,
        }
    )
    executor = click.get_current_context().with_resource(remote_workers(cluster))
    if log is not None or is_replay(resume):
        from mdpdsl.cli.replay_exploring import explore_log

        explore_log(
            log,
            model=model,
            overrides=parsed_settings(settings),
            max_states=max_states,
            flags=flags,
            trials=trials,
            seed=seed,
            n_jobs=n_jobs,
            executor=executor,
            out=out,
            resume=resume,
            is_quiet=is_quiet,
            as_json=as_json,
        )
        return
    try:
        if resume is not None:
            given = flags | {"env": env, "warm_start": warm_starts or None}
            run, configuration, loaded = resumed_run(resume, model, given, trials, seed, as_json)
            if configuration.system is not None:
                resume_environment(run, configuration, loaded, is_quiet=is_quiet, as_json=as_json)
                return
        elif env is not None and model is not None:
            explore_environment(
                model,
                env,
                env_arguments,
                warm_starts,
                parsed_settings(settings),
                flags,
                max_states=max_states,
                trials=trials,
                seed=seed,
                out=out,
                is_quiet=is_quiet,
                as_json=as_json,
            )
            return
        elif model is None:
            raise click.UsageError("give a MODEL, or --resume DIR")
        else:
            run, configuration, loaded = _started(
                model,
                parsed_settings(settings),
                all_states,
                max_states,
                flags,
                trials,
                seed,
                out,
                warm_starts,
                is_quiet,
                as_json,
            )
    except ModelError as error:
        fail(error, as_json)
    except (SettingsError, RunError) as error:
        raise click.UsageError(str(error)) from None
    chosen = ExploreSettings(**configuration.settings)
    if not as_json:
        for warning in (
            require_explorable(loaded.graph, chosen.simulate),
            *oracle_warnings(loaded.graph, chosen),
        ):
            if warning is not None:
                click.echo(f"warning: {warning}", err=True)
        print_warnings(loaded)
    stopped = f"stopped; `mdpdsl explore --resume {run.path}` goes on"
    limits: Limits | None = None
    try:
        if is_shown(is_quiet or as_json):
            limits = exploration_limits(loaded.graph)
        with (
            telling_failures(chosen.algorithm),
            showing(
                chosen.algorithm,
                chosen.steps,
                configuration.trials,
                is_quiet or as_json,
                loaded.graph.n_pairs,
                limits,
            ) as bar,
        ):
            results = run_trials(
                loaded.graph,
                chosen,
                seed=configuration.seed,
                trials=configuration.trials,
                jobs=n_jobs,
                system=simulated_system(loaded, chosen),
                folder_of=run.trial,
                progress=bar,
                executor=executor,
                warm_start=saved_warm_start(run, configuration, loaded),
            )
    except KeyboardInterrupt:  # before the trials, which stop by themselves, had begun
        raise click.ClickException(stopped) from None
    if not all(r.is_finished for r in results) or len(results) < configuration.trials:
        raise click.ClickException(stopped)
    summary = summarize(chosen, results)
    limits = limits or exploration_limits(loaded.graph)
    record = saved_exploration(run, configuration, loaded, results, summary, limits)
    if as_json:
        print_json(record)
    else:
        _print(record, summary)
        print_missing_optimum(limits)


#: Options that contradict each other, and why.
_CONTRADICTIONS = (
    ("--log", "--env", "a run explores a log or a live system, not both"),
    ("--log", "--warm-start", "a replay begins with nothing: what it learns is in the log"),
    ("--env", "--cluster", "a live system is explored here, one step after the other"),
)


def _require_one_system(given: Mapping[str, object]) -> None:
    """Refuse options that contradict each other."""
    for one, other, reason in _CONTRADICTIONS:
        if given[one] and given[other]:
            raise click.UsageError(f"{reason}; leave out {one} or {other}")
    if given["--env-arg"] and not given["--env"]:
        raise click.UsageError("--env-arg is of an environment; give --env, too")


def saved_exploration(
    run: RunDirectory,
    configuration: RunConfiguration,
    model: Model,
    results: list[TrialResult],
    summary: Summary,
    limits: Limits,
) -> dict[str, Any]:
    """Write the results of a simulated run beside the optimum, and return its record."""
    chosen = ExploreSettings(**configuration.settings)
    record = run_record(configuration, chosen, results, summary, run) | _compared(summary, limits)
    record |= stored_keys(model)
    record["utility_optimum"] = (
        best_utility(model.graph, chosen.kappa) if limits.reason is None else None
    )
    save_run(run, model, results, record, chosen.prior)
    return record


def _compared(summary: Summary, limits: Limits) -> dict[str, Any]:
    """Return what a run's record says of the optimum."""
    ratio = {
        "worst": limits.ratio_worst(summary.worst),
        "average": limits.ratio_average(summary.average),
    }
    optimum = limits.record()
    return {
        "optimum": optimum,
        "optimum_reason": limits.reason,
        "ratio": None if optimum is None else ratio,
    }


def _started(
    path: str,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    flags: dict[str, Any],
    trials: int | None,
    seed: int | None,
    out: Path | None,
    warm_starts: tuple[str, ...],
    is_quiet: bool,
    as_json: bool,
) -> tuple[RunDirectory, RunConfiguration, Model]:
    loaded = built_model(
        path, parameters, all_states=all_states, max_states=max_states, is_quiet=is_quiet or as_json
    )
    graph = loaded.graph
    block = loaded.checked.explore
    chosen = settings_from(block, flags)
    _check_algorithm(chosen, graph.n_states)
    require_oracle(chosen)
    require_explorable(graph, chosen.simulate)
    oracle_warnings(graph, chosen)
    simulated_system(loaded, chosen)
    start = read_warm_start(loaded, warm_starts, is_quiet, as_json)
    configuration = RunConfiguration(
        model=loaded.name,
        hash=graph.hash,
        parameters=dict(loaded.parameters),
        options=decoded(
            RunOptions, {"all_states": all_states, "max_states": max_states, **stored_keys(loaded)}
        ),
        settings=asdict(chosen),
        seed=seed if seed is not None else int(block.get("seed", 0)),
        trials=trials or int(block.get("trials", 1)),
        versions=current_versions(),
        warm_start=None if start is None else start.record(),
    )
    folder = out or new_folder(f"{loaded.name}-{chosen.algorithm}")
    run = RunDirectory.create(folder, configuration, loaded.source.text)
    if isinstance(loaded, StoredModel):
        save_graph(loaded, run.path / EXPLORED)
    if start is not None:
        start.save(run.path)
    return run, configuration, loaded


def _check_algorithm(chosen: ExploreSettings, n_states: int) -> None:
    from mdpdsl.explore.algorithms import strategy_for

    strategy_for(chosen, n_states)


def resumed_run(
    path: Path,
    model: str | None,
    flags: dict[str, Any],
    trials: int | None,
    seed: int | None,
    as_json: bool,
) -> tuple[RunDirectory, RunConfiguration, Model]:
    """Open a run to go on with it; raise RunError where that cannot be."""
    run, configuration = RunDirectory.open(path)
    if configuration.command != "explore":
        raise RunError(f"{path} is a run of `{configuration.command}`, which cannot be resumed")
    given = [name for name, value in flags.items() if value is not None]
    if model is not None or given or trials is not None or seed is not None:
        raise RunError("a resumed run keeps its model and settings; give --resume alone")
    loaded = resumed_model(run, configuration)
    if loaded.graph.hash != configuration.hash:
        raise RunError(
            f"{path}: the model builds to another hash than when the run started; "
            "versions differ, start a new run"
        )
    return run, configuration, loaded


def run_record(
    configuration: RunConfiguration,
    chosen: ExploreSettings,
    results: list[TrialResult],
    summary: Summary,
    run: RunDirectory,
) -> dict[str, Any]:
    """Return what JSON says of a run."""
    trials = [
        {
            "seed": configuration.seed,
            "trial": result.index,
            "failed": result.failed,
            "unvisited": result.measures.unvisited if result.measures else None,
            "worst": result.measures.worst if result.measures else None,
            "average": result.measures.average if result.measures else None,
            "squared_error": result.measures.squared_error if result.measures else None,
            "transitions": result.measures.transitions if result.measures else None,
            "seconds": result.seconds,
        }
        for result in results
    ]
    return {
        "model": configuration.model,
        "hash": configuration.hash,
        "parameters": dict(configuration.parameters),
        **asdict(chosen),
        "horizon": chosen.horizon_text,
        "seed": configuration.seed,
        "trials": trials,
        "truth": True,
        "warm_start": None
        if configuration.warm_start is None
        else encoded(configuration.warm_start),
        "failure_rate": summary.failure_rate,
        "worst": summary.worst,
        "average": summary.average,
        "worst_se": summary.worst_se,
        "average_se": summary.average_se,
        "steps_per_second": summary.steps_per_second,
        "residual": summary.residual,
        "versions": dict(configuration.versions),
        "run": str(run.path),
    }


def save_run(
    run: RunDirectory,
    model: Model,
    results: list[TrialResult],
    record: dict[str, Any],
    prior: float,
) -> None:
    """Write the results of a run."""
    for result in results:
        folder = run.trial(result.index)
        write_arrays(folder / "counts.npz", count_arrays(result.counts))
        write_arrays(folder / "metrics.npz", history_arrays(result.history))
        record |= save_estimated_graph(folder, result.counts, model, prior)
        if (folder / "episodes.json").exists():
            _write_gaps(folder / "episodes.json", record["utility_optimum"])
    write_json(run.path / "summary.json", record)


def _write_gaps(path: Path, optimum: float | None) -> None:
    """Add U* and U* - U, the gap that the paper's theorem is about, to a record of episodes."""
    episodes = json.loads(path.read_text("utf-8"))["episodes"]
    for episode in episodes:
        known = optimum is not None and episode["utility"] is not None
        episode["gap"] = optimum - episode["utility"] if known else None
    write_json(path, {"utility_optimum": optimum, "episodes": episodes})


def _print(record: dict[str, Any], summary: Summary) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    n_trials = len(record["trials"])
    table.add_row("explorer", summary.label)
    if record["simulate"] == "continuous":
        table.add_row("simulated", "the continuous system, seen through its bins")
    table.add_row("steps", f"{record['steps']:,} x {n_trials} trial{'s' if n_trials > 1 else ''}")
    if record["warm_start"] is not None:
        table.add_row("warm start", f"{record['warm_start']['transitions']:,} transitions")
    table.add_row("failed", f"{summary.failure_rate:.0%} (a pair was left unvisited)")
    table.add_row("L_Worst", figure_text(summary.worst, summary.worst_se) + _times(record, "worst"))
    table.add_row(
        "L_Avg", figure_text(summary.average, summary.average_se) + _times(record, "average")
    )
    if summary.squared_error is not None:
        table.add_row("error", f"{summary.squared_error:.3g} mean of ||P - P_hat||^2")
    table.add_row("speed", f"{summary.steps_per_second:,.0f} steps/s")
    table.add_row("run", record["run"])
    console.print(f"{record['model']} ({record['hash']})")
    console.print(table)


def figure_text(value: float | None, error: float | None) -> str:
    """Say a figure with its standard error."""
    if value is None:
        return "none: every trial failed"
    return f"{value:,.1f}" + (f" ± {error:,.1f}" if error is not None else "")


def _times(record: dict[str, Any], name: str) -> str:
    """Say how far from the optimum a figure is."""
    if record["optimum"] is None or record["ratio"][name] is None:
        return ""
    return f" ({record['ratio'][name]:.2f} times the optimum, {record['optimum'][name]:,.1f})"
