"""Frontier search: find the states that any actions can reach from the initial states."""

from __future__ import annotations

import numpy as np

from mdpdsl.compile.limits import MOST_STATES, too_many_states
from mdpdsl.compile.transitions import TransitionKernel
from mdpdsl.graph.space import BoolArray, IntArray

#: After this many states or rounds, the search gives way to expanding the whole product. A product
#: with no more states than this, or with continuous noise, is expanded at once.
QUICK_STATES = 20_000
QUICK_ROUNDS = 30
#: Larger products are never expanded whole.
MOST_DENSE = 4_000_000
#: In a product larger than `VAST`, the search stops after this many states or rounds, because a
#: model that is too large should be rejected quickly. The cost of a round grows with the outcomes.
VAST = 100_000_000
VAST_STATES = 100_000
VAST_ROUNDS_TIMES_OUTCOMES = 1500


def search_states(
    kernel: TransitionKernel, initial: IntArray, batch: int, most_states: int | None
) -> IntArray | None:
    """Return the codes of all reachable states, ascending.

    None means that expanding the whole product is faster. Raise TooLargeError if there are too many
    states; for a vast product, the limit is low.
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
    """A growing set of codes: a bitmap if the product is small enough, else a sorted array."""

    def __init__(self, codes: IntArray, size: int) -> None:
        self.n = len(codes)
        self._bitmap: BoolArray | None = None
        self._sorted = codes
        if size <= VAST:
            self._bitmap = np.zeros(size, np.bool_)
            self._bitmap[codes] = True

    def add(self, codes: IntArray) -> IntArray:
        """Add ascending, distinct codes; return those that are new."""
        if self._bitmap is not None:
            new = codes[~self._bitmap[codes]]
            self._bitmap[new] = True
        else:
            place = np.minimum(np.searchsorted(self._sorted, codes), len(self._sorted) - 1)
            new = codes[self._sorted[place] != codes]
            # A stable sort merges two ascending runs in one pass.
            self._sorted = np.sort(np.concatenate([self._sorted, new]), kind="stable")
        self.n += len(new)
        return new

    def codes(self) -> IntArray:
        """Return all codes, ascending."""
        return self._sorted if self._bitmap is None else np.flatnonzero(self._bitmap)
