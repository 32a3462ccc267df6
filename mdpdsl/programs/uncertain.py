"""A model known up to an l1 ball around each row, and the optimistic rows within the balls.

B(s,a) = {p : ||p - p_hat(.|s,a)||_1 <= b(s,a)} (paper, eq. Pball_confset). An unknown row has
b = 2, which allows every distribution; its placeholder p_hat = 1/S is never stored.

Ends have no pairs; what arrives in them continues, without a step, in a start drawn from mu.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph

#: The radius at which a ball contains every distribution.
WHOLE_SIMPLEX = 2.0


@dataclass(frozen=True, eq=False)
class UncertainModel:
    """Estimated rows and the radii of balls that are assumed to contain the true ones."""

    pair_start: IntArray  # [S + 1]
    successor_start: IntArray  # [n_pairs + 1]  empty if a row is unknown
    successor: StateArray  # [n_entries]
    probability: FloatArray  # [n_entries]    p_hat, positive, sums to 1 within a pair
    radius: FloatArray  # [n_pairs]      b, 0 to 2; 2 if a row is empty
    label: Callable[[], tuple[list[str], list[str]]]  # names of states, and of pairs' actions
    starts: FloatArray  # [S]            mu, 0 in ends

    def __post_init__(self) -> None:
        """Reject radii outside [0, 2], and empty rows with a radius below 2."""
        if not np.all((self.radius >= 0) & (self.radius <= WHOLE_SIMPLEX)):
            raise ValueError("a radius must be between 0 and 2")
        if np.any((np.diff(self.successor_start) == 0) & (self.radius < WHOLE_SIMPLEX)):
            raise ValueError("an unknown row must have the radius 2")

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.pair_start) - 1

    @property
    def n_pairs(self) -> int:
        """The number of state-action pairs."""
        return len(self.radius)

    @cached_property
    def pair_state(self) -> StateArray:
        """The state of every pair, [n_pairs]."""
        return np.repeat(np.arange(self.n_states, dtype=np.int32), np.diff(self.pair_start))

    @cached_property
    def is_known(self) -> BoolArray:
        """Which rows are restricted by their ball, [n_pairs]."""
        return self.radius < WHOLE_SIMPLEX

    @cached_property
    def is_end(self) -> BoolArray:
        """Which states are ends, [S]."""
        is_end: BoolArray = np.diff(self.pair_start) == 0
        return is_end

    def closed_rows(self, rows: csr_array) -> csr_array:
        """Return rows [n, S] over the states that are no ends; what ends get goes to the starts."""
        if not self.is_end.any():
            return rows
        ending = csr_array((rows @ self.is_end.astype(np.float64))[:, None])
        kept = ~self.is_end
        return csr_array(rows[:, kept] + ending @ csr_array(self.starts[kept][None, :]))

    @cached_property
    def entry_pair(self) -> IntArray:
        """The pair of every stored entry, [n_entries]."""
        return np.repeat(np.arange(self.n_pairs), np.diff(self.successor_start))

    @cached_property
    def labels(self) -> tuple[list[str], list[str]]:
        """The name of every state, [S], and of every pair's action, [n_pairs]."""
        return self.label()

    def state_label(self, state: int) -> tuple[str]:
        """Name a state."""
        return (self.labels[0][state],)

    def pair_label(self, pair: int) -> tuple[str, str]:
        """Name a pair by its state and action."""
        return self.labels[0][int(self.pair_state[pair])], self.labels[1][pair]

    def entry_label(self, entry: int) -> tuple[str, str, str]:
        """Name a transition by state, action and next state."""
        return (
            *self.pair_label(int(self.entry_pair[entry])),
            self.labels[0][int(self.successor[entry])],
        )


@dataclass(frozen=True, eq=False)
class OptimisticKernel:
    """The optimistic rows p~, never stored densely: p~ = kept + moved (x) arrival."""

    kept: csr_array  # [n_pairs, S]  the mass that stays as in p_hat
    moved: FloatArray  # [n_pairs]     the mass of each row that goes elsewhere
    arrival: FloatArray  # [S]           where all that mass goes, sums to 1

    def dense(self) -> FloatArray:
        """Return p~ as one array, [n_pairs, S]; for small models."""
        rows: FloatArray = self.kept.toarray() + np.outer(self.moved, self.arrival)
        return rows


def known_model(graph: TransitionGraph, radius: float = 0.0) -> UncertainModel:
    """Return the model with the rows of a graph, all with the same radius."""
    return UncertainModel(
        pair_start=graph.pair_start,
        successor_start=graph.successor_start,
        successor=graph.successor,
        probability=graph.probability,
        radius=np.full(graph.n_pairs, float(radius)),
        label=lambda: names_of(graph),
        starts=graph.initial,
    )


def names_of(graph: TransitionGraph) -> tuple[list[str], list[str]]:
    """Return a unique name for every state (`x=1,v=-0.5`), and the action of every pair."""
    natives = [graph.states.native(state) for state in range(graph.n_states)]
    for digits in (4, 8, 17):
        states = [
            ",".join(
                f"{name}={value:.{digits}g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in native.items()
            )
            for native in natives
        ]
        for twin in range(len(graph.states.own_codes), graph.n_states):
            states[twin] += ",end"
        if len(set(states)) == len(states):
            break
    return states, [graph.actions.labels[action] for action in graph.pair_action]
