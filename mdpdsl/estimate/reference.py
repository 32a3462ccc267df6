"""What a run is measured against: the model that was simulated, the whole log, or its own counts.

c(s,a) = 1 - sum P^2 uses P of the truth if it is known, of the log if one was replayed, and
otherwise of the estimate itself. Pairs whose rows the model file states are not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.estimate.metrics import squared_errors
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.order import LoggedTransitions
from mdpdsl.logs.sequences import TransitionTable

#: Transitions of a log that are counted at a time.
BATCH = 1 << 20


@dataclass(frozen=True, eq=False)
class Reference:
    """Complexities, and the transitions that estimates are compared with, if any."""

    source: str  # `truth`, `log` or `estimate`
    complexity: FloatArray  # [n_pairs]
    measured: BoolArray  # [n_pairs]  pairs that count: all to learn, or those of them in a log
    target: Counts | None = None  # transitions of the log
    truth: TransitionGraph | None = None

    @property
    def is_estimated(self) -> bool:
        """Whether only the counts are known."""
        return self.source == "estimate"

    @property
    def symbol(self) -> str:
        """The symbol of the complexity in formulas."""
        return "ĉ" if self.is_estimated else "c"

    def errors(self, counts: Counts) -> FloatArray:
        """Return the error of the estimate of every pair, NaN if it was never visited.

        This is ||P - P_hat||^2 if there is a reference P; otherwise its expectation, c_hat/T.
        """
        visits = counts.visits
        if self.truth is not None:
            found = squared_errors(self.truth, counts)
        elif self.target is not None:
            found = _distances(self.target, counts)
        else:
            found = self.complexity / np.maximum(visits, 1)
        return np.where(visits > 0, np.maximum(found, 0.0), np.nan)


def truth_reference(graph: TransitionGraph) -> Reference:
    """Return the simulated model as the reference."""
    return Reference("truth", squared_l2_complexity(graph), graph.to_learn, truth=graph)


def log_reference(logged: LoggedTransitions, graph: TransitionGraph) -> Reference:
    """Return the whole replayed log as the reference."""
    counts = _log_counts(logged, graph)
    measured = (counts.visits > 0) & graph.to_learn
    return Reference("log", estimated_complexity(counts), measured, target=counts)


def estimate_reference(counts: Sequence[Counts], graph: TransitionGraph | None = None) -> Reference:
    """Return the estimate as the reference, the mean over trials: nothing else is known.

    The graph that is estimated says which of its pairs are to learn; by default, all are.
    """
    c = np.mean([estimated_complexity(each) for each in counts], axis=0)
    measured = np.ones(len(c), np.bool_) if graph is None else graph.to_learn
    return Reference("estimate", c, measured)


def _log_counts(logged: LoggedTransitions, graph: TransitionGraph) -> Counts:
    """Count the transitions of a log."""
    table = TransitionTable(graph.n_pairs, graph.n_states)
    for low in range(0, len(logged.successor), BATCH):
        part = logged.successor[low : low + BATCH]
        places = np.arange(low, low + len(part))
        pair = np.searchsorted(logged.queue_start, places, side="right") - 1
        table.add(pair * np.int64(graph.n_states) + part)
    return table.counts()


def _distances(target: Counts, counts: Counts) -> FloatArray:
    """Return ||P - P_hat||_2^2 between the estimates of two counts, [n_pairs]."""
    n_pairs = len(counts.successor_start) - 1
    S = 1 + max((int(c.successor.max()) for c in (target, counts) if len(c.successor)), default=0)
    keys, probabilities, squares = [], [], []
    for each in (target, counts):
        pair = np.repeat(np.arange(n_pairs), np.diff(each.successor_start))
        P = each.count / each.visits[pair]
        keys.append(pair * np.int64(S) + each.successor)
        probabilities.append(P)
        squares.append(np.bincount(pair, P * P, minlength=n_pairs))
    if len(keys[0]) == 0:
        return np.asarray(squares[1], np.float64)
    place = np.minimum(np.searchsorted(keys[0], keys[1]), len(keys[0]) - 1)
    matching = np.where(keys[0][place] == keys[1], probabilities[0][place], 0.0)
    mixed = np.bincount(keys[1] // S, matching * probabilities[1], minlength=n_pairs)
    return np.asarray(squares[0] - 2 * mixed + squares[1])
