from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpdsl.graph.space import Variable
from mdpdsl.kernels.binning import real_cells

FINITE = st.floats(-1e6, 1e6)


@settings(deadline=None)
@given(
    st.lists(FINITE, min_size=2, max_size=8, unique=True),
    st.lists(st.one_of(FINITE, st.sampled_from([np.nan, np.inf, -np.inf])), max_size=20),
    st.booleans(),
    st.booleans(),
)
def test_cells_are_those_of_the_variable(
    ends: list[float], values: list[float], wraps: bool, is_even: bool
) -> None:
    edges = np.sort(ends)
    if is_even:
        edges = np.linspace(edges[0], edges[-1], 11)
    if not np.all(np.diff(edges) > 0):
        return
    variable = Variable("x", "real", len(edges) - 1, edges=edges, wraps=wraps)
    numbers = np.array([*values, *edges, *variable.centers])
    cells = np.empty(len(numbers), np.int64)
    n_clipped = real_cells(numbers, edges, wraps, cells)
    is_finite = np.isfinite(numbers)
    assert cells[is_finite].tolist() == variable.indices(numbers[is_finite]).tolist()
    assert (cells[~is_finite] == -1).all()
    outside = (numbers < edges[0]) | (numbers > edges[-1])
    assert n_clipped == (0 if wraps else np.count_nonzero(outside & is_finite))
