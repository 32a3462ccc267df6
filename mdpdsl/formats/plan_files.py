"""Files of policies that depend on the steps left: a table for people, or an array.

A table (`.csv`, `.json`) has a line for every state and every number of steps left: that number,
the values of the state variables, and those of the action to take. An array (`.npz`) has the pair
to take, [steps, n_states]; its first row is for a single step left.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mdpdsl.files import require_absent, write_arrays, write_text
from mdpdsl.formats.policy_files import STEPS_LEFT, check_policy_path, field_text, native_columns
from mdpdsl.graph.space import Value
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph

KIND = "plan"

#: Returns the pair to take in each state with so many steps left, [n_states]; -1 in ends.
ChoiceWith = Callable[[int], StateArray]


def save_plan(
    choice_with: ChoiceWith,
    steps: int,
    model: str,
    graph: TransitionGraph,
    path: Path,
    *,
    overwrite: bool = False,
) -> None:
    """Write what to do with every number of steps left, in the format of the file's ending."""
    check_policy_path(path)
    require_absent(path, overwrite)
    if path.suffix == ".npz":
        plan = np.stack([choice_with(left) for left in range(1, steps + 1)])
        header = {"kind": KIND, "model": model, "hash": graph.hash}
        texts = {name: np.array(text) for name, text in header.items()}
        write_arrays(path, {**texts, "plan": plan.astype(np.int32)})
        return
    names = [
        STEPS_LEFT,
        *(v.name for v in (*graph.states.variables, *graph.actions.product.variables)),
    ]
    rows = [row for left in range(steps, 0, -1) for row in _rows(choice_with(left), left, graph)]
    if path.suffix == ".json":
        record = {"kind": KIND, "model": model, "hash": graph.hash, "columns": names, "rows": rows}
        write_text(path, json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[field_text(value) for value in row] for row in rows])
    write_text(path, buffer.getvalue())


def _rows(choice: StateArray, left: int, graph: TransitionGraph) -> list[list[Value]]:
    pairs = choice[choice >= 0]
    columns = [
        *native_columns(graph.states.product, graph.states.codes[graph.pair_state[pairs]]),
        *native_columns(graph.actions.product, graph.pair_action[pairs].astype(np.int64)),
    ]
    return [[left, *row] for row in zip(*columns, strict=True)]
