"""Options that several commands share, and loading the model that they name."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mdpdsl.cli.console import print_diagnostics, progress
from mdpdsl.compile.model import Model

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F) -> F:
    """Add `--json`."""
    return click.option("as_json", "--json", is_flag=True, help="Print one JSON object.")(function)


def quiet_option(function: F) -> F:
    """Add `--quiet`."""
    return click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress.")(function)


def overwrite_option(function: F) -> F:
    """Add `--overwrite`."""
    return click.option("overwrite", "--overwrite", is_flag=True, help="Replace what is there.")(
        function
    )


def model_options(function: F) -> F:
    """Add the options for building a model."""
    for option in (
        click.option(
            "max_states",
            "--max-states",
            type=click.IntRange(1),
            metavar="N",
            help="Allow up to N states.",
        ),
        click.option(
            "all_states", "--all-states", is_flag=True, help="Keep states that cannot be reached."
        ),
        click.option(
            "parameters",
            "--set",
            "--const",
            multiple=True,
            metavar="NAME=VALUE",
            callback=lambda _, __, given: parsed_parameters(given),
            help="Override a parameter; may be repeated.",
        ),
    ):
        function = option(function)
    return function


learn_option = click.option(
    "learn",
    "--learn",
    type=click.Choice(["all"]),
    help="Learn all rows, also those that a model with `?` or unknown numbers writes out.",
)

cluster_option = click.option(
    "cluster",
    "--cluster",
    metavar="ADDRESS",
    help="Work on a Dask cluster (such as tcp://host:8786) instead of this machine.",
)

jobs_option = click.option(
    "jobs",
    "--jobs",
    default="auto",
    callback=lambda _, __, given: parsed_jobs(given),
    help="Number of processes; auto is one per core.",
)


def reading_options(function: F) -> F:
    """Add the options for what a log does not say about itself."""
    for option in (
        click.option(
            "encoding",
            "--encoding",
            metavar="NAME",
            help="Encoding of text files, such as cp1252.  [default: UTF-8, or what they say]",
        ),
        click.option(
            "decimal",
            "--decimal",
            metavar="[.|,]",
            default=".",
            show_default=True,
            help="The decimal sign of numbers in text files.",
        ),
        click.option(
            "time_format",
            "--time-format",
            metavar="FORMAT",
            help="How times are written, such as '%d.%m.%Y %H:%M:%S'; ISO needs no format.",
        ),
        click.option("dayfirst", "--dayfirst", is_flag=True, help="Read 03/04/2026 as 3 April."),
    ):
        function = option(function)
    return function


clip_option = click.option(
    "clip_anyway",
    "--clip-anyway",
    is_flag=True,
    help="Count even if most values of a variable are out of its range, as its end cells.",
)


def load_model(
    path: str,
    parameters: dict[str, str],
    all_states: bool = False,
    max_states: int | None = None,
    learn: str | None = None,
    *,
    is_quiet: bool = True,
    is_built: bool = True,
) -> Model:
    """Load a model and build its graph, with progress on a terminal."""
    from mdpdsl.load import load_with
    from mdpdsl.progress import shown

    model = load_with(path, parameters, all_states=all_states, max_states=max_states, learn=learn)
    if is_built:
        with shown(progress(is_quiet), "building", "states") as update:
            show = None if update is None else lambda done, total: update(done, total, "states")
            model.build(show)
    return model


def print_model_warnings(model: Model) -> None:
    """Print the warnings about a model that was built."""
    print_diagnostics([d for d in model.diagnose() if not d.is_error])


def parsed_parameters(given: tuple[str, ...]) -> dict[str, str]:
    """Split `name=value` options."""
    found: dict[str, str] = {}
    for setting in given:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise click.UsageError(f"--set takes NAME=VALUE, not `{setting}`")
        if name.strip() in found:
            raise click.UsageError(f"--set gives `{name.strip()}` twice")
        found[name.strip()] = value.strip()
    return found


def parsed_arguments(given: tuple[str, ...]) -> dict[str, Any] | None:
    """Read the arguments of an environment: JSON, or text without quotes."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise click.UsageError(f"--env-arg takes NAME=VALUE, not `{text}`")
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:  # text needs no quotes
            found[name.strip()] = value
    return found or None


def parsed_kappa(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Read a curvature: 1 or more, or `inf`."""
    if text is None:
        return None
    try:
        kappa = float(text.replace("_", ""))
    except ValueError:
        kappa = math.nan
    if not kappa >= 1:
        raise click.UsageError(f"kappa must be 1 or more, or inf; not `{text}`")
    return kappa


def whole_number(text: str) -> int:
    """Read a whole number as people write it: 100000, 100_000, 1e5."""
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        number = float("nan")
    if not number.is_integer():
        raise click.BadParameter(f"`{text}` is not a whole number")
    return int(number)


def parsed_jobs(jobs: str) -> int | None:
    """Read the number of processes."""
    if jobs == "auto":
        return None
    if not jobs.isdigit() or int(jobs) == 0:
        raise click.UsageError(f"--jobs takes a number or auto, not `{jobs}`")
    return int(jobs)
