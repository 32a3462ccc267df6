"""Confidence sets around all estimated rows: intervals of single probabilities, and balls.

The `support` says which successors are possible before any data are seen:

- `model`: the successors in the model file. A pair that led elsewhere contradicts the file; nothing
  is assumed of the row of such a pair, as in `seen`. If the file says what is not known, a row that
  is known is a single point that takes no share of delta, and known shares bound the others.
- `all`: every state, each with an interval of its own.
- `seen`: every state, too, but successors that were never seen share one bound. It is tighter,
  since they are few or unlikely together.

The intervals hold jointly with probability 1 - delta, and so do the balls: each family on its own,
both at once with 1 - 2 delta. A row of K possible successors divides its share of delta among K
intervals, or with `seen` among S + 1: one for every state and one for the rest. The rest is a set
of m states that is known only after the data, so that all sets are allowed for: the r of the rest
is divided among the S sizes and the binomial(S, m) sets of a size. The probability of a set is like
that of a single successor, with k = 0. A row that contradicts the model has the same share of delta
as before, divided among S + 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpdsl.estimate.intervals import interval, unseen_upper
from mdpdsl.estimate.row_balls import mixture_regret, row_balls
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.ends import Settled
from mdpdsl.graph.knowledge import said_of
from mdpdsl.graph.row_sets import RowSets, entry_pairs, places
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

SUPPORTS = ("seen", "all", "model")
DEFAULT_SETS, DEFAULT_SUPPORT = "time-uniform", "seen"

#: When the sets of each kind hold.
HOLDS = {
    "time-uniform": "at every look, however the data were gathered",
    "weissman": "at every look, however the data were gathered",
    "clopper-pearson": "for one look at a log whose visits were fixed beforehand",
    # Radii of estimates of version 1; their intervals are those of Clopper and Pearson.
    "paper": "for rows with few successors only; estimate again for sets that hold",
    "weissman-v1": "for one look; estimate again for sets that hold at every look",
}
MEANINGS = {
    "seen": "any state may follow; those never seen share one bound",
    "all": "any state may follow, each with its own bound",
    "model": "only the successors in the model file may follow",
}


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of all entries of a model that hold jointly."""

    lower: FloatArray  # [n_entries]  as `Counts.count`
    upper: FloatArray  # [n_entries]
    unseen_upper: FloatArray  # [n_pairs]  of every possible successor that was never seen
    rest_upper: FloatArray  # [n_pairs]  of all of them together
    entry_risk: float  # of a single interval, but less in a row that contradicts the model


@dataclass(frozen=True, eq=False)
class ConfidenceSets:
    """Balls and intervals around the estimated rows; each kind holds with probability 1 - delta."""

    counts: Counts
    graph: TransitionGraph  # the spaces, and the model's dynamics if it has any
    kind: str  # time-uniform, clopper-pearson or weissman; paper: read from an old estimate
    delta: float
    support: str  # seen, all or model
    radius: FloatArray  # [n_pairs]  l1, 2 if a pair was never visited
    kl: FloatArray  # [n_pairs]  infinite if there is no such bound
    intervals: Intervals

    @property
    def holds(self) -> str:
        """When the sets hold, in words."""
        return HOLDS[self.kind]

    @property
    def described(self) -> str:
        """The sets in a few words, for tables, pages and files."""
        named = f"{self.kind}, delta = {self.delta:g}, support {self.support}"
        return f"{named}: {MEANINGS[self.support]}"

    @cached_property
    def contradictions(self) -> IntArray:
        """The entries of the counts that the model calls impossible, if that is the support."""
        if self.support != "model":
            return np.empty(0, np.int64)
        return impossible_entries(self.counts, self.graph)

    @cached_property
    def rows(self) -> RowSets:
        """The sets of all rows, with every successor that the model knows to be possible."""
        counts, graph, found = self.counts, self.graph, self.intervals
        S, pair = graph.n_states, entry_pairs(self.counts.successor_start)
        keys = pair * S + counts.successor
        trusts = self._trusts
        known, said = np.empty(0, np.int64), None
        if trusts.any():
            said = said_of(graph)
            known = said.entry_pair * S + said.successor
            listed = np.union1d(known[trusts[said.entry_pair]], keys[~trusts[pair]])
        else:
            listed = keys
        where, listed_pair = places(listed, keys), listed // S
        estimate, lower = np.zeros(len(listed)), np.zeros(len(listed))
        upper = found.unseen_upper[listed_pair].copy()
        estimate[where] = counts.count / counts.visits[pair]
        lower[where], upper[where] = found.lower, found.upper
        n_listed = np.bincount(listed_pair, minlength=graph.n_pairs)
        is_alone = (trusts & (n_listed == 1))[listed_pair]
        estimate[is_alone] = lower[is_alone] = upper[is_alone] = 1.0
        if said is not None and graph.knowledge is not None:
            at = places(known, listed)
            is_said = (at >= 0) & trusts[listed_pair]
            share, rest = said.share[at], np.where(said.is_open[at], said.rest[listed_pair], 0.0)
            lower = np.where(is_said, np.maximum(lower, share), lower)
            upper = np.where(is_said, np.minimum(upper, share + rest), upper)
            upper = np.maximum(upper, lower)
            is_known = is_said & said.is_known[listed_pair]
            estimate = np.where(is_known, share, estimate)
            lower, upper = np.where(is_known, share, lower), np.where(is_known, share, upper)
        return RowSets(
            successor_start=np.concatenate([[0], np.cumsum(n_listed)]),
            successor=(listed % S).astype(np.int32),
            estimate=estimate,
            lower=lower,
            upper=upper,
            other_upper=np.where(trusts, 0.0, found.unseen_upper),
            others_upper=np.where(trusts, 0.0, found.rest_upper),
            kl=self.kl,
            l1=self.radius,
        )

    @property
    def _trusts(self) -> BoolArray:
        """Whether the successors of a pair are those of the model, [n_pairs]."""
        trusts = np.full(self.graph.n_pairs, self.support == "model")
        trusts[entry_pairs(self.counts.successor_start)[self.contradictions]] = False
        return trusts


