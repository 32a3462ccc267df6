"""`mdpdsl plan`: what to run next after an estimate, and the visits this would add."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mdpdsl.cli.console import print_columns, print_json, print_warning, progress
from mdpdsl.cli.design_options import design_options, purposeful
from mdpdsl.cli.options import (
    json_option,
    overwrite_option,
    parsed_kappa,
    quiet_option,
    whole_number,
)
from mdpdsl.cli.solve import check_file

if TYPE_CHECKING:
    from mdpdsl.explore.experiment_plan import ExperimentPlan
    from mdpdsl.explore.numbers_plan import NumbersProspect

#: The most pairs that are printed.
PRINTED_PAIRS = 20


def _parsed_length(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    if text is None or text == "inf":
        return None if text is None else math.inf
    length = whole_number(text)
    if length < 1:
        raise click.UsageError(f"--episode-length takes 1 or more, or inf; not {text}")
    return float(length)


@click.command("plan")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "kappa",
    "--kappa",
    callback=parsed_kappa,
    help="Curvature: 1 for the average, more for the worst, or inf.  [default: the model's, or 1]",
)
@click.option(
    "steps",
    "--steps",
    type=whole_number,
    metavar="N",
    help="Number of further steps.  [default: as many as were counted]",
)
@click.option(
    "episode_length",
    "--episode-length",
    metavar="N|inf",
    callback=_parsed_length,
    help="Steps after which an experiment starts again.  [default: as in the log]",
)
@click.option(
    "property",
    "--property",
    metavar="NAME|TEXT",
    help="Show how well the data bound this property, and where to look.  [default: the run's]",
)
@click.option(
    "policy_out",
    "--policy-out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the policy: .csv, .json or .npz.  [default: plan.csv beside the counts]",
)
@design_options
@overwrite_option
@quiet_option
@json_option
def command(
    run: Path,
    kappa: float | None,
    steps: int | None,
    episode_length: float | None,
    property: str | None,
    policy_out: Path | None,
    purpose: str | None,
    criterion: str | None,
    mix: float | None,
    overwrite: bool,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Plan what to run next after a run of estimate or explore (RUN/trial-003 for one trial).

    The policy makes the best use of the next steps for kappa-Explorer's objective, given the visits
    so far. Pairs are listed by how much of the error it is expected to remove. With --for
    parameters, the steps are for the model's unknown numbers.
    """
    from mdpdsl.explore.plan_run import plan
    from mdpdsl.runs.directory import PLAN
    from mdpdsl.runs.places import run_place

    if steps is not None and steps < 1:
        raise click.UsageError(f"--steps takes 1 or more, not {steps}")
    check_file(policy_out, "--policy-out", overwrite)
    asked = purposeful(purpose, criterion=criterion, mix=mix)
    found = plan(
        run,
        kappa,
        steps,
        episode_length=episode_length,
        property=property,
        **asked,
        out=policy_out or run_place(run).folder / PLAN,
        overwrite=overwrite,
        progress=progress(is_quiet or as_json),
    )
    if as_json:
        print_json(found.record())
        return
    for warning in found.warnings:
        print_warning(warning)
    _print(found)


def _print(found: ExperimentPlan) -> None:
    from mdpdsl.cli.solution_output import answer_text
    from mdpdsl.graph.describe import pair_text

    length = found.episode_length
    runs = f", starting again every {length:,.0f} steps" if math.isfinite(length) else ""
    name = "" if found.model is None else f"{found.model.name}: "
    click.echo(
        f"{name}{found.transitions:,} transitions so far, {found.steps:,.0f} to come{runs}; "
        f"kappa = {found.kappa:g}\n"
    )
    if found.numbers is not None:
        _print_deviations(found.numbers)
    if found.numbers is None or found.complexity.any():
        _print_prospect(found)
    print_columns(
        ("where it adds most", "visits", "added", "expected", "c at most"),
        [
            (
                pair_text(found.graph, pair),
                f"{found.visits[pair]:,}",
                f"{found.added_visits[pair]:,.1f}",
                f"{found.expected_visits[pair]:,.1f}",
                f"{found.complexity[pair]:.3g}",
            )
            for pair in found.order[:PRINTED_PAIRS].tolist()
            if found.added_visits[pair] > 0
        ],
    )
    more = int((found.added_visits > 0).sum()) - PRINTED_PAIRS
    if more > 0:
        click.echo(f"and {more:,} more pairs (--json lists all)")
    if found.solution is not None:
        confidence = f"with confidence {1 - found.solution.delta:g}"
        click.echo(f"\n{found.solution.described}")
        click.echo(f"{answer_text(found.solution)} ({confidence})")
        if found.solution.pairs_to_visit:
            click.echo("more data here would close the gap fastest:")
        for line in found.solution.pair_lines:
            click.echo(f"  {line}")
    click.echo(f"\nWrote the policy to {found.path}")


def _print_prospect(found: ExperimentPlan) -> None:
    """Print the errors of the rows, now and later."""
    prospect = vars(found.bounded).values()
    print_columns(
        ("", "now", "with the plan", "as before"),
        [
            (title, *(_figure(getattr(figures, field)) for figures in prospect))
            for title, field in (
                ("L_Worst", "worst"),
                ("L_Avg", "average"),
                ("worst error", "worst_error"),
                ("mean error", "average_error"),
            )
        ],
    )
    of_pairs = "" if found.is_planned.all() else f" of the {found.is_planned.sum():,} pairs planned"
    click.echo(f"(n c/T and c/T{of_pairs}, with an upper bound of c)\n")


def _print_deviations(found: NumbersProspect) -> None:
    """Print the deviation of every number, now and later."""
    rows = zip(found.names, found.value, found.now, found.planned, found.continued, strict=True)
    print_columns(
        ("deviation of", "value", "now", "with the plan", "as before"),
        [(name, f"{value:.4g}", *(_figure(d) for d in others)) for name, value, *others in rows],
    )
    click.echo()


def _figure(value: float) -> str:
    return f"{value:,.4g}" if math.isfinite(value) else "infinite"
