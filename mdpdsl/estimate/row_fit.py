"""Rows where a law does not hold: likelihood-ratio tests of every row against its empirical one.

G = 2 T KL(p_hat || P_theta) of a row with T visits. If all expected counts are large, G follows the
chi-squared law with K - 1 degrees of freedom, K successors being possible (Wilks 1938). Otherwise
its law is simulated with draws from P_theta, but only where that of chi-squared makes the row look
unlikely, and not if P(G >= g) <= e^-x (e x/(K-1))^(K-1), x = g/2 > K-1 (Agrawal 2020), settles it.
A transition that is impossible at theta has the p-value 0. Holm's correction (1979) keeps the
probability of naming any row in which the law does hold below the level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.compile.family import Family
from mdpdsl.estimate.count_likelihood import LawCounts, law_counts
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.describe import pair_text, state_text
from mdpdsl.graph.row_sets import entry_pairs
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: Expected counts from here on are large.
LARGE = 5.0

#: Rows that look more likely than this need no simulation.
UNSUSPICIOUS = 0.2

#: Draws of the first simulation of a row, and the most; more follow while fewer than `ENOUGH`
#: draws are as unlikely as the data.
FIRST_DRAWS, MOST_DRAWS, ENOUGH = 1_000, 200_000, 20


@dataclass(frozen=True, eq=False)
class Misfit:
    """The rows in which a law does not hold, the most unlikely ones first."""

    pairs: IntArray  # [m]
    p_values: FloatArray  # [m]
    statistic: FloatArray  # [m]  G, infinite if a transition is impossible
    visits: FloatArray  # [m]
    sentences: tuple[str, ...]  # [m]
    n_tests: int
    level: float
    overall: tuple[str, ...] = ()  # what contradicts the law in all rows together
    overall_p_values: tuple[float, ...] = ()

    @property
    def is_found(self) -> bool:
        """Whether there are such rows."""
        return len(self.pairs) > 0 or len(self.overall) > 0

    @property
    def texts(self) -> tuple[str, ...]:
        """What contradicts the law, in all rows and in each of them."""
        return (*self.overall, *self.sentences)


def holm(p_values: FloatArray, level: float) -> BoolArray:
    """Return which hypotheses are rejected, so that any true one is with the level at most."""
    n = len(p_values)
    order = np.argsort(p_values, kind="stable")
    passed = p_values[order] <= level / np.arange(n, 0, -1)
    n_rejected = n if passed.all() else int(np.argmin(passed))
    rejected = np.zeros(n, np.bool_)
    rejected[order[:n_rejected]] = True
    return rejected


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The rows that a model file writes out, as a family that no number rules."""

    graph: TransitionGraph
    pairs: IntArray  # [m]
    start: IntArray  # [m + 1]
    successor: IntArray  # [n]
    share: FloatArray  # [n]

    @property
    def entry_row(self) -> IntArray:
        """The row of every entry, [n]."""
        return entry_pairs(self.start)

    def probabilities(self, theta: FloatArray) -> FloatArray:
        """Return the rows, [n]; there are no numbers."""
        return self.share


def known_misfit(graph: TransitionGraph, counts: Counts, level: float = 0.01) -> Misfit | None:
    """Test the rows that a file writes out, if they were visited; None if it leaves none open."""
    knowledge = graph.knowledge
    if knowledge is None:
        return None
    pairs = np.flatnonzero(knowledge.is_known)
    lengths = np.diff(knowledge.successor_start)[pairs]
    chosen = knowledge.is_known[knowledge.entry_pair]
    start = np.concatenate([[0], np.cumsum(lengths)])
    rows = KnownRows(graph, pairs, start, knowledge.successor[chosen], knowledge.share[chosen])
    return row_misfit(rows, counts, graph, np.empty(0), level)


