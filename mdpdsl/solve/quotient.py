"""Some states of a graph in groups, as affine rows between them.

If a policy may stay in an end component for ever without any effect on an objective, the Bellman
equation has many solutions. So such a component becomes one group with the pairs that can leave it
(Haddad and Monmege 2014; Brazdil et al. 2014); all other states are groups by themselves. Rows are
conditional on leaving the group, so self-loops are eliminated: (c + rest)/(chance of leaving).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.affine_rows import Rows, rows_of
from mdpdsl.solve.arrivals import Arrivals
from mdpdsl.solve.bellman import quotient_unit
from mdpdsl.solve.heading import head_for
from mdpdsl.solve.partial import partial_rows


@dataclass(frozen=True, eq=False)
class Components:
    """End components: the pairs inside them, and the component of each state."""

    is_inside: BoolArray  # [n_pairs]
    component_of: IntArray  # [n_states]  -1 if a state is in none


@dataclass(frozen=True, eq=False)
class Quotient:
    """Open states in groups, as affine rows."""

    rows: Rows
    group_of: IntArray  # [n_states]  -1 if a state is not open
    pair_of: IntArray  # [n]  the pair of the graph behind each row
    leaving: FloatArray  # [n]  the probability that it leaves its group
    outside: FloatArray  # [n]  and that it leaves all groups
    is_internal: BoolArray  # [n_pairs]  pairs within an end component
    unit: float  # relative error of a row's sum, with that of its coefficients

    @property
    def n_groups(self) -> int:
        """The number of unknowns."""
        return len(self.rows.pair_start) - 1

    def expanded(self, numbers: FloatArray, others: FloatArray) -> FloatArray:
        """Return a number for every state: that of its group, or one of the others [n_states]."""
        whole = others.copy()
        is_open = self.group_of >= 0
        whole[is_open] = numbers[self.group_of[is_open]]
        return whole

    def gathered(self, numbers: FloatArray) -> FloatArray:
        """Return the sum of numbers [n_states] over each group."""
        is_open = self.group_of >= 0
        sums = np.bincount(self.group_of[is_open], numbers[is_open], self.n_groups)
        return np.asarray(sums, dtype=np.float64)

    def without(self, dropped: BoolArray) -> Quotient:
        """Return the same groups without some rows [n]; every group must keep one."""
        if not dropped.any():
            return self
        kept, rows = np.flatnonzero(~dropped), self.rows
        begin = rows.row_start.astype(np.int64)
        lengths = (begin[1:] - begin[:-1])[kept]
        start = np.concatenate([[0], np.cumsum(lengths)])
        entry = np.arange(start[-1]) + np.repeat(rows.row_start[kept] - start[:-1], lengths)
        place = np.concatenate([[0], np.cumsum(~dropped)])
        return replace(
            self,
            rows=Rows(
                place[rows.pair_start].astype(np.uint32),
                start.astype(np.uint32),
                rows.target[entry],
                rows.weight[entry],
                rows.constant[kept],
            ),
            pair_of=self.pair_of[kept],
            leaving=self.leaving[kept],
            outside=self.outside[kept],
        )


def components_among(
    graph: TransitionGraph, is_allowed: BoolArray, is_open: BoolArray
) -> Components:
    """Find the maximal end components of some pairs [n_pairs] within the open states."""
    from mdpdsl.kernels.components import end_components

    is_inside = is_allowed.copy()
    component_of = end_components(rows_of(graph), is_inside, ~is_open)
    return Components(is_inside, component_of)


def quotient_of(
    graph: TransitionGraph,
    is_open: BoolArray,
    *,
    terminal: FloatArray,
    reward: FloatArray | None = None,
    is_allowed: BoolArray | None = None,
    components: Components | None = None,
) -> Quotient:
    """Return the allowed pairs of the open states [n_states] as rows between groups.

    A row's constant is the reward of its pair, and what the states that are not open are worth:
    `terminal` [n_states]. Every group needs an allowed pair that is not inside a component.
    """
    is_row = is_open[graph.pair_state]
    if is_allowed is not None:
        is_row &= is_allowed
    is_internal = np.zeros(graph.n_pairs, np.bool_)
    group_of = np.full(graph.n_states, -1)
    group_of[is_open] = np.arange(np.count_nonzero(is_open))
    if components is not None and components.is_inside.any():
        is_internal = components.is_inside
        is_row &= ~is_internal
        part, alone = components.component_of, -1 - np.arange(graph.n_states)
        number = np.where(part >= 0, part, alone)[is_open]
        group_of[is_open] = np.unique(number, return_inverse=True)[1]
    pairs = np.flatnonzero(is_row)
    if is_internal.any():
        pairs = pairs[np.argsort(group_of[graph.pair_state[pairs]], kind="stable")]
    found = partial_rows(graph, group_of, pairs, terminal, reward, is_conditional=True)
    return Quotient(
        found.rows,
        group_of,
        pairs,
        found.leaving,
        found.outside,
        is_internal,
        quotient_unit(graph),
    )


def shortest_ways(quotient: Quotient) -> IntArray:
    """Return a row for each group that takes a shortest way out of all groups, [n_groups]."""
    from mdpdsl.kernels.reaching import attract
    from mdpdsl.kernels.solving import predecessors

    rows = quotient.rows
    counts = np.diff(rows.pair_start)
    group_of = np.repeat(np.arange(quotient.n_groups, dtype=np.uint32), counts)
    choice = rows.pair_start[:-1].astype(np.int64)
    exits = np.flatnonzero(quotient.outside > 0)[::-1]
    choice[group_of[exits]] = exits
    is_exit = np.zeros(quotient.n_groups, np.bool_)
    is_exit[group_of[exits]] = True
    attract(*predecessors(rows), group_of, np.ones(len(group_of), np.bool_), is_exit, choice)
    return choice


def lift_rows(
    graph: TransitionGraph,
    quotient: Quotient,
    arrivals: Arrivals,
    rows: IntArray,
    choice: IntArray,
) -> None:
    """Write to `choice` [n_states] the pairs behind some rows, at most one for each group.

    In an end component every state heads for the one whose pair is taken.
    """
    taken = quotient.pair_of[rows]
    is_chosen = np.zeros(quotient.n_groups, np.bool_)
    is_chosen[quotient.group_of[graph.pair_state[taken]]] = True
    is_here = quotient.group_of >= 0
    is_here[is_here] = is_chosen[quotient.group_of[is_here]]
    is_inside = quotient.is_internal & is_here[graph.pair_state]
    if is_inside.any():
        is_exit = np.zeros(graph.n_states, dtype=np.bool_)
        is_exit[graph.pair_state[taken]] = True
        head_for(graph, arrivals, is_inside, is_exit, choice)
    choice[graph.pair_state[taken]] = taken
