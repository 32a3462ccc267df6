"""Random graphs whose states all reach each other, with certain pairs and missing actions."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.build import graph_from_rows


def communicating_graph(
    seed: int, n_states: int, n_actions: int, certain: float, missing: float
) -> TransitionGraph:
    """Return a graph whose first action may go round all states; others go anywhere."""
    rng = np.random.default_rng(seed)
    rows = []
    for state in range(n_states):
        row: dict[int, dict[int, float]] = {}
        following = (state + 1) % n_states
        for action in range(n_actions):
            if action > 0 and rng.random() < missing:
                continue
            if rng.random() < certain:
                row[action] = {following if action == 0 else int(rng.integers(n_states)): 1.0}
                continue
            size = min(n_states, int(rng.integers(1, 5)))
            targets = set(rng.choice(n_states, size=size, replace=False).tolist())
            if action == 0:
                targets.add(following)
            weights = 0.05 + rng.dirichlet(np.ones(len(targets)))
            weights /= weights.sum()
            row[action] = dict(zip(sorted(targets), weights.tolist(), strict=True))
        rows.append(row)
    return graph_from_rows(rows)


graphs = st.builds(
    communicating_graph,
    seed=st.integers(0, 2**32 - 1),
    n_states=st.integers(1, 12),
    n_actions=st.integers(1, 4),
    certain=st.sampled_from([0.0, 0.4]),
    missing=st.sampled_from([0.0, 0.4]),
)
