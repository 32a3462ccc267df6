"""What `explore` and `compare` show as they run: a live view on a terminal, lines in a log.

Steps and rate are of now; the pairs visited and L are of each trial's last checkpoint, of which
there are six in every decade of steps, so that looking costs next to nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from mdpdsl.explore.executor import Progress
from mdpdsl.explore.optimum import Limits
from mdpdsl.explore.standing import Standing

#: Seconds before the first line of a log, and the most between two; each wait is twice the last.
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0

_ASKED = "mdpdsl.progress"


def _remember(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    context.meta[_ASKED] = is_asked


progress_option = click.option(
    "--progress",
    is_flag=True,
    expose_value=False,
    callback=_remember,
    help="Print lines of progress where standard error is no terminal.",
)


def is_shown(is_quiet: bool) -> bool:
    """Tell whether progress is shown at all."""
    return not is_quiet and (sys.stderr.isatty() or _wants_lines())


@contextmanager
def showing(
    label: str,
    steps: int,
    trials: int,
    is_quiet: bool,
    n_pairs: int,
    limits: Limits | None = None,
) -> Iterator[Progress | None]:
    """Show how far trials are: live on a terminal, with --progress as lines elsewhere."""
    if not is_shown(is_quiet):
        yield None
    elif not sys.stderr.isatty():
        yield _Lines(label, steps * trials, n_pairs, limits)
    else:
        with _live_view(label, steps * trials, n_pairs, limits) as update:
            yield update


def standing_text(found: Sequence[Standing], n_pairs: int, limits: Limits | None) -> str:
    """Say what trials have measured: pairs visited, and L beside the optimum; means over trials."""
    unvisited = [s.unvisited for s in found if s.unvisited is not None]
    if not unvisited:
        return ""
    share = 1 - sum(unvisited) / (len(unvisited) * n_pairs)
    # Not all is never told as all.
    parts = [f"{min(share, 0.999) if share < 1 else 1:.1%} of pairs visited"]
    for name, title in (("worst", "L_Worst"), ("average", "L_Avg")):
        values = [v for s in found if (v := getattr(s, name)) is not None]
        if not values:
            continue
        mean = sum(values) / len(values)
        text = f"{title} {mean:,.4g}"
        ratio = getattr(limits, f"ratio_{name}")(mean) if limits is not None else None
        if ratio is not None:
            text += f" ({ratio:.2f}× the optimum)" if name == "worst" else f" ({ratio:.2f}×)"
        parts.append(text)
    return ", ".join(parts)


class _Lines:
    """Progress as lines, at intervals that grow."""

    def __init__(self, label: str, total: int, n_pairs: int, limits: Limits | None) -> None:
        self._label, self._total = label, total
        self._n_pairs, self._limits = n_pairs, limits
        self._began = time.perf_counter()
        self._wait = FIRST_WAIT
        self._next = self._began + FIRST_WAIT

    def __call__(self, found: list[Standing]) -> None:
        """Say how far it is, if it is time."""
        now = time.perf_counter()
        if now < self._next:
            return
        self._wait = min(2 * self._wait, LONGEST_WAIT)
        self._next = now + self._wait
        done = sum(trial.steps for trial in found)
        rate = done / (now - self._began)
        told = standing_text(found, self._n_pairs, self._limits)
        line = f"{self._label}: {done:,} of {self._total:,} steps, {rate:,.0f} steps/s"
        click.echo(f"{line}; {told}" if told else line, err=True)


@contextmanager
def _live_view(label: str, total: int, n_pairs: int, limits: Limits | None) -> Iterator[Progress]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    began = time.perf_counter()
    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    task: Any = bar.add_task(label, total=total, rate="")
    figures = Text("", style="dim")
    console = Console(stderr=True)
    with Live(Group(bar, figures), console=console, transient=True, refresh_per_second=8):

        def update(found: list[Standing]) -> None:
            done = sum(trial.steps for trial in found)
            rate = f"{done / (time.perf_counter() - began):,.0f} steps/s"
            bar.update(task, completed=done, rate=rate)
            figures.plain = standing_text(found, n_pairs, limits)

        yield update


def _wants_lines() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_ASKED))
