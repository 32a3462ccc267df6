"""What counts show of a model's transitions, as a graph on which visits can be planned.

- A pair that was visited has the row P_hat = T(s,a,s')/T(s,a).
- A pair never visited, in a state with visited pairs, is assumed to lead where these led, each with
  equal weight: a plan has to try it, and this is the best guess of where it leads.
- A state that was reached but never left (the end of a log) leads to where runs start.
- A state never reached leads only to itself, so no plan leads there.
- An end leads to where episodes start, without a step: the graph is closed (`graph.ends`).

If the model file says where pairs can lead (`graph.knowledge`), the rows are those of
`estimate.empirical`, and nothing is guessed: what counts is what can be reached.

Experiments may start again. If the starts of episodes were not recorded, T(s,.) - T(.,s), the
visits that leave a state minus those that arrive there, is the number of runs that started in s
minus those that stopped there, and the positive ones stand for the starts. Of e starts, those after
an end are in the closed graph. If the others, e' > 1, were cut, the log started again about every
n/e' steps; a plan assumes the same: P = (1 - rho) P_hat + rho start, rho = e'/n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdpdsl.estimate.empirical import knowledge_rows
from mdpdsl.explore.ways import nearest_way
from mdpdsl.graph.analysis import end_components, reachable_states
from mdpdsl.graph.convert import with_rows
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.ends import close
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, StateSpace
from mdpdsl.graph.transition_graph import TransitionGraph


@dataclass(frozen=True, eq=False)
class KnownModel:
    """A graph of what was seen, and the part of it in which a run can keep visiting all pairs."""

    graph: TransitionGraph  # closed; its initial distribution is where runs start
    is_known: BoolArray  # [n_states]  visited or reached, or can be by what the model file says
    episode_length: float  # steps between two starts, infinite for one long run
    pairs: IntArray  # of the part, ascending
    component: int  # the number of the part among the end components, from 1


def known_model(
    counts: Counts,
    spaces: TransitionGraph,
    episode_length: float | None = None,
    starts: IntArray | None = None,
    knowledge: Knowledge | None = None,
) -> KnownModel:
    """Return what counts show; they must have at least one transition.

    By default the length of episodes is that of the log. `starts` are the episodes that started in
    each state, if they are known; `knowledge` is what the model file says of the rows. The part is
    the largest maximal end component that can be reached from the start.
    """
    S, is_end = spaces.n_states, np.zeros(spaces.n_states, np.bool_)
    if spaces.ends is not None:
        is_end = spaces.ends
    leaving = np.bincount(spaces.pair_state, counts.visits, minlength=S).astype(np.float64)
    arriving = np.bincount(counts.successor, counts.count, minlength=S)
    is_known = (leaving > 0) | (arriving > 0)
    begun, is_recorded = np.maximum(leaving - arriving, 0.0), False
    if starts is not None and starts.sum() > 0:
        begun, is_recorded = starts.astype(np.float64), True
    if episode_length is None:
        n_cut = float(begun.sum() - arriving[is_end].sum())
        episode_length = max(1.0, counts.n_transitions / n_cut) if n_cut > 1 else math.inf
    start = _start(begun, np.where(is_known, spaces.initial, 0.0), leaving, is_recorded)
    restart = 1 / episode_length
    if knowledge is None:
        graph = _graph(counts, spaces, leaving > 0, is_known, is_end, start, restart)
        is_known = is_known[~is_end]
    else:
        graph = _informed_graph(counts, spaces, knowledge, is_end, start, restart)
        is_known = reachable_states(graph)
    number = end_components(graph)
    usable = (number >= 0) & reachable_states(graph)[graph.pair_state]
    largest = int(np.argmax(np.bincount(number[usable])))
    pairs = np.flatnonzero(number == largest)
    return KnownModel(graph, is_known, episode_length, pairs, largest + 1)


def way_to_part(known: KnownModel) -> FloatArray:
    """Return a policy that leads to the part from states outside, [n_pairs]; 0 in other states."""
    graph = known.graph
    is_there = np.zeros(graph.n_states, np.bool_)
    is_there[graph.pair_state[known.pairs]] = True
    return nearest_way(graph.transition_matrix(), graph.pair_start, is_there, known.is_known)


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


def _start(
    begun: FloatArray, initial: FloatArray, leaving: FloatArray, is_recorded: bool
) -> FloatArray:
    """Return the distribution of starts: that of the log if it shows one, else the model's."""
    candidates = [begun] if is_recorded or begun.sum() > 1 else [initial, begun]
    for weights in (*candidates, leaving):
        if weights.sum() > 0:
            return np.asarray(weights / weights.sum())
    raise ValueError("a plan needs at least one transition")


def _graph(
    counts: Counts,
    spaces: TransitionGraph,
    is_left: BoolArray,
    is_known: BoolArray,
    is_end: BoolArray,
    start: FloatArray,
    restart: float,
) -> TransitionGraph:
    """Return the graph that the docstring of this module describes."""
    from scipy.sparse import csr_array, diags_array, vstack

    visits, kept = counts.visits, ~is_end
    share = counts.count / np.repeat(np.maximum(visits, 1), np.diff(counts.successor_start))
    shape = (spaces.n_pairs, spaces.n_states)
    arrivals = csr_array((share, counts.successor, counts.successor_start), shape=shape)
    closed = close(spaces)
    n_pairs, S, state = closed.n_pairs, closed.n_states, closed.pair_state
    is_left, is_known, start = is_left[kept], is_known[kept], start[kept]
    begin = csr_array(start[None, :])
    seen = _closed_rows(arrivals, is_end, begin)
    n_seen = np.bincount(state[visits > 0], minlength=S)
    pooled = diags_array(1 / np.maximum(n_seen, 1)) @ (closed.pair_incidence() @ seen)
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
    return with_rows(closed, P, start)


def _informed_graph(
    counts: Counts,
    spaces: TransitionGraph,
    knowledge: Knowledge,
    is_end: BoolArray,
    start: FloatArray,
    restart: float,
) -> TransitionGraph:
    """Return the graph of what counts and the model file show."""
    from scipy.sparse import csr_array

    successor_start, successor, probability = knowledge_rows(counts, knowledge)
    shape = (spaces.n_pairs, spaces.n_states)
    arrivals = csr_array((probability, successor, successor_start), shape=shape)
    start = start[~is_end]
    begin = csr_array(start[None, :])
    P = _closed_rows(arrivals, is_end, begin)
    if restart > 0:
        again = csr_array(np.full((spaces.n_pairs, 1), restart))
        P = (1 - restart) * P + again @ begin
    return with_rows(replace(close(spaces), knowledge=None), P, start)


def _closed_rows(arrivals: Any, is_end: BoolArray, begin: Any) -> Any:
    """Return rows over the states that are no ends; what arrives in ends begins again."""
    from scipy.sparse import csr_array

    ending = csr_array((arrivals @ is_end.astype(np.float64))[:, None])
    return csr_array(arrivals[:, ~is_end] + ending @ begin)
