"""`mdpdsl solve`: a policy for the model's rewards, or for reaching a label."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mdpdsl.cli.arguments import json_option, model_options, parsed_settings
from mdpdsl.cli.output import built_model, fail, print_json, print_warnings, stored_keys
from mdpdsl.cli.solving import CommandWatch, watching
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import ModelError, SolveError
from mdpdsl.formats.policy_files import PolicyError, check_policy_path, save_policy
from mdpdsl.graph.policy import Policy
from mdpdsl.solve.solution import METHODS, SolveOutcome, SolveStatus
from mdpdsl.versions import current_versions

#: Models of up to this many states have their policy printed without being asked.
PRINTED_STATES = 30


@click.command("solve")
@click.argument("model", metavar="MODEL")
@click.option("discount", "--discount", type=float, help="Of rewards, in [0, 1).  [default: 0.99]")
@click.option("label", "--reach", metavar="LABEL", help="The chance of reaching a label instead.")
@click.option(
    "is_maximised", "--max/--min", default=True, help="The largest (the default) or the least."
)
@click.option(
    "method",
    "--method",
    type=click.Choice(METHODS),
    default="auto",
    show_default=True,
    help="Value, modified policy or policy iteration, or a linear program.",
)
@click.option(
    "tolerance",
    "--tolerance",
    type=float,
    help="How far values may be from the optimum.  [default: 1e-6, times the largest reward if "
    "that exceeds 1]",
)
@click.option("backend", "--backend", help="The solver of --method lp.  [default: highs]")
@click.option(
    "time_limit",
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Stop then, and say what is known.",
)
@click.option(
    "policy_out",
    "--policy-out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the policy: .npz, .csv or .json.",
)
@click.option(
    "values_out",
    "--values-out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the values: .npz, .csv or .json.",
)
@click.option("top", "--top", type=click.IntRange(1), help="Print the N states of best value.")
@click.option("is_all", "--all", is_flag=True, help="Print every state.")
@model_options
@click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress.")
@json_option
def command(
    model: str,
    discount: float | None,
    label: str | None,
    is_maximised: bool,
    method: str,
    tolerance: float | None,
    backend: str | None,
    time_limit: float | None,
    policy_out: Path | None,
    values_out: Path | None,
    top: int | None,
    is_all: bool,
    settings: tuple[str, ...],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Find the best policy for a model's rewards, or for reaching a label.

    The value is told with a bound that is certified: no state's value is further from the optimum.
    """
    _check_usage(discount, label, method, backend, policy_out, values_out, top, is_all)
    try:
        loaded = built_model(
            model,
            parsed_settings(settings),
            all_states=all_states,
            max_states=max_states,
            is_quiet=is_quiet or as_json,
        )
        _ = loaded.graph
    except ModelError as error:
        fail(error, as_json)
    options = {
        "is_minimised": not is_maximised,
        "method": method,
        "tolerance": tolerance,
        "backend": backend or "highs",
        "time_limit": time_limit,
    }
    with watching(time_limit, tolerance or 1e-6, is_quiet or as_json) as watch:
        outcome = _solved(loaded, discount, label, options, watch)
    status = _status_text(outcome, watch)
    record = _record(loaded, outcome, status, discount, label, is_maximised)
    _write(loaded, outcome, policy_out, values_out)
    if as_json:
        paths = {"policy": policy_out, "values": values_out}
        print_json(record | {k: None if p is None else str(p) for k, p in paths.items()})
    else:
        print_warnings(loaded)
        _print(loaded, outcome, record, top, is_all)
    sys.exit(0 if outcome.status is SolveStatus.OPTIMAL else 1)


def _check_usage(
    discount: float | None,
    label: str | None,
    method: str,
    backend: str | None,
    policy_out: Path | None,
    values_out: Path | None,
    top: int | None,
    is_all: bool,
) -> None:
    """Refuse what can be refused before anything is built."""
    if label is not None and discount is not None:
        raise click.UsageError(
            "--reach asks for a chance, which is not discounted; drop --discount"
        )
    if backend is not None and method != "lp":
        raise click.UsageError("--backend names the solver of a linear program; add --method lp")
    if top is not None and is_all:
        raise click.UsageError("give --top or --all, not both")
    for path, flag in ((policy_out, "--policy-out"), (values_out, "--values-out")):
        if path is None:
            continue
        try:
            check_policy_path(path)
        except PolicyError as error:
            raise click.UsageError(str(error).replace("a policy's file", flag)) from None
        if not path.parent.is_dir():
            raise click.UsageError(f"{flag}: there is no folder {path.parent}")


