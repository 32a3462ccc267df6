"""Graphs whose ends were found in data, some of them in cells where others continued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mdpdsl.graph.counts import counts_from
from mdpdsl.graph.ends import settle
from mdpdsl.graph.transition_graph import TransitionGraph


def settled(graph: TransitionGraph, ended: Mapping[int, float]) -> TransitionGraph:
    """Return what data show of a graph: a share of the arrivals in some states ends the episode."""
    pairs, successors, counts = [], [], []
    for pair in range(graph.n_pairs):
        state = int(graph.pair_state[pair])
        if ended.get(state) == 1:
            continue  # no episode continues there
        for target, p in zip(*(part.tolist() for part in graph.row(pair)), strict=True):
            share = ended.get(target, 0.0)
            for successor, part in ((target, 1 - share), (target + graph.n_states, share)):
                if part > 0:
                    pairs.append(pair)
                    successors.append(successor)
                    counts.append(round(1e6 * p * part))
    open_form = counts_from(np.array(pairs), np.array(successors), np.array(counts), graph.n_pairs)
    found = settle(graph, open_form, (graph.initial > 0).astype(np.int64))
    n_successors = np.diff(found.counts.successor_start)
    estimate = replace(
        found.graph,
        successor_start=found.counts.successor_start,
        successor=found.counts.successor.astype(np.int32),
        probability=found.counts.count / np.repeat(found.counts.visits, n_successors),
    )
    estimate.validate()
    return estimate
