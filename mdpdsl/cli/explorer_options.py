"""Options of the commands that run explorers: `explore` and `compare`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mdpdsl.cli.design_options import design_options
from mdpdsl.cli.options import (
    clip_option,
    cluster_option,
    jobs_option,
    overwrite_option,
    quiet_option,
    reading_options,
    whole_number,
)

F = TypeVar("F", bound=Callable[..., Any])


def setting_options(function: F) -> F:
    """Add the settings of all explorers, and those of explorers that plan with an oracle."""
    for option in (*reversed(_SETTINGS), *reversed(_ORACLE)):
        function = option(function)
    return design_options(function)


def log_options(function: F) -> F:
    """Add the options of a replay."""
    for option in (clip_option, reading_options, *reversed(_LOG)):
        function = option(function)
    return function


def single_run_options(function: F) -> F:
    """Add the options of a single run: its system, earlier counts, its property, its folder."""
    for option in reversed(_SINGLE_RUN):
        function = option(function)
    return function


def run_options(function: F) -> F:
    """Add the options for running trials."""
    for option in (
        click.option(
            "--progress",
            is_flag=True,
            expose_value=False,
            callback=_remember_progress,
            help="Print lines of progress if standard error is not a terminal.",
        ),
        quiet_option,
        overwrite_option,
        cluster_option,
        jobs_option,
        click.option("seed", "--seed", type=click.IntRange(0), help="Seed of the run."),
    ):
        function = option(function)
    return function


def named_logs(log: tuple[str, ...], more_logs: tuple[str, ...]) -> list[str] | None:
    """Return the logs that the options name; arguments after the MODEL are further logs."""
    if not log:
        if more_logs:
            raise click.UsageError(
                f"there is one MODEL; what is `{more_logs[0]}`? (--log names logs)"
            )
        return None
    return [*log, *more_logs]


def _remember_progress(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    context.meta["mdpdsl.progress"] = is_asked


_SETTINGS = (
    click.option("steps", "--steps", type=whole_number, help="Steps per trial."),
    click.option("gamma", "--gamma", type=float, help="Discount factor of planning."),
    click.option("delta", "--delta", type=float, help="Risk that a confidence set is wrong."),
    click.option("bonus", "--bonus", help="Exploration bonus: paper, bernstein or none."),
    click.option(
        "epsilon", "--epsilon", type=float, help="Least visits to divide by: T+ = max(T, epsilon)."
    ),
    click.option(
        "power",
        "--power",
        metavar="auto|P",
        help="For tracking: 1 for the average, more for the worst; auto derives it from --kappa.",
    ),
    click.option(
        "anytime",
        "--anytime/--no-anytime",
        default=None,
        help="For tracking: plan as if the number of --steps were unknown.",
    ),
    click.option(
        "prior",
        "--prior",
        type=float,
        help="Number added to the count of every successor seen; 0 gives the empirical estimate.",
    ),
    click.option("beta", "--beta", type=float, help="Scale of the Bernstein bonus."),
    click.option("xi", "--xi", type=float, help="For maxent: share of random actions."),
    click.option("target", "--target", help="For smm, what to match: complexity or uniform."),
    click.option("planner", "--planner", help="Method of planning: auto, full or prioritized."),
    click.option(
        "most_backups",
        "--backups",
        type=click.IntRange(1),
        help="For prioritized sweeping: backups per step.",
    ),
    click.option(
        "discounts_last",
        "--discount-last/--no-discount-last",
        default=None,
        help="Whether the choice of action discounts the next value.",
    ),
    click.option(
        "simulate",
        "--simulate",
        help="What to explore: model, the finite one (default), or continuous, the system that it "
        "discretizes, of which the explorer sees only the bins (not a Markov process).",
    ),
)

_ORACLE = (
    click.option("backend", "--backend", help="Solver of the oracle: pyomo-highs, highs or evi."),
    click.option("formulation", "--formulation", help="Form of the program: compact or full."),
    click.option("oracle_seconds", "--oracle-seconds", type=float, help="Time limit for one plan."),
    click.option(
        "eta",
        "--eta",
        metavar="auto|X",
        help="Half of the least share of a pair in a plan; auto is 1% of the largest possible.",
    ),
    click.option(
        "strict", "--strict/--no-strict", default=None, help="Refuse an eta that is too large."
    ),
    click.option(
        "first_episode",
        "--first-episode",
        type=click.IntRange(1),
        metavar="STEPS",
        help="Steps of the first episode; the m-th has m^2 times as many (default 10).",
    ),
    click.option("radius", "--radius", help="Confidence sets: paper or weissman."),
    click.option(
        "smoothing", "--smoothing", type=float, help="For fw-modest: sharpness of the worst case."
    ),
)

_SINGLE_RUN = (
    click.option(
        "env",
        "--env",
        metavar="GYM_ID",
        help="Explore a Gymnasium environment; of the model, only the spaces are used, and its "
        "`log` block, which reads the columns obs_0, obs_1, …",
    ),
    click.option(
        "env_arguments",
        "--env-arg",
        multiple=True,
        metavar="NAME=VALUE",
        help="Argument of the environment; its value is JSON or text; may be repeated.",
    ),
    click.option(
        "warm_start",
        "--warm-start",
        multiple=True,
        metavar="LOG|RUN",
        help="Start with the counts of a log (file, folder, pattern) or of an earlier run; may be "
        "repeated.",
    ),
    click.option(
        "property",
        "--property",
        metavar="NAME|TEXT",
        help="Show what the data guarantee about this property, and what they leave possible.",
    ),
    click.option("out", "--out", type=click.Path(path_type=Path), help="New folder for the run."),
    click.option(
        "resume",
        "--resume",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Continue a run that was stopped.",
    ),
)

_LOG = (
    click.argument("more_logs", nargs=-1, metavar=""),
    click.option(
        "log",
        "--log",
        multiple=True,
        metavar="FILE...",
        help="Replay a log instead of simulating: a file, a folder or a pattern, as in "
        "`mdpdsl estimate`; may be repeated.",
    ),
    click.option(
        "time_step",
        "--time-step",
        type=click.FloatRange(0, min_open=True),
        help="Time between consecutive rows of a log.  [default: the usual one]",
    ),
    click.option(
        "separate_files",
        "--separate-files",
        is_flag=True,
        help="Episodes with the same name in two files are different episodes.",
    ),
    click.option(
        "offer",
        "--offer",
        type=click.Choice(("logged", "all")),
        help="Actions that explorers may choose in a replay: those that the log has in a state, "
        "or all; an action that the log does not have ends the run.  [default: logged]",
    ),
)
