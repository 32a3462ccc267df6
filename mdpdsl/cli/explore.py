"""`mdpdsl explore`: run an explorer, and see how well the model can be estimated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mdpdsl.cli.console import (
    as_flags,
    ends_text,
    figure,
    loss_rows,
    noticing_compilation,
    print_json,
    print_missing,
    print_rejections,
    print_table,
    print_unseen,
    progress,
    several,
)
from mdpdsl.cli.design_options import print_numbers
from mdpdsl.cli.explorer_options import (
    log_options,
    named_logs,
    run_options,
    setting_options,
    single_run_options,
)
from mdpdsl.cli.options import (
    json_option,
    learn_option,
    load_model,
    model_options,
    parsed_arguments,
    print_model_warnings,
)

if TYPE_CHECKING:
    from mdpdsl.explore.result import ExploreRun
    from mdpdsl.runs.records import ExploreRecord, TrialRecord


@click.command("explore")
@click.argument("model", metavar="MODEL", required=False)
@log_options
@click.option(
    "algorithm",
    "--algorithm",
    help="kappa-dp, tracking, kappa-lp, random, maxent, weighted-maxent, smm or fw-modest.",
)
@click.option(
    "kappa", "--kappa", type=float, help="Curvature: 1 for the average, more for the worst."
)
@click.option("horizon", "--horizon", help="Depth of planning: inf, 1, 2, …")
@click.option("trials", "--trials", type=click.IntRange(1), help="Independent trials.")
@setting_options
@single_run_options
@run_options
@model_options
@learn_option
@json_option
def command(
    model: str | None,
    log: tuple[str, ...],
    more_logs: tuple[str, ...],
    env_arguments: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    learn: str | None,
    is_quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Explore a simulated or live system, or a log, and show how well its model can be estimated.

    Options override the model's `explore` block, which overrides the defaults.
    """
    from mdpdsl.explore.run import explore

    logs = named_logs(log, more_logs)
    is_quiet = is_quiet or as_json
    loaded = None
    if model is not None and resume is None:
        is_simulated = logs is None and given["env"] is None
        how = {"is_quiet": is_quiet, "is_built": is_simulated}
        loaded = load_model(model, parameters, all_states, max_states, learn, **how)
        if is_simulated and not as_json:
            print_model_warnings(loaded)
    elif resume is None:
        raise click.UsageError("give a MODEL, or --resume DIR")
    elif model is not None:
        raise click.UsageError("a resumed run keeps its model and settings; give --resume alone")
    with noticing_compilation(is_quiet):
        run = explore(
            loaded,
            log=logs,
            env_arguments=parsed_arguments(env_arguments),
            out=None if resume is not None else out or True,
            resume=resume,
            progress=progress(is_quiet),
            **given,
        )
    if not run.is_finished:
        again = f"`mdpdsl explore --resume {run.path}` continues it"
        done = f" after {run.trials[0].final.step:,} steps" if run.kind == "live" else ""
        raise click.ClickException(f"stopped{done}; {again}")
    if as_json:
        print_json(run.record())
    else:
        _print(run)


def _print(run: ExploreRun) -> None:
    assert run.summary is not None
    rows = {"explore": _simulated_rows, "replay": _replay_rows, "live": _live_rows}[run.kind]
    print_table(f"{run.model.name} ({run.configuration.hash})", rows(run, run.summary))
    if run.kind == "live":
        summary = run.summary
        print_rejections(summary.rejected or {}, summary.examples or {}, summary.clipped or {})
        print_unseen(run.graph, run.counts)
    if run.kind == "explore" and run.optimum_reason is not None:
        click.echo(f"note: no optimum to compare with: {as_flags(run.optimum_reason)}", err=True)
    print_missing(run.summary.estimate_missing, run.summary.rewards_missing)
    print_numbers(run.numbers)
    trials = run.summary.trials
    ends = {(trial.ended, trial.distance_to_log) for trial in trials}
    if run.kind == "replay" and len(trials) > 1 and len(ends) == 1:
        alike = "the trials are alike: the log is the same, and this explorer is deterministic"
        click.echo(f"note: {alike}", err=True)


def _simulated_rows(run: ExploreRun, summary: ExploreRecord) -> list[tuple[str, str | None]]:
    n_trials = len(run.trials)
    is_continuous = run.settings.simulate == "continuous"
    warm = summary.warm_start
    failed = round(summary.failure_rate * n_trials)
    why = " (a pair was never visited)" if failed else ""
    error = summary.squared_error
    return [
        ("explorer", run.label),
        ("simulated", "the continuous system, seen through its bins" if is_continuous else None),
        ("steps", f"{run.steps:,} x {several(n_trials, 'trial')}"),
        ("warm start", None if warm is None else several(warm.transitions, "transition")),
        ("failed trials", f"{failed} of {n_trials}{why}"),
        ("L_Worst", figure(summary.worst, summary.worst_se) + _times(run, "worst")),
        ("L_Avg", figure(summary.average, summary.average_se) + _times(run, "average")),
        ("error", None if error is None else f"{error:.3g} mean of ||P - P_hat||^2"),
        ("design", run.design_text),
        *_bound_rows(run, summary),
        ("speed", f"{summary.steps_per_second:,.0f} steps/s"),
        ("run", str(run.path)),
    ]


