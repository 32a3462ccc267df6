"""`mdpdsl export`: a model in another format, or all models that a run allows."""

from __future__ import annotations

from typing import Any

import click

from mdpdsl.cli.console import as_flags, print_json, several
from mdpdsl.cli.options import (
    json_option,
    load_model,
    model_options,
    overwrite_option,
    print_model_warnings,
    quiet_option,
)

FORMATS = (
    "prism: PRISM source; explicit: PRISM's explicit files; drn: Storm's DRN; gym: Gymnasium's "
    "toy-text table as JSON; quantecon: QuantEcon's state-action pairs; npz: NumPy arrays; dot: "
    "Graphviz; lp: a planning program; mps: the same as MPS."
)
#: Formats whose options are those of a planning program.
PROGRAMS = ("lp", "mps")


@click.command("export")
@click.argument("model", metavar="MODEL|RUN")
@click.option("to", "--to", metavar="FORMAT", required=True, help=FORMATS)
@click.option(
    "out",
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where to write. For explicit: the .tra file, or its stem.  [default: the model's name]",
)
@click.option(
    "intervals",
    "--intervals",
    is_flag=True,
    help="Write the interval MDP of a RUN: every model it allows (prism, explicit and drn).",
)
@click.option(
    "support",
    "--support",
    type=click.Choice(("auto", "model", "seen", "all")),
    default="auto",
    show_default=True,
    help="With --intervals: possible successors of a pair, those of the model or any state.",
)
@click.option(
    "delta",
    "--delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="With --intervals: risk that the truth is not among them.  [default: the run's]",
)
@click.option(
    "program",
    "--program",
    type=click.Choice(["oracle", "interior"]),
    help="For lp and mps: max <c^kappa, d> (the default), or the largest share that every pair can "
    "have.",
)
@click.option(
    "formulation",
    "--formulation",
    type=click.Choice(["compact", "full"]),
    help="For lp and mps: how the confidence sets are written.  [default: compact]",
)
@click.option("kappa", "--kappa", type=click.FloatRange(1), help="For lp and mps: curvature.")
@click.option(
    "eta",
    "--eta",
    type=click.FloatRange(0, 0.5),
    help="For lp and mps: half of the least share of a pair.",
)
@click.option(
    "radius",
    "--radius",
    type=click.FloatRange(0, 2),
    help="For lp and mps: l1 radius around every row of P.",
)
@overwrite_option
@model_options
@quiet_option
@json_option
def command(
    model: str,
    to: str,
    out: str | None,
    intervals: bool,
    support: str,
    delta: float | None,
    overwrite: bool,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write a model, or all models that a run allows, in another format."""
    from mdpdsl.exchange import export
    from mdpdsl.formats.foreign import format_named

    format_named(to)
    given = {name: value for name, value in options.items() if value is not None}
    if given and to not in PROGRAMS:
        raise click.UsageError(f"--{next(iter(given))} is for {' and '.join(PROGRAMS)}")
    if not intervals:
        loaded = load_model(model, parameters, all_states, max_states, is_quiet=is_quiet or as_json)
        given |= {"support": support, "delta": delta, "overwrite": overwrite}
        done = export(loaded, out, to=to, **given)
    elif parameters:
        named = ", ".join(parameters)
        raise click.UsageError(f"{model} is a run; {named} was set when it was made")
    else:
        done = export(
            model,
            out,
            to=to,
            intervals=True,
            support=support,
            delta=delta,
            all_states=all_states,
            overwrite=overwrite,
        )
    if as_json:
        print_json(done.record())
        return
    if done.model is not None:
        print_model_warnings(done.model)
    if done.intervals is not None:
        reason = as_flags(done.intervals.reason)
        click.echo(f"support: {done.intervals.support} ({reason})", err=True)
        if done.intervals.warning is not None:
            click.echo(f"warning: {done.intervals.warning}", err=True)
        if n_unseen := done.intervals.pairs_unseen:
            verb = "was" if n_unseen == 1 else "were"
            click.echo(f"{several(n_unseen, 'pair')} {verb} never visited", err=True)
    click.echo(f"Wrote {', '.join(str(path) for path in done.paths)}")
    for note in () if done.intervals is None else done.intervals.notes:
        click.echo(f"  {note}")
