"""Transitions that a system made although the model file says that they are impossible.

Explorers then estimate the rows of such pairs from their counts alone; a run warns of them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from mdpdsl.estimate.contradictions import contradiction_count, impossible_text
from mdpdsl.graph.counts import Counts, merge
from mdpdsl.graph.row_sets import entry_pairs
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.runs.records import ContradictionRecord, ImpossibleRecord


def contradicted_text(graph: TransitionGraph, counts: Sequence[Counts]) -> str | None:
    """Say which transitions of a run the model file calls impossible; None if there are none."""
    if graph.knowledge is None:
        return None
    total = reduce(merge, counts)
    pairs = entry_pairs(total.successor_start)
    entries = np.flatnonzero(graph.knowledge.excludes(pairs, total.successor))
    if len(entries) == 0:
        return None
    most = int(entries[np.argmax(total.count[entries])])
    pair = int(pairs[most])
    example = ImpossibleRecord(
        graph.states.native(int(graph.pair_state[pair])),
        graph.actions.labels[graph.pair_action[pair]],
        graph.states.native(int(total.successor[most])),
        int(total.count[most]),
    )
    n_pairs = len(np.unique(pairs[entries]))
    found = ContradictionRecord(int(total.count[entries].sum()), n_pairs, [example])
    return (
        f"{contradiction_count(found)} impossible in the model: {impossible_text(example)}. The "
        "rows of such pairs are estimated from the counts alone; correct the model"
    )
