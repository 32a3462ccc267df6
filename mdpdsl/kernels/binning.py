"""Numbers to cells of a real variable, row by row: `Variable.indices` without arrays in between."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.compiled import entry


@entry
def real_cells(values: FloatArray, edges: FloatArray, wraps: bool, cells: IntArray) -> int:
    """Write the cell of each number, -1 where it is not finite; return how many were clipped.

    A guess from equal widths is put right by looking at the edges; edges that are far from equal
    are searched.
    """
    n_cells = len(edges) - 1
    low, high = edges[0], edges[-1]
    scale = n_cells / (high - low)
    n_clipped = 0
    for i in range(len(values)):
        value = values[i]
        if not np.isfinite(value):
            cells[i] = -1
            continue
        if wraps:
            value = low + (value - low) % (high - low)
        elif value < low or value > high:
            n_clipped += 1
        value = min(max(value, low), high)
        cell = min(n_cells - 1, int((value - low) * scale))
        if edges[cell] > value and cell > 0:
            cell -= 1
        elif edges[cell + 1] <= value and cell < n_cells - 1:
            cell += 1
        if edges[cell] > value or (edges[cell + 1] <= value and cell < n_cells - 1):
            cell = min(n_cells - 1, np.searchsorted(edges, value, side="right") - 1)
        cells[i] = cell
    return n_clipped
