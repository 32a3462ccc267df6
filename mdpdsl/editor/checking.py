"""When a document is checked: names and types a moment after each change, states if that is quick.

A model of few points is built at every pause of typing. A larger one is built when it is opened or
saved, in a thread, which a newer version stops; one that is too large even for that is told of.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from mdpdsl.diagnostics import Diagnostic
from mdpdsl.editor.document import FEW_POINTS, MANY_POINTS, Document

#: Seconds without a keystroke before a document is checked.
PAUSE = 0.15

Publish = Callable[[Document, list[Diagnostic]], None]


class Checks:
    """The checks that are under way, one per file."""

    def __init__(self, publish: Publish, tell: Callable[[str], None]) -> None:
        self._publish = publish
        self._tell = tell
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, threading.Event] = {}

    def start(self, uri: str, read: Callable[[], Document], *, is_typing: bool) -> None:
        """Check a file, in the place of an older check of it; `read` is called when it is time."""
        self.stop(uri)
        stop = self._stops[uri] = threading.Event()
        self._tasks[uri] = asyncio.ensure_future(self._check(read, stop, is_typing))

    def stop(self, uri: str) -> None:
        """Give up the check of a file."""
        if uri in self._tasks:
            self._stops.pop(uri).set()
            self._tasks.pop(uri).cancel()

    async def _check(
        self, read: Callable[[], Document], stop: threading.Event, is_typing: bool
    ) -> None:
        if is_typing:
            await asyncio.sleep(PAUSE)
        document = read()
        found = document.mistakes()
        n_points, most = document.n_points, FEW_POINTS if is_typing else MANY_POINTS
        if not document.checked.can_expand or n_points > most:
            self._publish(document, found)
            if n_points > most and not is_typing:
                size = f"{document.source.path}: states were not looked at ({n_points:.2g} points)"
                self._tell(f"{size}; `mdpdsl check` does")
            return
        if n_points > FEW_POINTS:
            self._publish(document, found)  # the rest takes a while
        built = await asyncio.to_thread(mistakes_unless_stopped, document, stop)
        if built is not None and not stop.is_set():
            self._publish(document, built)


class _StoppedError(Exception):
    """A newer version has come."""


def mistakes_unless_stopped(document: Document, stop: threading.Event) -> list[Diagnostic] | None:
    """Build a model and return its mistakes; None where it was stopped before its end."""

    def look(_done: int, _total: int) -> None:
        if stop.is_set():
            raise _StoppedError

    try:
        return document.mistakes_in_states(look)
    except _StoppedError:
        return None
