"""The undecided part of a reachability problem, reduced so that its solution is unique.

For the maximal probability, a policy may stay in an end component for ever, and the Bellman
equation then has many solutions. So each maximal end component becomes one state with the pairs
that can leave it (Haddad and Monmege 2014; Brazdil et al. 2014). For the minimal probability no
undecided state is in an end component: if a policy can stay outside the goal for ever, the
probability is known to be 0. In the quotient every policy eventually leaves the undecided states,
and the solution is unique.

The minimal probability is computed as the maximum of its negative. Self-loops are eliminated
exactly: (c + rest)/(probability of leaving).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.analysis import maximal_end_components
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import Rows
from mdpdsl.solve.arrivals import Arrivals
from mdpdsl.solve.heading import head_for
from mdpdsl.solve.partial import partial_rows
from mdpdsl.solve.qualitative import Decided


@dataclass(frozen=True, eq=False)
class Quotient:
    """Undecided states in groups, as affine rows."""

    rows: Rows
    group_of: IntArray  # [n_states]  -1 if decided
    pair_of: IntArray  # [n]  the pair of the graph behind each row
    is_internal: BoolArray  # [n_pairs]  pairs within an end component of several choices

    @property
    def n_groups(self) -> int:
        """The number of unknowns."""
        return len(self.rows.pair_start) - 1


def quotient_of(graph: TransitionGraph, decided: Decided, is_minimised: bool) -> Quotient:
    """Return the undecided part of a problem."""
    is_open = ~(decided.is_zero | decided.is_one)
    is_internal = np.zeros(graph.n_pairs, dtype=np.bool_)
    component_of = np.arange(graph.n_states)
    if not is_minimised and is_open.any():
        stays = np.logical_and.reduceat(is_open[graph.successor], graph.successor_start[:-1])
        components = maximal_end_components(graph, stays & is_open[graph.pair_state])
        is_internal, component_of = components.is_inside, components.component_of
    group_of = np.full(graph.n_states, -1, dtype=np.int64)
    _, group_of[is_open] = np.unique(component_of[is_open], return_inverse=True)
    pairs = np.flatnonzero(is_open[graph.pair_state] & ~is_internal)
    pairs = pairs[np.argsort(group_of[graph.pair_state[pairs]], kind="stable")]
    n_groups = int(group_of.max(initial=-1)) + 1
    counts = np.bincount(group_of[graph.pair_state[pairs]], minlength=n_groups)
    pair_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    rows = partial_rows(graph, decided.is_one, group_of, pairs, pair_start, is_conditional=True)
    if is_minimised:
        rows = rows._replace(constant=-rows.constant)
    return Quotient(rows, group_of, pairs, is_internal)


def lifted_choice(
    graph: TransitionGraph,
    quotient: Quotient,
    decided: Decided,
    arrivals: Arrivals,
    choice: IntArray,
) -> IntArray:
    """Return a policy of the graph from one of the quotient, [n_groups].

    In an end component every state heads for the one whose pair leaves it.
    """
    lifted = decided.choice.copy()
    leaving = quotient.pair_of[choice]
    is_exit = np.zeros(graph.n_states, dtype=np.bool_)
    is_exit[graph.pair_state[leaving]] = True
    head_for(graph, arrivals, quotient.is_internal, is_exit, lifted)
    lifted[graph.pair_state[leaving]] = leaving
    return lifted


def lifted_values(quotient: Quotient, decided: Decided, values: FloatArray) -> FloatArray:
    """Return the probability in every state from those of the groups."""
    lifted = decided.is_one.astype(np.float64)
    is_open = quotient.group_of >= 0
    lifted[is_open] = values[quotient.group_of[is_open]]
    return lifted
