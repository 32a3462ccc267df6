"""Transitions as few guarded rules, each for many pairs of an action.

Pairs of one action whose branches have the same effect form a group: they change every variable by
the same amount (`x' = x + 1`), or lead to the same states. The states of a group become disjoint
boxes, which are products of ranges of cells, one range per variable.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import IntArray, StateSpace
from mdpdsl.graph.transition_graph import TransitionGraph

#: The most states examined in all groups together, to let boxes extend over missing states.
MOST_LOOKED_AT = 20_000_000

#: The effect of a branch on one variable, and on all of them.
Change = tuple[str, int] | None  # ("by", cells), ("to", cell), or None if it is unchanged
Branch = tuple[str, tuple[Change, ...]]  # its probability as a text, and a change for each variable


@dataclass(frozen=True)
class Box:
    """The states whose cells lie between two corners, inclusive."""

    low: tuple[int, ...]  # a cell for each variable
    high: tuple[int, ...]


@dataclass(frozen=True)
class Rule:
    """The effect of an action in all states of a box."""

    action: int
    box: Box
    branches: tuple[Branch, ...]


def grouped_rules(
    graph: TransitionGraph, chances: Sequence[str], moving: frozenset[str]
) -> Iterator[Rule]:
    """Yield rules that together describe the graph; no two rules of an action share a state.

    A rule may contain ends, where nothing happens, whatever the rules say.
    `chances` are the probabilities of the branches as texts, `moving` the kinds of variables that
    can be changed by an amount.
    """
    cells = cells_of(graph.states)
    rows = [tuple(row) for row in cells.tolist()]
    can_move = [variable.kind in moving for variable in graph.states.variables]
    start, successor = graph.successor_start.tolist(), graph.successor.tolist()
    acting = np.flatnonzero(np.diff(graph.pair_start))
    for action in range(graph.n_actions):
        pairs = np.flatnonzero(graph.pair_action == action).tolist()
        relative: list[tuple[Branch, ...]] = []
        absolute: list[tuple[Branch, ...]] = []
        for pair in pairs:
            origin = rows[graph.pair_state[pair]]
            places = range(start[pair], start[pair + 1])
            relative.append(
                tuple((chances[b], _moved(origin, rows[successor[b]], can_move)) for b in places)
            )
            absolute.append(
                tuple((chances[b], tuple(("to", c) for c in rows[successor[b]])) for b in places)
            )
        often = Counter(relative) + Counter(absolute)
        groups: defaultdict[tuple[Branch, ...], list[int]] = defaultdict(list)
        for pair, by, to in zip(pairs, relative, absolute, strict=True):
            groups[by if often[by] >= often[to] else to].append(int(graph.pair_state[pair]))
        for branches, box in _boxes_of_groups(cells, acting, groups):
            yield Rule(action, box, branches)


def boxes_of(cells: IntArray, states: IntArray, others: IntArray | None) -> list[Box]:
    """Return disjoint boxes that contain all the states and none of the others.

    If the others are not given, the boxes contain nothing but the states.
    """
    if len(states) == 0:
        return []
    low, high = cells[states].min(axis=0), cells[states].max(axis=0)
    if others is not None:
        others = others[np.all((cells[others] >= low) & (cells[others] <= high), axis=1)]
        fits = len(others) == 0
    else:
        fits = float(np.prod((high - low + 1).astype(np.float64))) == len(states)
    if fits:
        return [Box(tuple(low.tolist()), tuple(high.tolist()))]
    axis = int(np.argmax(high - low))
    middle = (low[axis] + high[axis]) // 2
    found = []
    for is_lower in (True, False):
        here = (cells[states, axis] <= middle) == is_lower
        there = None if others is None else others[(cells[others, axis] <= middle) == is_lower]
        found += boxes_of(cells, states[here], there)
    return found


def boxes_of_values(
    cells: IntArray, states: IntArray, values: Sequence[Hashable]
) -> Iterator[tuple[Hashable, Box]]:
    """Yield boxes of states with equal values; states that are not given may be in any box."""
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for state, value in zip(states.tolist(), values, strict=True):
        groups[value].append(state)
    for value, members in groups.items():
        inside = np.array(members)
        others = None
        if len(groups) * len(states) <= MOST_LOOKED_AT:
            others = np.setdiff1d(states, inside, assume_unique=True)
        for box in boxes_of(cells, inside, others):
            yield value, box


def cells_of(states: StateSpace) -> IntArray:
    """Return the cells of all variables in all states, [n_states, n_variables]."""
    product = states.product
    columns = [product.cells(states.codes, i) for i in range(len(product.variables))]
    return np.stack(columns, axis=1)


def _boxes_of_groups(
    cells: IntArray, acting: IntArray, groups: dict[tuple[Branch, ...], list[int]]
) -> Iterator[tuple[tuple[Branch, ...], Box]]:
    n_large = sum(len(members) > 1 for members in groups.values())
    everything = acting if n_large * len(acting) <= MOST_LOOKED_AT else None
    for branches, members in groups.items():
        inside = np.array(members)
        others = None
        if everything is not None and len(members) > 1:
            others = np.setdiff1d(everything, inside, assume_unique=True)
        for box in boxes_of(cells, inside, others):
            yield branches, box


def _moved(
    origin: tuple[int, ...], target: tuple[int, ...], can_move: list[bool]
) -> tuple[Change, ...]:
    return tuple(
        None if old == new else ("by", new - old) if moves else ("to", new)
        for old, new, moves in zip(origin, target, can_move, strict=True)
    )
