"""How kernels are compiled.

A memory has some thirty arrays. To hand them from function to function and to count the references
to each costs far more than the work of a step, so what only compiled code calls is inlined and
counts no references: whoever calls it from Python holds the arrays anyway. (A random generator is
the exception: what is called from Python with one must be an `entry`.)
"""

from __future__ import annotations

from typing import Any

import numba as nb

from mdpdsl.graph.space import FloatArray

_compile: Any = nb.njit  # whose stubs know only some of the options
#: Small and called at every step.
inner: Any = _compile(cache=True, error_model="numpy", forceinline=True, _nrt=False)
#: Large or seldom called: not worth a copy at every call.
seldom: Any = _compile(cache=True, error_model="numpy", _nrt=False)
#: Called from Python.
entry: Any = _compile(cache=True, error_model="numpy")


def reading(*signatures: Any) -> Any:
    """Compile for given types, ahead of any call, without Python's lock.

    Arrays of a log belong to Arrow and may not be written to; a type of its own to Numba, as those
    that may. One signature with `NUMBERS` or `WHOLE_NUMBERS` serves both.
    """
    return _compile(list(signatures), cache=True, error_model="numpy", nogil=True)


#: Types of arrays that are only read.
NUMBERS = nb.types.Array(nb.float64, 1, "C", readonly=True)
WHOLE_NUMBERS = nb.types.Array(nb.int64, 1, "C", readonly=True)
SHORT_NUMBERS = nb.types.Array(nb.int32, 1, "C", readonly=True)


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
