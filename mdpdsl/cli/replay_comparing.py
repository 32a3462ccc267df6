"""`mdpdsl compare --log`: several explorers in one log, at their ends and after equal steps."""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import click

from mdpdsl.cli.arguments import several
from mdpdsl.cli.compare import explorer_label, save_table
from mdpdsl.cli.compare_saving import ComparisonFolder, require_new_folder
from mdpdsl.cli.live_view import showing
from mdpdsl.cli.output import fail, print_json
from mdpdsl.cli.planning import telling_failures
from mdpdsl.cli.replay_exploring import NO_OPTIMUM
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
from mdpdsl.explore.executor import run_trials
from mdpdsl.explore.replay.queues import LogQueues
from mdpdsl.explore.replay.replay_summary import ReplayRow, ReplaySummary, summarize_replay
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.report.replay_tables import (
    replay_csv_table,
    replay_latex_table,
    replay_row_record,
    replay_text_table,
)


def compare_in_log(
    request: LogRequest,
    *,
    model: str,
    overrides: dict[str, str],
    max_states: int | None,
    flags: dict[str, Any],
    rows: list[dict[str, Any]],
    trials: int,
    seed: int,
    n_jobs: int | None,
    executor: Executor | None,
    layout: str,
    out: Path | None,
    save: Path | None,
    is_quiet: bool,
    as_json: bool,
) -> NoReturn:
    """Replay a log with each explorer and print the table."""
    try:
        require_new_folder(save)
        loaded, log = read_log(model, overrides, max_states, request, is_quiet or as_json)
        chosen = [replay_settings(loaded, log, flags, row) for row in rows]
        warnings = [warning for each in chosen for warning in check_explorer(each, log)]
    except ModelError as error:
        fail(error, as_json)
    except (SettingsError, RunError) as error:
        raise click.UsageError(str(error)) from None
    if not as_json:
        print_log_warnings(log.record)
        for warning in dict.fromkeys(warnings):
            click.echo(f"warning: {warning}", err=True)
    runner = _Runner(trials, seed, n_jobs, executor, is_quiet or as_json)
    graph = loaded.graph
    options = {
        "all_states": graph.n_states == graph.states.product.size,
        "max_states": max_states,
        "log": log.record,
    }
    folder = ComparisonFolder.new(save, loaded, options, seed, trials, log)
    own = runner.summaries(chosen, log.queues, folder)
    common_steps = min((summary.least_steps for summary in own), default=0)
    # A replay is a function of its seed, so that running it again up to the common number of steps
    # costs time alone; to remember every visit would cost memory for each step of each trial.
    limited = replace(log.queues, most_steps=common_steps)
    common = runner.summaries(chosen[: len(own)], limited) if common_steps else own
    found = [ReplayRow(*both) for both in zip(own, common, strict=False)]
    is_whole = len(found) == len(chosen)
    if not is_whole:
        click.echo("stopped; what is finished follows", err=True)
    title = _title(loaded, log, trials)
    table = {
        "text": lambda: replay_text_table(title, found, common_steps),
        "csv": lambda: replay_csv_table(found, common_steps),
        "latex": lambda: replay_latex_table(title, found, common_steps),
    }[layout]()
    if out is not None:
        save_table(out, table)
    if as_json:
        record = _record(loaded, log, chosen[0].steps, found, common_steps, trials, seed)
        print_json(record | ({} if save is None else {"saved": str(save)}))
    else:
        click.echo(table.rstrip("\n"))
        if save is not None:
            click.echo(f"saved; `mdpdsl report {save}` draws it", err=True)
    sys.exit(0 if is_whole else 1)


@dataclass(frozen=True)
class _Runner:
    """Runs the trials of explorers in one log."""

    trials: int
    seed: int
    n_jobs: int | None
    executor: Executor | None
    is_quiet: bool

    def summaries(
        self,
        chosen: list[ExploreSettings],
        log: LogQueues,
        folder: ComparisonFolder | None = None,
    ) -> list[ReplaySummary]:
        """Run one explorer after the other; those that were not stopped have a summary."""
        found = []
        for each in chosen:
            run = None if folder is None else folder.begin(each)
            label = explorer_label(each)
            n_steps = min(each.steps, log.most_steps or each.steps)
            with (
                telling_failures(label),
                showing(label, n_steps, self.trials, self.is_quiet, len(log.logged)) as bar,
            ):
                results = run_trials(
                    log.graph,
                    each,
                    seed=self.seed,
                    trials=self.trials,
                    jobs=self.n_jobs,
                    system=log,
                    folder_of=None if run is None else run.trial,
                    progress=bar,
                    executor=self.executor,
                )
            if len(results) < self.trials or not all(r.is_finished for r in results):
                break
            found.append(summarize_replay(each, results, log))
            if folder is not None:
                folder.finish_replay(results, found[-1])
        return found


def _title(model: Model, log: ReadLog, trials: int) -> str:
    record = log.record
    n_pairs = record["pairs_in_log"] + record["pairs_unseen"]
    return (
        f"{model.name}, a log of {several(record['transitions'], 'transition')} in "
        f"{several(record['episodes'], 'episode')}, with {record['pairs_in_log']:,} of {n_pairs:,} "
        f"pairs; {several(trials, 'trial')}"
    )


def _record(
    model: Model,
    log: ReadLog,
    steps: int,
    rows: list[ReplayRow],
    common_steps: int,
    trials: int,
    seed: int,
) -> dict[str, Any]:
    return {
        "model": model.name,
        "hash": model.graph.hash,
        "parameters": dict(model.parameters),
        "steps": steps,
        "trials": trials,
        "seed": seed,
        "truth": False,
        "transitions": log.record["transitions"],
        "pairs_in_log": log.record["pairs_in_log"],
        "pairs_unseen": log.record["pairs_unseen"],
        "common_steps": common_steps,
        "rows": [replay_row_record(row, common_steps) for row in rows],
        "optimum": None,
        "optimum_reason": NO_OPTIMUM,
        "log": log.record,
    }
