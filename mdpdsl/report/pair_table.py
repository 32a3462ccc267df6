"""Figures of pairs as a table: the values of the state, the action, and a column per figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph


def pair_csv(graph: TransitionGraph, figures: Mapping[str, FloatArray]) -> str:
    """Return one line per pair; `figures` are columns by name, [n_pairs] each."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*(v.name for v in graph.states.variables), "action", *figures])
    labels = graph.actions.labels
    columns = [column.tolist() for column in figures.values()]
    for state in range(graph.n_states):
        values = list(graph.states.native(state).values())
        for pair in range(int(graph.pair_start[state]), int(graph.pair_start[state + 1])):
            action = labels[graph.pair_action[pair]]
            writer.writerow([*values, action, *(column[pair] for column in columns)])
    return buffer.getvalue()


def pair_records(
    graph: TransitionGraph, pairs: list[int], figures: Mapping[str, FloatArray]
) -> list[dict[str, object]]:
    """Return pairs as records for JSON: the state by variable, the action, and each figure."""
    return [
        {
            "state": graph.states.native(int(graph.pair_state[pair])),
            "action": graph.actions.labels[graph.pair_action[pair]],
            **{name: float(column[pair]) for name, column in figures.items()},
        }
        for pair in pairs
    ]
