"""`mdpdsl plan`: what to run next after an estimate, and the visits that it would add."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mdpdsl.cli.arguments import json_option, parsed_kappa, whole_number
from mdpdsl.cli.output import fail, print_json
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import Diagnostic, ModelError, RunError
from mdpdsl.formats.policy_files import PolicyError, check_policy_path, save_policy
from mdpdsl.graph.describe import pair_text, pairs_text
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    from mdpdsl.explore.experiment_plan import ExperimentPlan, Prospect
    from mdpdsl.graph.counts import Counts

#: Pairs printed, and pairs to try by hand that the JSON lists.
PRINTED_PAIRS, LISTED_BY_HAND = 20, 1000


@click.command("plan")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "kappa",
    "--kappa",
    help="Curvature: 1 for the average, more for the worst, or inf.  [default: the model's, or 1]",
)
@click.option(
    "steps",
    "--steps",
    type=whole_number,
    metavar="N",
    help="Steps to come.  [default: as many as were counted]",
)
@click.option(
    "episode_length",
    "--episode-length",
    metavar="N|inf",
    help="Steps after which an experiment starts again.  [default: as the log did]",
)
@click.option(
    "policy_out",
    "--policy-out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the policy: .csv, .json or .npz.  [default: RUN/plan.csv]",
)
@click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress.")
@json_option
def command(
    run: Path,
    kappa: str | None,
    steps: int | None,
    episode_length: str | None,
    policy_out: Path | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Say what to run next after a run of estimate or explore (RUN/trial-003 for one trial).

    The policy makes the most of the steps to come for kappa-Explorer's objective, counting the
    visits that there are. Pairs are told by how much of the error it is expected to take off them.
    """
    curvature = None if kappa is None else parsed_kappa(kappa)
    length = None if episode_length is None else _parsed_length(episode_length)
    if steps is not None and steps < 1:
        raise click.UsageError(f"--steps takes 1 or more, not {steps}")
    if policy_out is not None:
        _check_policy_out(policy_out)
    from mdpdsl.explore.experiment_plan import PlanError, plan_visits

    try:
        folder, model, counts = _read(run)
    except ModelError as error:
        fail(error, as_json)
    if curvature is None:
        curvature = parsed_kappa(str(model.checked.explore.get("kappa", 1)))
    try:
        with _showing(is_quiet or as_json) as watch:
            found = plan_visits(
                counts,
                model.graph,
                curvature,
                steps,
                episode_length=length,
                name=model.name,
                watch=watch,
            )
    except PlanError as error:
        raise click.UsageError(str(error)) from None
    path = folder / "plan.csv" if policy_out is None else policy_out
    try:
        save_policy(found.policy, found.graph, path)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    if as_json:
        print_json(_record(run, model, found, path))
    else:
        for warning in _warnings(found):
            click.echo(f"warning: {warning}", err=True)
        _print(model, found, path)


def _parsed_length(text: str) -> float:
    if text == "inf":
        return math.inf
    length = whole_number(text)
    if length < 1:
        raise click.UsageError(f"--episode-length takes 1 or more, or inf; not {text}")
    return float(length)


def _check_policy_out(path: Path) -> None:
    try:
        check_policy_path(path)
    except PolicyError as error:
        raise click.UsageError(str(error).replace("a policy's file", "--policy-out")) from None
    if not path.parent.is_dir():
        raise click.UsageError(f"--policy-out: there is no folder {path.parent}")


def _read(run: Path) -> tuple[Path, Model, Counts]:
    from mdpdsl.runs.models import run_counts
    from mdpdsl.runs.places import run_place

    try:
        place = run_place(run)
    except RunError as error:
        hint = "give the folder that `mdpdsl estimate` or `mdpdsl explore` wrote"
        raise ModelError([Diagnostic("E603", str(error), None, hint)]) from None
    return place.folder, *run_counts(place)


@contextmanager
def _showing(is_quiet: bool) -> Iterator[Callable[[int, float], None] | None]:
    """Show steps and gap on a terminal; nothing elsewhere."""
    if is_quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("planning") as status:
        yield lambda steps, gap: status.update(f"planning: step {steps}, gap {gap:.1e}")


