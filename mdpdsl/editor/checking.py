"""When a document is checked: names and types soon after each change, states if that is quick.

A small model is built whenever typing pauses. A larger one is built when the file is opened or
saved, in a thread that a newer version stops. If it is too large even for that, a message says so.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from mdpdsl.diagnostics import Diagnostic
from mdpdsl.editor.document import FEW_POINTS, MANY_POINTS, Document

#: How long typing must pause before a document is checked, in seconds.
PAUSE = 0.15

Publish = Callable[[Document, list[Diagnostic]], None]


class Checks:
    """The running checks, one per file."""

    def __init__(self, publish: Publish, notify: Callable[[str], None]) -> None:
        self._publish = publish
        self._notify = notify
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, threading.Event] = {}

    def start(self, uri: str, read: Callable[[], Document], *, is_typing: bool) -> None:
        """Check a file, replacing any running check of it; `read` is called as the check starts."""
        self.stop(uri)
        stop = self._stops[uri] = threading.Event()
        self._tasks[uri] = asyncio.ensure_future(self._check(read, stop, is_typing))

    def stop(self, uri: str) -> None:
        """Stop the check of a file."""
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
                path = document.source.path
                self._notify(f"{path}: too large to check all states here; run `mdpdsl check`")
            return
        if n_points > FEW_POINTS:
            self._publish(document, found)  # the rest takes a while
        built = await asyncio.to_thread(mistakes_unless_stopped, document, stop)
        if built is not None and not stop.is_set():
            self._publish(document, built)


class _StoppedError(Exception):
    """There is a newer version."""


def mistakes_unless_stopped(document: Document, stop: threading.Event) -> list[Diagnostic] | None:
    """Build a model and return its errors; None if the check was stopped."""

    def look(_done: int, _total: int) -> None:
        if stop.is_set():
            raise _StoppedError

    try:
        return document.mistakes_in_states(look)
    except _StoppedError:
        return None
