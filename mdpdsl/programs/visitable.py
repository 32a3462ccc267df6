"""Which pairs a run can visit for ever, and what to say of those that it cannot.

A run stays, in the end, in one maximal end component. If all pairs in need of visits are in one
that the initial states lead to, the optimum is finite. Pairs in need elsewhere (transient,
unreachable, in another component) have a share of visits that goes to 0, whatever the policy.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.analysis import end_components, reachable_states
from mdpdsl.graph.describe import MOST_NAMED, pairs_text, state_text
from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph


class AllocationError(SolveError):
    """A problem without a finite optimum, or too large; the message says why and what to do."""


def visitable_part(
    graph: TransitionGraph,
    needed: BoolArray,
    *,
    recurrent: bool = False,
    component: int | None = None,
) -> IntArray:
    """Return the pairs of the end component to optimise over, ascending.

    By default it must hold every pair in need. With `recurrent`, pairs in need outside the
    components are left out; `component` (from 1) chooses one where several hold pairs in need.
    Where nothing is in need, it is the largest component that can be reached.
    """
    number = end_components(graph)
    reachable = reachable_states(graph)[graph.pair_state]
    usable = (number >= 0) & reachable
    lost = np.flatnonzero(needed & ~usable)
    if len(lost) and not recurrent:
        raise AllocationError(_lost_text(graph, lost, reachable))
    if component is not None:
        known = np.unique(number[usable])
        if component - 1 not in known:
            listed = _components_text(graph, number, known)
            raise AllocationError(f"there is no component {component} to reach; there are {listed}")
        return np.flatnonzero(number == component - 1)
    holding = np.unique(number[usable & needed])
    if len(holding) > 1:
        listed = _components_text(graph, number, holding)
        raise AllocationError(
            f"a run ends in one of {len(holding)} parts of the model that it then never leaves, "
            f"and each has distributions to estimate: {listed}; choose one by --recurrent "
            "--component N, or let episodes start again with `restart when …`"
        )
    if len(holding) == 1:
        return np.flatnonzero(number == holding[0])
    sizes = np.bincount(number[usable])
    return np.flatnonzero(number == int(np.argmax(sizes)))


def _lost_text(graph: TransitionGraph, lost: IntArray, reachable: BoolArray) -> str:
    n_unreachable = int(np.count_nonzero(~reachable[lost]))
    if n_unreachable == len(lost):
        why = "the initial states never lead to them"
    elif n_unreachable:
        why = f"the initial states never lead to {n_unreachable:,} of them"
    else:
        why = "every way back to them is lost sooner or later"
    return (
        f"no policy visits {len(lost):,} of {graph.n_pairs:,} pairs infinitely often ({why}), so "
        f"that the best allocation is infinite: {pairs_text(graph, lost.tolist())}; "
        "--recurrent leaves them out, `restart when …` makes episodes start again"
    )


def _components_text(graph: TransitionGraph, number: IntArray, components: IntArray) -> str:
    texts = []
    for component in components[:MOST_NAMED].tolist():
        pairs = np.flatnonzero(number == component)
        first = state_text(graph, int(graph.pair_state[pairs[0]]))
        count = f"{len(pairs):,} pair{'s' if len(pairs) > 1 else ''}"
        texts.append(f"{component + 1} ({count}, with {first})")
    more = len(components) - MOST_NAMED
    return ", ".join(texts) + (f" and {more:,} more" if more > 0 else "")
