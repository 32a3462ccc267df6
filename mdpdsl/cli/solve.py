"""`mdpdsl solve`: a policy for the model's rewards, or for reaching a label."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mdpdsl.cli.console import print_json, progress
from mdpdsl.cli.options import (
    json_option,
    load_model,
    model_options,
    overwrite_option,
    print_model_warnings,
    quiet_option,
)
from mdpdsl.cli.question_options import question_options, robust_options
from mdpdsl.cli.solution_output import answer_text, print_solution
from mdpdsl.formats.policy_files import PolicyError, check_policy_path
from mdpdsl.solve.solution import METHODS


@click.command("solve")
@click.argument("model", metavar="MODEL")
@question_options
@robust_options
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
    asked: str | None,
    props: Path | None,
    is_maximised: bool,
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
    **given: Any,
) -> None:
    """Find the best policy for a question about a model: rewards, a label, or a property.

    The value comes with certified bounds. Those of an estimate are about the estimated model; there
    are none if its value rests on pairs that were never visited. With --robust they are about the
    true model: what the policy is guaranteed to achieve, with confidence 1 - delta, and what no
    policy can exceed.
    """
    from mdpdsl.solve.solve_model import solve

    if top is not None and is_all:
        raise click.UsageError("give --top or --all, not both")
    check_file(policy_out, "--policy-out", overwrite)
    check_file(values_out, "--values-out", overwrite)
    is_quiet = is_quiet or as_json
    if props is not None:
        _solve_file(
            model,
            props,
            asked,
            parameters,
            all_states,
            max_states,
            is_quiet,
            as_json,
            given
            | {"--min": not is_maximised, "--policy-out": policy_out, "--values-out": values_out},
        )
    loaded = _loaded(model, parameters, all_states, max_states, is_quiet, given["robust"])
    found = solve(loaded, asked, minimise=not is_maximised, progress=progress(is_quiet), **given)
    if policy_out is not None:
        found.save_policy(policy_out, overwrite=overwrite)
    if values_out is not None:
        found.save(values_out, overwrite=overwrite)
    if as_json:
        paths = {"policy": policy_out, "values": values_out}
        print_json(found.record() | {k: None if p is None else str(p) for k, p in paths.items()})
    else:
        _print_warnings(loaded)
        print_solution(found, top, is_all)
    sys.exit(0 if found.is_optimal else 1)


def _loaded(
    path: str,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    robust: bool,
) -> Any:
    """Load a model, or open the run that a robust solution needs."""
    from mdpdsl.load import open_run

    if not robust:
        return load_model(path, parameters, all_states, max_states, is_quiet=is_quiet)
    if parameters or all_states or max_states is not None:
        raise click.UsageError(
            "--robust takes a run as it is; leave out --set, --all-states and --max-states"
        )
    if not Path(path).is_dir():
        raise click.UsageError(
            f"--robust needs the folder of a run, made by `mdpdsl estimate` or `mdpdsl explore`; "
            f"{path} is none"
        )
    return open_run(path)


def _print_warnings(loaded: Any) -> None:
    """Print the warnings about a model; sets of rows say themselves what was never visited."""
    if hasattr(loaded, "diagnose"):
        print_model_warnings(loaded)


#: How a file of properties is solved; other options ask something themselves.
_HOW = ("method", "tolerance", "backend", "time_limit", "robust", "delta", "support", "shape")


def _solve_file(
    model: str,
    props: Path,
    asked: str | None,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
    given: dict[str, Any],
) -> None:
    """Answer all properties of a file, or those of one name; exit."""
    from mdpdsl.compile.properties import undefined_constants
    from mdpdsl.solve.solve_model import solve_file

    others = [name for name, value in given.items() if name not in _HOW and value]
    if others:
        flag = others[0] if others[0].startswith("--") else f"--{others[0].replace('_', '-')}"
        raise click.UsageError(f"--props asks the questions itself; leave out {flag}")
    constants = {
        name: parameters.pop(name) for name in undefined_constants(props) if name in parameters
    }
    loaded = _loaded(model, parameters, all_states, max_states, is_quiet, given["robust"])
    how = {name: given[name] for name in _HOW}
    found = solve_file(
        loaded, props, asked, constants=constants, progress=progress(is_quiet), **how
    )
    if as_json:
        print_json({"properties": [solution.record() for solution in found]})
    else:
        _print_warnings(loaded)
        for solution in found:
            name = "" if solution.question.name is None else f"{solution.question.name}: "
            click.echo(f"{name}{solution.question.text}\n  {answer_text(solution)}")
    sys.exit(0 if all(solution.is_optimal for solution in found) else 1)


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
