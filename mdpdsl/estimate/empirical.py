"""The empirical model: P_hat from counts of transitions, and its complexity.

P_hat = T(s,a,s')/T(s,a) (paper, eq. p_hat_def). If the model file says something of the rows
(`graph.knowledge`), a known row is what it is, and of a row share(s') + w(s') only the weights are
estimated: those of the open entries are proportional to max(P_hat - share, 0) and sum to what the
shares leave. They are equal if the pair was never visited, or if all of these vanish. A pair that
was seen to lead where the file says it cannot follows its counts alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpdsl.graph.counts import Counts
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.reward_fields import rewards_of_pairs
from mdpdsl.graph.row_sets import entry_pairs, places, row_sums
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph

#: Rows in compressed form: starts [n_pairs + 1], successors and probabilities [n_entries].
Rows = tuple[IntArray, StateArray, FloatArray]

#: The most entries that uniform rows of unvisited pairs may take in an estimate that is saved.
MOST_UNIFORM_ENTRIES = 50_000_000


def estimated_graph(
    counts: Counts,
    spaces: TransitionGraph,
    smoothing: float = 0.0,
    *,
    knows_support: bool = False,
) -> TransitionGraph:
    """Return the model estimated from counts, over the spaces of a graph.

    P_hat = T(s,a,s')/T(s,a) (paper, eq. p_hat_def); with `smoothing` a, it is
    (T(s,a,s') + a)/(T(s,a) + a m) over the m successors seen. An unvisited pair gets the uniform
    row 1/S. That row is dense, so a large model with many such pairs is better kept as counts. If
    the spaces have dynamics and `knows_support`, it is uniform over the successors there. Where the
    spaces have knowledge, rows are as the module's docstring says, and the estimate has none: it is
    a model of its own.

    Rewards of pairs and labels are those of the spaces. Rewards that depend on the next state are
    left out, because their expectations in the spaces are over other transitions;
    `compile.transition_rewards` evaluates them on the estimated ones.
    """
    if spaces.knowledge is not None:
        start, successor, probability = knowledge_rows(counts, spaces.knowledge, smoothing)
    else:
        start, successor, probability = _plain_rows(counts, spaces, smoothing, knows_support)
    return replace(
        spaces,
        successor_start=start,
        successor=successor,
        probability=probability,
        knowledge=None,
        **rewards_of_pairs(spaces),
    )


def knowledge_rows(counts: Counts, knowledge: Knowledge, smoothing: float = 0.0) -> Rows:
    """Return the rows estimated from counts and from what the model file says of them."""
    visits, n_pairs = counts.visits, knowledge.n_pairs
    seen_pair, pair = entry_pairs(counts.successor_start), knowledge.entry_pair
    n_seen = np.diff(counts.successor_start)
    p_hat = (counts.count + smoothing) / (visits + smoothing * n_seen)[seen_pair]
    is_impossible = knowledge.excludes(seen_pair, counts.successor)
    is_wrong = np.zeros(n_pairs, np.bool_)  # [n_pairs]
    is_wrong[seen_pair[is_impossible]] = True

    S = np.int64(1 + knowledge.successor.max(initial=0))
    seen = np.zeros(len(knowledge.successor))  # [n_entries]  P_hat of the possible successors
    place = places(pair * S + knowledge.successor, seen_pair * S + counts.successor)
    seen[place[~is_impossible]] = p_hat[~is_impossible]
    excess = np.where(knowledge.is_open, np.maximum(seen - knowledge.share, 0.0), 0.0)
    total = row_sums(pair, excess, n_pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(knowledge.rest == 1.0, 1.0, knowledge.rest / total)
        found = knowledge.share + excess * scale[pair]
    is_given = (visits == 0) | (total == 0)  # a known row has no excess
    found = np.where(is_given[pair], knowledge.placeholder, found)

    kept, own = ~is_wrong[pair] & (found > 0), is_wrong[seen_pair]
    pairs = np.concatenate([pair[kept], seen_pair[own]])
    successor = np.concatenate([knowledge.successor[kept], counts.successor[own]])
    order = np.lexsort((successor, pairs))
    start = np.concatenate([[0], np.cumsum(np.bincount(pairs, minlength=n_pairs))])
    probability = np.concatenate([found[kept], p_hat[own]])
    return start, successor[order].astype(np.int32), probability[order]


def _plain_rows(
    counts: Counts, spaces: TransitionGraph, smoothing: float, knows_support: bool
) -> Rows:
    """Return the rows estimated from counts alone."""
    S = spaces.n_states
    visits = counts.visits
    n_seen = np.diff(counts.successor_start)
    n_possible = np.diff(spaces.successor_start) if knows_support else S
    per_pair = np.where(visits > 0, n_seen, n_possible)
    start = np.concatenate([[0], np.cumsum(per_pair)])
    successor = np.empty(start[-1], np.int32)
    probability = np.empty(start[-1])
    pair = np.repeat(np.arange(len(visits)), n_seen)
    place = start[:-1][pair] + np.arange(len(pair)) - counts.successor_start[:-1][pair]
    successor[place] = counts.successor
    total = visits + smoothing * n_seen
    probability[place] = (counts.count + smoothing) / total[pair]
    for unvisited in np.flatnonzero(visits == 0).tolist():
        row = slice(start[unvisited], start[unvisited + 1])
        possible = spaces.row(unvisited)[0] if knows_support else np.arange(S)
        successor[row], probability[row] = possible, 1 / len(possible)
    return start, successor, probability


def too_large_estimate(
    counts: Counts, spaces: TransitionGraph, *, knows_support: bool = False
) -> str | None:
    """Return why the estimated graph is too large to save, or None if it is not."""
    if spaces.knowledge is not None:
        return None
    is_unvisited = counts.visits == 0
    n_uniform = int(np.count_nonzero(is_unvisited)) * spaces.n_states
    if knows_support:
        n_uniform = int(np.diff(spaces.successor_start)[is_unvisited].sum())
    if n_uniform <= MOST_UNIFORM_ENTRIES:
        return None
    return (
        f"the uniform rows of unvisited pairs would take {n_uniform:,} entries; "
        "counts.npz has the data"
    )


def estimated_complexity(counts: Counts) -> FloatArray:
    """Return c_hat(s,a) = 1 - sum P_hat^2, and 1 for an unvisited pair, [n_pairs]."""
    visits = counts.visits
    squares = np.concatenate([[0.0], np.cumsum(counts.count.astype(np.float64) ** 2)])
    sums = np.diff(squares[counts.successor_start])
    return np.where(visits > 0, 1 - sums / np.maximum(visits, 1.0) ** 2, 1.0)
