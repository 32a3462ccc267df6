"""The structure of a transition graph: reachability, communicating classes, end components.

A state *reaches* another if some actions lead there with positive probability. Two states
*communicate* if each reaches the other; this relation divides the states into classes. An *end
component* is a set of states and some of their pairs such that no branch of these pairs leaves the
set, and these pairs connect every state with every other (de Alfaro 1997, section 3.3). A policy
can visit a pair infinitely often with positive probability if and only if the pair is in an end
component.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Up to this many states, the closure of a dense matrix is faster than importing scipy (0.3 s).
SMALL_N_STATES = 300
SMALL_N_BRANCHES = 200_000

#: With fewer states, following a wave state by state is faster than whole-array calls.
NARROW_WAVE = 200

AnyIntArray = npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Classes:
    """The communicating classes, numbered in the order of their first state."""

    n_classes: int
    class_of: IntArray  # [n_states]
    sizes: IntArray  # [n_classes]  numbers of states
    is_closed: BoolArray  # [n_classes]  no branch leaves it, whatever the action


@dataclass(frozen=True, eq=False)
class EndComponents:
    """Maximal end components: the pairs in them, and the component of each state."""

    is_inside: BoolArray  # [n_pairs]
    component_of: IntArray  # [n_states]  a state outside all components has its own number


def reachable_states(
    graph: TransitionGraph, start: BoolArray | AnyIntArray | None = None
) -> BoolArray:
    """Return whether each state can be reached from the start, [n_states].

    `start` is a mask or an array of states, which count as reached; by default, it is all the
    initial states.
    """
    _require_dynamics(graph)
    chosen = np.asarray(graph.initial > 0 if start is None else start)
    sources = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
    reached = np.zeros(graph.n_states, dtype=np.bool_)
    if len(sources) == 0:
        return reached
    if _is_small(graph):
        reached[:] = _closure(graph.branch_start, graph.successor)[sources].any(axis=0)
        return reached
    from scipy.sparse.csgraph import breadth_first_order

    if len(sources) == 1:
        matrix = _adjacency(graph.branch_start, graph.successor, graph.probability)
        reached[breadth_first_order(matrix, sources[0], return_predecessors=False)] = True
        return reached
    # An extra state that leads to every source makes this a single search.
    branch_start = np.append(graph.branch_start, graph.n_branches + len(sources))
    successor = np.concatenate([graph.successor, sources.astype(np.int32)])
    matrix = _adjacency(branch_start, successor)
    order = breadth_first_order(matrix, graph.n_states, return_predecessors=False)
    reached[order[1:]] = True
    return reached


def communicating_classes(graph: TransitionGraph) -> Classes:
    """Divide the states into classes within which every state reaches every other."""
    _require_dynamics(graph)
    class_of = _strong_components(graph, graph.branch_start, graph.successor)
    sizes = np.bincount(class_of)
    is_closed = np.ones(len(sizes), dtype=np.bool_)
    origin = np.repeat(class_of, np.diff(graph.branch_start))
    is_closed[origin[origin != class_of[graph.successor]]] = False
    return Classes(len(sizes), class_of, sizes, is_closed)


def class_edges(graph: TransitionGraph, classes: Classes) -> IntArray:
    """Return the pairs of classes such that one leads to the other in one step, [n_edges, 2]."""
    origin = np.repeat(classes.class_of, np.diff(graph.branch_start))
    target = classes.class_of[graph.successor]
    leaves = origin != target
    codes = np.unique(origin[leaves] * classes.n_classes + target[leaves])
    return np.stack([codes // classes.n_classes, codes % classes.n_classes], axis=1)


def is_communicating(graph: TransitionGraph) -> bool:
    """Return whether every state reaches every other."""
    return communicating_classes(graph).n_classes == 1


def never_visited_pairs(graph: TransitionGraph) -> IntArray:
    """Return the pairs whose state cannot be reached from the initial states, ascending."""
    return np.flatnonzero(~reachable_states(graph)[graph.pair_state])


def pairs_outside_end_components(graph: TransitionGraph) -> IntArray:
    """Return the pairs that no policy can visit infinitely often, ascending.

    With one such pair, the optimum of an allocation is infinite: its share of the visits must be 0.
    """
    return np.flatnonzero(~maximal_end_components(graph).is_inside)


def end_components(graph: TransitionGraph) -> IntArray:
    """Return the maximal end component of every pair, or -1 if it is in none, [n_pairs].

    Components are numbered in the order of their first state.
    """
    found = maximal_end_components(graph)
    component = np.full(graph.n_pairs, -1)
    classes = found.component_of[graph.pair_state[found.is_inside]]
    component[found.is_inside] = np.unique(classes, return_inverse=True)[1]
    return component


def maximal_end_components(
    graph: TransitionGraph, is_allowed: BoolArray | None = None
) -> EndComponents:
    """Find the maximal end components among some pairs [n_pairs], by default among all.

    Repeatedly compute the classes and remove every pair that may leave its class, until none does.
    """
    _require_dynamics(graph)
    is_left = np.ones(graph.n_pairs, dtype=np.bool_) if is_allowed is None else is_allowed.copy()
    n_successors = np.diff(graph.successor_start)
    branch_pair = np.repeat(np.arange(graph.n_pairs, dtype=np.int32), n_successors)
    branch_state = graph.pair_state[branch_pair]
    arrivals: tuple[AnyIntArray, AnyIntArray] | None = None
    while True:
        kept = is_left[branch_pair]
        n_kept = np.bincount(branch_state[kept], minlength=graph.n_states)
        start = np.concatenate([[0], np.cumsum(n_kept)])
        class_of = _strong_components(graph, start, graph.successor[kept])
        leaves = class_of[branch_state] != class_of[graph.successor]
        leaving = branch_pair[leaves & kept]
        if len(leaving) == 0:
            return EndComponents(is_left, class_of)
        if arrivals is None:
            arrivals = _arrivals(graph, branch_pair)
        is_left[leaving] = False
        _drop_pairs_into_dead_ends(graph, is_left, *arrivals)


def _require_dynamics(graph: TransitionGraph) -> None:
    if not graph.has_dynamics:
        raise ValueError("the dynamics of this model are unknown; estimate them from a log first")


def _is_small(graph: TransitionGraph) -> bool:
    return graph.n_states <= SMALL_N_STATES and graph.n_branches <= SMALL_N_BRANCHES


def _closure(branch_start: AnyIntArray, successor: AnyIntArray) -> BoolArray:
    """Return which state reaches which, [n_states, n_states] (Warshall 1962).

    Whoever reaches a state reaches all that it reaches. Squaring the matrix would do as well, but
    where processors have other work the threads of a matrix product wait for each other.
    """
    n_states = len(branch_start) - 1
    reaches = np.eye(n_states, dtype=np.bool_)
    reaches[np.repeat(np.arange(n_states), np.diff(branch_start)), successor] = True
    for via in range(n_states):
        reaches[reaches[:, via]] |= reaches[via]
    return reaches


def _strong_components(
    graph: TransitionGraph, branch_start: AnyIntArray, successor: AnyIntArray
) -> IntArray:
    """Return the strongly connected component of every state, numbered by first state."""
    if _is_small(graph):
        reaches = _closure(branch_start, successor)
        first_of = np.argmax(reaches & reaches.T, axis=1)
        return np.unique(first_of, return_inverse=True)[1].astype(np.int64)
    from scipy.sparse.csgraph import connected_components

    # Two actions may share a successor, and scipy 1.17 then returns nonsense or never returns.
    matrix = _adjacency(branch_start, successor).copy()
    matrix.sum_duplicates()
    n_components, component = connected_components(matrix, connection="strong")
    first = np.full(n_components, graph.n_states)
    np.minimum.at(first, component, np.arange(graph.n_states))
    number = np.empty(n_components, dtype=np.int64)
    number[np.argsort(first)] = np.arange(n_components)
    return number[component]


def _adjacency(
    branch_start: AnyIntArray, successor: AnyIntArray, weight: FloatArray | None = None
) -> csr_array:
    """Return a matrix with an entry for every branch; its positive weights do not matter."""
    from scipy.sparse import csr_array

    n_states = len(branch_start) - 1
    entries = np.ones(len(successor)) if weight is None else weight
    # scipy copies the index arrays unless they have the same width.
    start = branch_start.astype(successor.dtype)
    return csr_array((entries, successor, start), shape=(n_states, n_states))


def _arrivals(graph: TransitionGraph, branch_pair: AnyIntArray) -> tuple[AnyIntArray, AnyIntArray]:
    """Return the pairs that may lead to each state, compressed: starts and pairs."""
    if _is_small(graph):
        pairs = branch_pair[np.argsort(graph.successor, kind="stable")]
        counts = np.bincount(graph.successor, minlength=graph.n_states)
        return np.concatenate([[0], np.cumsum(counts)]), pairs
    columns = graph.transition_matrix().tocsc()
    return columns.indptr, columns.indices


def _drop_pairs_into_dead_ends(
    graph: TransitionGraph, is_left: BoolArray, arrival_start: AnyIntArray, arrival: AnyIntArray
) -> None:
    """Remove, in place, the pairs that may lead to a state with no pairs left, repeatedly.

    Each wave is the set of states that lost their last pair. Wide waves are processed as arrays.
    Narrow ones are processed state by state: a long chain has as many of them as states.
    """
    n_left = np.bincount(graph.pair_state[is_left], minlength=graph.n_states)
    wave = np.flatnonzero(n_left == 0)
    while len(wave) > 0:
        if len(wave) < NARROW_WAVE:
            wave = _follow_narrow_wave(graph, is_left, n_left, wave, arrival_start, arrival)
            continue
        counts = arrival_start[wave + 1] - arrival_start[wave]
        shift = np.repeat(arrival_start[wave] - np.cumsum(counts) + counts, counts)
        dropped = np.unique(arrival[shift + np.arange(counts.sum())])
        dropped = dropped[is_left[dropped]]
        is_left[dropped] = False
        states, n_dropped = np.unique(graph.pair_state[dropped], return_counts=True)
        n_left[states] -= n_dropped
        wave = states[n_left[states] == 0].astype(np.int64)


def _follow_narrow_wave(
    graph: TransitionGraph,
    is_left: BoolArray,
    n_left: IntArray,
    wave: IntArray,
    arrival_start: AnyIntArray,
    arrival: AnyIntArray,
) -> IntArray:
    """Process a wave state by state until it ends or widens; return the remaining states."""
    states: list[int] = wave.tolist()
    while 0 < len(states) < 2 * NARROW_WAVE:
        target = states.pop()
        for pair in arrival[arrival_start[target] : arrival_start[target + 1]].tolist():
            if is_left[pair]:
                is_left[pair] = False
                state = int(graph.pair_state[pair])
                n_left[state] -= 1
                if n_left[state] == 0:
                    states.append(state)
    return np.array(states, dtype=np.int64)
