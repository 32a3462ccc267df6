"""Random uncertain models, and checks of an oracle's answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from mdpdsl.graph.space import FloatArray
from mdpdsl.programs.direction import Direction
from mdpdsl.programs.uncertain import UncertainModel

RADII = (0.0, 0.05, 0.4, 1.0, 1.7, 2.0)


@dataclass(frozen=True, eq=False)
class Instance:
    """A model with weights and the share of t* to request."""

    model: UncertainModel
    weights: FloatArray
    share: float


def uncertain_model(
    counts: list[list[list[int]]],
    radii: list[float],
    n_states: int,
    starts: list[float] | None = None,
) -> UncertainModel:
    """Build a model from counts by state, action and successor; no counts allow everything.

    A state without actions is an end; `starts` has the weights of the others.
    """
    rows = [np.array(row) for actions in counts for row in actions]
    support = [np.flatnonzero(row) for row in rows]
    sizes = [len(s) for s in support]
    n_pairs = len(rows)
    return UncertainModel(
        pair_start=np.cumsum([0, *(len(actions) for actions in counts)]),
        successor_start=np.cumsum([0, *sizes]),
        successor=np.concatenate(support).astype(np.int32),
        probability=np.concatenate(
            [row[s] / row.sum() for row, s in zip(rows, support, strict=True)]
        ),
        radius=np.array([r if size else 2.0 for r, size in zip(radii, sizes, strict=True)]),
        label=lambda: (
            [f"s{i}" for i in range(n_states)],
            [f"a{i}" for i in range(n_pairs)],
        ),
        starts=np.ones(n_states) / n_states if starts is None else np.array(starts) / sum(starts),
    )


@st.composite
def instances(draw: st.DrawFn, least_radius: float = 0.0) -> Instance:
    """Draw a model of up to five states, weights of any scale, and a share of t*."""
    S = draw(st.integers(1, 5))
    row = st.lists(st.integers(0, 4), min_size=S, max_size=S)
    counts = draw(st.lists(st.lists(row, max_size=3), min_size=S, max_size=S).filter(any))
    weights_of_starts = [draw(st.sampled_from([0.0, 1.0, 3.0])) if a else 0.0 for a in counts]
    if not sum(weights_of_starts):
        weights_of_starts = [1.0 if a else 0.0 for a in counts]
    n_pairs = sum(len(actions) for actions in counts)
    radius = st.sampled_from([r for r in RADII if r >= least_radius])
    radii = draw(st.lists(radius, min_size=n_pairs, max_size=n_pairs))
    weight = st.one_of(st.just(0.0), st.floats(1e-6, 1.0))
    weights = np.array(draw(st.lists(weight, min_size=n_pairs, max_size=n_pairs)))
    scale = draw(st.sampled_from([1e-20, 1.0, 1e30]))
    share = draw(st.sampled_from([0.0, 0.01, 0.5, 0.99, 1.0]))
    model = uncertain_model(counts, radii, S, weights_of_starts)
    return Instance(model, weights * scale, share)


def check_direction(model: UncertainModel, found: Direction, eta: float, tolerance: float) -> None:
    """Check that psi is an occupancy of p~, p~ is within the balls, and pi is psi's policy."""
    psi, rows = found.occupancy, found.kernel.dense()
    assert psi.sum() == 1.0 or abs(psi.sum() - 1) < 1e-12
    assert psi.min() >= 2 * eta * (1 - 1e-6)
    assert rows.min() >= 0
    assert np.abs(rows.sum(axis=1) - 1).max() < 1e-9
    estimate = np.zeros_like(rows)
    estimate[model.entry_pair, model.successor] = model.probability
    known = model.radius < 2
    off = np.abs(rows - estimate).sum(axis=1)[known]
    # Only for visited pairs; if psi is 0, p~ may be anything.
    allowed = model.radius[known] + tolerance / np.maximum(psi[known], 1e-300)
    assert (off <= allowed).all()
    S = model.n_states
    states = np.bincount(model.pair_state, psi, minlength=S)
    arriving = psi @ rows
    ended = arriving[model.is_end].sum()  # continues in the starts, without a step
    arriving = np.where(model.is_end, 0.0, arriving + model.starts * ended)
    assert np.abs(states - arriving).max() < tolerance
    sums = np.bincount(model.pair_state, found.policy, minlength=S)
    assert np.abs(sums[~model.is_end] - 1).max() < 1e-9
    assert np.abs(found.policy * np.repeat(states, np.diff(model.pair_start)) - psi).max() < 1e-12
