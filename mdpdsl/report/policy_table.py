"""Tables of a solved model, for people and files: the action and the value of each state."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np

from mdpdsl.files import write_arrays, write_text
from mdpdsl.graph.space import FloatArray, IntArray, Value
from mdpdsl.graph.transition_graph import TransitionGraph

VALUES_SUFFIXES = (".npz", ".csv", ".json")


def policy_lines(
    graph: TransitionGraph, choice: IntArray, values: FloatArray, bound: float, states: IntArray
) -> list[tuple[str, ...]]:
    """Return a header and a line for each of some states: variables, action, value.

    A value that is smaller than the bound on its error is written as 0.
    """
    names = [variable.name for variable in graph.states.variables]
    lines: list[tuple[str, ...]] = [(*names, "action", "value")]
    for state in states.tolist():
        natives = graph.states.native(state).values()
        action = graph.actions.labels[int(graph.pair_action[choice[state]])]
        value = 0.0 if abs(values[state]) <= bound else values[state]
        lines.append((*map(_short, natives), action, f"{value:.6g}"))
    return lines


def aligned(lines: list[tuple[str, ...]]) -> str:
    """Return lines of cells as text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def save_values(
    path: Path, graph: TransitionGraph, choice: IntArray, values: FloatArray, bound: float
) -> None:
    """Write the value and the action of every state in the format of the file's ending."""
    if path.suffix == ".npz":
        header = {"kind": np.array("values"), "hash": np.array(graph.hash)}
        write_arrays(path, {**header, "values": values, "bound": np.array(bound)})
        return
    names = [variable.name for variable in graph.states.variables]
    rows: list[list[Value]] = []
    for state in range(graph.n_states):
        action = graph.actions.labels[int(graph.pair_action[choice[state]])]
        rows.append([*graph.states.native(state).values(), action, float(values[state])])
    if path.suffix == ".json":
        record = {
            "kind": "values",
            "hash": graph.hash,
            "bound": bound,
            "columns": [*names, "action", "value"],
            "rows": rows,
        }
        write_text(path, json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*names, "action", "value"])
    writer.writerows([[_exact(value) for value in row] for row in rows])
    write_text(path, buffer.getvalue())


def _short(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _exact(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
