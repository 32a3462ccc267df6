"""Frontier search: the states that can be reached from the initial ones, under any actions."""

from __future__ import annotations

import numpy as np

from mdpdsl.compile.limits import MOST_STATES, too_many_states
from mdpdsl.compile.transitions import TransitionKernel
from mdpdsl.graph.space import BoolArray, IntArray

#: States and rounds of the search before it is left for the expansion of the whole product; a
#: product of so few states, or with noise that reaches far, is expanded whole at once.
QUICK_STATES = 20_000
QUICK_ROUNDS = 30
#: Products up to this size may be expanded whole.
MOST_DENSE = 4_000_000
#: In a product larger than `VAST`, a search that has not ended by then is given up: what cannot be
#: built should be refused at once. A round costs as much as there are outcomes.
VAST = 100_000_000
VAST_STATES = 100_000
VAST_ROUNDS_TIMES_OUTCOMES = 1500


def search_states(
    kernel: TransitionKernel, initial: IntArray, batch: int, most_states: int | None
) -> IntArray | None:
    """Return the codes of all states that can be reached, ascending.

    None means that expanding the whole product is the faster way. Raise TooLargeError beyond the
    limit, for a vast product soon.
    """
    model = kernel.model
    size = model.states.size
    is_dense = size <= MOST_DENSE
    has_continuous_noise = any(plan.method not in ("none", "exact") for plan in kernel.plans)
    if size <= QUICK_STATES or (is_dense and has_continuous_noise):
        return None
    limit, most_rounds = most_states or MOST_STATES, None
    if most_states is None and size > VAST:
        limit = VAST_STATES
        most_rounds = max(10, VAST_ROUNDS_TIMES_OUTCOMES // max(1, kernel.n_outcomes))
    known = _Known(initial, size)
    frontier = initial
    n_rounds = 0
    while len(frontier):
        if is_dense and (known.n > QUICK_STATES or n_rounds > QUICK_ROUNDS):
            return None
        if known.n > limit or (most_rounds is not None and n_rounds > most_rounds):
            raise too_many_states(model, limit, known.n)
        found = [
            np.unique(kernel.transitions(frontier[begin : begin + batch]).targets)
            for begin in range(0, len(frontier), batch)
        ]
        frontier = known.add(np.unique(np.concatenate(found)))
        n_rounds += 1
    return known.codes()


class _Known:
    """A growing set of codes: a bitmap where the product allows one, else a sorted array."""

    def __init__(self, codes: IntArray, size: int) -> None:
        self.n = len(codes)
        self._bitmap: BoolArray | None = None
        self._sorted = codes
        if size <= VAST:
            self._bitmap = np.zeros(size, np.bool_)
            self._bitmap[codes] = True

    def add(self, codes: IntArray) -> IntArray:
        """Enter codes, ascending and distinct; return those that are new."""
        if self._bitmap is not None:
            new = codes[~self._bitmap[codes]]
            self._bitmap[new] = True
        else:
            place = np.minimum(np.searchsorted(self._sorted, codes), len(self._sorted) - 1)
            new = codes[self._sorted[place] != codes]
            # Two ascending runs: a stable sort merges them in one pass.
            self._sorted = np.sort(np.concatenate([self._sorted, new]), kind="stable")
        self.n += len(new)
        return new

    def codes(self) -> IntArray:
        """Return all codes, ascending."""
        return self._sorted if self._bitmap is None else np.flatnonzero(self._bitmap)
