"""What `explore` and `compare` share: options, progress, and how a trial is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from mdpdsl.cli.arguments import cluster_option, whole_number
from mdpdsl.cli.live_view import progress_option
from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import StoredModel
from mdpdsl.compile.system import RawSystem
from mdpdsl.diagnostics import SettingsError
from mdpdsl.explore.optimum import Limits
from mdpdsl.explore.settings import ExploreSettings

F = TypeVar("F", bound=Callable[..., Any])


def setting_options(function: F) -> F:
    """Add the settings that hold for every algorithm of a command."""
    for option in (
        click.option(
            "simulate",
            "--simulate",
            help="What is explored: model, the finite one (default), or continuous, the system "
            "that it discretizes, of which the explorer sees the bins only (not a Markov process).",
        ),
        click.option(
            "discounts_last",
            "--discount-last/--no-discount-last",
            default=None,
            help="Whether the choice of action discounts the next value.",
        ),
        click.option(
            "most_backups",
            "--backups",
            type=click.IntRange(1),
            help="Backups per step of prioritized sweeping.",
        ),
        click.option("planner", "--planner", help="auto, full or prioritized."),
        click.option("target", "--target", help="What smm matches: complexity or uniform."),
        click.option("xi", "--xi", type=float, help="Share of random actions of maxent."),
        click.option("beta", "--beta", type=float, help="Scale of the Bernstein bonus."),
        click.option(
            "prior",
            "--prior",
            type=float,
            help="Pseudo-count of each successor seen in the estimate; 0 is the empirical one.",
        ),
        click.option(
            "anytime",
            "--anytime/--no-anytime",
            default=None,
            help="Have tracking plan as if it did not know --steps.",
        ),
        click.option(
            "power",
            "--power",
            metavar="auto|P",
            help="Of tracking: 1 for the average, more for the worst; auto follows from --kappa.",
        ),
        click.option("epsilon", "--epsilon", type=float, help="T+ = max(T, epsilon)."),
        click.option("bonus", "--bonus", help="paper, bernstein or none."),
        click.option("delta", "--delta", type=float, help="Confidence level."),
        click.option("gamma", "--gamma", type=float, help="Discount of planning."),
        click.option("steps", "--steps", type=whole_number, help="Steps of a trial."),
    ):
        function = option(function)
    return function


def run_options(function: F) -> F:
    """Add the options of how trials are run."""
    for option in (
        progress_option,
        click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress."),
        cluster_option,
        click.option("jobs", "--jobs", default="auto", help="Processes; auto is one per core."),
        click.option("seed", "--seed", type=click.IntRange(0), help="Seed of the run."),
    ):
        function = option(function)
    return function


def simulated_system(model: Model, settings: ExploreSettings) -> RawSystem | None:
    """Return the continuous system that the settings simulate; None for the finite model."""
    if settings.simulate == "model":
        return None
    if isinstance(model, StoredModel):
        raise SettingsError(
            f"{model.provenance.path} holds a graph, and no continuous system to simulate; leave "
            "out `--simulate continuous`, or give the model file"
        )
    if not model.is_continuous:
        raise SettingsError(
            f"{model.name} has no continuous variables to simulate; leave out `--simulate "
            "continuous`, or declare a state in an interval, as in `state x in [0, 1] bins 10`"
        )
    return model.system


@contextmanager
def remote_workers(cluster: str | None) -> Iterator[Executor | None]:
    """Give an executor on a cluster, if one is named; a cluster that is none is a usage error."""
    from mdpdsl.workers import ClusterError, cluster_workers

    if cluster is None:
        yield None
        return
    try:
        with cluster_workers(cluster) as (executor, _):
            yield executor
    except ClusterError as error:
        raise click.UsageError(str(error)) from None


def print_missing_optimum(limits: Limits) -> None:
    """Say on standard error why no optimum is told."""
    if limits.reason is not None:
        click.echo(f"note: no optimum to compare with: {limits.reason}", err=True)
