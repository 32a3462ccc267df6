"""Options of commands that replay logs, and the logs that they name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mdpdsl.cli.output import built_spaces, counting_rows
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import Diagnostic, ModelError
from mdpdsl.explore.settings import ExploreSettings, settings_from

if TYPE_CHECKING:
    from mdpdsl.explore.replay.queues import LogQueues
    from mdpdsl.graph.transition_graph import TransitionGraph
    from mdpdsl.logs.count import LogCounts
    from mdpdsl.logs.order import LoggedTransitions

F = TypeVar("F", bound=Callable[..., Any])

OFFERS = ("logged", "all")
#: Pairs that the log never has which the JSON lists.
LISTED_UNSEEN = 1000


@dataclass(frozen=True)
class LogRequest:
    """Which logs to replay, and how."""

    patterns: tuple[str, ...]
    is_separate: bool
    time_step: float | None
    offer: str

    @property
    def offers_all(self) -> bool:
        """Whether explorers may ask for what the log never has."""
        return self.offer == "all"


@dataclass(frozen=True, eq=False)
class ReadLog:
    """Logs that were read for a replay."""

    logged: LoggedTransitions
    queues: LogQueues
    record: dict[str, Any]  # what JSON says of them


def log_options(function: F) -> F:
    """Add the options of a replay; `requested_log` takes them from the flags."""
    for option in (
        click.option(
            "offer",
            "--offer",
            type=click.Choice(OFFERS),
            help="What explorers may choose in a replay: the actions that the log has in a state, "
            "or all of the model's; one that the log never has ends the run.  [default: logged]",
        ),
        click.option(
            "is_separate",
            "--separate-files",
            is_flag=True,
            help="Episodes of one name in two logs are two episodes.",
        ),
        click.option(
            "time_step",
            "--time-step",
            type=click.FloatRange(0, min_open=True),
            help="Time between rows of a log that follow each other.  [default: the usual one]",
        ),
        click.option(
            "logs",
            "--log",
            multiple=True,
            metavar="FILE...",
            help="Replay a log in the place of the system: a file, a folder or a pattern, as "
            "`estimate` reads them; may be repeated.",
        ),
        click.argument("more_logs", nargs=-1, metavar=""),
    ):
        function = option(function)
    return function


def requested_log(flags: dict[str, Any]) -> LogRequest | None:
    """Take the options of a replay from the flags; None where no log is named."""
    logs, more = flags.pop("logs"), flags.pop("more_logs")
    offer, time_step = flags.pop("offer"), flags.pop("time_step")
    is_separate = flags.pop("is_separate")
    if not logs:
        if more:
            raise click.UsageError(f"there is one MODEL; what is `{more[0]}`? (--log names logs)")
        given = {"--offer": offer, "--time-step": time_step, "--separate-files": is_separate}
        for name, value in given.items():
            if value:
                raise click.UsageError(f"{name} is about a log; name one with --log")
        return None
    if time_step is not None and not math.isfinite(time_step):
        raise click.UsageError("--time-step takes a finite number")
    if flags.get("simulate") is not None:
        raise click.UsageError("a log is replayed, not simulated; give --log or --simulate")
    return LogRequest((*logs, *more), is_separate, time_step, offer or OFFERS[0])


def read_log(
    path: str,
    overrides: dict[str, str],
    max_states: int | None,
    request: LogRequest,
    is_quiet: bool,
) -> tuple[Model, ReadLog]:
    """Load a model and the logs to replay; raise ModelError where there is nothing to replay."""
    from mdpdsl.diagnostics import LogError
    from mdpdsl.explore.replay.queues import log_queues
    from mdpdsl.logs.count import count_logs
    from mdpdsl.logs.order import TransitionOrder

    model = built_spaces(path, overrides, max_states=max_states, is_quiet=is_quiet)
    order = TransitionOrder(model.graph)
    try:
        with counting_rows(is_quiet) as progress:
            read = count_logs(
                model.checked,
                model.graph,
                request.patterns,
                are_files_separate=request.is_separate,
                time_step=request.time_step,
                progress=progress,
                order=order,
            )
    except LogError as error:
        raise ModelError(
            [Diagnostic("E603", p.message, help=p.help) for p in error.problems]
        ) from None
    logged = order.transitions()
    if logged.n_transitions == 0:
        raise ModelError([_nothing(read)])
    queues = log_queues(model.graph, logged, offers_all=request.offers_all)
    return model, ReadLog(logged, queues, log_record(read, logged, queues, model.graph, request))


def log_record(
    read: LogCounts,
    logged: LoggedTransitions,
    queues: LogQueues,
    graph: TransitionGraph,
    request: LogRequest,
) -> dict[str, Any]:
    """Return what JSON says of logs."""
    import numpy as np

    unseen = np.flatnonzero(read.counts.visits == 0)
    return {
        "files": [asdict(file) for file in read.files],
        "problems": [asdict(problem) for problem in read.problems],
        "rows": read.rows,
        "rejected": read.rejected.counts,
        "clipped": read.clipped,
        "in_order": read.was_sorted,
        "time_step": read.time_step,
        "separate_files": request.is_separate,
        "transitions": logged.n_transitions,
        "episodes": len(logged.episode),
        "hash": logged.hash,
        "offer": request.offer,
        "pairs_in_log": len(queues.logged),
        "pairs_unseen": len(unseen),
        "unseen": [
            {
                "state": graph.states.native(int(graph.pair_state[pair])),
                "action": graph.actions.labels[graph.pair_action[pair]],
            }
            for pair in unseen[:LISTED_UNSEEN].tolist()
        ],
    }


def replay_settings(
    model: Model, log: ReadLog, flags: dict[str, Any], *rows: dict[str, Any]
) -> ExploreSettings:
    """Return the settings of a replay: as many steps as the log has, unless a flag says fewer.

    The steps of the model's `explore` block are those of simulated runs.
    """
    chosen = settings_from(model.checked.explore, flags, *rows)
    n = log.queues.n_transitions
    steps = n if flags["steps"] is None else min(n, chosen.steps)
    return replace(chosen, steps=steps, simulate="model")


def check_explorer(settings: ExploreSettings, log: ReadLog) -> list[str]:
    """Return warnings; raise SettingsError where an explorer cannot be."""
    from mdpdsl.cli.planning import require_oracle
    from mdpdsl.explore.algorithms import EPISODIC, strategy_for

    strategy_for(settings, log.queues.graph.n_states)
    require_oracle(settings)
    if settings.algorithm not in EPISODIC:
        return []
    from mdpdsl.explore.floor import slow_oracle

    warning = slow_oracle(log.queues.graph, settings)
    return [] if warning is None else [warning]


def print_log_warnings(record: dict[str, Any]) -> None:
    """Say on standard error what of the logs is not replayed."""
    for problem in record["problems"]:
        hint = f" ({problem['help']})" if problem["help"] else ""
        click.echo(f"warning: {problem['message']}{hint}", err=True)
    for reason, number in record["rejected"].items():
        click.echo(f"warning: rejected, {reason}: {number:,}", err=True)
    for name, number in record["clipped"].items():
        told = f"{number:,} values of {name} lie beyond its ends and count as its end cells"
        click.echo(f"warning: {told}", err=True)
    if record["rejected"]:
        click.echo("note: `mdpdsl estimate` shows examples of what was rejected", err=True)


def is_replay(folder: Path | None) -> bool:
    """Tell whether a folder holds a run that replays a log."""
    from mdpdsl.diagnostics import RunError
    from mdpdsl.runs.directory import RunDirectory

    if folder is None:
        return False
    try:
        return RunDirectory.open(folder)[1].options.log is not None
    except RunError:
        return False  # told by whoever opens it to go on


def _nothing(read: LogCounts) -> Diagnostic:
    """Say that logs have no transition, and what became of their rows."""
    reasons = [f"{reason}: {number:,}" for reason, number in read.rejected.counts.items()]
    told = f"the log has no transition to replay: {read.rows:,} rows were read"
    if reasons:
        told += f" ({'; '.join(reasons)})"
        return Diagnostic("E603", told, help="`mdpdsl estimate` shows examples")
    return Diagnostic("E603", told, help="consecutive rows of an episode make a transition")
