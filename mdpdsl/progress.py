"""Progress of long work, and stopping it with Ctrl-C.

Every verb takes `progress`: True shows a bar in a terminal or a notebook, a callable is called with
the steps done, their total (None if unknown) and a note.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds before a bar shows a rate.
RATE_SECONDS = 0.5

#: Called with the steps done, their total and a note.
Progress = Callable[[int, int | None, str], None]


@contextmanager
def shown(
    progress: bool | Progress | None, title: str, unit: str = "steps"
) -> Iterator[Progress | None]:
    """Yield the function that shows progress: the caller's own, a bar, or None to show nothing.

    `unit` is what is counted; no rate is shown if it is empty.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _bar(title, unit) as update:
            yield update
    else:
        begin = getattr(progress, "begin", None)  # it can show a title
        if begin is not None:
            begin(title, unit)
        yield progress


@contextmanager
def _bar(title: str, unit: str) -> Iterator[Progress]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    began = time.perf_counter()
    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[share]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    task: Any = bar.add_task(title, total=None, share="", rate="")
    notes = Text("", style="dim")
    console = Console(stderr=True)
    with Live(Group(bar, notes), console=console, transient=True, refresh_per_second=8):

        def update(done: int, total: int | None, note: str) -> None:
            seconds = time.perf_counter() - began
            share = f"{done / total:>4.0%}" if total else f"{done:,}"
            is_known = unit and seconds > RATE_SECONDS and done > seconds
            rate = f"{done / seconds:,.0f} {unit}/s" if is_known else ""
            bar.update(task, completed=done, total=total, share=share, rate=rate)
            notes.plain = note

        yield update


class Interrupts:
    """Notes Ctrl-C, so that work stops after the current piece; a second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.is_interrupted = False

    def __call__(self, number: int, frame: object) -> None:
        """Note Ctrl-C."""
        if self.is_interrupted:
            raise KeyboardInterrupt
        self.is_interrupted = True


@contextmanager
def heeding_interrupts() -> Iterator[Interrupts]:
    """Note Ctrl-C instead of raising KeyboardInterrupt; outside the main thread, do nothing."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    previous = signal.signal(signal.SIGINT, interrupts)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, previous)


class Watch:
    """Watches a solver: shows its progress, and stops it when time is up or on Ctrl-C."""

    def __init__(
        self,
        interrupts: Interrupts,
        time_limit: float | None = None,
        show: Callable[[int, float], None] | None = None,
    ) -> None:
        self._interrupts = interrupts
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        self._show = show

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._interrupts.is_interrupted

    def __call__(self, iterations: int, bound: float) -> bool:
        """Show the progress; return whether to continue."""
        if self._show is not None and iterations > 0:
            self._show(iterations, bound)
        is_late = self._deadline is not None and time.monotonic() > self._deadline
        return not self.is_interrupted and not is_late


def is_terminal() -> bool:
    """Return whether standard error is a terminal."""
    return sys.stderr.isatty()
