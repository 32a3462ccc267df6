"""The pairs that a run can visit infinitely often, and errors that name the others.

Every run eventually stays in one maximal end component. The optimum is finite if all pairs that
need visits are in one component that the initial states lead to. For a pair elsewhere (transient,
unreachable, or in another component) the share of visits tends to 0 under every policy.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.analysis import end_components, reachable_states
from mdpdsl.graph.describe import MOST_NAMED, pairs_text, state_text
from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph


class AllocationError(SolveError):
    """A problem has no finite optimum or is too large; the message says why and what to do."""


def visitable_part(
    graph: TransitionGraph,
    needed: BoolArray,
    *,
    recurrent: bool = False,
    component: int | None = None,
) -> IntArray:
    """Return the pairs of the end component to optimise over, ascending.

    By default the component must contain every pair that needs visits. With `recurrent`, pairs
    outside the end components are left out; `component` (from 1) chooses one if several contain
    pairs that need visits. If no pair needs visits, the largest reachable component is used.
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
            raise AllocationError(
                f"there is no component {component} that a run can reach; they are {listed}"
            )
        return np.flatnonzero(number == component - 1)
    holding = np.unique(number[usable & needed])
    if len(holding) > 1:
        listed = _components_text(graph, number, holding)
        raise AllocationError(
            f"every run ends up in one of {len(holding)} parts of the model, never leaves it, and "
            f"each part has distributions to estimate: {listed}; choose one with `recurrent=` "
            "and `component=`, or let episodes start again with `end when …`"
        )
    if len(holding) == 1:
        return np.flatnonzero(number == holding[0])
    sizes = np.bincount(number[usable])
    return np.flatnonzero(number == int(np.argmax(sizes)))


def _lost_text(graph: TransitionGraph, lost: IntArray, reachable: BoolArray) -> str:
    n_unreachable = int(np.count_nonzero(~reachable[lost]))
    if n_unreachable == len(lost):
        why = "they cannot be reached from the initial states"
    elif n_unreachable:
        why = f"{n_unreachable:,} of them cannot be reached from the initial states"
    else:
        why = "sooner or later a run cannot return to them"
    return (
        f"no policy visits {len(lost):,} of {graph.n_pairs:,} pairs infinitely often ({why}), so "
        f"the optimal loss is infinite: {pairs_text(graph, lost.tolist())}; "
        "set `recurrent=` to leave them out, or let episodes start again with `end when …`"
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
