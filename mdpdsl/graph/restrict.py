"""Restrict a transition graph to some of its states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpdsl.graph.reward_fields import chosen_rewards
from mdpdsl.graph.space import BoolArray
from mdpdsl.graph.transition_graph import TransitionGraph


def restrict(graph: TransitionGraph, kept: BoolArray) -> TransitionGraph:
    """Keep some states, with all their pairs; no branch may lead out of them."""
    if kept.all():
        return graph
    new_index = np.cumsum(kept, dtype=np.int64) - 1
    kept_pairs = kept[graph.pair_state]
    kept_branches = np.repeat(kept_pairs, np.diff(graph.successor_start))
    assert kept[graph.successor[kept_branches]].all(), "a branch leaves the states to keep"

    return replace(
        graph,
        states=graph.states.chosen(kept),
        pair_start=_starts(np.diff(graph.pair_start)[kept]),
        pair_action=graph.pair_action[kept_pairs],
        successor_start=_starts(np.diff(graph.successor_start)[kept_pairs]),
        successor=new_index[graph.successor[kept_branches]].astype(np.int32),
        probability=graph.probability[kept_branches],
        initial=graph.initial[kept],
        labels={name: states[kept] for name, states in graph.labels.items()},
        ends=None if graph.ends is None or not graph.ends[kept].any() else graph.ends[kept],
        knowledge=None if graph.knowledge is None else graph.knowledge.restricted(kept, kept_pairs),
        **chosen_rewards(graph, kept_pairs, kept_branches),
    )


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)])
