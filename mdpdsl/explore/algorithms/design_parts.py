"""The parts of a design, to be visited one after the other.

The best shares of visits may be those of several places far from each other. To change places is
lost time, so the best design hardly ever does, and a run that followed its policy would stay in the
first place for good. A *part* is a set of states that a run following the design stays in for long,
compared with the m steps left. A run goes to the part with the most visits left, by the shortest
way, and follows the shares of the design there, until the next design says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.design import Design
from mdpdsl.programs.occupancy import stationary_policy

#: With this many stays in a place, the next designs make up for how chance divides the visits.
ENOUGH = 5.0
#: Shorter stays are no reason to treat places separately, ...
SHORT = 50.0
#: ... but for stays of this part of the steps, if chance might leave out a place that has hardly
#: been visited.
FEW = 0.02
#: Shares are followed in the states that are to be visited as often as this in the steps left, ...
ONCE = 1.0
#: ... and in those that have this part of all visits. A design that is almost the best has tiny
#: shares elsewhere, which say little.
CORE = 0.95

#: The shortest way is computed for at most so many steps.
MOST_STEPS = 3_000
#: It is found when the times change by less than this.
SETTLED = 1e-6


@dataclass(frozen=True, eq=False)
class Part:
    """Where to be next."""

    policy: FloatArray  # [n_pairs]  sums to 1 within a state
    share: float  # of the visits that are left
    n_parts: int


def next_part(
    graph: TransitionGraph, design: Design, spread: float, steps: float, so_far: FloatArray
) -> Part:
    """Return the part of a design with the most visits left, and the policy that keeps a run there.

    `graph` is closed; a share `spread` of the visits goes to all pairs. `so_far` are the visits of
    each pair before.
    """
    number = design_parts(graph, design.occupancy, steps, so_far)
    visits = _of_states(graph, design.occupancy)
    inside = number >= 0
    shares = np.bincount(number[inside], visits[inside])
    chosen = int(np.argmax(shares))
    is_there = _core(number == chosen, visits, steps)
    is_usable = np.ones(graph.n_pairs, np.bool_)
    is_usable[design.left_out] = False
    way = shortest_way(graph, is_there, is_usable)
    d = (1 - spread) * design.occupancy + spread * design.central
    policy = np.where(is_there[graph.pair_state], stationary_policy(graph, d), 0.0)
    policy[way[~is_there]] = 1.0
    return Part(policy, float(shares[chosen] / shares.sum()), len(shares))


def design_parts(
    graph: TransitionGraph, d: FloatArray, steps: float, so_far: FloatArray
) -> IntArray:
    """Return the number of the part that each state is in, -1 if it is never visited, [n_states].

    States are joined until stays are long: each set of states with short stays joins the one that
    it leads to most often. Two parts with long stays are never joined.
    """
    from scipy.sparse import coo_array, csr_array
    from scipy.sparse.csgraph import connected_components

    S = graph.n_states
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
    amount = d[pair] * graph.probability
    row, column = graph.pair_state[pair], graph.successor
    visits, before = _of_states(graph, d), _of_states(graph, so_far)
    label: Any = np.arange(S)
    long = max(steps / ENOUGH, SHORT)
    while True:
        n = int(label.max()) + 1
        entries = (amount, (label[row], label[column]))
        flow = csr_array(coo_array(entries, shape=(n, n)))
        flow.setdiag(0.0)
        leaving: FloatArray = np.asarray(flow.sum(axis=1))
        stay = np.bincount(label, visits, minlength=n)
        is_often = steps * leaving >= ENOUGH
        is_new = ~is_often & (steps * stay > np.bincount(label, before, minlength=n))
        brief = min(SHORT, FEW * steps) if is_new.any() else SHORT
        is_short = (leaving > 0) & (stay < np.where(is_often, long, brief) * leaving)
        if not is_short.any():
            break
        target = np.asarray(flow.argmax(axis=1)).ravel()
        origin = np.flatnonzero(is_short)
        joined = csr_array((np.ones(len(origin)), (origin, target[origin])), shape=(n, n))
        label = connected_components(joined, connection="weak")[1][label]
    is_visited = np.bincount(label, visits) > 0
    number = np.where(is_visited, np.cumsum(is_visited) - 1, -1)
    return np.asarray(number[label])


def _core(is_inside: BoolArray, visits: FloatArray, steps: float) -> BoolArray:
    """Return the states of a part in which to follow the design, [n_states]."""
    states = np.flatnonzero(is_inside)
    order = states[np.argsort(-visits[states], kind="stable")]
    total = np.cumsum(visits[order])
    core = is_inside & (steps * visits >= ONCE)
    core[order[: int(np.searchsorted(total, CORE * total[-1])) + 1]] = True
    return core


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
    found = np.bincount(graph.pair_state, of_pairs, minlength=graph.n_states)
    return np.asarray(found, dtype=np.float64)