def _bound_rows(run: ExploreRun, summary: ExploreRecord) -> list[tuple[str, str | None]]:
    """Return what the data say about the run's property."""
    from mdpdsl.explore.value_bounds import bound_rows

    if summary.property is None:
        return []
    rows: list[tuple[str, str | None]] = [("property", summary.property)]
    if run.guaranteed is None or run.possible is None:
        return [*rows, ("guaranteed", f"nothing: {as_flags(str(summary.bounds_missing))}")]
    return [*rows, *bound_rows(run)]


def _times(run: ExploreRun, name: str) -> str:
    """Compare a figure with the optimum."""
    ratio = run.ratio(name)
    if ratio is None or run.optimum is None:
        return ""
    return f" ({ratio:.2f} times the optimum, {run.optimum[name]:,.1f})"


def _replay_rows(run: ExploreRun, summary: ExploreRecord) -> list[tuple[str, str | None]]:
    log, trials = run.configuration.options.log, summary.trials
    assert log is not None
    n_trials = len(trials)
    mean = " (mean)" if n_trials > 1 else ""
    restarts = f", {summary.restarts:,.0f} more episodes started" if summary.restarts else ""
    source = "" if summary.worst is None else " with c of the log"
    failed = round(summary.failure_rate * n_trials)
    why = " (a pair in the log was never visited)" if failed else ""
    ends = dict.fromkeys(_end_text(trial) for trial in trials)
    return [
        ("explorer", run.label),
        (
            "log",
            f"{log.transitions:,} transitions in {several(log.episodes, 'episode')}, "
            f"{several(len(log.files), 'file')}; pairs in it {log.pairs_in_log:,} of "
            f"{log.pairs_in_log + log.pairs_unseen:,}",
        ),
        (
            "steps",
            f"{summary.steps_done:,.0f}{mean}, {summary.share_of_log:.1%} of the log x "
            f"{several(n_trials, 'trial')}{restarts}",
        ),
        *(("ended", text) for text in ends),
        ("failed trials", f"{failed} of {n_trials}{why}"),
        ("visited", f"{summary.coverage:.1%} of the pairs in the log"),
        ("L_Worst", figure(summary.worst, summary.worst_se) + source),
        ("L_Avg", figure(summary.average, summary.average_se) + source),
        ("distance", f"{summary.distance_to_log:.3g} mean of ||P_hat of the log - P_hat||^2"),
        *_bound_rows(run, summary),
        ("speed", f"{summary.steps_per_second:,.0f} steps/s"),
        ("run", str(run.path)),
    ]


def _end_text(trial: TrialRecord) -> str:
    pair, ended = trial.ended_pair, str(trial.ended)
    often = f" ({pair['in_log']:,} in the log)" if pair is not None and pair["in_log"] else ""
    never = pair is not None and ended.startswith("the log never has")
    hint = "; --offer logged offers only what it has" if never else ""
    return f"after {trial.steps:,} steps: {ended}{often}{hint}"


def _live_rows(run: ExploreRun, summary: ExploreRecord) -> list[tuple[str, str | None]]:
    assert run.settled is not None
    unvisited, untried = summary.trials[0].unvisited or 0, len(run.settled.untried)
    warm = f" ({summary.total_transitions:,} with the warm start)" if summary.warm_start else ""
    over = "with estimated c" + (", over the pairs visited" if unvisited else "")
    failed = f"yes: {several(untried, 'pair')} never tried where others were"
    speed = summary.steps_per_second
    share = f", {summary.system_share:.0%} of the time in the system" if speed else ""
    return [
        ("explorer", run.label),
        ("system", f"{summary.env}, {several(summary.episodes or 0, 'episode')}"),
        ("steps", f"{run.steps:,}"),
        ("transitions", f"{summary.transitions:,}{warm}"),
        ("ends", ends_text(summary.ends or (), says_ends=True)),
        ("rejected", f"{sum((summary.rejected or {}).values()):,}"),
        ("never visited", f"{unvisited:,} of {several(int(run.graph.to_learn.sum()), 'pair')}"),
        ("failed", failed if untried else "no"),
        *loss_rows(summary.worst, summary.average, over),
        *_bound_rows(run, summary),
        ("speed", None if speed is None else f"{speed:,.0f} steps/s{share}"),
        ("log", str(summary.log)),
        ("run", str(run.path)),
    ]
