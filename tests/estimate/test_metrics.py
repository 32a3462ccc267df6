"""Measures of counts."""

from __future__ import annotations

import numpy as np
import pytest

from mdpdsl.estimate.metrics import measure


def test_over_visited_pairs_a_pair_never_visited_is_counted_and_left_out() -> None:
    visits, c = np.array([2, 0, 6]), np.array([0.5, 1.0, 0.25])
    assert measure(8, visits, c, 2.0).worst is None
    found = measure(8, visits, c, 2.0, over_visited=True)
    assert (found.unvisited, found.transitions) == (1, 8)
    assert found.worst == pytest.approx(8 * 0.5 / 2)
    assert found.average == pytest.approx((8 * 0.5 / 2 + 8 * 0.25 / 6) / 2)
    assert measure(0, np.zeros(3, np.int64), c, 2.0, over_visited=True).worst is None
