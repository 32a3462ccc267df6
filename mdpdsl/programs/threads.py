"""Dense algebra in one thread.

Matrices of a few thousand rows gain little from more threads, and become slower by orders of
magnitude if the processors are busy with other work, because the threads wait for each other at
every step. With one thread, results are also identical to the last bit on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def in_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Restrict a function's dense algebra to one thread."""

    @wraps(function)
    def limited(*arguments: P.args, **options: P.kwargs) -> R:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*arguments, **options)

    return limited


@cache
def _libraries() -> Any:
    """Find the loaded libraries, only once because it takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
