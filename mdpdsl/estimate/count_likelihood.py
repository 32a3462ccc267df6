"""The likelihood of transition counts under rows that depend on unknown numbers.

l(theta) = sum T(s,a,s') log P_theta(s'|s,a) over the pairs whose rows are laws. Its derivatives are
sum T dP/P, and the Fisher information of all visits is sum T(s,a) F(s,a) with F = sum dP dP'/P
(see `family`). Over a box of theta, intervals of P and dP (Moore 1966) bound l in two ways:

- sum T log(upper P), which is finite everywhere;
- l(a) + sum_j max |g_j| |theta_j - a_j|, where g encloses the derivatives (mean value theorem). The
  anchor a is the better end in numbers along which l is monotone, where the term is 0, and the
  centre in the others. It is tight to second order.

If the slopes of all P are constant over the declared ranges, every P is affine and l is concave, as
with probabilities like slip and 1 - slip. Then its tangent plane at the centre is a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from mdpdsl.compile.family import Family
from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.row_sets import entry_pairs, places
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: Slopes that differ by less, relative to the largest, are equal.
SAME_SLOPE = 1e-12

#: A computed sum of logs may be off by this much per transition and per unit.
ROUNDING = 1e-12


class Stated(Protocol):
    """Rows that a model file states, as functions of unknown numbers or as they are."""

    @property
    def graph(self) -> TransitionGraph:
        """The graph whose pairs they belong to."""

    @property
    def pairs(self) -> IntArray:
        """Their pairs, ascending, [m]."""

    @property
    def entry_row(self) -> IntArray:
        """The row of every entry, as a position in `pairs`, [n]."""

    @property
    def successor(self) -> IntArray:
        """The successor of every entry, [n]."""


@dataclass(frozen=True, eq=False)
class LawCounts:
    """Counts of the rows that are laws, entry by entry."""

    count: FloatArray  # [n]  T(s,a,s') of each entry of the family
    visits: FloatArray  # [m]  T(s,a) of each row, impossible transitions included
    impossible: IntArray  # [i]  entries of the counts that no values of the numbers allow
    impossible_row: IntArray  # [i]  the row of the family of each
    impossible_count: IntArray  # [i]


def law_counts(family: Stated, counts: Counts, graph: TransitionGraph) -> LawCounts:
    """Return the counts over the pairs of a graph in the order of a family's entries.

    The graph may be the family's own or one with ends that the data show: an episode that ended in
    a state was a transition to that state.
    """
    n_states, m = len(graph.states.own_codes), len(family.pairs)
    pair = _own_pairs(family.graph, graph)[entry_pairs(counts.successor_start)]
    row = places(family.pairs, pair)
    successor = counts.successor.astype(np.int64)
    twins = successor >= n_states
    codes = graph.states.codes[successor[twins]]
    successor[twins] = np.searchsorted(graph.states.own_codes, codes)
    keys = family.entry_row * n_states + family.successor
    where = places(keys, row * n_states + successor)
    is_law = row >= 0
    found = is_law & (where >= 0)
    impossible = np.flatnonzero(is_law & (where < 0))
    return LawCounts(
        count=np.bincount(where[found], counts.count[found], len(keys)).astype(np.float64),
        visits=np.bincount(row[is_law], counts.count[is_law], m).astype(np.float64),
        impossible=impossible,
        impossible_row=row[impossible],
        impossible_count=counts.count[impossible],
    )


class CountLikelihood:
    """The log-likelihood of counts, as a function of a family's unknown numbers.

    `value` and its derivatives leave out transitions that no values allow, so that the others can
    be fitted. If there are any, no values fit the data, and `upper` is -inf.
    """

    def __init__(self, family: Family, counts: Counts, graph: TransitionGraph) -> None:
        self.family = family
        self.names, self.low, self.high = family.names, family.low, family.high
        found = law_counts(family, counts, graph)
        self.n_impossible = int(found.impossible_count.sum())
        self.n = int(found.visits.sum())
        self._seen = np.flatnonzero(found.count)  # entries
        self.n_terms = len(self._seen)
        self._count = found.count[self._seen]
        visits = found.visits[family.entry_row]
        self._visited = np.flatnonzero(visits)  # entries of rows that were visited
        self._visits = visits[self._visited]
        self._last: dict[str, tuple[bytes, FloatArray]] = {}

    @cached_property
    def is_concave(self) -> bool:
        """Whether l is proved to be concave within the declared ranges."""
        try:
            rows = self.family.enclosure(self.low, self.high)
        except SolveError:
            return False
        least, most = rows.slope_lower[:, self._seen], rows.slope_upper[:, self._seen]
        largest = np.maximum(np.abs(least), np.abs(most)).max(initial=0.0)
        return bool(np.all(most - least <= SAME_SLOPE * largest))

    def value(self, theta: FloatArray) -> float:
        """Return the log-likelihood; -inf if a transition is impossible."""
        return self._sum_of_logs(self._probabilities(theta)[self._seen])

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood and its derivatives, [k]."""
        chance = self._probabilities(theta)[self._seen]
        value = self._sum_of_logs(chance)
        if not np.isfinite(value):
            return value, np.zeros(len(self.names))
        slopes = self._derivatives(theta)[:, self._seen]
        gradient: FloatArray = slopes @ (self._count / chance)
        return value, gradient

    def information(self, theta: FloatArray) -> FloatArray:
        """Return the Fisher information of all visits, [k, k].

        A successor that is less likely than half a visit counts as one with that probability; the
        information would be infinite where an impossible one becomes possible.
        """
        chance = self._probabilities(theta)[self._visited]
        slopes = self._derivatives(theta)[:, self._visited]
        weights = self._visits / np.maximum(chance, 0.5 / self._visits)
        found: FloatArray = (slopes * weights) @ slopes.T
        return found

    def upper(self, low: FloatArray, high: FloatArray) -> float:
        """Return a proved upper bound over a box; SolveError if rows cannot be enclosed."""
        if self.n_impossible:
            return -np.inf
        if self.is_concave:
            value, gradient = self.value_and_gradient((low + high) / 2)
            if np.isfinite(value):
                return self._rounded(value + float(np.abs(gradient) @ (high - low)) / 2)
        rows = self.family.enclosure(low, high)
        lower, upper = rows.lower[self._seen], rows.upper[self._seen]
        natural = self._sum_of_logs(np.minimum(upper, 1.0))
        bound = natural
        if np.all(lower > 0):
            least, most = rows.slope_lower[:, self._seen], rows.slope_upper[:, self._seen]
            # dP/P is smallest with the smaller P if dP is negative, and with the larger otherwise.
            least = least / np.where(least < 0, lower, upper)
            most = most / np.where(most < 0, upper, lower)
            bound = min(natural, self._centred(low, high, least @ self._count, most @ self._count))
        return self._rounded(bound)

    def _centred(
        self, low: FloatArray, high: FloatArray, least: FloatArray, most: FloatArray
    ) -> float:
        """Return the bound by the mean value theorem; inf if the derivatives are not bounded."""
        if not (np.isfinite(least).all() and np.isfinite(most).all()):
            return np.inf
        anchor = np.where(least >= 0, high, np.where(most <= 0, low, (low + high) / 2))
        value = self.value(anchor)
        is_mixed = (least < 0) & (most > 0)
        steepest = np.maximum(-least, most)
        moved = np.where(is_mixed, steepest * np.maximum(high - anchor, anchor - low), 0.0)
        return value + float(moved.sum()) if np.isfinite(value) else np.inf

    def _probabilities(self, theta: FloatArray) -> FloatArray:
        return self._kept("P", theta, self.family.probabilities)

    def _derivatives(self, theta: FloatArray) -> FloatArray:
        return self._kept("dP", theta, self.family.derivatives)

    def _kept(
        self, name: str, theta: FloatArray, function: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """Return the value of a function; searches ask twice for the same point in a row."""
        key, last = theta.tobytes(), self._last.get(name)
        if last is None or last[0] != key:
            last = self._last[name] = key, function(theta)
        return last[1]

    def _rounded(self, bound: float) -> float:
        """Return a bound that allows for rounding."""
        return bound + ROUNDING * (self.n + abs(bound)) if np.isfinite(bound) else bound

    def _sum_of_logs(self, chance: FloatArray) -> float:
        if np.any(chance <= 0):
            return -np.inf
        return float(self._count @ np.log(chance))


def _own_pairs(own: TransitionGraph, graph: TransitionGraph) -> IntArray:
    """Return the pair of a family's graph for each pair of a graph over the same states."""
    n_actions = own.n_actions
    keys = own.pair_state.astype(np.int64) * n_actions + own.pair_action
    return places(keys, graph.pair_state.astype(np.int64) * n_actions + graph.pair_action)
