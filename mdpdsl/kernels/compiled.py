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