def _solved(
    model: Model,
    discount: float | None,
    label: str | None,
    options: dict[str, Any],
    watch: CommandWatch,
) -> SolveOutcome:
    from mdpdsl.programs.program import BackendError
    from mdpdsl.solve.discounted import DISCOUNT, solve_discounted
    from mdpdsl.solve.reachability import solve_reachability

    try:
        if label is not None:
            return solve_reachability(model.graph, label, watch=watch, **options)
        chosen = DISCOUNT if discount is None else discount
        return solve_discounted(model.graph, chosen, watch=watch, **options)
    except (SolveError, BackendError) as error:
        raise click.UsageError(str(error)) from None


def _status_text(outcome: SolveOutcome, watch: CommandWatch) -> str:
    if outcome.status is not SolveStatus.STOPPED:
        return str(outcome.status)
    return "interrupted" if watch.is_interrupted else "time limit"


def _record(
    model: Model,
    outcome: SolveOutcome,
    status: str,
    discount: float | None,
    label: str | None,
    is_maximised: bool,
) -> dict[str, Any]:
    from mdpdsl.solve.discounted import DISCOUNT

    graph = model.graph
    rate = None if label is not None else DISCOUNT if discount is None else discount
    return {
        "model": model.name,
        "hash": graph.hash,
        "parameters": dict(model.parameters),
        "states": graph.n_states,
        "pairs": graph.n_pairs,
        "status": status,
        "method": outcome.method,
        "variant": outcome.variant,
        "direction": "max" if is_maximised else "min",
        "discount": rate,
        "label": label,
        "value": outcome.value,
        "bound": outcome.bound,
        "residual": outcome.residual,
        "iterations": outcome.iterations,
        "seconds": outcome.seconds,
        "message": outcome.message,
        "versions": current_versions(),
        **stored_keys(model),
    }


def _write(
    model: Model, outcome: SolveOutcome, policy_out: Path | None, values_out: Path | None
) -> None:
    from mdpdsl.report.policy_table import save_values

    try:
        if policy_out is not None:
            policy = Policy.deterministic(model.name, model.graph, outcome.choice)
            save_policy(policy, model.graph, policy_out)
        if values_out is not None:
            save_values(values_out, model.graph, outcome.choice, outcome.values, outcome.bound)
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename}: {error.strerror}") from None


def _print(
    model: Model, outcome: SolveOutcome, record: dict[str, Any], top: int | None, is_all: bool
) -> None:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from mdpdsl.report.policy_table import aligned, policy_lines

    task = (
        f"{record['direction']}imal chance of reaching {record['label']}"
        if record["label"] is not None
        else f"{record['direction']}imal reward, discount {record['discount']:.12g}"
    )
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("task", task)
    table.add_row("status", record["status"] + (f": {outcome.message}" if outcome.message else ""))
    table.add_row("value", f"{outcome.value:.9g} (from the start)")
    table.add_row("bound", f"{outcome.bound:.2g} (no state's value is further from the optimum)")
    table.add_row("method", f"{outcome.method}: {outcome.variant}")
    table.add_row("iterations", f"{outcome.iterations:,} in {outcome.seconds:.3f} s")
    console = Console(highlight=False, markup=False)
    console.print(f"{model.name} ({record['hash']})")
    console.print(table)
    graph = model.graph
    states = np.arange(graph.n_states)
    if top is not None:
        sign = -1 if record["direction"] == "max" else 1
        states = np.argsort(sign * outcome.values, kind="stable")[:top]
    elif not is_all and graph.n_states > PRINTED_STATES:
        click.echo(f"{graph.n_states:,} states; --top N or --all prints the policy")
        return
    lines = policy_lines(graph, outcome.choice, outcome.values, outcome.bound, states)
    click.echo("\n" + aligned(lines))
