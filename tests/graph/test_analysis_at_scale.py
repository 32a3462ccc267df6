"""Facts about graphs with a million states, for which a loop over states would be too slow."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mdpdsl.graph.analysis import (
    communicating_classes,
    pairs_outside_end_components,
    reachable_states,
)
from mdpdsl.graph.space import ActionSpace, Product, StateSpace
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.build import int_variable


def million(targets: np.ndarray, n_actions: int, absorbing: list[int]) -> TransitionGraph:
    """Return a large graph with these successors of each state, split among actions, [n, width]."""
    n_states, width = targets.shape
    targets[absorbing] = np.array(absorbing)[:, np.newaxis]
    n_pairs, n_successors = n_states * n_actions, width // n_actions
    return TransitionGraph(
        StateSpace(Product((int_variable("s", n_states),)), np.arange(n_states)),
        ActionSpace(Product((int_variable("u", n_actions),))),
        np.arange(n_states + 1) * n_actions,
        np.tile(np.arange(n_actions, dtype=np.int32), n_states),
        np.arange(n_pairs + 1) * n_successors,
        targets.astype(np.int32).ravel(),
        np.full(targets.size, 1 / n_successors),
        np.eye(1, n_states)[0],
    )


@pytest.mark.parametrize("shape", ["chain", "ruin", "random"])
def test_a_million_states_are_analysed(shape: str) -> None:
    n_states = 1_000_000
    here = np.arange(n_states)[:, np.newaxis]
    ends = [0, n_states - 1]
    if shape == "chain":
        graph = million(np.minimum(here + 1, n_states - 1), 1, [])
    elif shape == "ruin":
        graph = million(here + np.array([-1, 1]), 1, ends)
    else:
        rng = np.random.default_rng(0)
        graph = million(rng.integers(0, n_states, size=(n_states, 12)), 4, [])
    reached = reachable_states(graph, np.array([1]))
    classes = communicating_classes(graph)
    outside = pairs_outside_end_components(graph)
    if shape == "chain":
        assert reached.sum() == n_states - 1
        assert classes.n_classes == n_states
        assert outside.tolist() == list(range(n_states - 1))
    elif shape == "ruin":
        assert reached.all()
        assert classes.sizes.tolist() == [1, n_states - 2, 1]
        assert len(outside) == n_states - 2
    else:
        assert reached.mean() > 0.99
        assert classes.sizes.max() > 0.99 * n_states
        assert all(a <= b for a, b in pairwise(outside.tolist()))
