"""What commands print: JSON on standard output, mistakes and progress on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from mdpdsl.compile.expand import Progress
from mdpdsl.compile.model import Model, read_source
from mdpdsl.compile.stored import StoredModel
from mdpdsl.diagnostics import Diagnostic, ModelError
from mdpdsl.load import is_stored, load_stored

#: Diagnostics printed for one file; more than that is noise.
MOST_PRINTED = 50


def print_json(record: Mapping[str, object]) -> None:
    """Print one JSON object; what has no place in JSON (NaN, infinity) becomes null."""
    click.echo(json.dumps(record, allow_nan=False, ensure_ascii=False))


def print_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Print diagnostics for a person."""
    for diagnostic in diagnostics[:MOST_PRINTED]:
        click.echo(diagnostic.render() + "\n", err=True)
    if len(diagnostics) > MOST_PRINTED:
        click.echo(f"and {len(diagnostics) - MOST_PRINTED} more", err=True)


def fail(error: ModelError, as_json: bool) -> NoReturn:
    """Report the mistakes of an input and exit with 2."""
    if as_json:
        print_json({"errors": [d.record() for d in error.diagnostics if d.is_error]})
    else:
        print_diagnostics(error.diagnostics)
    sys.exit(2)


def built_model(
    path: str,
    overrides: Mapping[str, str],
    *,
    all_states: bool,
    max_states: int | None,
    is_quiet: bool,
) -> Model:
    """Load a model and build its graph, with progress on a terminal; raise ModelError.

    A stored one (a run directory, an `.npz` file) is read.
    """
    if is_stored(path):
        return load_stored(path, overrides, all_states=all_states)
    source = read_source(path)
    with _building(is_quiet) as progress:
        model = Model(
            source,
            overrides,
            keeps_all_states=all_states,
            most_states=max_states,
            progress=progress,
        )
        _ = model.graph
    return model


def built_spaces(
    path: str, overrides: Mapping[str, str], *, max_states: int | None, is_quiet: bool
) -> Model:
    """Build a model over all its states; where some of them cannot be, over those it reaches."""
    if is_stored(path):
        raise click.UsageError(
            f"{path} is a graph already; give the model file, {Path(path) / 'model.mdp'}"
            if Path(path).is_dir()
            else f"{path} is a graph already; give the model file that says how to read a log"
        )
    try:
        return built_model(
            path, overrides, all_states=True, max_states=max_states, is_quiet=is_quiet
        )
    except ModelError:
        return built_model(
            path, overrides, all_states=False, max_states=max_states, is_quiet=is_quiet
        )


@contextmanager
def counting_rows(is_quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Count the rows of a log on a terminal."""
    if is_quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading")
        yield lambda rows: bar.update(task, description=f"{rows:,} rows")


def stored_keys(model: Model) -> dict[str, object]:
    """Return what a record says of a model that was read: from where, and what was never seen."""
    if not isinstance(model, StoredModel):
        return {}
    known = model.provenance
    return {"stored": known.path, "unseen_pairs": known.unseen_pairs or 0}


def print_warnings(model: Model) -> None:
    """Print what a person has to know of a model that was built."""
    print_diagnostics([d for d in model.diagnose() if not d.is_error])


@contextmanager
def _building(is_quiet: bool) -> Iterator[Progress | None]:
    """Show the progress of an expansion on a terminal, from its first second on."""
    if is_quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("building", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
