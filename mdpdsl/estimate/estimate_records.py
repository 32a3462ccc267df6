"""The records of an estimate: what a run keeps and `--json` prints, and messages about ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.estimate.confidence_sets import ConfidenceSets
from mdpdsl.estimate.contradictions import contradictions
from mdpdsl.estimate.learned_numbers import LearnedNumbers
from mdpdsl.estimate.metrics import measure
from mdpdsl.estimate.reference import estimate_reference
from mdpdsl.estimate.row_fit import Misfit
from mdpdsl.estimate.saved import what_is_left_out
from mdpdsl.graph.describe import state_text
from mdpdsl.graph.ends import Settled
from mdpdsl.graph.space import IntArray
from mdpdsl.graph.tables import pair_records
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.count import LogCounts
from mdpdsl.logs.rejections import Rejections
from mdpdsl.runs.records import (
    EndRecord,
    EstimateRecord,
    FileRecord,
    MisfitRecord,
    NumberRecord,
    PairRecord,
    RunConfiguration,
    decoded,
)

#: The most unvisited pairs that a record lists.
LISTED_UNSEEN = 1000
#: The most rows that contradict the model that a record lists.
LISTED_MISFITS = 100
#: States that a message names.
NAMED_ENDS = 5


def estimate_record(
    model: Model,
    read: LogCounts,
    settled: Settled,
    files: Sequence[FileRecord],
    chosen: dict[str, Any],
    configuration: RunConfiguration,
    sets: ConfidenceSets,
    learned: LearnedNumbers | None,
    known: Misfit | None,
) -> EstimateRecord:
    """Return the record of an estimate: what was counted, how, and how good it is."""
    graph, counts = settled.graph, settled.counts
    reference = estimate_reference([counts], graph)
    measured, n = reference.measured, counts.n_transitions
    visits, c_hat = counts.visits[measured], reference.complexity[measured]
    measures = measure(read.rows, visits, c_hat, 1.0, n, over_visited=True)
    n_unseen = int(np.count_nonzero(visits == 0))
    return EstimateRecord(
        model=model.name,
        hash=model.graph.hash,
        parameters=dict(model.parameters),
        states=graph.n_states,
        pairs=graph.n_pairs,
        transitions=counts.n_transitions,
        rows=read.rows,
        files=files,
        problems=list(read.problems),
        rejected=read.rejected.counts,
        examples=example_records(read.rejected),
        clipped=read.clipped,
        in_order=read.was_sorted,
        episodes=int(settled.starts.sum()),
        says_ends=settled.says_ends,
        ends=end_records(settled),
        pairs_seen=len(visits) - n_unseen,
        pairs_unseen=n_unseen,
        unseen=unseen_records(graph, np.where(measured, counts.visits, 1)),
        worst_radius=float(sets.radius.max()),
        truth=False,
        worst=measures.worst,
        average=measures.average,
        **chosen,
        holds=sets.holds,
        contradictions=contradictions(sets),
        seconds=read.seconds,
        rows_per_second=read.rows / read.seconds,
        versions=configuration.versions,
        **what_is_left_out(counts, model, graph, chosen["prior"], sets.support == "model"),
        misfit=None
        if known is None
        else misfit_records([known, *([] if learned is None else [learned.misfit])], graph),
        **({} if learned is None else number_fields(learned)),
    )


def number_fields(learned: LearnedNumbers) -> dict[str, Any]:
    """Return the fields of a record about unknown numbers."""
    return {
        "numbers": [decoded(NumberRecord, each) for each in learned.parameters.records()],
        "numbers_source": learned.source,
        "notes": list(learned.notes),
    }


def misfit_records(found: Sequence[Misfit], graph: TransitionGraph) -> list[MisfitRecord]:
    """Return the first rows that contradict the model file, after what all of them show."""
    records = [
        MisfitRecord(state=None, action=None, p_value=p, text=text)
        for misfit in found
        for p, text in zip(misfit.overall_p_values, misfit.overall, strict=True)
    ]
    for misfit in found:
        described = pair_records(graph, misfit.pairs.tolist(), {})
        for pair, p, text in zip(described, misfit.p_values, misfit.sentences, strict=True):
            records.append(decoded(MisfitRecord, {**pair, "p_value": float(p), "text": text}))
    return records[:LISTED_MISFITS]


def unseen_records(
    graph: TransitionGraph, visits: IntArray, most: int = LISTED_UNSEEN
) -> list[PairRecord]:
    """Return the first pairs that were never visited."""
    unseen = np.flatnonzero(visits == 0)[:most].tolist()
    return [decoded(PairRecord, each) for each in pair_records(graph, unseen, {})]


def end_records(settled: Settled, most: int = LISTED_UNSEEN) -> list[EndRecord]:
    """Return the first states in which episodes of the data ended, and how often."""
    graph, counts = settled.graph, settled.counts
    if graph.ends is None:
        return []
    arrivals = np.bincount(counts.successor, counts.count, minlength=graph.n_states)
    reached = np.flatnonzero(graph.ends & (arrivals > 0))[:most].tolist()
    found = set(settled.found.tolist())
    return [
        EndRecord(
            state=graph.states.native(state),
            arrivals=int(arrivals[state]),
            found=state in found or graph.states.is_twin(state),
            mixed=graph.states.is_twin(state),
        )
        for state in reached
    ]


def example_records(rejected: Rejections) -> dict[str, Any]:
    """Return the examples of rejected rows by reason."""
    return {reason: list(kept) for reason, kept in rejected.examples.items()}


def mixed_text(settled: Settled) -> str:
    """Say in which states some episodes ended and others continued."""
    named = states_text(settled, settled.mixed.tolist())
    return (
        f"some episodes ended and others continued in {named}; each such state has a twin, an end "
        "with the same values (finer states may tell the two apart)"
    )


def states_text(settled: Settled, states: Sequence[int]) -> str:
    """Name some states, the first of them if they are many."""
    named = "; ".join(state_text(settled.spaces, state) for state in states[:NAMED_ENDS])
    return named + (f" and {len(states) - NAMED_ENDS} more" if len(states) > NAMED_ENDS else "")