def _warnings(found: ExperimentPlan) -> list[str]:
    """Say what the plan cannot do, and what a person could."""
    graph = found.graph
    warnings = []
    n_out = int((~found.is_planned).sum())
    if n_out:
        share = f"{n_out:,} of {graph.n_pairs:,} pairs"
        n_unknown = int((~found.is_known).sum())
        why = []
        if n_unknown:
            states = "1 state" if n_unknown == 1 else f"{n_unknown:,} states"
            why.append(f"nothing seen so far leads to {states}")
        if n_out > int((~found.is_known[graph.pair_state]).sum()):
            lost = "from where a run ends up, nothing seen so far leads back to others"
            if math.isinf(found.episode_length):
                lost += " (if experiments start again, say so by --episode-length N)"
            why.append(lost)
        warnings.append(f"the plan cannot visit {share} for long: {'; '.join(why)}")
    if len(found.by_hand):
        nearest = pairs_text(graph, found.by_hand.tolist())
        warnings.append(f"never seen and out of reach; try by hand, the nearest first: {nearest}")
    return warnings


def _record(run: Path, model: Model, found: ExperimentPlan, path: Path) -> dict[str, Any]:
    import numpy as np

    from mdpdsl.report.pair_table import pair_records

    graph = found.graph
    figures = {
        "visits": found.visits.astype(np.float64),
        "added_visits": found.added_visits,
        "expected_visits": found.expected_visits,
        "complexity": found.complexity,
    }
    order, length = found.order.tolist(), found.episode_length
    return {
        "model": model.name,
        "hash": graph.hash,
        "parameters": dict(model.parameters),
        "run": str(run),
        "kappa": found.kappa if math.isfinite(found.kappa) else "inf",
        "steps": int(found.steps),
        "transitions": found.transitions,
        "episode_length": length if math.isfinite(length) else None,
        "status": str(found.status),
        "gap": found.gap,
        "unseen_pairs": int((found.visits == 0).sum()),
        "left_out": int((~found.is_planned).sum()),
        "by_hand": pair_records(graph, found.by_hand[:LISTED_BY_HAND].tolist(), {}),
        **_prospect_record(found.bounded),
        "with_c_hat": _prospect_record(found.estimated),
        "warnings": _warnings(found),
        "pairs": [
            record | {"visits": int(found.visits[pair])}
            for pair, record in zip(order, pair_records(graph, order, figures), strict=True)
        ],
        "policy": str(path),
        "versions": current_versions(),
    }


def _prospect_record(prospect: Prospect) -> dict[str, dict[str, float | None]]:
    return {
        name: {k: v if math.isfinite(v) else None for k, v in asdict(figures).items()}
        for name, figures in vars(prospect).items()
    }


def _print(model: Model, found: ExperimentPlan, path: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, soft_wrap=True)
    length = found.episode_length
    runs = f", starting again every {length:,.0f} steps" if math.isfinite(length) else ""
    console.print(
        f"{model.name}: {found.transitions:,} transitions so far, {found.steps:,.0f} to come"
        f"{runs}; kappa = {found.kappa:g}\n"
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("", "now", "by the plan", "going on as before"):
        table.add_column(title, justify="right" if title else "left")
    prospect = vars(found.bounded).values()
    for title, name in (
        ("L_Worst", "worst"),
        ("L_Avg", "average"),
        ("worst error", "worst_error"),
        ("mean error", "average_error"),
    ):
        table.add_row(title, *(_figure(getattr(figures, name)) for figures in prospect))
    console.print(table)
    of_pairs = "" if found.is_planned.all() else f" of the {found.is_planned.sum():,} pairs planned"
    console.print(f"(n c/T and c/T{of_pairs}, with an upper bound of c)\n")
    pairs = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    pairs.add_column("where it adds most")
    for title in ("visits", "added", "expected", "c at most"):
        pairs.add_column(title, justify="right")
    for pair in found.order[:PRINTED_PAIRS].tolist():
        if found.added_visits[pair] > 0:
            pairs.add_row(
                pair_text(found.graph, pair),
                f"{found.visits[pair]:,}",
                f"{found.added_visits[pair]:,.1f}",
                f"{found.expected_visits[pair]:,.1f}",
                f"{found.complexity[pair]:.3g}",
            )
    console.print(pairs)
    more = int((found.added_visits > 0).sum()) - PRINTED_PAIRS
    if more > 0:
        console.print(f"and {more:,} pairs more (--json lists all)")
    console.print(f"\npolicy written to {path}")


def _figure(value: float) -> str:
    return f"{value:,.4g}" if math.isfinite(value) else "infinite"
