"""`mdpdsl export`: a model in another format, or all the models that a run allows."""

from __future__ import annotations

from pathlib import Path

import click

from mdpdsl.cli.arguments import json_option, model_options, parsed_settings
from mdpdsl.cli.exporting import FORMATS, ProgramChoice, write_intervals, write_model
from mdpdsl.cli.output import built_model, fail, print_json, print_warnings, stored_keys
from mdpdsl.diagnostics import ModelError, did_you_mean


def _known_format(_: click.Context, __: click.Parameter, value: str) -> str:
    if value in FORMATS:
        return value
    hint = did_you_mean(value, FORMATS)
    listed = f"the formats are {', '.join(FORMATS)}"
    raise click.BadParameter(f"`{value}` is not a format; {f'{hint} ' if hint else ''}{listed}")


@click.command("export")
@click.argument("model", metavar="MODEL|RUN")
@click.option(
    "target",
    "--to",
    metavar="FORMAT",
    callback=_known_format,
    required=True,
    help="; ".join(f"{name}: {what.title}" for name, what in FORMATS.items()) + ".",
)
@click.option(
    "out",
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where to write; the model's name by default. For explicit: the .tra file, or a stem.",
)
@click.option(
    "has_intervals",
    "--intervals",
    is_flag=True,
    help="Of a RUN, for prism, explicit and drn: an interval MDP with every model it allows.",
)
@click.option(
    "support",
    "--support",
    type=click.Choice(("auto", "model", "all")),
    default="auto",
    show_default=True,
    help="With --intervals: the successors that a pair may have, the model's own or all states.",
)
@click.option(
    "delta",
    "--delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="With --intervals: the risk that the truth is none of them.  [default: the run's]",
)
@click.option(
    "program",
    "--program",
    type=click.Choice(["oracle", "interior"]),
    default="oracle",
    show_default=True,
    help="For lp and mps: max <c^kappa, d>, or the largest share that every pair can have.",
)
@click.option(
    "formulation",
    "--formulation",
    type=click.Choice(["compact", "full"]),
    default="compact",
    show_default=True,
    help="For lp and mps: how the confidence sets are written.",
)
@click.option(
    "kappa", "--kappa", type=click.FloatRange(1), default=1.0, help="For lp and mps: curvature."
)
@click.option(
    "eta",
    "--eta",
    type=click.FloatRange(0, 0.5),
    default=0.0,
    help="For lp and mps: half of the least share of a pair.",
)
@click.option(
    "radius",
    "--radius",
    type=click.FloatRange(0, 2),
    default=0.0,
    help="For lp and mps: l1 radius around every row of P.",
)
@model_options
@click.option("is_quiet", "--quiet", is_flag=True, help="Show no progress.")
@json_option
def command(
    model: str,
    target: str,
    out: str | None,
    has_intervals: bool,
    support: str,
    delta: float | None,
    program: str,
    formulation: str,
    kappa: float,
    eta: float,
    radius: float,
    settings: tuple[str, ...],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Write a model, or all models that a run allows, in another format."""
    if not has_intervals and (delta is not None or support != "auto"):
        raise click.UsageError("--delta and --support are for --intervals")
    overrides = parsed_settings(settings)
    try:
        if has_intervals:
            _refuse_settings(model, overrides)
            _export_intervals(model, target, out, support, delta, all_states, as_json)
            return
        loaded = built_model(
            model,
            overrides,
            all_states=all_states,
            max_states=max_states,
            is_quiet=is_quiet or as_json,
        )
        graph = loaded.graph
    except ModelError as error:
        fail(error, as_json)
    path = Path(out or f"{loaded.name}{FORMATS[target].suffix}")
    chosen = ProgramChoice(program, formulation, kappa, eta, radius)
    paths = write_model(loaded, graph, target, path, chosen)
    record: dict[str, object] = {"path": str(paths[0]), "format": target}
    if len(paths) > 1:
        record["paths"] = [str(each) for each in paths]
    if as_json:
        print_json(record | stored_keys(loaded))
    else:
        print_warnings(loaded)
        click.echo(f"written to {', '.join(str(each) for each in paths)}")


def _export_intervals(
    run: str,
    target: str,
    out: str | None,
    support: str,
    delta: float | None,
    all_states: bool,
    as_json: bool,
) -> None:
    """Write the interval MDP of a run and say how it was made."""
    found, paths = write_intervals(run, target, out, support, delta, all_states)
    graph = found.intervals.graph
    if as_json:
        print_json(
            {
                "path": str(paths[0]),
                "format": target,
                "paths": [str(each) for each in paths],
                "intervals": True,
                "support": found.support,
                "support_reason": found.reason,
                "delta": found.delta,
                "states": graph.n_states,
                "pairs": graph.n_pairs,
                "branches": graph.n_branches,
                "unseen_pairs": found.pairs_unseen,
            }
        )
        return
    click.echo(f"support: {found.support} ({found.reason})", err=True)
    if found.pairs_unseen:
        click.echo(f"{found.pairs_unseen:,} pairs were never seen", err=True)
    click.echo(f"written to {', '.join(str(each) for each in paths)}")
    for note in found.notes:
        click.echo(f"  {note}")


def _refuse_settings(run: str, overrides: dict[str, str]) -> None:
    if overrides:
        named = ", ".join(overrides)
        raise click.UsageError(f"{run} is a run: {named} was set when it was made, and stays")
