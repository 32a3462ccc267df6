"""Following a policy."""

import numba as nb
import numpy as np
import pytest

from mdpdsl.graph.space import IntArray
from mdpdsl.kernels.following import draw_pair, follow
from mdpdsl.kernels.memory import Memory, new_memory


@nb.njit()
def drawn_pairs(
    memory: Memory, first: int, end: int, n: int, generator: np.random.Generator
) -> IntArray:
    """Draw n pairs of a state."""
    drawn = np.empty(n, np.int64)
    for i in range(n):
        drawn[i] = draw_pair(memory, first, end, generator)
    return drawn


def test_pairs_are_drawn_as_often_as_the_policy_says() -> None:
    memory = new_memory(np.array([0, 3, 4]), np.array([0, 0, 0, 1], np.int32))
    follow(memory, np.array([0.2, 0.5, 0.3, 1.0]))
    generator = np.random.default_rng(0)
    n = 20_000
    drawn = drawn_pairs(memory, 0, 3, n, generator)
    # Four standard errors of a share of 1/2 are 0.014.
    assert np.bincount(drawn, minlength=3) / n == pytest.approx([0.2, 0.5, 0.3], abs=0.015)
    assert drawn_pairs(memory, 3, 4, 1, generator) == 3


@pytest.mark.parametrize("zeros", [[0], [1], [2], [0, 1], [0, 2], [1, 2]])
def test_what_has_no_probability_is_never_drawn(zeros: list[int]) -> None:
    policy = np.array([0.1, 0.2, 0.7])
    policy[zeros] = 0
    policy /= policy.sum() * (1 + 1e-12)  # rounding leaves a little less than 1
    memory = new_memory(np.array([0, 3]), np.zeros(3, np.int32))
    follow(memory, policy)
    generator = np.random.default_rng(1)
    drawn = set(drawn_pairs(memory, 0, 3, 500, generator).tolist())
    assert drawn == {0, 1, 2} - set(zeros)
    ends = memory.policy[[pair for pair in (2,) if pair not in zeros]]
    assert (ends == 1).all()
