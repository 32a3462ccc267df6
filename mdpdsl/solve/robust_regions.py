"""States that reach a goal surely, never, or not for ever, if nature chooses rows from sets.

The agent chooses pairs and nature rows; each helps to reach the goal, or not (de Alfaro 1997 for
one player; Chatterjee and Henzinger 2012 for two). Components are the sets of states in which one
*player*, who chooses pairs and rows, can stay and get from every state to every other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.kernels.affine_rows import Rows
from mdpdsl.kernels.set_rows import SetRows
from mdpdsl.kernels.set_search import keep, reach, staying_rows


@dataclass(frozen=True, eq=False)
class Regions:
    """Searches on sets of rows, some of which may be used."""

    rows: SetRows
    is_allowed: BoolArray  # [n]

    @cached_property
    def _arrivals(self) -> tuple[IntArray, IntArray]:
        """The states with a row that lists each state: starts and states."""
        from mdpdsl.kernels.solving import predecessors

        rows, S = self.rows, len(self.rows.pair_start) - 1
        plain = Rows(
            rows.pair_start.astype(np.uint32),
            rows.row_start.astype(np.uint32),
            rows.target.view(np.uint32),
            rows.low,
            rows.constant,
        )
        start, row = predecessors(plain)
        row_state = np.repeat(np.arange(S), np.diff(rows.pair_start))
        return start.astype(np.int64), row_state[row]

    def reaching(
        self,
        goal: BoolArray,
        within: BoolArray,
        choice: IntArray | None = None,
        *,
        agent_helps: bool,
        nature_helps: bool,
    ) -> BoolArray:
        """Return the states of a set that reach a goal with a positive probability.

        `choice` [S] receives the rows with which a helpful agent does so.
        """
        helping = agent_helps, nature_helps
        return self._search(reach, within, goal, helping, choice)

    def staying(
        self,
        within: BoolArray,
        is_safe: BoolArray,
        choice: IntArray | None = None,
        *,
        agent_helps: bool,
        nature_helps: bool,
    ) -> BoolArray:
        """Return the states from which a set need not be left; safe ones stay by themselves."""
        helping = agent_helps, nature_helps
        return self._search(keep, within, is_safe, helping, choice)

    def _search(
        self,
        search: Callable[..., BoolArray],
        within: BoolArray,
        marked: BoolArray,
        helping: tuple[bool, bool],
        choice: IntArray | None,
    ) -> BoolArray:
        rows = np.full(len(within), -1) if choice is None else choice
        return search(self.rows, *self._arrivals, self.is_allowed, within, marked, *helping, rows)

    def sure(
        self,
        goal: BoolArray,
        is_lost: BoolArray,
        choice: IntArray | None = None,
        *,
        agent_helps: bool,
        nature_helps: bool,
    ) -> BoolArray:
        """Return the states that reach a goal with probability 1; those that are lost do not.

        This is the greatest X of the least Y that stays in X and leads to Y step by step. `choice`
        [S] receives the rows with which an agent that does not help prevents it elsewhere.
        """
        within = ~is_lost | goal
        while True:
            found = self.reaching(
                goal, within, choice, agent_helps=agent_helps, nature_helps=nature_helps
            )
            if np.array_equal(found, within):
                return found
            within = found

    def components(self, is_open: BoolArray, is_idle: BoolArray | None = None) -> IntArray:
        """Return the maximal end component of each open state, -1 if it is in none, [S].

        With `is_idle` [k], a component is stayed in by idle entries only.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        rows, S = self.rows, len(is_open)
        idle = np.ones(len(rows.target), np.bool_) if is_idle is None else is_idle
        row_state = np.repeat(np.arange(S), np.diff(rows.pair_start))
        entry_state = np.repeat(row_state, np.diff(rows.row_start))
        part = np.where(is_open, 0, -1)
        while True:
            n_parts = int(part.max(initial=-1)) + 1
            if n_parts == 0:
                return part
            size = np.bincount(part[part >= 0], minlength=n_parts)
            stays, by_entry, by_others = staying_rows(rows, self.is_allowed, part, idle, size)
            # The others lead to all states of a part: by way of a node for the part.
            members = np.flatnonzero(part >= 0)
            hub = S + part
            origin = np.concatenate([entry_state[by_entry], row_state[by_others], hub[members]])
            target = np.concatenate([rows.target[by_entry], hub[row_state[by_others]], members])
            shape = (S + n_parts, S + n_parts)
            links = csr_array((np.ones(len(origin), np.int8), (origin, target)), shape=shape)
            number = connected_components(links, connection="strong")[1][:S]
            can_stay = np.zeros(S, np.bool_)
            can_stay[row_state[stays]] = True
            kept = (part >= 0) & can_stay
            if not kept.any():
                return np.full(S, -1)
            new = np.full(S, -1)
            new[kept] = np.unique(number[kept], return_inverse=True)[1]
            if np.array_equal(new >= 0, part >= 0) and new.max() + 1 == n_parts:
                return new
            part = new
