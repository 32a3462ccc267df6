"""Reading ahead: a thread works on the next items while the present one is used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

#: Items that wait at the most.
MOST_WAITING = 2


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Return the same items, made by a thread; what they raise is raised here."""
    reader = _Reader(items)
    reader.thread.start()
    try:
        while True:
            item = reader.waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        reader.stop()


class _End:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Reader(Generic[T]):
    def __init__(self, items: Iterator[T]) -> None:
        self.waiting: queue.Queue[T | _End] = queue.Queue(MOST_WAITING)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self._items = items
        self._is_stopped = False

    def stop(self) -> None:
        """End the thread, also where nobody takes what it has read."""
        self._is_stopped = True
        while self.thread.is_alive():
            try:
                self.waiting.get(timeout=0.05)
            except queue.Empty:
                continue

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._items:
                self.waiting.put(item)
                if self._is_stopped:
                    break
        except BaseException as raised:
            error = raised
        self.waiting.put(_End(error))
