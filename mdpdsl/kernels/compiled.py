"""How kernels are compiled.

A run compiles only what it calls. Python calls a few functions, the entries; each is compiled with
a wrapper that unpacks its arguments, and cached on disk together with everything it calls. All
other kernels are compiled into the entries and need neither wrapper nor cache: for a memory of some
thirty arrays, the wrapper of a small kernel takes longer to compile than the kernel.

The thirty arrays are also why inner kernels count no references. Counting them at every call would
cost far more than the work of a step, and the Python caller holds the arrays anyway. A function
that takes a random generator from Python has to count references and is therefore an `entry`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba as nb

from mdpdsl.graph.space import FloatArray

_compile: Any = nb.njit  # whose stubs know only some of the options


def _called_by_kernels(**options: Any) -> Any:
    """Return a decorator for functions that only compiled code calls."""

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = _compile(
            error_model="numpy",
            _nrt=False,
            no_cpython_wrapper=True,
            no_cfunc_wrapper=True,
            **options,
        )(function)

        # Without a wrapper there is nothing that Python could call: what is compiled is kept for
        # other kernels only, and a call from Python is refused rather than left to crash.
        def keep(compiled: Any) -> None:
            kernel.overloads[tuple(compiled.signature.args)] = compiled

        def refuse(*_: Any) -> None:
            raise TypeError(
                f"`{function.__name__}` can only be called by compiled code; "
                "call it in a function compiled as an `entry`"
            )

        kernel.add_overload = keep
        kernel._compile_for_args = refuse
        return kernel

    return decorate


#: Small and called at every step: copied into its callers.
inner: Any = _called_by_kernels(forceinline=True)
#: Large or seldom called: not worth a copy at every call.
seldom: Any = _called_by_kernels()
#: Called from Python.
entry: Any = _compile(cache=True, error_model="numpy", no_cfunc_wrapper=True)


def reading(*signatures: Any) -> Any:
    """Compile for given types at the first call, without Python's lock.

    Arrays of a log belong to Arrow and are read-only, which to Numba is another type than that of
    arrays that may be written to. One signature with `NUMBERS` or `WHOLE_NUMBERS` serves both.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        lock = threading.Lock()

        @functools.cache
        def kernel() -> Any:
            options = {"cache": True, "error_model": "numpy", "nogil": True}
            return _compile(list(signatures), **options)(function)

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            with lock:  # several threads may be the first
                compiled = kernel()
            return compiled(*arguments)

        return call

    return decorate


#: Types of arrays that are only read.
NUMBERS = nb.types.Array(nb.float64, 1, "C", readonly=True)
WHOLE_NUMBERS = nb.types.Array(nb.int64, 1, "C", readonly=True)
SHORT_NUMBERS = nb.types.Array(nb.int32, 1, "C", readonly=True)


@contextmanager
def noticing_compilation(notice: Callable[[int], None]) -> Iterator[None]:
    """Call `notice` whenever a kernel has to be compiled, with the number compiled so far.

    The first call is with 0, when the first compilation begins; then one follows for each kernel
    that is done. Kernels that are loaded from the cache cause no call.
    """
    from numba.core import event

    n_compiled = 0
    has_begun = False

    class Listener(event.Listener):
        def on_start(self, found: Any) -> None:
            nonlocal has_begun
            if not has_begun and _is_ours(found):
                has_begun = True
                notice(0)

        def on_end(self, found: Any) -> None:
            nonlocal n_compiled
            if _is_ours(found):
                n_compiled += 1
                notice(n_compiled)

    with event.install_listener("numba:compile", Listener()):
        yield


def _is_ours(event: Any) -> bool:
    """Return whether a compilation is of a kernel, not of a function inside Numba."""
    module: str = event.data["dispatcher"].py_func.__module__
    return not module.startswith("numba.")


@inner
def total(values: FloatArray) -> float:
    """Return the sum of an array."""
    result = 0.0
    for i in range(len(values)):
        result += values[i]
    return result


@inner
def largest(values: FloatArray) -> float:
    """Return the largest entry of an array."""
    result = values[0]
    for i in range(1, len(values)):
        result = max(result, values[i])
    return result
