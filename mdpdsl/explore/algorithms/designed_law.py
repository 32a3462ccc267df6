"""The law behind some rows, on the states and pairs that an explorer sees.

The rows of a model with unknown numbers theta are functions of them (`compile.family`). An explorer
may see fewer states and pairs than the model has (those of a log), or more ends (episodes that
ended where the model has none). States are matched by their values, pairs by state and action.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mdpdsl.compile.family import Family
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import ModelError
from mdpdsl.estimate.count_likelihood import CountLikelihood
from mdpdsl.estimate.likelihood import climb, search
from mdpdsl.graph.convert import scaled_rows
from mdpdsl.graph.counts import Counts, counts_from
from mdpdsl.graph.row_sets import entry_pairs, places
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: Up to this many visits, the centre of the ranges is a start of the search for an estimate, too.
FEW_VISITS = 1_000
#: Numbers keep off the ends of their ranges by this many deviations: where a few visits have not
#: shown an outcome, it seems impossible, and the information of a visit infinite.
MARGIN = 0.5
#: Before any data, a number is about this part of its range from the centre.
PRIOR_DEVIATION = 0.3
#: The visits that an arrival never seen counts as, if a state is two.
UNSEEN = 1e-9


def law_of(model: Model) -> Family | None:
    """Return the rows of a model as functions of its unknown numbers; None if it has none."""
    if not model.checked.unknowns:
        return None
    graph = model.graph
    if graph.knowledge is None:  # a log has shown ends, and the graph has only what the log says
        source, parameters = model.source, model.checked.parameters
        try:
            graph = Model(source, parameters, keeps_all_states=True).graph
        except ModelError:
            graph = Model(source, parameters).graph
    return Family(model.checked, graph)


@dataclass(frozen=True, eq=False)
class SeenLaw:
    """A law on the states and pairs of an explorer's graph, with the transitions counted there."""

    family: Family
    spaces: TransitionGraph
    counts: Counts

    @cached_property
    def state(self) -> IntArray:
        """The state of the model with the values of each state, [n_states]."""
        return np.asarray(self.family.graph.states.indices(self.spaces.states.codes))

    @cached_property
    def pair(self) -> IntArray:
        """The pair of the model for each pair, [n_pairs]."""
        own, n_actions = self.family.graph, np.int64(self.family.graph.n_actions)
        wanted = self.state[self.spaces.pair_state] * n_actions + self.spaces.pair_action
        return places(own.pair_state * n_actions + own.pair_action, wanted)

    @cached_property
    def is_law(self) -> BoolArray:
        """Which pairs have rows that depend on the numbers, [n_pairs]."""
        return np.isin(self.pair, self.family.pairs)

    @cached_property
    def is_open(self) -> BoolArray:
        """Which pairs have rows of unknown probabilities that follow no law, [n_pairs]."""
        return np.asarray(self.family.graph.to_learn[self.pair] & ~self.is_law)

    @cached_property
    def likelihood(self) -> CountLikelihood:
        """The likelihood of the numbers, given the counts."""
        own, counts = self.family.graph, self.counts
        pair = self.pair[entry_pairs(counts.successor_start)]
        state = self.state[counts.successor]
        return CountLikelihood(
            self.family, counts_from(pair, state, counts.count, own.n_pairs), own
        )

    def information(self, points: FloatArray) -> FloatArray:
        """Return the Fisher information of a visit at some theta, [n_points, n_pairs, k, k]."""
        return np.array([self.family.information(theta)[self.pair] for theta in points])

    def rows(self, theta: FloatArray) -> Any:
        """Return the rows of the law at theta and those known, sparse, [n_pairs, n_states].

        The others are empty.
        """
        from scipy.sparse import csr_array

        own, family = self.family.graph, self.family
        assert own.knowledge is not None
        probability = own.knowledge.share.astype(np.float64)
        probability[~own.knowledge.is_known[own.knowledge.entry_pair]] = 0.0
        probability[family.entries] = family.probabilities(theta)
        entries = (probability, own.knowledge.successor, own.knowledge.successor_start)
        P = csr_array(entries, shape=(own.n_pairs, own.n_states))
        rows = csr_array(P[self.pair] @ self._arrivals)
        rows.eliminate_zeros()
        total = np.asarray(rows.sum(axis=1))
        return scaled_rows(rows, 1 / np.where(total > 0, total, 1.0))

    @cached_property
    def _arrivals(self) -> Any:
        """How arrivals in a state of the model are seen, sparse, [model's n_states, n_states].

        A state in which some episodes ended and others continued is two; arrivals are divided
        between them as those seen so far were.
        """
        from scipy.sparse import csr_array

        S = self.spaces.n_states
        seen = np.bincount(self.counts.successor, self.counts.count, minlength=S) + UNSEEN
        shape = (self.family.graph.n_states, S)
        matrix: Any = csr_array((seen, (self.state, np.arange(S))), shape=shape)
        total = np.asarray(matrix.sum(axis=1))
        return scaled_rows(matrix, 1 / np.where(total > 0, total, 1.0))


@dataclass(frozen=True, eq=False)
class Guess:
    """An estimate of theta, and points around it that are about as likely."""

    theta: FloatArray  # [k]
    deviations: FloatArray  # [k]
    points: FloatArray  # [2 k + 1, k]


def guess(likelihood: CountLikelihood, before: FloatArray | None) -> Guess:
    """Estimate theta by maximum likelihood, starting from an earlier estimate if there is one.

    The deviations are those of the Fisher information of the data and of the ranges, so that they
    are finite; before any data, the estimate is the centre of the ranges.
    """
    low, high, n = likelihood.low, likelihood.high, likelihood.n
    width, theta = high - low, (low + high) / 2
    if n > 0:
        peaks = [] if before is None else [climb(likelihood, before)]
        if before is None or n <= FEW_VISITS:
            peaks.append(search(likelihood, theta))
        theta = max(peaks, key=lambda peak: peak.value).theta
    information = np.diag(1 / (PRIOR_DEVIATION * width) ** 2)
    if n > 0:
        information = information + likelihood.information(theta)
    deviations = np.sqrt(np.diag(np.linalg.inv(information)))
    around = np.concatenate([np.diag(deviations), -np.diag(deviations)])
    margin = MARGIN * deviations
    theta = np.clip(theta, low + margin, high - margin)
    points = np.clip(np.vstack([theta, theta + around]), low + margin, high - margin)
    return Guess(theta, deviations, points)
