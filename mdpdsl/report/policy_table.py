"""The table of a solved model: the action and the value of each state."""

from __future__ import annotations

from collections.abc import Callable

from mdpdsl.graph.space import FloatArray, IntArray, Value
from mdpdsl.graph.transition_graph import TransitionGraph

#: What a table has for the action in an end, where there is none.
END = "(end)"


def policy_lines(
    graph: TransitionGraph,
    choice: IntArray,
    values: FloatArray,
    bound: float,
    states: IntArray,
    written: Callable[[float], str] = "{:.6g}".format,
) -> list[tuple[str, ...]]:
    """Return a header and a line for each of some states: variables, action, value.

    A value that is smaller than the bound on its error is written as 0. In ends, `choice` is not
    read.
    """
    names = [variable.name for variable in graph.states.variables]
    lines: list[tuple[str, ...]] = [(*names, "action", "value")]
    for state in states.tolist():
        natives = graph.states.native(state).values()
        is_end = graph.ends is not None and bool(graph.ends[state])
        action = END if is_end else graph.actions.labels[int(graph.pair_action[choice[state]])]
        value = 0.0 if abs(values[state]) <= bound else values[state]
        lines.append((*map(_short, natives), action, written(float(value))))
    return lines


def aligned(lines: list[tuple[str, ...]]) -> str:
    """Return lines of cells as text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def _short(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
