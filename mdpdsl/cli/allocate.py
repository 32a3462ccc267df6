"""`mdpdsl allocate`: the best possible allocation of visits for a known model."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mdpdsl.cli.console import print_json, print_table, progress
from mdpdsl.cli.design_options import design_options, parsed_weights, print_design, purposeful
from mdpdsl.cli.options import (
    json_option,
    learn_option,
    load_model,
    model_options,
    overwrite_option,
    parsed_kappa,
    print_model_warnings,
    quiet_option,
    whole_number,
)
from mdpdsl.graph.complexity import RATES

if TYPE_CHECKING:
    from mdpdsl.solve.allocate_numbers import ExperimentDesign
    from mdpdsl.solve.allocate_visits import Allocation

FILES = (".npz", ".csv")


@click.command("allocate")
@click.argument("model", metavar="MODEL")
@click.option(
    "kappa",
    "--kappa",
    callback=parsed_kappa,
    help="Curvature: 1 or more, or inf for the worst case.",
)
@click.option(
    "distance",
    "--distance",
    type=click.Choice(list(RATES)),
    default="squared-l2",
    show_default=True,
    help="Distance that defines c(s,a); root-l2 with --kappa 2 is the average case.",
)
@click.option(
    "out",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the shares of visits: .npz or .csv.",
)
@click.option(
    "policy_out",
    "--policy-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the policy with these shares: .npz or .csv.",
)
@click.option(
    "recurrent",
    "--recurrent",
    is_flag=True,
    help="Leave out pairs that no policy can keep visiting.",
)
@click.option(
    "component",
    "--component",
    type=click.IntRange(1),
    metavar="N",
    help="With --recurrent: the part of the model to stay in, if there are several.",
)
@click.option(
    "method",
    "--method",
    type=click.Choice(["newton", "lp"]),
    default="newton",
    show_default=True,
    help="lp solves a linear program, for --kappa inf.",
)
@click.option(
    "backend", "--backend", default="highs", show_default=True, help="Solver for --method lp."
)
@click.option(
    "time_limit",
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Stop after this time, with what is known by then.",
)
@design_options
@click.option(
    "steps",
    "--steps",
    type=whole_number,
    metavar="N",
    help="With --for parameters: steps of the experiment.  [default: the model's, or 100_000]",
)
@click.option(
    "weights",
    "--weights",
    metavar="range|value|NAME=W,…",
    callback=parsed_weights,
    help="With --for parameters: errors count relative to the ranges of the numbers, to their "
    "values, or with these weights of their squares.  [default: range]",
)
@click.option(
    "identifiable",
    "--identifiable",
    is_flag=True,
    help="With --for parameters: leave out what no experiment can show.",
)
@overwrite_option
@model_options
@learn_option
@quiet_option
@json_option
def command(
    model: str,
    kappa: float | None,
    distance: str,
    out: Path | None,
    policy_out: Path | None,
    recurrent: bool,
    component: int | None,
    method: str,
    backend: str,
    time_limit: float | None,
    purpose: str | None,
    criterion: str | None,
    mix: float | None,
    steps: int | None,
    weights: str | dict[str, float] | None,
    identifiable: bool,
    overwrite: bool,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    learn: str | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Find the best possible allocation of visits for a known model.

    No explorer can do better than its L_Worst (--kappa inf) and L_Avg (--kappa 2 --distance
    root-l2). By default, kappa is that of the model's `explore` block, or 1. The gap is certified:
    it bounds the relative distance of the objective from the best.

    With --for parameters, find the best experiment for the model's unknown numbers instead, and
    how well it and random actions determine them. MODEL may be a run: then it is the best for the
    values estimated there.
    """
    from mdpdsl.files import require_absent
    from mdpdsl.load import open_run
    from mdpdsl.solve.allocate_visits import allocate

    for path in (out, policy_out):
        if path is not None and path.suffix not in FILES:
            raise click.UsageError(f"{path}: takes a file ending in {' or '.join(FILES)}")
        if path is not None:
            require_absent(path, overwrite)
    is_quiet = is_quiet or as_json
    asked = purposeful(
        purpose,
        criterion=criterion,
        mix=mix,
        steps=steps,
        weights=weights,
        identifiable=identifiable or None,
    )
    loaded = load_model(model, parameters, all_states, max_states, learn=learn, is_quiet=is_quiet)
    found = allocate(
        open_run(model) if purpose is not None and Path(model).is_dir() else loaded,
        kappa=kappa,
        distance=distance,
        recurrent=recurrent,
        component=component,
        method=method,
        backend=backend,
        **asked,
        time_limit=time_limit,
        progress=progress(is_quiet),
    )
    written = []
    if out is not None:
        written.append(found.save(out, overwrite=overwrite))
    if policy_out is not None:
        written.append(found.save_policy(policy_out, overwrite=overwrite))
    if as_json:
        paths = {"out": out, "policy_out": policy_out}
        print_json(found.record() | {k: None if p is None else str(p) for k, p in paths.items()})
    else:
        print_model_warnings(loaded)
        _print(found, written)
    sys.exit(0 if found.is_optimal else 1)


def _print(found: Allocation | ExperimentDesign, written: list[Path]) -> None:
    from mdpdsl.graph.describe import pair_text
    from mdpdsl.solve.allocate_numbers import ExperimentDesign

    if isinstance(found, ExperimentDesign):
        print_design(found, written)
        return
    graph, d = found.model.graph, found.occupancy
    name = "max c/d" if math.isinf(found.kappa) else "sum c log d" if found.kappa == 1 else "F"
    most, rarest = found.extremes
    rows: list[tuple[str, str | None]] = [
        ("kappa", f"{found.kappa:g}"),
        ("distance", found.distance),
        ("status", f"{found.status} ({found.iterations} steps, {found.seconds:.3f} s)"),
        ("objective", f"{found.objective:,.6g} ({name})"),
        ("gap", f"{found.gap:.1e} at most, relative"),
        ("L_Worst", f"{found.worst:,.6g}"),
        ("L_Avg", f"{found.average:,.6g}"),
    ]
    n_certain = len(found.without_need)
    if n_certain == graph.n_pairs:
        rows.append(("note", "nothing to estimate: the successor of every pair is certain"))
    elif n_certain:
        count = f"{n_certain:,} of {graph.n_pairs:,} pairs"
        why = "have a certain successor or are known, and are not counted in F"
        rows.append(("without need", f"{count} {why}"))
    if len(found.left_out):
        rows.append(("left out", f"{len(found.left_out):,} of {graph.n_pairs:,} pairs"))
    rows += [("most visits", f"{d[pair]:.3g}  {pair_text(graph, pair)}") for pair in most]
    rows += [("fewest", f"{d[pair]:.3g}  {pair_text(graph, pair)}") for pair in rarest]
    rows += [("written to", str(path)) for path in written]
    print_table(f"{found.model.name} ({graph.hash})", rows)
