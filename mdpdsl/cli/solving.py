"""How a solver is watched from the command line: time, Ctrl-C, and progress on a terminal."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CommandWatch:
    """Tells a solver to stop when the time is up or Ctrl-C was pressed; a second one ends all."""

    def __init__(self, time_limit: float | None, show: Callable[[int, float], None] | None) -> None:
        self._deadline = math.inf if time_limit is None else time.monotonic() + time_limit
        self._show = show
        self.is_interrupted = False

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._deadline

    def __call__(self, iterations: int, bound: float) -> bool:
        """Take note of progress and tell whether to go on."""
        if self._show is not None and iterations > 0:
            self._show(iterations, bound)
        return not self.is_interrupted and not self.is_late

    def interrupt(self, *_: object) -> None:
        """Take note of Ctrl-C."""
        if self.is_interrupted:
            raise KeyboardInterrupt
        self.is_interrupted = True


@contextmanager
def watching(time_limit: float | None, tolerance: float, is_quiet: bool) -> Iterator[CommandWatch]:
    """Watch a solver; on a terminal, show how far it is."""
    with _shown(tolerance, is_quiet) as show:
        watch = CommandWatch(time_limit, show)
        previous = signal.signal(signal.SIGINT, watch.interrupt)
        try:
            yield watch
        finally:
            signal.signal(signal.SIGINT, previous)


@contextmanager
def _shown(tolerance: float, is_quiet: bool) -> Iterator[Callable[[int, float], None] | None]:
    if is_quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("solving"), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        widest = 0.0

        def show(iterations: int, bound: float) -> None:
            nonlocal widest
            if not 0 < bound < math.inf:
                return
            widest = max(widest, bound)
            whole = math.log(max(widest / tolerance, 1 + 1e-9))
            done = min(1.0, max(0.0, math.log(widest / bound) / whole))
            text = f"{iterations:,} iterations, bound {bound:.1e}"
            bar.update(task, completed=done, description=text)

        yield show
