"""The states in which the conditions of a property hold, for all states of a graph at once."""

from __future__ import annotations

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.terms import Term, reads
from mdpdsl.compile.transitions import state_values
from mdpdsl.diagnostics import Diagnostic, Span
from mdpdsl.graph.space import BoolArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: States evaluated in one batch.
BATCH = 1 << 18


class Conditions:
    """Evaluates conditions on the states of a graph, and collects where they have no value.

    The graph has the variables of the model, and perhaps others.
    """

    def __init__(self, model: CheckedModel, graph: TransitionGraph) -> None:
        self.model = model
        self.graph = graph
        self._problems = Problems(graph.states.product, graph.actions)

    def states(self, condition: Term, at: Span | None = None) -> BoolArray:
        """Return in which states a condition holds, [n_states].

        Faults are reported `at` a place, or where the faulty operation is.
        """
        graph = self.graph
        labels = {name: self._label(name) for kind, name in reads(condition) if kind == "label"}
        holds = np.zeros(graph.n_states, np.bool_)
        for begin in range(0, graph.n_states, BATCH):
            part = slice(begin, begin + BATCH)
            codes = graph.states.codes[part]
            values = state_values(self.model, codes, product=graph.states.product)
            values |= {("label", name): states[part] for name, states in labels.items()}
            frame = Frame(len(codes), values)
            result = evaluate(condition, frame)
            for fault in result.faults:
                places = np.unique(codes[frame.full(fault.rows)])
                self._problems.add("E507", at or fault.span, fault.message, places)
            holds[part] = frame.full(result.values)
        return holds

    def diagnostics(self) -> list[Diagnostic]:
        """Return the faults, with a state in which each occurs."""
        return self._problems.diagnostics(lambda codes: np.ones(len(codes), np.bool_))

    def _label(self, name: str) -> BoolArray:
        """Return the states of a label, its own or one that every graph has."""
        graph = self.graph
        if name in graph.labels:
            return graph.labels[name]
        if name == "init":
            return graph.initial > 0
        if name == "end" and graph.ends is not None:
            return graph.ends
        return np.zeros(graph.n_states, np.bool_)


def property_faults(model: CheckedModel, graph: TransitionGraph) -> list[Diagnostic]:
    """Return where the properties of a model have no value."""
    conditions = Conditions(model, graph)
    for checked in model.properties.values():
        for condition in checked.conditions:
            conditions.states(condition)
    return conditions.diagnostics()
