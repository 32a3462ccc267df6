"""The model that `tracking` plans on: the estimate, regularised for pairs with few visits.

A pair with a handful of visits shows little. The other actions of its state show more, to the
extent that actions are alike, which is estimated from the counts: the row of a pair is

    P(s'|s,a) = (T(s,a,s') + w R(s,s')) / (T(s,a) + w),

where R is the mean row of its state, and w the weight that makes the transitions most likely, each
given all the others (an empirical Bayes estimate). A pair never visited has the row R. A state
never left is assumed to lead back to the state most visited. A state never seen counts as reached
half a time by every action of the cells next to it, which matters less the more often they are
visited. If none of these cells was seen either, nothing is known of how to reach it, and it is left
out of the plan.

If the model file says where pairs can lead (`graph.knowledge`), no guess is needed: R is what the
file says of the pair before any data, T counts the estimate that knows the shares, and known rows
are known. A state that known rows lead to counts as seen.

Plans are made on the closed graph, in which an end is the start of the next episode.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdpdsl.estimate.empirical import knowledge_rows
from mdpdsl.graph.analysis import end_components, reachable_states
from mdpdsl.graph.convert import scaled_rows, with_rows
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.ends import close
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.row_sets import entry_pairs
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, StateSpace
from mdpdsl.graph.transition_graph import TransitionGraph

#: The weights w that are tried, in visits.
WEIGHTS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
#: The weight of transitions that no other visit of the state has shown, in visits.
NOVELTY = 0.5
#: The weight of a transition to a state never seen from a cell next to it, in visits.
HOPE = 0.5


@dataclass(frozen=True, eq=False)
class TrackedModel:
    """A model to plan on, and the pairs that a plan can include."""

    graph: TransitionGraph  # closed, with the pairs of the spaces
    is_planned: BoolArray  # [n_pairs]  in one end component of the estimate
    weight: float  # w
    is_seen: BoolArray  # [n_states]


def tracked_model(
    counts: Counts, spaces: TransitionGraph, here: int, starts: FloatArray
) -> TrackedModel:
    """Return the model to plan on, for a run in state `here`; -1 if its state is not known.

    Episodes start in the shares `starts`, [n_states].
    """
    from scipy.sparse import csr_array

    if spaces.knowledge is not None:
        return _informed_model(counts, spaces, spaces.knowledge, here, starts)
    shape = (spaces.n_pairs, spaces.n_states)
    T: Any = csr_array(
        (counts.count.astype(np.float64), counts.successor, counts.successor_start), shape=shape
    )
    of_state = spaces.pair_incidence()
    by_state: Any = (of_state @ T).tocsr()
    by_state.sort_indices()
    leaving = np.asarray(by_state.sum(axis=1))
    w = shared_weight(T, by_state, spaces.pair_state)
    visits = counts.visits.astype(np.float64)
    R = scaled_rows(by_state, 1 / np.maximum(leaving, 1.0))
    borrowed = np.where(visits > 0, w, 1.0)
    rows: Any = T + scaled_rows(R[spaces.pair_state], borrowed)
    # If these led nowhere, a plan would avoid everything that leads to them.
    unknown = np.flatnonzero(leaving[spaces.pair_state] == 0)
    back = np.full(len(unknown), int(np.argmax(leaving)))
    rows = rows + csr_array((np.ones(len(unknown)), (unknown, back)), shape=shape)
    is_seen = (leaving > 0) | (np.asarray(by_state.sum(axis=0)) > 0)
    is_seen[here if here >= 0 else leaving > 0] = True
    rows = rows + _hopes(spaces, is_seen)
    graph = _from_here(spaces, rows, here, leaving, starts)
    return TrackedModel(graph, _planned(graph), w, is_seen)


def _informed_model(
    counts: Counts, spaces: TransitionGraph, knowledge: Knowledge, here: int, starts: FloatArray
) -> TrackedModel:
    """Return the model to plan on if the model file says where pairs can lead."""
    from scipy.sparse import csr_array

    S, pair = spaces.n_states, entry_pairs(counts.successor_start)
    shape = (spaces.n_pairs, S)
    start, successor, probability = knowledge_rows(counts, knowledge)
    P: Any = csr_array((probability, successor, start), shape=shape)
    said = (knowledge.placeholder, knowledge.successor, knowledge.successor_start)
    R: Any = csr_array(said, shape=shape)
    is_wrong = np.zeros(spaces.n_pairs, np.bool_)
    is_wrong[pair[knowledge.excludes(pair, counts.successor)]] = True
    w = _weight_of_knowledge(counts, R, ~knowledge.is_known & ~is_wrong)
    visits = counts.visits.astype(np.float64)
    rows = scaled_rows(P, visits) + scaled_rows(R, np.where(is_wrong, 0.0, w))
    leaving = np.bincount(spaces.pair_state, visits, minlength=S).astype(np.float64)
    is_seen = (leaving > 0) | (np.bincount(counts.successor, minlength=S) > 0)
    is_seen[here if here >= 0 else leaving > 0] = True
    is_seen = _reached(spaces, R, knowledge.is_known & ~is_wrong, is_seen)
    graph = _from_here(spaces, rows, here, leaving, starts)
    return TrackedModel(graph, _planned(graph), w, is_seen)


def _reached(spaces: TransitionGraph, R: Any, is_known: BoolArray, is_seen: BoolArray) -> BoolArray:
    """Return the states that were seen or that known rows lead to from there, [n_states]."""
    from scipy.sparse import csr_array

    pairs = np.arange(spaces.n_pairs)
    itself = csr_array((np.ones(spaces.n_pairs), (pairs, spaces.pair_state)), shape=R.shape)
    share = is_known.astype(np.float64)
    rows = scaled_rows(R, share) + scaled_rows(itself, 1.0 - share)
    return reachable_states(with_rows(spaces, rows, is_seen.astype(np.float64)))


def _weight_of_knowledge(counts: Counts, R: Any, learned: BoolArray) -> float:
    """Return the w that makes the transitions of some pairs most likely, each given the others."""
    pair = entry_pairs(counts.successor_start)
    kept = learned[pair]
    pair, count = pair[kept], counts.count[kept].astype(np.float64)
    if len(count) == 0:
        return WEIGHTS[0]
    visits, said = counts.visits[pair], np.asarray(R[pair, counts.successor[kept]])
    likelihood = [
        float(np.sum(count * np.log((count - 1 + w * said) / (visits - 1 + w)))) for w in WEIGHTS
    ]
    return WEIGHTS[int(np.argmax(likelihood))]


def _from_here(
    spaces: TransitionGraph, rows: Any, here: int, leaving: FloatArray, starts: FloatArray
) -> TransitionGraph:
    """Return the closed graph of rows, for a run in state `here`, or in any state left so far."""
    initial = np.zeros(spaces.n_states)
    initial[here if here >= 0 else leaving > 0] = 1.0
    graph = with_rows(spaces, rows, initial)
    if spaces.ends is not None:
        graph = replace(close(replace(graph, initial=starts)), initial=initial[~spaces.ends])
    return replace(graph, knowledge=None)


def shared_weight(T: Any, by_state: Any, pair_state: Any) -> float:
    """Return the w that makes the transitions most likely, each given all the others."""
    pair = np.repeat(np.arange(T.shape[0]), np.diff(T.indptr))
    count, visits = T.data, np.asarray(T.sum(axis=1))[pair]
    state = pair_state[pair]
    leaving = np.asarray(by_state.sum(axis=1))[state]
    n_states = T.shape[1]
    key = np.repeat(np.arange(n_states, dtype=np.int64), np.diff(by_state.indptr)) * n_states
    place = np.searchsorted(key + by_state.indices, state * np.int64(n_states) + T.indices)
    alike = by_state.data[place]
    R = (alike - 1 + NOVELTY / n_states) / (leaving - 1 + NOVELTY)
    likelihood = [
        float(np.sum(count * np.log((count - 1 + w * R) / (visits - 1 + w)))) for w in WEIGHTS
    ]
    return WEIGHTS[int(np.argmax(likelihood))] if len(count) else WEIGHTS[0]


def _hopes(spaces: TransitionGraph, is_seen: BoolArray) -> Any:
    """Return the visits added for states never seen, sparse, [n_pairs, n_states]."""
    from scipy.sparse import csr_array

    near, unseen = frontier(spaces.states, is_seen)
    size = (spaces.n_states, spaces.n_states)
    next_to = csr_array((np.full(len(near), HOPE), (near, unseen)), shape=size)
    return next_to[spaces.pair_state]


def frontier(states: StateSpace, is_seen: BoolArray) -> tuple[IntArray, IntArray]:
    """Return each seen state that is next to an unseen one, and that unseen one, as two arrays.

    States are next to each other if they are one cell apart along one variable; members of an
    enumeration, and truth values, are not next to each other.
    """
    unseen = np.flatnonzero(~is_seen)
    near, far = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for position, variable in enumerate(states.variables):
        if variable.kind in ("enum", "bool"):
            continue
        cell = states.product.cells(states.codes[unseen], position)
        for step in (-1, 1):
            other = (cell + step) % variable.size if variable.wraps else cell + step
            codes = states.codes[unseen] + (other - cell) * states.product.strides[position]
            neighbour = states.indices(codes)
            is_near = (other >= 0) & (other < variable.size) & (neighbour >= 0)
            is_near &= is_seen[neighbour]
            near.append(neighbour[is_near])
            far.append(unseen[is_near])
    return np.concatenate(near), np.concatenate(far)


def _planned(graph: TransitionGraph) -> BoolArray:
    """Return whether each pair is in the largest reachable end component, [n_pairs]."""
    number = end_components(graph)
    usable = (number >= 0) & reachable_states(graph)[graph.pair_state]
    if not usable.any():
        return usable
    largest = int(np.argmax(np.bincount(number[usable])))
    planned: BoolArray = usable & (number == largest)
    return planned
