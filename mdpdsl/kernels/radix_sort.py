"""The order of rows by several keys: a stable radix sort, least significant key first.

Each digit of 11 bits takes one counting sort. As each is stable, the last one leaves rows ordered
by all digits (Knuth 1998, on sorting by distribution).
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.compiled import reading

#: Bits of a digit: its counts fit into the first-level cache.
DIGIT = 11
N_DIGITS = 6
_MASK = (1 << DIGIT) - 1

Keys = npt.NDArray[np.uint64]


@reading(nb.void(nb.uint64[::1], nb.int64[::1], nb.uint64[::1], nb.uint64[::1], nb.int64[::1]))
def refine_order(keys: Keys, order: IntArray, here: Keys, there: Keys, other: IntArray) -> None:
    """Order rows by a key, keeping the order of rows with equal keys. The last three are scratch.

    Digits in which all keys agree are skipped.
    """
    n = len(order)
    counts = np.zeros((N_DIGITS, _MASK + 1), np.int64)
    differing = np.uint64(0)
    for i in range(n):
        differing |= keys[i] ^ keys[0]
    if differing == 0:
        return
    for i in range(n):
        key = keys[order[i]]
        here[i] = key
        for digit in range(N_DIGITS):
            counts[digit, np.int64((key >> np.uint64(DIGIT * digit)) & np.uint64(_MASK))] += 1
    is_swapped = False
    for digit in range(N_DIGITS):
        shift = np.uint64(DIGIT * digit)
        if (differing >> shift) & np.uint64(_MASK) == 0:
            continue
        place = np.int64(0)
        for value in range(_MASK + 1):
            number = counts[digit, value]
            counts[digit, value] = place
            place += number
        for i in range(n):
            key = here[i]
            index = np.int64((key >> shift) & np.uint64(_MASK))
            there[counts[digit, index]] = key
            other[counts[digit, index]] = order[i]
            counts[digit, index] += 1
        here, there = there, here
        order, other = other, order
        is_swapped = not is_swapped
    if is_swapped:  # the array passed as `order` is now `other`
        other[:] = order


def whole_keys(numbers: IntArray) -> Keys:
    """Return keys that sort as the integers do."""
    return numbers.astype(np.int64).view(np.uint64) ^ _SIGN


def real_keys(numbers: FloatArray) -> Keys:
    """Return keys that sort as the finite numbers do."""
    bits = (numbers + 0.0).view(np.uint64)  # -0 is 0
    _mirror(bits)
    return bits


_SIGN = np.uint64(1 << 63)


@reading(nb.void(nb.uint64[::1]))
def _mirror(bits: Keys) -> None:
    """Change the bits of floating-point numbers so that they sort as the numbers do."""
    for i in range(len(bits)):
        bits[i] ^= np.uint64(np.int64(bits[i]) >> 63) | np.uint64(1 << 63)
