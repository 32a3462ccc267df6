"""`mdpdsl show`: a model in numbers, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mdpdsl.cli.console import print_json, print_table, several
from mdpdsl.cli.options import (
    json_option,
    load_model,
    model_options,
    overwrite_option,
    print_model_warnings,
    quiet_option,
)
from mdpdsl.compile.stored import stored_keys

if TYPE_CHECKING:
    from mdpdsl.report.model_summary import ModelSummary

PICTURES = (".svg", ".png", ".dot")


@click.command("show")
@click.argument("model", metavar="MODEL")
@click.option(
    "picture",
    "--graph",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the model to a .svg, .png or .dot file.",
)
@overwrite_option
@model_options
@quiet_option
@json_option
def command(
    model: str,
    picture: Path | None,
    overwrite: bool,
    parameters: dict[str, str],
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Show the size, classes and complexity of a model, or draw it."""
    from mdpdsl.report.model_summary import describe, draw

    if picture is not None and picture.suffix not in PICTURES:
        raise click.UsageError(f"--graph takes a file ending in {', '.join(PICTURES)}")
    loaded = load_model(model, parameters, all_states, max_states, is_quiet=is_quiet or as_json)
    summary = describe(loaded)
    if picture is not None:
        draw(loaded, picture, overwrite=overwrite)
    if as_json:
        drawn = {"graph": None if picture is None else str(picture)}
        print_json(summary.record() | drawn | stored_keys(loaded))
        return
    print_model_warnings(loaded)
    title = f"{summary.name}: {summary.title}" if summary.title else summary.name
    print_table(title, _rows(summary))
    if picture is not None:
        click.echo(f"Wrote {picture}")


def _rows(summary: ModelSummary) -> list[tuple[str, str | None]]:
    known = summary.knowledge
    unknown = set() if known is None else {number.name for number in known.unknowns}
    parameters = ", ".join(
        f"{name} = {value}" for name, value in summary.parameters.items() if name not in unknown
    )
    rows: list[tuple[str, str | None]] = [
        ("variables", "; ".join(summary.variables)),
        ("actions", "; ".join(summary.action_list)),
        ("parameters", parameters or None),
        ("states", f"{summary.states:,}"),
        ("ends", f"{summary.ends:,}" if summary.ends else None),
        ("pairs", f"{summary.pairs:,}"),
    ]
    rows += [] if known is None else known.described
    if summary.classes is None:
        rows.append(("dynamics", "unknown: to be estimated from logs or a live system"))
    else:
        rows += [
            ("branches", f"{summary.branches:,} ({summary.branches / summary.pairs:.3g} per pair)"),
            ("classes", "1: communicating" if summary.communicating else f"{summary.classes:,}"),
            ("unreachable", several(summary.unreachable or 0, "state")),
        ]
    if summary.complexity is not None:
        least, mean, most = (summary.complexity[name] for name in ("min", "mean", "max"))
        rows.append(("complexity", f"min {least:.4g}, mean {mean:.4g}, max {most:.4g}"))
    if summary.labels:
        labels = [f"{name} ({several(n, 'state')})" for name, n in summary.labels.items()]
        rows.append(("labels", ", ".join(labels)))
    if summary.rewards not in ([], ["default"]):
        rows.append(("rewards", ", ".join(summary.rewards)))
    rows += [(f"property {name}", text) for name, text in summary.properties.items()]
    if summary.discretization is not None:
        how = summary.discretization
        points = "1 point" if how["points"] == 1 else f"{how['points']} points"
        rows.append(
            (
                "discretization",
                f"{how['cells']}, {points} per cell, noise by {how['noise']}, "
                f"error {how['error']:.1e}",
            )
        )
    return [*rows, ("hash", summary.hash), ("built in", f"{summary.build_seconds:.3f} s")]
