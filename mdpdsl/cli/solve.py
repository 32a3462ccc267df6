"""`mdpdsl solve`: a policy for the model's rewards, or for reaching a label."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mdpdsl.cli.console import print_json, print_table, progress
from mdpdsl.cli.options import (
    json_option,
    load_model,
    model_options,
    overwrite_option,
    print_model_warnings,
    quiet_option,
)
from mdpdsl.formats.policy_files import PolicyError, check_policy_path
from mdpdsl.solve.solution import METHODS

if TYPE_CHECKING:
    from mdpdsl.solve.solve_model import Solution

#: The policy is printed by default if the model has at most this many states.
PRINTED_STATES = 30


@click.command("solve")
@click.argument("model", metavar="MODEL")
@click.option(
    "discount",
    "--discount",
    type=float,
    help="Discount factor of rewards, in [0, 1).  [default: 0.99]",
)
@click.option(
    "reach",
    "--reach",
    metavar="LABEL",
    help="Use the probability of reaching a label, not rewards.",
)
@click.option(
    "is_maximised", "--max/--min", default=True, help="Maximise (the default) or minimise."
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
    help="Stop after this time, with what is known by then.",
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
@click.option(
    "top", "--top", type=click.IntRange(1), help="Print the N states with the best values."
)
@click.option("is_all", "--all", is_flag=True, help="Print every state.")
@overwrite_option
@model_options
@quiet_option
@json_option
def command(
    model: str,
    discount: float | None,
    reach: str | None,
    is_maximised: bool,
    method: str,
    tolerance: float | None,
    backend: str | None,
    time_limit: float | None,
    policy_out: Path | None,
    values_out: Path | None,
    top: int | None,
    is_all: bool,
    overwrite: bool,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Find the best policy for a model's rewards, or for reaching a label.

    The value comes with a certified bound: no state's value is further from the optimum. The bound
    of an estimate is about the estimated model; it has none if its value rests on pairs that were
    never visited.
    """
    from mdpdsl.solve.solve_model import solve

    if top is not None and is_all:
        raise click.UsageError("give --top or --all, not both")
    check_file(policy_out, "--policy-out", overwrite)
    check_file(values_out, "--values-out", overwrite)
    is_quiet = is_quiet or as_json
    loaded = load_model(model, parameters, all_states, max_states, is_quiet=is_quiet)
    found = solve(
        loaded,
        discount=discount,
        reach=reach,
        minimise=not is_maximised,
        method=method,
        tolerance=tolerance,
        backend=backend,
        time_limit=time_limit,
        progress=progress(is_quiet),
    )
    if policy_out is not None:
        found.save_policy(policy_out, overwrite=overwrite)
    if values_out is not None:
        found.save(values_out, overwrite=overwrite)
    if as_json:
        paths = {"policy": policy_out, "values": values_out}
        print_json(found.record() | {k: None if p is None else str(p) for k, p in paths.items()})
    else:
        print_model_warnings(loaded)
        _print(found, top, is_all)
    sys.exit(0 if found.is_optimal else 1)


def check_file(path: Path | None, flag: str, overwrite: bool) -> None:
    """Refuse a file that cannot hold a policy, or is there already, before any work is done."""
    from mdpdsl.files import require_absent

    if path is None:
        return
    try:
        check_policy_path(path)
    except PolicyError as error:
        raise click.UsageError(f"{flag}: {error}") from None
    if not path.parent.is_dir():
        raise click.UsageError(f"{flag}: there is no folder {path.parent}")
    require_absent(path, overwrite)


def _print(found: Solution, top: int | None, is_all: bool) -> None:
    import numpy as np

    from mdpdsl.report.policy_table import aligned, policy_lines

    outcome, graph = found.outcome, found.model.graph
    direction = "minimal" if found.minimise else "maximal"
    task = (
        f"{direction} probability of reaching {found.reach}"
        if found.reach is not None
        else f"{direction} reward, discount {found.discount:.12g}"
    )
    guess = "; partly a guess" if found.rests_on_unseen else ""
    message = f": {outcome.message}" if outcome.message else ""
    print_table(
        f"{found.model.name} ({graph.hash})",
        [
            ("task", task),
            ("status", f"{found.status}{message}"),
            ("value", f"{found.value:.9g} (from the start{guess})"),
            ("bound", found.bound_text),
            ("method", f"{outcome.method}: {outcome.variant}"),
            ("iterations", f"{outcome.iterations:,} in {outcome.seconds:.3f} s"),
        ],
    )
    states = np.arange(graph.n_states)
    if top is not None:
        sign = 1 if found.minimise else -1
        states = np.argsort(sign * found.values, kind="stable")[:top]
    elif not is_all and graph.n_states > PRINTED_STATES:
        click.echo(f"{graph.n_states:,} states; --top N or --all prints the policy")
        return
    lines = policy_lines(graph, outcome.choice, found.values, outcome.bound, states)
    click.echo("\n" + aligned(lines))
