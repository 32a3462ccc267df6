"""`mdpdsl allocate`: the best possible allocation of visits, with the model known."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mdpdsl.cli.arguments import json_option, model_options, parsed_kappa, parsed_settings
from mdpdsl.cli.output import built_model, fail, print_json, print_warnings, stored_keys
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import ModelError
from mdpdsl.graph.complexity import RATES, complexity, squared_l2_complexity
from mdpdsl.graph.describe import pair_text
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph

if TYPE_CHECKING:
    from mdpdsl.programs.allocation import Allocation

FILES = (".npz", ".csv")

#: Pairs listed at either end.
N_LISTED = 3


@click.command("allocate")
@click.argument("model", metavar="MODEL")
@click.option("kappa", "--kappa", help="Curvature: a number from 1 on, or inf for the worst case.")
@click.option(
    "distance",
    "--distance",
    type=click.Choice(list(RATES)),
    default="squared-l2",
    show_default=True,
    help="What c(s,a) is the complexity of; root-l2 with --kappa 2 is the average case.",
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
@click.option("recurrent", "--recurrent", is_flag=True, help="Leave out what no policy can keep.")
@click.option(
    "component",
    "--component",
    type=click.IntRange(1),
    metavar="N",
    help="With --recurrent, the part of the model to stay in, where there are several.",
)
@click.option(
    "method",
    "--method",
    type=click.Choice(["newton", "lp"]),
    default="newton",
    show_default=True,
    help="lp: by a linear program, for --kappa inf.",
)
@click.option("backend", "--backend", default="highs", show_default=True, help="The lp's solver.")
@click.option(
    "time_limit",
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Stop after this time, with what is reached.",
)
@model_options
@click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress.")
@json_option
def command(
    model: str,
    kappa: str | None,
    distance: str,
    out: Path | None,
    policy_out: Path | None,
    recurrent: bool,
    component: int | None,
    method: str,
    backend: str,
    time_limit: float | None,
    settings: tuple[str, ...],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Find the best possible allocation of visits with the model known.

    No explorer can do better than its L_Worst (--kappa inf) and L_Avg (--kappa 2 --distance
    root-l2). kappa is that of the model's `explore` block by default, else 1. The gap is certified:
    the objective is at most so much, relatively, above the best.
    """
    _check_files(out, policy_out)
    if component is not None and not recurrent:
        raise click.UsageError("--component goes with --recurrent")
    curvature = None if kappa is None else parsed_kappa(kappa)
    try:
        loaded = built_model(
            model,
            parsed_settings(settings),
            all_states=all_states,
            max_states=max_states,
            is_quiet=is_quiet or as_json,
        )
        graph = loaded.graph
    except ModelError as error:
        fail(error, as_json)
    if curvature is None:
        curvature = parsed_kappa(str(loaded.checked.explore.get("kappa", 1)))
    if not graph.has_dynamics:
        raise click.UsageError(
            "the model has no dynamics to allocate visits by; estimate them from a log, or add "
            "`on` lines or equations"
        )
    found = _allocate(
        graph, curvature, distance, recurrent, component, method, backend, time_limit,
        is_quiet or as_json,
    )  # fmt: skip
    _write(loaded, found, out, policy_out)
    if as_json:
        print_json(_record(loaded, found, distance, method, out, policy_out))
    else:
        print_warnings(loaded)
        _print(loaded, found, distance, out, policy_out)
    sys.exit(0 if found.status == "optimal" else 1)


def _check_files(*paths: Path | None) -> None:
    for path in paths:
        if path is not None and path.suffix not in FILES:
            raise click.UsageError(f"{path}: takes a file ending in {' or '.join(FILES)}")


def _allocate(
    graph: TransitionGraph,
    kappa: float,
    distance: str,
    recurrent: bool,
    component: int | None,
    method: str,
    backend: str,
    time_limit: float | None,
    is_quiet: bool,
) -> Allocation:
    from mdpdsl.programs.allocation import optimal_allocation
    from mdpdsl.programs.program import BackendError, load_backend
    from mdpdsl.programs.visitable import AllocationError

    if method == "lp" and not math.isinf(kappa):
        raise click.UsageError("--method lp takes --kappa inf alone")
    try:
        solver = load_backend(backend) if method == "lp" else None
        with _showing(is_quiet) as watch:
            return optimal_allocation(
                graph,
                complexity(graph, distance),
                kappa,
                losses=squared_l2_complexity(graph),
                recurrent=recurrent,
                component=component,
                time_limit=time_limit,
                backend=solver,
                watch=watch,
            )
    except (AllocationError, BackendError) as error:
        raise click.UsageError(str(error)) from None


@contextmanager
def _showing(is_quiet: bool) -> Iterator[Callable[[int, float], None] | None]:
    """Show steps and gap on a terminal; nothing elsewhere."""
    if is_quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("allocating") as status:
        yield lambda steps, gap: status.update(f"allocating: step {steps}, gap {gap:.1e}")


