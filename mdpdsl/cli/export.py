"""`mdpdsl export`: a model in another format."""

from __future__ import annotations

from pathlib import Path

import click

from mdpdsl.cli.arguments import json_option, model_options, parsed_settings
from mdpdsl.cli.output import built_model, fail, print_json, print_warnings, stored_keys
from mdpdsl.diagnostics import ModelError


@click.command("export")
@click.argument("model", metavar="MODEL")
@click.option(
    "target",
    "--to",
    type=click.Choice(["npz", "dot", "lp", "mps"]),
    required=True,
    help="npz: NumPy arrays; dot: Graphviz; lp, mps: a planning program of the model.",
)
@click.option(
    "out",
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where to write; the model's name by default.",
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
    """Write a model in another format."""
    overrides = parsed_settings(settings)
    try:
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
    path = Path(out or f"{loaded.name}.{target}")
    try:
        if target == "npz":
            from mdpdsl.estimate.stored import save_graph

            save_graph(loaded, path)
        elif target in ("lp", "mps"):
            from mdpdsl.programs.direction import ProgramError
            from mdpdsl.programs.program import BackendError
            from mdpdsl.report.exports.program import planning_program, write_program

            try:
                planned = planning_program(
                    graph, program, formulation=formulation, kappa=kappa, eta=eta, radius=radius
                )
                write_program(planned, path, target)
            except (BackendError, ProgramError, ValueError) as error:
                raise click.UsageError(str(error)) from None
        else:
            from mdpdsl.report.exports.dot import to_dot

            path.write_text(to_dot(graph), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    if as_json:
        print_json({"path": str(path), "format": target, **stored_keys(loaded)})
    else:
        print_warnings(loaded)
        click.echo(f"written to {path}")
