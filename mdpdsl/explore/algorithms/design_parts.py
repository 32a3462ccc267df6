"""The parts of a design, to be visited one after the other.

The best shares of visits may be those of several places far from each other: to change places is
lost time, so the best design hardly ever does, and a run that followed its policy would stay in the
first place for good. With m steps left, places are *parts* of their own if fewer than some dozens
of transitions between them are expected. A run goes to the part with the most visits left, by the
shortest way, and follows the shares of the design there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.design import Design
from mdpdsl.programs.occupancy import stationary_policy

#: With this many expected transitions, chance divides visits well enough.
ENOUGH = 30.0
#: Parts must have this part of the worth of all visits; otherwise fewer transitions are enough, ...
WORTH = 0.9
#: ... by this factor, down to this number.
FEWER = 3.0
LEAST = 0.3

#: The shortest way is computed for at most so many steps.
MOST_STEPS = 3_000
#: It is found when times change by less than this.
SETTLED = 1e-6


@dataclass(frozen=True, eq=False)
class Part:
    """Where to be next."""

    policy: FloatArray  # [n_pairs]  sums to 1 within a state
    share: float  # of the visits that are left
    n_parts: int


def next_part(graph: TransitionGraph, design: Design, spread: float, steps: float) -> Part:
    """Return the part of a design with the most visits left, and the policy that keeps a run there.

    `graph` is closed; a share `spread` of the visits goes to all pairs.
    """
    d = (1 - spread) * design.occupancy + spread * design.central
    number = design_parts(graph, d, steps, design.worth)
    policy = stationary_policy(graph, d)
    n_parts = int(number.max()) + 1
    if n_parts == 0:
        return Part(policy, 1.0, 0)
    shares = np.bincount(number[number >= 0], _of_states(graph, d)[number >= 0])
    chosen = int(np.argmax(shares))
    is_there = number == chosen
    is_usable = np.ones(graph.n_pairs, np.bool_)
    is_usable[design.left_out] = False
    way = shortest_way(graph, is_there, is_usable)
    policy = np.where(is_there[graph.pair_state], policy, 0.0)
    policy[way[~is_there]] = 1.0
    return Part(policy, float(shares[chosen] / shares.sum()), n_parts)


def design_parts(
    graph: TransitionGraph, d: FloatArray, steps: float, worth: FloatArray
) -> IntArray:
    """Return the number of the part that each state is in, -1 if it is in none, [n_states].

    A part is a set of states between which enough transitions are expected.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n_successors = np.diff(graph.successor_start)
    pair = np.repeat(np.arange(graph.n_pairs), n_successors)
    flow = csr_array(
        (steps * d[pair] * graph.probability, (graph.pair_state[pair], graph.successor)),
        shape=(graph.n_states, graph.n_states),
    )
    flow.sum_duplicates()
    entries = flow.tocoo()
    (row, column), amount = entries.coords, entries.data
    valued = _of_states(graph, d * worth)
    enough = ENOUGH
    while True:
        kept = amount >= enough
        edges = csr_array((np.ones(int(kept.sum())), (row[kept], column[kept])), shape=flow.shape)
        _, label = connected_components(edges, connection="strong")
        size = np.bincount(label)
        stays = np.zeros(graph.n_states, np.bool_)
        stays[row[kept & (row == column)]] = True
        is_inside = (size[label] > 1) | stays
        if valued[is_inside].sum() >= WORTH * valued.sum() or enough < LEAST:
            number = np.full(graph.n_states, -1)
            number[is_inside] = np.unique(label[is_inside], return_inverse=True)[1]
            return number
        enough /= FEWER


def shortest_way(graph: TransitionGraph, is_there: BoolArray, is_usable: BoolArray) -> IntArray:
    """Return the pair of each state that leads to some states in the fewest steps, [n_states].

    Value iteration of the expected number of steps, over usable pairs where a state has some.
    """
    P = graph.transition_matrix()
    has_usable = np.zeros(graph.n_states, np.bool_)
    has_usable[graph.pair_state[is_usable]] = True
    is_barred = ~is_usable & has_usable[graph.pair_state]
    first = graph.pair_start[:-1].astype(np.int64)
    time = np.zeros(graph.n_states)
    for _ in range(MOST_STEPS):
        q = np.where(is_barred, np.inf, 1 + P @ time)
        new = np.where(is_there, 0.0, np.minimum.reduceat(q, first))
        change = float(np.max(new - time))
        time = new
        if change < SETTLED:
            break
    q = np.where(is_barred, np.inf, 1 + P @ time)
    best = np.minimum.reduceat(q, first)
    places = np.where(q == best[graph.pair_state], np.arange(graph.n_pairs), graph.n_pairs)
    return np.minimum.reduceat(places, first)


def _of_states(graph: TransitionGraph, of_pairs: FloatArray) -> FloatArray:
    return np.bincount(graph.pair_state, of_pairs, minlength=graph.n_states)
