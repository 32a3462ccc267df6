"""Run a backend in a thread, so that the caller's watch can stop a long solution."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mdpdsl.programs.program import LinearProgram, Solution, load_backend

#: Seconds between two calls of the watch.
LOOK_EVERY = 0.05


def solve_program(
    program: LinearProgram, name: str, goes_on: Callable[[], bool], time_limit: float | None
) -> Solution | None:
    """Solve a program with the backend of this name; return None if the watch stopped it.

    A stopped solver may continue in the background until the process ends.
    """
    backend = load_backend(name)
    outcome: list[Solution | BaseException] = []

    def work() -> None:
        try:
            outcome.append(backend.solve(program, time_limit=time_limit))
        except BaseException as error:
            outcome.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(LOOK_EVERY)
        if worker.is_alive() and not goes_on():
            return None
    (found,) = outcome
    if isinstance(found, BaseException):
        raise found
    return found
