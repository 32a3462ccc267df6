"""Messages for the failure of a raw system: the values, the action and how to fix the model.

The expansion of a model evaluates some points of every cell; a simulation meets all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.compile.system import (
    ACTION,
    FAULT,
    INSTRUCTION,
    KIND,
    NO_DISTRIBUTION,
    NO_PROBABILITY,
    NO_STATE,
    NOT_FINITE,
    OUT_OF_RANGE,
    OVERLAP,
    SUBJECT,
    RawSystem,
)
from mdpdsl.diagnostics import RunError, Span
from mdpdsl.graph.space import Value
from mdpdsl.graph.transition_graph import TransitionGraph

if TYPE_CHECKING:
    from mdpdsl.kernels.raw_system import SystemSimulator


class SimulationError(RunError):
    """A system cannot continue; the message says where, why and what to do."""

    status = 1


def describe_failure(system: RawSystem, graph: TransitionGraph, simulator: SystemSimulator) -> str:
    """Describe why the last step failed, the state of the system, and what to do."""
    action = int(simulator.failure[ACTION])
    what, help_text = _reason(system, graph, simulator)
    if action < 0:
        return f"{what}, at the start; {help_text}"
    values = system.native(simulator.registers[: len(system.variables)])
    return f"{what}, in {_text(values)} under {graph.actions.labels[action]}; {help_text}"


def _reason(
    system: RawSystem, graph: TransitionGraph, simulator: SystemSimulator
) -> tuple[str, str]:
    kind, subject = int(simulator.failure[KIND]), int(simulator.failure[SUBJECT])
    value = float(simulator.failure_value[0])
    if kind == FAULT:
        instruction = int(simulator.failure[INSTRUCTION])
        reason = system.bytecode.fault_text(instruction, simulator.registers)
        who = f"{system.variables[subject].name}' has no value: " if subject >= 0 else ""
        place = _place(system, system.bytecode.origins[instruction].span)
        return f"{who}{reason} {place}", "guard the expression, as in `if x != 0 then 1/x else 0`"
    if kind == NOT_FINITE:
        name = system.variables[subject].name
        return f"{name}' = {value} is not a finite number", "bound it, as in `clip(x, -1, 1)`"
    if kind == OUT_OF_RANGE:
        variable = system.variables[subject]
        shown = value if variable.kind == "set" else _native(system, subject, value)
        return f"{variable.name}' = {shown} is out of range", (
            f"the model declares {variable.describe()}"
        )
    if kind == NO_STATE:
        return _missing_state(system, graph, simulator)
    meets = "put an edge of the cells where a guard changes, so that all points of a cell agree"
    if kind == OVERLAP:
        return f"two lines apply, the second {_place(system, system.rule_spans[subject])}", meets
    if kind == NO_PROBABILITY:
        place = _place(system, system.branch_spans[subject])
        return f"the probability {value:.6g} is outside [0, 1] {place}", "clip it to [0, 1]"
    if kind == NO_DISTRIBUTION:
        place = _place(system, system.rule_spans[subject])
        return f"branch probabilities sum to {value:.10g}, not 1, {place}", (
            "they must sum to 1 at every point where the guard holds"
        )
    return "no line of the action applies, though one does at the centre of the cell", meets


def _missing_state(
    system: RawSystem, graph: TransitionGraph, simulator: SystemSimulator
) -> tuple[str, str]:
    product = graph.states.product
    code = int(np.dot(simulator.next_cells, np.array(product.strides)))
    raw, cell = system.native(simulator.next_values), product.native(code)
    return (
        f"the next state {_text(raw)} lies in the cell {_text(cell)}, which the built model does "
        "not have: its discretization cannot reach it",
        "build with `all_states=` (or `states all`), or with finer points (`discretize uniform`)",
    )


def _native(system: RawSystem, position: int, value: float) -> Value:
    """Return one number in the notation of its variable."""
    names = {float(number): name for name, number in system.symbols.items()}
    if system.variables[position].kind == "enum":
        return names[value]
    return int(value) if value.is_integer() else value


def _text(values: dict[str, Value]) -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in values.items())


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _place(system: RawSystem, span: Span) -> str:
    line, column = system.source.position(span.start)
    return f"({system.source.path}:{line}:{column})"
