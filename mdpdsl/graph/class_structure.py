"""A large graph as a few nodes: its communicating classes, with small ones grouped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.analysis import class_edges, communicating_classes
from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: Up to this many classes, each is its own node.
MOST_CLASSES = 30
#: With more, the largest keep their own nodes if they exceed the median size by this factor.
MOST_LARGE_CLASSES = 8
STANDS_OUT = 5
#: The others are grouped by depth into this many bands, with closed classes separate.
N_BANDS = 8
#: Depth is computed class by class; if that would take seconds, there is only one band.
MOST_EDGES_FOR_DEPTH = 500_000


@dataclass(frozen=True)
class ClassNode:
    """One class, or a group of similar classes."""

    n_classes: int
    n_states: int
    is_closed: bool
    has_start: bool
    depth: int  # the column: no edge between single classes leads to a lower or equal one
    name: str  # of the only state, or ""


@dataclass(frozen=True)
class ClassStructure:
    """The nodes, and the edges between them."""

    n_classes: int
    n_closed: int
    nodes: tuple[ClassNode, ...]
    edges: tuple[tuple[int, int], ...]

    @property
    def is_grouped(self) -> bool:
        """Whether any node represents more than one class."""
        return any(node.n_classes > 1 for node in self.nodes)


def class_structure(graph: TransitionGraph) -> ClassStructure:
    """Find the classes, group the small ones if there are too many to draw, and connect them.

    They are those of the closed graph: after an end, the next episode starts.
    """
    graph = graph.closed
    classes = communicating_classes(graph)
    edges = class_edges(graph, classes)
    depth = _depth(classes.n_classes, edges, classes.is_closed)
    group_of, column = _groups(classes.sizes, depth, classes.is_closed)
    has_start = np.zeros(classes.n_classes, dtype=np.bool_)
    has_start[classes.class_of[graph.initial > 0]] = True
    first_state = np.unique(classes.class_of, return_index=True)[1]
    n_groups = int(group_of.max()) + 1
    n_classes = np.bincount(group_of)
    n_states = np.bincount(group_of, weights=classes.sizes)
    starts = np.bincount(group_of, weights=has_start)
    first_class = np.unique(group_of, return_index=True)[1]
    nodes = []
    for group in range(n_groups):
        example = int(first_class[group])
        is_single = n_states[group] == 1
        nodes.append(
            ClassNode(
                n_classes=int(n_classes[group]),
                n_states=int(n_states[group]),
                is_closed=bool(classes.is_closed[example]),
                has_start=bool(starts[group] > 0),
                depth=int(column[example]),
                name=_state_name(graph, int(first_state[example])) if is_single else "",
            )
        )
    codes = np.unique(group_of[edges[:, 0]] * n_groups + group_of[edges[:, 1]])
    pairs = [(int(code // n_groups), int(code % n_groups)) for code in codes]
    return ClassStructure(
        n_classes=classes.n_classes,
        n_closed=int(classes.is_closed.sum()),
        nodes=tuple(nodes),
        edges=tuple((a, b) for a, b in pairs if a != b),
    )


def _state_name(graph: TransitionGraph, state: int) -> str:
    """Return the label of a state, with the name of the variable if there is only one."""
    label = graph.states.label(state)
    is_bare = len(graph.states.variables) == 1 and " = " not in label
    return f"{graph.states.variables[0].name} = {label}" if is_bare else label


def _depth(n_classes: int, edges: IntArray, is_closed: BoolArray) -> IntArray:
    """Return the length of the longest path to each class."""
    if len(edges) > MOST_EDGES_FOR_DEPTH:
        return is_closed.astype(np.int64)
    starts = np.searchsorted(edges[:, 0], np.arange(n_classes + 1)).tolist()
    targets = edges[:, 1].tolist()
    n_waiting = np.bincount(edges[:, 1], minlength=n_classes).tolist()
    depth = [0] * n_classes
    ready = [c for c in range(n_classes) if n_waiting[c] == 0]
    while ready:
        origin = ready.pop()
        for target in targets[starts[origin] : starts[origin + 1]]:
            depth[target] = max(depth[target], depth[origin] + 1)
            n_waiting[target] -= 1
            if n_waiting[target] == 0:
                ready.append(target)
    return np.array(depth, dtype=np.int64)


def _groups(sizes: IntArray, depth: IntArray, is_closed: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the group and the column of every class; groups are numbered by their first class."""
    n_classes = len(sizes)
    _, column = np.unique(depth, return_inverse=True)
    if n_classes <= MOST_CLASSES:
        return np.arange(n_classes), column
    largest = np.argsort(-sizes, kind="stable")[:MOST_LARGE_CLASSES]
    kept = largest[sizes[largest] >= STANDS_OUT * max(2.0, float(np.median(sizes)))]
    bands = min(N_BANDS, int(depth.max()) + 1)
    band = depth * bands // (int(depth.max()) + 1)
    signature = 2 * band + is_closed
    signature[kept] = 2 * bands + np.arange(len(kept))
    _, first, inverse = np.unique(signature, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    # Within a band, the order is: small classes, large classes, closed classes.
    place = 3 * band + 2 * is_closed
    place[kept] += 1 - is_closed[kept]
    return number[inverse], np.unique(place, return_inverse=True)[1]
