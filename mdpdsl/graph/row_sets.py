"""Sets of rows: for every pair, the distributions over its successors that are possible.

A row p lies in the *intervals* of its pair if every listed successor has lower <= p(s') <= upper,
every other one p(s') <= other_upper, and all others together have at most others_upper. It lies in
the *ball* of its pair if KL(estimate, p) <= kl and the l1 distance of both is at most l1. An
estimate makes such sets from counts; they are rectangular, that is, independent between pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph

#: Rows that were computed may leave a set by this much.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class RowSets:
    """Intervals and balls around estimated rows; without others, only listed ones are possible."""

    successor_start: IntArray  # [n_pairs + 1]
    successor: StateArray  # [n_entries]  listed: seen, or known to be possible; ascending
    estimate: FloatArray  # [n_entries]  0 if never seen; a pair without visits has no estimate
    lower: FloatArray  # [n_entries]
    upper: FloatArray  # [n_entries]
    other_upper: FloatArray  # [n_pairs]    of each successor that is not listed
    others_upper: FloatArray  # [n_pairs]    of all of them together; 0 if there are none
    kl: FloatArray  # [n_pairs]    infinite if there is no such bound
    l1: FloatArray  # [n_pairs]    0 to 2
    is_other: BoolArray | None = None  # [n_entries]  listed, but counts among the others

    def outside_intervals(self, truth: TransitionGraph) -> BoolArray:
        """Return for every pair whether its row in another graph lies outside of the intervals."""
        chance, rest = self._compared(truth)
        is_off = (chance < self.lower - ROUNDING) | (chance > self.upper + ROUNDING)
        outside = self._any(is_off)
        pair = entry_pairs(truth.successor_start)
        is_rest = rest & (truth.probability > self.other_upper[pair] + ROUNDING)
        outside[pair[is_rest]] = True
        together = row_sums(pair, np.where(rest, truth.probability, 0.0), truth.n_pairs)
        found: BoolArray = outside | (together > self.others_upper + ROUNDING)
        return found

    def outside_balls(self, truth: TransitionGraph) -> BoolArray:
        """Return for every pair whether its row in another graph lies outside of the ball."""
        chance, rest = self._compared(truth)
        pair, n_pairs = entry_pairs(self.successor_start), truth.n_pairs
        p, off = self.estimate, np.abs(self.estimate - chance)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(p > 0, p * np.log(p / chance), 0.0)
        kl, l1 = row_sums(pair, terms, n_pairs), row_sums(pair, off, n_pairs)
        missed = np.where(rest, truth.probability, 0.0)
        l1 += row_sums(entry_pairs(truth.successor_start), missed, n_pairs)
        found: BoolArray = (kl > self.kl + ROUNDING) | (l1 > self.l1 + ROUNDING)
        return found & (row_sums(pair, p, n_pairs) > 0)

    def _compared(self, truth: TransitionGraph) -> tuple[FloatArray, BoolArray]:
        """Return true probabilities of the listed, and which true branches are not listed."""
        S = truth.n_states
        listed = entry_pairs(self.successor_start) * S + self.successor
        true = entry_pairs(truth.successor_start) * S + truth.successor
        place = places(listed, true)
        chance = np.zeros(len(listed))
        chance[place[place >= 0]] = truth.probability[place >= 0]
        return chance, place < 0

    def _any(self, entries: BoolArray) -> BoolArray:
        """Return for every pair whether any of its entries is true."""
        found = np.zeros(len(self.kl), np.bool_)
        found[entry_pairs(self.successor_start)[entries]] = True
        return found


def entry_pairs(successor_start: IntArray) -> IntArray:
    """Return the pair of every entry of compressed rows."""
    return np.repeat(np.arange(len(successor_start) - 1), np.diff(successor_start))


def row_sums(pair: IntArray, values: FloatArray, n_pairs: int) -> FloatArray:
    """Return the sum of the values of each pair; 0 without any."""
    return np.bincount(pair, values, n_pairs).astype(np.float64)


def places(sorted_keys: IntArray, keys: IntArray) -> IntArray:
    """Return where keys are among sorted ones; -1 if they are not."""
    if not len(sorted_keys):
        return np.full(len(keys), -1)
    place = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return np.where(sorted_keys[place] == keys, place, -1)
