"""What commands print: JSON and tables on standard output, everything else on standard error."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mdpdsl.diagnostics import Diagnostic, Error, LogError, ModelError
from mdpdsl.progress import Progress, is_terminal

if TYPE_CHECKING:
    from mdpdsl.runs.records import EndRecord

#: The most diagnostics printed for one file.
MOST_PRINTED = 50
#: The most unvisited pairs that are printed.
PRINTED_UNSEEN = 20
#: Seconds before the first line of progress, and at most between two; the wait doubles each time.
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0

#: Arguments of the library whose option has another name.
_OPTIONS = {
    "most_backups": "--backups",
    "discounts_last": "--discount-last",
    "env_arguments": "--env-arg",
    "minimise": "--min",
    "purpose": "--for",
}


def print_json(record: Mapping[str, object]) -> None:
    """Print one JSON object."""
    click.echo(json.dumps(record, allow_nan=False, ensure_ascii=False))


def print_table(title: str, rows: Iterable[tuple[str, str | None]]) -> None:
    """Print names with their values; leave out those without a value."""
    found = [(name, value) for name, value in rows if value is not None]
    width = max((len(name) for name, _ in found), default=0)
    click.echo(title)
    for name, value in found:
        click.echo(f"{name:<{width}}  {value}")


def print_columns(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> None:
    """Print rows under heads: the first columns aligned to the left, the others to the right."""
    found = [tuple(heads), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    for number, row in enumerate(found):
        cells = [
            f"{cell:{'<' if place < left else '>'}{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.secho("  ".join(cells).rstrip(), bold=number == 0)


def print_warning(message: str) -> None:
    """Print a warning."""
    click.echo(f"warning: {as_flags(message)}", err=True)


def print_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Print diagnostics for a person."""
    for diagnostic in diagnostics[:MOST_PRINTED]:
        click.echo(as_flags(diagnostic.render()) + "\n", err=True)
    if len(diagnostics) > MOST_PRINTED:
        click.echo(f"and {len(diagnostics) - MOST_PRINTED} more", err=True)


def print_error(error: Error, as_json: bool) -> None:
    """Print an error of the library; mistakes in a model or a log one by one."""
    if isinstance(error, LogError):
        found = [Diagnostic("E603", as_flags(p.message), help=p.help) for p in error.problems]
        error = ModelError(found)
    if not isinstance(error, ModelError):
        message = as_flags(str(error))
        if as_json:
            print_json({"errors": [plain_error(message, "usage" if error.status == 2 else "run")]})
        else:
            click.echo(f"Error: {message}", err=True)
    elif as_json:
        print_json({"errors": [record_of(d) for d in error.diagnostics if d.is_error]})
    else:
        print_diagnostics(error.diagnostics)


def record_of(diagnostic: Diagnostic) -> dict[str, object]:
    """Return a diagnostic as `--json` prints it, with options for arguments."""
    found: dict[str, object] = dict(diagnostic.record())
    for name in ("message", "help"):
        found[name] = None if found[name] is None else as_flags(str(found[name]))
    return found


def plain_error(message: str, code: str) -> dict[str, object]:
    """Return an error without a place in a file, as `--json` prints it."""
    places = dict.fromkeys(("line", "column", "end_line", "end_column", "help", "witness"))
    return {"code": code, "message": message, **places}


def as_flags(text: str) -> str:
    """Replace the arguments in a message of the library by options: `eta=` becomes --eta."""

    def option(found: re.Match[str]) -> str:
        return _OPTIONS.get(found[1], f"--{found[1].replace('_', '-')}")

    return re.sub(r"`(\w+)=`", option, text)


