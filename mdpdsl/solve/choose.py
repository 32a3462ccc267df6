"""The rule that chooses a method for a model (the method `auto`).

Policy iteration is exact and takes milliseconds as long as a policy's equations can be solved by
elimination. Larger models use modified policy iteration, which chooses its sweeps as it runs.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.kernels.affine_rows import Rows

#: Policy iteration is used up to here if rows are short (at most so many successors) or few.
SMALL_STATES = 1_500
SPARSE_STATES = 3_000
SHORT_ROW = 8.0


def chosen_method(rows: Rows, method: str) -> str:
    """Return the requested method, or the one that suits the model."""
    if method != "auto":
        return method
    n_states = len(rows.pair_start) - 1
    mean_row = float(np.diff(rows.row_start).mean()) if len(rows.constant) else 0.0
    is_small = n_states <= SMALL_STATES or (n_states <= SPARSE_STATES and mean_row <= SHORT_ROW)
    return "pi" if is_small else "mpi"
