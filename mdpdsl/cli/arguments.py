"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F) -> F:
    """Add `--json`."""
    return click.option("as_json", "--json", is_flag=True, help="Print one JSON object.")(function)


def model_options(function: F) -> F:
    """Add the options that say which model a file makes."""
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
            "settings",
            "--set",
            "--const",
            multiple=True,
            metavar="NAME=VALUE",
            help="Override a parameter; may be repeated.",
        ),
    ):
        function = option(function)
    return function


cluster_option = click.option(
    "cluster",
    "--cluster",
    metavar="ADDRESS",
    help="Work on a Dask cluster, as tcp://host:8786, instead of this machine.",
)


def parsed_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """Split `name=value` options."""
    found: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise click.UsageError(f"--set takes NAME=VALUE, not `{setting}`")
        if name.strip() in found:
            raise click.UsageError(f"--set gives `{name.strip()}` twice")
        found[name.strip()] = value.strip()
    return found


def several(number: int, noun: str) -> str:
    """Say how many of something there are."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def parsed_kappa(text: str) -> float:
    """Read a curvature: a number from 1 on, or `inf`."""
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