def settled_sets(
    settled: Settled, delta: float, kind: str = DEFAULT_SETS, support: str = DEFAULT_SUPPORT
) -> ConfidenceSets:
    """Compute the sets of counts that may have shown ends, over the graph that has them."""
    return confidence_sets(
        settled.counts,
        settled.graph,
        delta,
        kind,
        support,
        n_outcomes=settled.n_outcomes,
        n_rows=settled.spaces.n_pairs,
    )


def confidence_sets(
    counts: Counts,
    graph: TransitionGraph,
    delta: float,
    kind: str = DEFAULT_SETS,
    support: str = DEFAULT_SUPPORT,
    *,
    n_outcomes: int | None = None,
    n_rows: int | None = None,
    left_out: BoolArray | None = None,
) -> ConfidenceSets:
    """Compute the confidence sets of counts over the pairs of a graph.

    The support `model` needs a graph with dynamics. If the data changed the graph, `n_outcomes` and
    `n_rows` are the numbers of successors and rows that were possible before. Pairs that are
    `left_out` [n_pairs] take no share of delta: their sets do not hold, and are not to be used.
    """
    S, visits = n_outcomes or graph.n_states, counts.visits
    n_pairs = max(1, n_rows or graph.n_pairs)
    n_possible = np.full(graph.n_pairs, S)
    assumes_nothing = np.full(graph.n_pairs, support == "seen")
    regret: FloatArray | None = None
    exponent = np.full(graph.n_pairs, np.log(n_pairs) + np.log(S) - np.log(delta))
    entry_risk = delta / n_pairs / (S + 1 if support == "seen" else S)
    if support == "seen":
        exponent += np.log1p(1 / S)
    if support == "model":
        if not graph.has_dynamics:
            raise ValueError("the graph has no dynamics, so its support is unknown")
        said = said_of(graph)
        n_possible = np.diff(said.successor_start)
        n_entries = len(said.successor)
        if graph.knowledge is not None:
            learned = ~said.is_known if left_out is None else ~(said.is_known | left_out)
            n_entries = max(1, int(np.count_nonzero(learned[said.entry_pair])))
            n_pairs = max(1, int(np.count_nonzero(learned)))
        entry_risk = delta / n_entries
        exponent = np.full(graph.n_pairs, -np.log(entry_risk))
        regret = mixture_regret(counts, n_possible)
        contrary = entry_pairs(counts.successor_start)[impossible_entries(counts, graph)]
        assumes_nothing[contrary] = True
        regret[contrary] = np.nan
        exponent[contrary] += np.log1p(S) - np.log(n_possible[contrary])
        n_possible = np.where(said.is_known, 1, n_possible)
        n_possible[contrary] = S
    kl, radius = row_balls(kind, visits, n_possible, np.log(n_pairs) - np.log(delta), regret)
    intervals = _intervals(kind, counts, S, n_possible, assumes_nothing, exponent, entry_risk)
    return ConfidenceSets(counts, graph, kind, delta, support, radius, kl, intervals)


def impossible_entries(counts: Counts, graph: TransitionGraph) -> IntArray:
    """Return the entries of counts that are no branches of a graph over the same pairs."""
    S, said = graph.n_states, said_of(graph)
    known = said.entry_pair * S + said.successor
    return np.flatnonzero(
        places(known, entry_pairs(counts.successor_start) * S + counts.successor) < 0
    )


def _intervals(
    kind: str,
    counts: Counts,
    n_states: int,
    n_possible: IntArray,
    assumes_nothing: BoolArray,
    exponent: FloatArray,
    entry_risk: float,
) -> Intervals:
    visits, n_seen = counts.visits, np.diff(counts.successor_start)
    pair = entry_pairs(counts.successor_start)
    lower, upper = interval(kind, counts.count, visits[pair], exponent[pair])
    is_alone = n_possible[pair] == 1
    lower, upper = np.where(is_alone, 1.0, lower), np.where(is_alone, 1.0, upper)
    n_unseen = n_possible - n_seen
    each = np.where(n_unseen > 0, unseen_upper(kind, visits, exponent), 0.0)
    together = np.minimum(1.0, n_unseen * each)
    if assumes_nothing.any():
        sets = np.log(n_states) + _log_binomial(n_states, np.maximum(n_unseen, 0))
        as_one = unseen_upper(kind, visits, exponent + sets)
        together = np.where(assumes_nothing, np.minimum(together, as_one), together)
    return Intervals(lower, upper, np.minimum(each, together), together, entry_risk)


def _log_binomial(n: int, m: IntArray) -> FloatArray:
    from scipy.special import gammaln

    found: FloatArray = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
    return found
