"""Transitions that the data have although the model, whose support was trusted, excludes them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdpdsl.estimate.confidence_sets import ConfidenceSets
from mdpdsl.graph.row_sets import entry_pairs
from mdpdsl.graph.space import Value
from mdpdsl.runs.records import ContradictionRecord, ImpossibleRecord

#: The most transitions that a record lists.
LISTED = 20


def contradictions(sets: ConfidenceSets) -> ContradictionRecord | None:
    """Return the transitions that the model calls impossible; None if there are none."""
    entries, counts, graph = sets.contradictions, sets.counts, sets.graph
    if not len(entries):
        return None
    pairs = entry_pairs(counts.successor_start)[entries]
    order = np.argsort(-counts.count[entries], kind="stable")[:LISTED]
    examples = [
        ImpossibleRecord(
            graph.states.native(int(graph.pair_state[pair])),
            graph.actions.labels[graph.pair_action[pair]],
            graph.states.native(int(counts.successor[entry])),
            int(counts.count[entry]),
        )
        for pair, entry in zip(pairs[order].tolist(), entries[order].tolist(), strict=True)
    ]
    total = int(counts.count[entries].sum())
    return ContradictionRecord(total, len(np.unique(pairs)), examples)


def contradiction_text(found: ContradictionRecord) -> str:
    """Return what was found, what it means, and what to do."""
    return (
        f"{contradiction_count(found)} impossible in the model: "
        f"{impossible_text(found.examples[0])}. Nothing is assumed of the rows of such pairs; the "
        "sets of the others hold if the model is right there. Correct the model, or set `support=` "
        "to seen"
    )


def contradiction_count(found: ContradictionRecord) -> str:
    """Return how many transitions, of how many pairs, are impossible, up to the verb."""
    n, pairs = found.transitions, "1 pair" if found.pairs == 1 else f"{found.pairs:,} pairs"
    return f"1 transition of {pairs} is" if n == 1 else f"{n:,} transitions of {pairs} are"


def impossible_text(each: ImpossibleRecord) -> str:
    """Describe a transition: `left in x = 1 led to x = 7 (3 times)`."""
    times = "once" if each.count == 1 else f"{each.count:,} times"
    return f"{each.action} in {_values(each.state)} led to {_values(each.next)} ({times})"


def _values(state: Mapping[str, Value]) -> str:
    return ", ".join(
        f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in state.items()
    )
