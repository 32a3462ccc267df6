"""Draw from many distributions stored one after another in compressed rows.

Inversion: with running sums F of a row and u uniform on [0, 1), the entry drawn is the first whose
F exceeds u (Devroye 1986), found by binary search.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.compiled import inner


def running_sums(start: IntArray, probability: FloatArray) -> FloatArray:
    """Return the running sums within each row; they are 1 from the last possible entry on.

    Rounding thus neither leaves a gap at the end of a row nor gives it to an entry of probability
    0. Row i is start[i]:start[i + 1]; no row is empty.
    """
    lengths = np.diff(start)
    total = np.cumsum(probability)
    before = np.concatenate([[0.0], total])[start[:-1]]
    entries = np.arange(len(probability))
    last = np.maximum.reduceat(np.where(probability > 0, entries, -1), start[:-1])
    cumulative = total - np.repeat(before, lengths)
    cumulative[entries >= np.repeat(last, lengths)] = 1.0
    return cumulative


@inner
def drawn_entry(cumulative: FloatArray, low: int, high: int, generator: np.random.Generator) -> int:
    """Draw one of the entries low, …, high of a row that ends with `high`."""
    u = generator.random()
    while low < high:
        middle = (low + high) // 2
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return low