def row_misfit(
    family: Family | KnownRows,
    counts: Counts,
    graph: TransitionGraph,
    theta: FloatArray,
    level: float = 0.01,
) -> Misfit:
    """Test every row of a family that was visited, at values of the unknown numbers."""
    found, chance = law_counts(family, counts, graph), family.probabilities(theta)
    rows = np.flatnonzero(found.visits > 0)
    statistic, p_values = np.zeros(len(rows)), np.ones(len(rows))
    has_impossible = set(found.impossible_row.tolist())
    generator = np.random.default_rng(0)
    for i, row in enumerate(rows.tolist()):
        part = slice(family.start[row], family.start[row + 1])
        T, P = found.count[part], chance[part]
        if row in has_impossible or np.any(T[P <= 0] > 0):
            statistic[i], p_values[i] = np.inf, 0.0
            continue
        T, P = T[P > 0], P[P > 0] / P[P > 0].sum()
        statistic[i] = _statistics(T[None], P)[0]
        p_values[i] = _p_value(statistic[i], T.sum(), P, generator, level / len(rows))
    named = np.flatnonzero(holm(p_values, level)) if len(rows) else np.empty(0, np.int64)
    named = named[np.lexsort((-statistic[named], p_values[named]))]
    return Misfit(
        pairs=family.pairs[rows[named]],
        p_values=p_values[named],
        statistic=statistic[named],
        visits=found.visits[rows[named]],
        sentences=tuple(
            _sentence(family, counts, graph, found, chance, int(rows[i]), float(p_values[i]))
            for i in named
        ),
        n_tests=len(rows),
        level=level,
    )


def _statistics(count: FloatArray, chance: FloatArray) -> FloatArray:
    """Return G of several rows of counts [n, K] with one law [K], [n]."""
    from scipy.special import xlogy

    expected = count.sum(axis=1, keepdims=True) * chance
    found: FloatArray = 2 * np.maximum(xlogy(count, count / expected).sum(axis=1), 0.0)
    return found


def _p_value(
    G: float, visits: float, chance: FloatArray, generator: np.random.Generator, smallest: float
) -> float:
    """Return the probability of G or more under the law; `smallest` is what a test may ask for."""
    from scipy.special import chdtrc

    if len(chance) == 1:
        return 1.0
    expected, freedom = visits * chance, len(chance) - 1
    if expected.min() >= LARGE:
        return float(chdtrc(freedom, G))
    # A successor that is expected x << 1 times adds about 2 x (1 + log 1/x) to the mean of G.
    small = np.minimum(expected, 1.0)
    likely = max(1.0, float(np.minimum(1.0, 2 * small * (1 - np.log(small))).sum()) - 1)
    approximate = float(chdtrc(likely, G))
    if approximate >= UNSUSPICIOUS:
        return approximate
    x = G / 2
    if x > freedom:
        bound = float(np.exp(-x + freedom * (1 + np.log(x / freedom))))
        if bound <= smallest / 2:
            return bound
    return _simulated(G, int(visits), chance, generator, smallest)


def _simulated(
    G: float, visits: int, chance: FloatArray, generator: np.random.Generator, smallest: float
) -> float:
    """Return the share of draws that are as unlikely, the data among them."""
    most = int(min(MOST_DRAWS, max(FIRST_DRAWS, np.ceil(ENOUGH / smallest))))
    n, above, batch = 0, 0, FIRST_DRAWS
    while n < most and above < ENOUGH:
        batch = min(batch, most - n)
        draws = generator.multinomial(visits, chance, size=batch).astype(np.float64)
        above += int(np.count_nonzero(_statistics(draws, chance) >= G * (1 - 1e-12)))
        n += batch
        batch = min(4 * batch, 20_000)
    return (above + 1) / (n + 1)


def _sentence(
    family: Family | KnownRows,
    counts: Counts,
    graph: TransitionGraph,
    found: LawCounts,
    chance: FloatArray,
    row: int,
    p_value: float,
) -> str:
    """Describe where a row deviates most from its law."""
    part = slice(family.start[row], family.start[row + 1])
    T, P, visits = found.count[part], chance[part], found.visits[row]
    pair = pair_text(family.graph, int(family.pairs[row]))
    mine = np.flatnonzero(found.impossible_row == row)
    if len(mine):
        worst = mine[np.argmax(found.impossible_count[mine])]
        state = int(counts.successor[found.impossible[worst]])
        n, shown = int(found.impossible_count[worst]), state_text(graph, state)
        return f"{pair} led to {shown} ({_times(n)}), which the model excludes"
    excess = np.where(P > 0, np.abs(T - visits * P) / np.sqrt(np.maximum(visits * P, 1e-300)), 0.0)
    excess[(P <= 0) & (T > 0)] = np.inf
    worst = int(np.argmax(excess))
    shown = state_text(family.graph, int(family.successor[part][worst]))
    if P[worst] <= 0:
        return f"{pair} led to {shown} ({_times(int(T[worst]))}), which the model excludes"
    return (
        f"{pair}: {T[worst]:,.0f} of {visits:,.0f} visits led to {shown}, "
        f"where the model expects {visits * P[worst]:,.3g} (p = {p_value:.1g})"
    )


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n:,} times"
