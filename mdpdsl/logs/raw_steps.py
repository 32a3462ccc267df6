"""The numbers behind the transitions of logs, as they were before they fell into cells.

Counts know the cells of real variables only. An estimate of a continuous law needs the numbers
themselves: x before a step, the action, and x' after it. Bool, int, enum and set variables have the
number of their cell, as expressions read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.system import cell_numbers
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.kernels.counting import SAME
from mdpdsl.logs.log_rows import Records, WholeSteps

#: Transitions kept, the first ones. With two real variables they take about 100 MB, and the numbers
#: that they determine are known to a thousandth of one step's noise.
MOST_STEPS = 2_000_000

#: A number this close to the centre of its cell, as a share of the range, is the centre.
CENTRED = 1e-9


@dataclass(frozen=True, eq=False)
class RawTransitions:
    """Transitions in the order of counting; V state variables in the order of the model.

    Numbers are not clipped; of a variable that wraps, any representative is given. Successors are
    arrivals, as in counts in open form (`graph.ends`).
    """

    before: FloatArray  # [n, V]
    action: IntArray  # [n]  action index
    after: FloatArray  # [n, V]
    pair: IntArray  # [n]
    successor: IntArray  # [n]  n_states + s where the episode ended in s
    n_left_out: int = 0  # transitions that were counted, but are too many to keep

    def __len__(self) -> int:
        return len(self.pair)

    def are_centres(self, graph: TransitionGraph) -> bool:
        """Return whether all numbers are centres of cells, as the finite model's own steps are."""
        states = graph.states
        before, after = graph.pair_state[self.pair], self.successor % graph.n_states
        for position, variable in enumerate(states.variables):
            if variable.kind != "real" or not len(self):
                continue
            centre = states.values(variable.name)
            near = CENTRED * (centre.max() - centre.min())
            for numbers, state in ((self.before, before), (self.after, after)):
                if np.any(np.abs(numbers[:, position] - centre[state]) > near):
                    return False
        return len(self) > 0


class RawSteps:
    """Keeps the numbers of the first transitions that are counted."""

    def __init__(self, model: CheckedModel, graph: TransitionGraph, most: int = MOST_STEPS) -> None:
        self.model, self.graph, self.most = model, graph, most
        variables = graph.states.variables
        self.real = tuple(i for i, v in enumerate(variables) if v.kind == "real")
        self._cell_numbers = {
            i: cell_numbers(v, model.symbols) for i, v in enumerate(variables) if v.kind != "real"
        }
        self.clear(graph.n_states)

    @property
    def is_full(self) -> bool:
        """Whether no further transition will be kept."""
        return self._n_kept >= self.most

    def clear(self, n_arrivals: int) -> None:
        """Forget everything, as the log is read again; there are so many arrivals."""
        self.n_arrivals = n_arrivals
        self._parts: list[RawTransitions] = []
        self._n_kept = self._n_left_out = 0

    def another(self) -> RawSteps:
        """Return an empty collection of the same kind."""
        return RawSteps(self.model, self.graph, self.most)

    def add(self, codes: IntArray, rows: Records, kind: StateArray) -> None:
        """Add the transitions of rows, each given as pair * n_arrivals + arrival.

        `kind` says how each row follows the one before.
        """
        if self.is_full or rows.real is None:
            self.leave_out(len(codes))
            return
        is_step = (kind[1:] == SAME) & (rows.pair[:-1] >= 0) & (rows.state[1:] >= 0)
        places = np.flatnonzero(is_step)[: self.most - self._n_kept]
        self._add(codes, rows.real[places], rows.real[places + 1])

    def add_whole(self, codes: IntArray, steps: WholeSteps) -> None:
        """Add transitions that were each a row."""
        if self.is_full or steps.before is None or steps.after is None:
            self.leave_out(len(codes))
            return
        kept = slice(0, self.most - self._n_kept)
        self._add(codes, steps.before[kept], steps.after[kept])

    def leave_out(self, n: int) -> None:
        """Note transitions that are counted but not kept."""
        self._n_left_out += n

    def gather(self, parts: Sequence[RawTransitions]) -> None:
        """Replace everything by what other collections of the same log kept, one after another."""
        self.clear(self.n_arrivals)
        for part in parts:
            n = min(len(part), self.most - self._n_kept)
            self._parts.append(_first(part, n))
            self._n_kept += n
            self.leave_out(len(part) - n + part.n_left_out)

    def transitions(self) -> RawTransitions:
        """Return all that was kept."""
        shape = (0, len(self.graph.states.variables))
        none = np.empty(0, np.int64)
        parts = [RawTransitions(np.empty(shape), none, np.empty(shape), none, none), *self._parts]
        return RawTransitions(
            before=np.concatenate([part.before for part in parts]),
            action=np.concatenate([part.action for part in parts]),
            after=np.concatenate([part.after for part in parts]),
            pair=np.concatenate([part.pair for part in parts]),
            successor=np.concatenate([part.successor for part in parts]),
            n_left_out=self._n_left_out,
        )

    def _add(self, codes: IntArray, before: FloatArray, after: FloatArray) -> None:
        n = len(before)
        self.leave_out(len(codes) - n)
        pair, arrival = np.divmod(codes[:n], self.n_arrivals)
        graph = self.graph
        self._parts.append(
            RawTransitions(
                before=self._numbers(graph.pair_state[pair], before),
                action=graph.pair_action[pair].astype(np.int64),
                after=self._numbers(arrival % graph.n_states, after),
                pair=pair,
                successor=arrival,
            )
        )
        self._n_kept += n

    def _numbers(self, state: StateArray | IntArray, real: FloatArray) -> FloatArray:
        """Return the numbers of all variables, given those of the real ones."""
        states = self.graph.states
        numbers = np.empty((len(state), len(states.variables)))
        numbers[:, list(self.real)] = real
        codes = states.codes[state]
        for position, of_cell in self._cell_numbers.items():
            numbers[:, position] = of_cell[states.product.cells(codes, position)]
        return numbers


def _first(part: RawTransitions, n: int) -> RawTransitions:
    return RawTransitions(
        part.before[:n], part.action[:n], part.after[:n], part.pair[:n], part.successor[:n]
    )
