"""Dense algebra in one thread.

Matrices of a few thousand rows gain little from more, and lose by orders of magnitude where the
processors have other work: the threads wait for each other at every step. The same bits come out on
every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def in_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function's dense algebra use one thread."""

    @wraps(function)
    def limited(*arguments: P.args, **options: P.kwargs) -> R:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*arguments, **options)

    return limited


@cache
def _libraries() -> Any:
    """Find the libraries that are loaded, once: it takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
