"""Warm starts of simulated and live runs: read, told, and found again in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mdpdsl.cli.output import counting_rows, fail
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import Diagnostic, ModelError
from mdpdsl.runs.directory import RunDirectory
from mdpdsl.runs.records import RunConfiguration

if TYPE_CHECKING:
    from mdpdsl.explore.warm_start import WarmStart
    from mdpdsl.graph.counts import Counts


def read_warm_start(
    model: Model, sources: tuple[str, ...], is_quiet: bool, as_json: bool
) -> WarmStart | None:
    """Read the counts that a run begins with; say what of them could not be read."""
    if not sources:
        return None
    from mdpdsl.diagnostics import LogError
    from mdpdsl.explore.warm_start import warm_start

    try:
        with counting_rows(is_quiet or as_json) as progress:
            start = warm_start(model.checked, model.graph, sources, progress)
    except LogError as error:
        found = [Diagnostic("E603", p.message, help=p.help) for p in error.problems]
        fail(ModelError(found), as_json)
    if start is not None and not as_json:
        for problem in start.problems:
            hint = f" ({problem.help})" if problem.help else ""
            click.echo(f"warning: {problem.message}{hint}", err=True)
        for reason, number in start.rejected.items():
            click.echo(f"warning: rejected in the warm start, {reason}: {number:,}", err=True)
    return start


def saved_warm_start(
    run: RunDirectory, configuration: RunConfiguration, model: Model
) -> Counts | None:
    """Return the counts that a run began with."""
    if configuration.warm_start is None:
        return None
    from mdpdsl.explore.warm_start import load_warm_start

    return load_warm_start(configuration, run.path, model.graph)