def _write(model: Model, found: Allocation, out: Path | None, policy_out: Path | None) -> None:
    from mdpdsl.files import write_arrays, write_text
    from mdpdsl.formats.policy_files import save_policy
    from mdpdsl.graph.policy import Policy
    from mdpdsl.programs.occupancy import stationary_policy
    from mdpdsl.report.pair_table import pair_csv

    graph, d = model.graph, found.occupancy
    path = out
    try:
        if out is not None and out.suffix == ".csv":
            write_text(out, pair_csv(graph, {"occupancy": d}))
        elif out is not None:
            kind = {"kind": np.array("occupancy"), "hash": np.array(graph.hash)}
            write_arrays(out, kind | {"occupancy": d})
        path = policy_out
        if policy_out is not None:
            policy = Policy(model.name, graph.hash, stationary_policy(graph, d))
            save_policy(policy, graph, policy_out)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None


def _extremes(found: Allocation) -> tuple[list[int], list[int]]:
    """Return the pairs with the most visits, and those in need with the fewest."""
    d = found.occupancy
    most = np.argsort(-d, kind="stable")[:N_LISTED]
    in_need = np.setdiff1d(
        np.flatnonzero(d > 0), np.concatenate([found.without_need, found.left_out])
    )
    rarest = in_need[np.argsort(d[in_need], kind="stable")][:N_LISTED]
    return most.tolist(), rarest.tolist()


def _record(
    model: Model,
    found: Allocation,
    distance: str,
    method: str,
    out: Path | None,
    policy_out: Path | None,
) -> dict[str, Any]:
    from mdpdsl.report.pair_table import pair_records
    from mdpdsl.versions import current_versions

    most, rarest = _extremes(found)
    figures: dict[str, FloatArray] = {"occupancy": found.occupancy}
    return {
        "model": model.name,
        "hash": model.graph.hash,
        "parameters": dict(model.parameters),
        "kappa": _number(found.kappa) or "inf",
        "distance": distance,
        "method": method,
        "status": str(found.status),
        "objective": _number(found.objective),
        "gap": _number(found.gap),
        "worst": _number(found.worst),
        "average": _number(found.average),
        "residual": found.residual,
        "iterations": found.iterations,
        "seconds": found.seconds,
        "pairs": model.graph.n_pairs,
        "without_need": len(found.without_need),
        "left_out": len(found.left_out),
        "most_visited": pair_records(model.graph, most, figures),
        "rarest": pair_records(model.graph, rarest, figures),
        "out": None if out is None else str(out),
        "policy_out": None if policy_out is None else str(policy_out),
        "versions": current_versions(),
        **stored_keys(model),
    }


def _number(value: float) -> float | None:
    """Return a number for JSON, which has no infinity."""
    return value if math.isfinite(value) else None


def _print(
    model: Model, found: Allocation, distance: str, out: Path | None, policy_out: Path | None
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, soft_wrap=True)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in _rows(model.graph, found, distance, out, policy_out):
        table.add_row(name, value)
    console.print(f"{model.name} ({model.graph.hash})")
    console.print(table)


def _rows(
    graph: TransitionGraph,
    found: Allocation,
    distance: str,
    out: Path | None,
    policy_out: Path | None,
) -> list[tuple[str, str]]:
    name = "max c/d" if math.isinf(found.kappa) else "sum c log d" if found.kappa == 1 else "F"
    most, rarest = _extremes(found)
    d = found.occupancy
    rows = [
        ("kappa", f"{found.kappa:g}"),
        ("distance", distance),
        ("status", f"{found.status} ({found.iterations} steps, {found.seconds:.3f} s)"),
        ("objective", f"{found.objective:,.6g} ({name})"),
        ("gap", f"{found.gap:.1e} at most, relative"),
        ("L_Worst", f"{found.worst:,.6g}"),
        ("L_Avg", f"{found.average:,.6g}"),
    ]
    if len(found.without_need) == graph.n_pairs:
        rows.append(("note", "nothing to estimate: the successor of every pair is certain"))
    elif len(found.without_need):
        count = f"{len(found.without_need):,} of {graph.n_pairs:,} pairs"
        rows.append(("without need", f"{count} have a certain successor, and are not counted in F"))
    if len(found.left_out):
        rows.append(("left out", f"{len(found.left_out):,} of {graph.n_pairs:,} pairs"))
    rows += [("most visits", f"{d[pair]:.3g}  {pair_text(graph, pair)}") for pair in most]
    rows += [("fewest", f"{d[pair]:.3g}  {pair_text(graph, pair)}") for pair in rarest]
    rows += [("written to", str(path)) for path in (out, policy_out) if path is not None]
    return rows
