"""`mdpdsl import`: the model of another tool as a model file."""

from __future__ import annotations

import click

from mdpdsl.cli.console import print_json
from mdpdsl.cli.options import (
    json_option,
    overwrite_option,
)


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "out",
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where to write: .mdp, or .npz for arrays.  [default: NAME.mdp, or NAME.npz if large]",
)
@overwrite_option
@json_option
def command(file: str, out: str | None, overwrite: bool, as_json: bool) -> None:
    """Read the model of another tool and write it as a model file.

    FILE is a .tra file of PRISM (with .sta, .lab, .srew and .trew beside it), a toy-text table P
    as .json, an .npz file of a graph, or gym:ID for a Gymnasium environment that has a table. Other
    commands accept these as a MODEL, too.
    """
    from mdpdsl.exchange import import_model

    found = import_model(file, out or True, overwrite=overwrite)
    if as_json:
        print_json(found.record())
        return
    graph = found.model.graph
    if found.is_large and out is None:
        click.echo(
            f"note: {graph.n_branches:,} transitions are kept as arrays; --out {found.name}.mdp "
            "writes them as text, which is slow to read",
            err=True,
        )
    click.echo(f"Wrote {found.path} ({graph.n_states:,} states, {graph.n_pairs:,} pairs)")
