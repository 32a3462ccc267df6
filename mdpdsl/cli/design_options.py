"""Options of the commands that design experiments for unknown numbers, and what they print."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mdpdsl.cli.console import print_table

if TYPE_CHECKING:
    from mdpdsl.estimate.learned_numbers import LearnedNumbers
    from mdpdsl.solve.allocate_numbers import ExperimentDesign

#: How many of the most visited pairs are printed.
MOST_LISTED = 5
#: How many rows that contradict a law are printed.
PRINTED_MISFITS = 5

F = TypeVar("F", bound=Callable[..., Any])


def design_options(function: F) -> F:
    """Add the purpose of an experiment, and how experiments for unknown numbers are judged."""
    for option in (
        click.option(
            "mix",
            "--mix",
            type=click.FloatRange(0),
            help="With --for parameters: weight of rows with `?`, each loss in units of its own "
            "optimum.  [default: 1]",
        ),
        click.option(
            "criterion",
            "--criterion",
            type=click.Choice(["a", "d"]),
            help="With --for parameters: a for the sum of variances in units of the ranges, d for "
            "the volume of the confidence set.  [default: a]",
        ),
        click.option(
            "purpose",
            "--for",
            type=click.Choice(["parameters"]),
            help="Explore for the model's unknown numbers, rather than for all rows alike.",
        ),
    ):
        function = option(function)
    return function


def purposeful(purpose: str | None, **asked: object) -> dict[str, Any]:
    """Return the arguments that were given; without the purpose, there must be none."""
    given = {name: value for name, value in asked.items() if value is not None}
    if purpose is None and given:
        option = f"--{next(iter(given))}"
        raise click.UsageError(f"{option} is about unknown numbers; give --for parameters, too")
    return given if purpose is None else given | {"purpose": purpose}


def parsed_weights(
    _: click.Context, __: click.Parameter, text: str | None
) -> str | dict[str, float] | None:
    """Read the weights of numbers: a word, or NAME=WEIGHT joined by commas."""
    if text is None or "=" not in text:
        return text
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _equals, value = part.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise click.UsageError(f"--weights takes NAME=WEIGHT,…, not `{part}`") from None
    return found


def print_design(found: ExperimentDesign, written: list[Path]) -> None:
    """Print the best experiment for unknown numbers, beside random actions."""
    from mdpdsl.compile.set_model import value_text
    from mdpdsl.graph.describe import pair_text

    graph, d = found.model.graph, found.occupancy
    rows: list[tuple[str, str | None]] = [
        ("experiment", f"{found.steps:,} steps, {found.criterion.upper()}-optimal"),
        ("rows with ?", None if found.mix is None else f"count with weight {found.mix:g}"),
        ("status", f"{found.status} ({found.iterations} steps, {found.seconds:.3f} s)"),
        ("gap", f"{found.gap:.1e} at most, relative"),
    ]
    columns = zip(found.names, found.theta, found.deviations, found.random.deviations, strict=True)
    for name, value, best, random in columns:
        by_chance = f"± {random:.2g}" if math.isfinite(random) else "no value"
        beside = f"random actions: {by_chance}" if math.isfinite(best) else "no experiment shows it"
        rows.append((name, f"{value_text(value, best)} ({beside})"))
    most = (-d).argsort(kind="stable")[:MOST_LISTED].tolist()
    rows += [("most visits", f"{d[pair]:.3g}  {pair_text(graph, pair)}") for pair in most]
    rows += [("written to", str(path)) for path in written]
    print_table(f"{found.model.name} ({graph.hash})", rows)


def print_numbers(found: LearnedNumbers | None) -> None:
    """Print unknown numbers with their deviations and intervals, and where they do not fit."""
    from mdpdsl.compile.set_model import interval_text, value_text

    if found is None:
        return
    source = "" if found.source == "counts" else f", from {found.source}"
    click.echo(f"\nunknown numbers (intervals that hold at every look{source})")
    width = max(len(name) for name in found.parameters.names)
    for each in found.parameters.records():
        shown = "no value in its range fits"
        if each["value"] is None and each["low"] is not None:
            shown = f"not found, in {interval_text(each['low'], each['high'])}"
        elif each["low"] is not None:
            value = value_text(each["value"], each["deviation"])
            shown = f"{value}, in {interval_text(each['low'], each['high'])}"
        click.echo(f"  {each['name']:{width}}  {shown}")
    for note in found.notes:
        click.echo(f"  note: {note}")
    texts = found.misfit.texts
    for text in texts[:PRINTED_MISFITS]:
        click.echo(f"  misfit: {text}")
    if len(texts) > PRINTED_MISFITS:
        click.echo(f"  and {len(texts) - PRINTED_MISFITS:,} more contradictions to the law")