def several(number: int, noun: str) -> str:
    """Return a number with its noun, singular or plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def figure(value: float | None, error: float | None = None) -> str:
    """Return a figure with its standard error as text."""
    if value is None:
        return "none: every trial failed"
    return f"{value:,.1f}" + (f" ± {error:,.1f}" if error is not None else "")


def loss_rows(worst: float | None, average: float | None, how: str) -> list[tuple[str, str | None]]:
    """Return the rows of a table for L_Worst and L_Avg; none for one that is unknown."""
    found = (("L_Worst", worst), ("L_Avg", average))
    return [(name, None if value is None else f"{value:,.1f} ({how})") for name, value in found]


def ends_text(ends: Sequence[EndRecord], says_ends: bool) -> str:
    """Say in how many states episodes ended, and whether the data can show that."""
    unsaid = "" if says_ends else "the log does not say how episodes stopped"
    if not ends:
        return "none were seen" if says_ends else f"unknown: {unsaid}"
    arrivals = several(sum(end.arrivals for end in ends), "episode")
    n_found = sum(end.found for end in ends)
    found = f", {n_found:,} of them found in the data" if n_found else ""
    there = several(len(ends), "state")
    return f"{arrivals} ended, in {there}{found}{unsaid and f'; {unsaid}'}"


def print_rejections(
    rejected: Mapping[str, int], examples: Mapping[str, Sequence[Any]], clipped: Mapping[str, int]
) -> None:
    """Print what could not be counted, by reason and with examples, and what was clipped."""
    from mdpdsl.logs.rejections import HINTS

    for reason, number in rejected.items():
        click.echo(f"\nrejected, {reason}: {number:,}")
        for example in examples.get(reason, ()):
            click.echo(f"  {example.file}, row {example.row}: {example.found}")
        if reason in HINTS:
            click.echo(f"  = {as_flags(HINTS[reason])}")
    for name, number in clipped.items():
        click.echo(f"\n{number:,} values of {name} were out of range, and count as its end cells")


def print_unseen(graph: Any, counts: Any) -> None:
    """Print the pairs that were never visited."""
    import numpy as np

    from mdpdsl.graph.describe import pair_text

    unseen = np.flatnonzero((counts.visits == 0) & graph.to_learn)
    if len(unseen) == 0:
        return
    verb = "was" if len(unseen) == 1 else "were"
    click.echo(f"\n{several(len(unseen), 'pair')} {verb} never visited")
    for pair in unseen[:PRINTED_UNSEEN].tolist():
        click.echo(f"  {pair_text(graph, pair)}")
    if len(unseen) > PRINTED_UNSEEN:
        click.echo(f"  and {len(unseen) - PRINTED_UNSEEN:,} more")


def print_missing(estimate: str | None, rewards: str | None) -> None:
    """Print why the estimate or its rewards were not written."""
    for what, reason in (("estimate.npz", estimate), ("rewards", rewards)):
        if reason is not None:
            click.echo(f"note: no {what}: {reason}", err=True)


def progress(is_quiet: bool) -> bool | Progress | None:
    """Return how a command shows progress: a bar on a terminal, otherwise lines with --progress."""
    if is_quiet:
        return None
    if is_terminal():
        return True
    context = click.get_current_context(silent=True)
    wants_lines = context is not None and bool(context.meta.get("mdpdsl.progress"))
    return ProgressLines() if wants_lines else None


@contextmanager
def noticing_compilation(is_quiet: bool) -> Iterator[None]:
    """Print when kernels are compiled, which happens only once, and how long it took."""
    if is_quiet:
        yield
        return
    from mdpdsl.kernels.compiled import noticing_compilation

    began, seconds, n_done = 0.0, 0.0, 0

    def notice(n_compiled: int) -> None:
        nonlocal began, seconds, n_done
        began = time.perf_counter() if n_compiled == 0 else began
        seconds, n_done = time.perf_counter() - began, n_compiled
        if n_compiled == 0:
            click.echo("compiling (only once; later runs start immediately) …", err=True)
        elif is_terminal():
            click.echo(f"\r{several(n_compiled, 'kernel')} compiled ", nl=False, err=True)

    with noticing_compilation(notice):
        yield
    if n_done:
        start = "\r" if is_terminal() else ""
        click.echo(f"{start}compiled {several(n_done, 'kernel')} in {seconds:.0f} s", err=True)


class ProgressLines:
    """Shows progress as lines, at growing intervals."""

    def __init__(self) -> None:
        self.begin("")

    def begin(self, title: str, unit: str = "steps") -> None:
        """Begin something new."""
        self._title, self._unit = title, unit
        self._began = time.perf_counter()
        self._wait = FIRST_WAIT
        self._next = self._began + FIRST_WAIT

    def __call__(self, done: int, total: int | None, note: str) -> None:
        """Print a line, if it is time."""
        now = time.perf_counter()
        if now < self._next:
            return
        self._wait = min(2 * self._wait, LONGEST_WAIT)
        self._next = now + self._wait
        if self._unit:
            of = f" of {total:,}" if total else ""
            rate = f"{done / (now - self._began):,.0f} {self._unit}/s"
            line = f"{self._title}: {done:,}{of} {self._unit}, {rate}"
        else:
            line = f"{self._title}: {done / total:.0%}" if total else self._title
        print(f"{line}; {note}" if note else line, file=sys.stderr, flush=True)
