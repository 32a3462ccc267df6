"""What counts show of a model's transitions, as a graph on which visits can be planned.

- A pair that was visited has the row P_hat = T(s,a,s')/T(s,a).
- A pair never visited, in a state with visited pairs, is assumed to lead where these led, each with
  equal weight: a plan has to try it, and this is the best guess of where it leads.
- A state that was reached but never left (the end of a log) leads to where runs start.
- A state never reached leads only to itself, so no plan leads there.

Experiments may start again. T(s,.) - T(.,s), the visits that leave a state minus those that arrive
there, is the number of runs that started in s minus those that ended there. If the positive ones
add up to e > 1, the log started again about every n/e steps, in these states; a plan assumes the
same: P = (1 - rho) P_hat + rho start, rho = e/n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.analysis import end_components, reachable_states
from mdpdsl.graph.convert import with_rows
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, StateSpace
from mdpdsl.graph.transition_graph import TransitionGraph


@dataclass(frozen=True, eq=False)
class KnownModel:
    """A graph of what was seen, and the part of it in which a run can keep visiting all pairs."""

    graph: TransitionGraph  # its initial distribution is where runs start
    is_known: BoolArray  # [n_states]  visited or reached
    episode_length: float  # steps between two starts, infinite for one long run
    pairs: IntArray  # of the part, ascending
    component: int  # the number of the part among the end components, from 1


def known_model(
    counts: Counts, spaces: TransitionGraph, episode_length: float | None = None
) -> KnownModel:
    """Return what counts show; they must have at least one transition.

    By default the length of episodes is that of the log. The part is the largest maximal end
    component that can be reached from the start.
    """
    visits = counts.visits.astype(np.float64)
    leaving = np.add.reduceat(visits, spaces.pair_start[:-1])
    arriving = np.bincount(counts.successor, counts.count, minlength=spaces.n_states)
    is_known = (leaving > 0) | (arriving > 0)
    begun = np.maximum(leaving - arriving, 0.0)
    if episode_length is None:
        n_starts = float(begun.sum())
        episode_length = max(1.0, counts.n_transitions / n_starts) if n_starts > 1 else math.inf
    start = _start(begun, np.where(is_known, spaces.initial, 0.0), leaving)
    graph = _graph(counts, spaces, leaving > 0, is_known, start, 1 / episode_length)
    number = end_components(graph)
    usable = (number >= 0) & reachable_states(graph)[graph.pair_state]
    largest = int(np.argmax(np.bincount(number[usable])))
    pairs = np.flatnonzero(number == largest)
    return KnownModel(graph, is_known, episode_length, pairs, largest + 1)


def way_to_part(known: KnownModel) -> FloatArray:
    """Return a policy that leads to the part from states outside, [n_pairs]; 0 in other states.

    It takes the pair with the best chance of a state that is fewer steps away from the part.
    """
    graph = known.graph
    P = graph.transition_matrix()
    level = np.full(graph.n_states, np.inf)
    level[np.unique(graph.pair_state[known.pairs])] = 0
    policy = np.zeros(graph.n_pairs)
    while True:
        nearer = np.asarray(P @ np.isfinite(level).astype(np.float64))
        best = np.maximum.reduceat(nearer, graph.pair_start[:-1])
        found = np.flatnonzero(np.isinf(level) & (best > 0) & known.is_known)
        if len(found) == 0:
            return policy
        for state in found.tolist():
            first, end = graph.pair_start[state], graph.pair_start[state + 1]
            policy[first + int(np.argmax(nearer[first:end]))] = 1.0
        level[found] = 1


def cell_distance(states: StateSpace, is_known: BoolArray) -> FloatArray:
    """Return how many cells each state is away from the nearest known one, [n_states].

    A step along an axis is one cell, also across the end of an axis that wraps. Any two members of
    an enumeration, or truth values, are one cell apart.
    """
    from scipy.spatial import KDTree

    columns, sizes = [], []
    for position, variable in enumerate(states.variables):
        cells = states.product.cells(states.codes, position)
        if variable.kind in ("enum", "bool"):
            # The l1 distance between different unit vectors is 2.
            columns += [(cells == member) / 2 for member in range(variable.size)]
            sizes += [0.0] * variable.size
        else:
            columns.append(cells.astype(np.float64))
            sizes.append(float(variable.size) if variable.wraps else 0.0)
    places = np.stack(columns, axis=1)
    distance, _ = KDTree(places[is_known], boxsize=np.array(sizes)).query(places, p=1)
    return np.asarray(distance)


def _start(begun: FloatArray, initial: FloatArray, leaving: FloatArray) -> FloatArray:
    """Return the distribution of starts: that of the log if it shows one, else the model's."""
    candidates = [begun] if begun.sum() > 1 else [initial, begun]
    for weights in (*candidates, leaving):
        if weights.sum() > 0:
            return np.asarray(weights / weights.sum())
    raise ValueError("a plan needs at least one transition")


def _graph(
    counts: Counts,
    spaces: TransitionGraph,
    is_left: BoolArray,
    is_known: BoolArray,
    start: FloatArray,
    restart: float,
) -> TransitionGraph:
    """Return the graph that the docstring of this module describes."""
    from scipy.sparse import csr_array, diags_array, vstack

    n_pairs, S, state = spaces.n_pairs, spaces.n_states, spaces.pair_state
    visits = counts.visits
    share = counts.count / np.repeat(np.maximum(visits, 1), np.diff(counts.successor_start))
    seen = csr_array((share, counts.successor, counts.successor_start), shape=(n_pairs, S))
    n_seen = np.bincount(state[visits > 0], minlength=S)
    pooled = diags_array(1 / np.maximum(n_seen, 1)) @ (spaces.pair_incidence() @ seen)
    begin = csr_array(start[None, :])
    itself = diags_array(np.ones(S)).tocsr()
    # One row of `sources` for each pair: its own, its state's, the start, or the state itself.
    sources = vstack([seen, pooled, begin, itself]).tocsr()
    row = np.where(
        visits > 0,
        np.arange(n_pairs),
        np.where(
            is_left[state],
            n_pairs + state,
            np.where(is_known[state], n_pairs + S, n_pairs + S + 1 + state),
        ),
    )
    P = sources[row]
    if restart > 0:
        starts_again = csr_array(np.where(is_known[state], restart, 0.0)[:, None])
        P = diags_array(np.where(is_known[state], 1 - restart, 1.0)) @ P + starts_again @ begin
    return with_rows(spaces, P, start)
