"""`mdpdsl import`: the model of another tool as a model file."""

from __future__ import annotations

from pathlib import Path

import click

from mdpdsl.cli.arguments import json_option
from mdpdsl.cli.output import fail, print_json
from mdpdsl.diagnostics import ModelError
from mdpdsl.formats.gym import GYM

SUFFIXES = (".tra", ".json")
ENDINGS = (".mdp", ".npz")


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "out",
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where to write: .mdp, or .npz for arrays.  [default: the name, .npz if it is large]",
)
@json_option
def command(file: str, out: str | None, as_json: bool) -> None:
    """Read the model of another tool and write it as a model file.

    FILE is a .tra file of PRISM (with .sta, .lab, .srew and .trew beside it), a toy-text table P
    as .json, an .npz file of a graph, or gym:ID for a Gymnasium environment that has a table. Every
    other command takes these in the place of a MODEL, too.
    """
    if not file.startswith(GYM) and Path(file).suffix not in (*SUFFIXES, ".npz"):
        endings = ", ".join((*SUFFIXES, ".npz"))
        raise click.UsageError(f"cannot import `{file}`; give a file in {endings}, or {GYM}ID")
    if out is not None and Path(out).suffix not in ENDINGS:
        raise click.UsageError(f"--out takes a file ending in {' or '.join(ENDINGS)}")
    from mdpdsl.files import write_text
    from mdpdsl.formats.mdp import MANY_BRANCHES, MANY_PAIRS, model_text
    from mdpdsl.formats.mdp_names import allowed_name
    from mdpdsl.formats.npz import save_graph
    from mdpdsl.load import load_stored

    try:
        model = load_stored(file, {})
        graph = model.graph
    except ModelError as error:
        fail(error, as_json)
    is_large = graph.n_pairs >= MANY_PAIRS or graph.n_branches >= MANY_BRANCHES
    name = allowed_name(model.name)
    path = Path(out or f"{name}{'.npz' if is_large else '.mdp'}")
    try:
        if path.suffix == ".npz":
            save_graph(model, path)
        else:
            text = model_text(graph, name, notes=(f"imported from {file}",))
            if not path.parent.is_dir():
                raise FileNotFoundError(2, "No such file or directory", str(path.parent))
            write_text(path, text)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        record = {"states": graph.n_states, "pairs": graph.n_pairs, "branches": graph.n_branches}
        print_json({"path": str(path), **record})
        return
    if is_large and out is None:
        click.echo(
            f"note: {graph.n_branches:,} transitions are kept as arrays; --out {name}.mdp writes "
            "them as text, which takes long to read",
            err=True,
        )
    click.echo(f"{graph.n_states:,} states and {graph.n_pairs:,} pairs written to {path}")
