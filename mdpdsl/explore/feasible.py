"""Check, before a run, that every pair of a model that is to be learned can be visited."""

from __future__ import annotations

import numpy as np

from mdpdsl.diagnostics import SettingsError
from mdpdsl.graph.analysis import communicating_classes, never_visited_pairs
from mdpdsl.graph.describe import pairs_text
from mdpdsl.graph.transition_graph import TransitionGraph


def require_explorable(graph: TransitionGraph, simulate: str = "model") -> str | None:
    """Raise SettingsError if a pair to learn can never be visited; return a warning, if any.

    For a continuous system it is only a warning, as it may reach what its discretization cannot.
    """
    if not graph.has_dynamics:
        raise SettingsError(
            "the model has no dynamics to simulate; estimate them from a log, explore a live "
            "system, or add `on` lines or equations"
        )
    if not graph.to_learn.any():
        raise SettingsError(
            "every row of the model is known, so there is nothing to learn; write `?` for the "
            "probabilities that are not known, or set `learn=` to all"
        )
    unreachable = never_visited_pairs(graph.closed)
    unreachable = unreachable[graph.to_learn[unreachable]]
    if len(unreachable):
        found = (
            f"{len(unreachable):,} of {graph.n_pairs:,} pairs can never be visited from the "
            f"initial states: {pairs_text(graph, unreachable.tolist())}"
        )
        if simulate == "continuous":
            return f"in the discretized model {found}; the continuous system may visit them"
        raise SettingsError(f"{found}; remove `states all`, or start elsewhere with `init`")
    classes = communicating_classes(graph.closed)
    if classes.n_classes > 1:
        closed = int(np.count_nonzero(classes.is_closed))
        return (
            f"the model has {classes.n_classes:,} communicating classes ({closed:,} closed): a run "
            "that leaves a class never returns, so pairs that it has not visited there stay "
            "unvisited; `end when …` makes episodes start again"
        )
    return None
