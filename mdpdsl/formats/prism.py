"""PRISM source: one module with the declared variables, and a command for each rule.

Enumerations are integers with named constants. A real variable, or one over a set of numbers, is
the index of its cell, and a comment lists the cells. Probabilities have all their digits. An end
has the label `end` and one command `[end]`, which stays there, because PRISM treats a state without
a command as an error of the model. Each reward is a structure; the default one is `reward`. With
bounds, probabilities are intervals, `[lower,upper]`, which PRISM (4.8 and newer) and Storm read as
an interval MDP.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.formats.foreign import Format
from mdpdsl.formats.loops import loop_notes, with_loops
from mdpdsl.formats.names import Names, prism_names
from mdpdsl.formats.numbers import branch_chances, number_text
from mdpdsl.formats.rules import (
    Box,
    Branch,
    boxes_of,
    boxes_of_values,
    cells_of,
    grouped_rules,
)
from mdpdsl.formats.written_rows import require_rows
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.interval_graph import Bounds, IntervalGraph
from mdpdsl.graph.reward_fields import all_rewards
from mdpdsl.graph.space import FloatArray, IntArray, Variable
from mdpdsl.graph.transition_graph import DEFAULT_REWARD, TransitionGraph

#: Kinds of variables that are integers in PRISM and whose order has a meaning.
MOVING = frozenset({"int", "real", "set"})


def to_prism(
    graph: TransitionGraph,
    name: str = "model",
    bounds: Bounds | None = None,
    notes: tuple[str, ...] = (),
) -> str:
    """Return a graph as PRISM source; raise FormatError if its dynamics are unknown."""
    require_rows(graph, has_bounds=bounds is not None)
    looped, bounds = with_loops(graph, bounds)
    notes = (*notes, *loop_notes(graph, looped))
    return "\n".join(_Writer(looped, prism_names(looped, name)).lines(name, bounds, notes)) + "\n"


class _Writer:
    """The parts of the source of one model."""

    def __init__(self, graph: TransitionGraph, names: Names) -> None:
        self.graph = graph
        self.names = names
        self.cells: IntArray = cells_of(graph.states)

    def lines(self, name: str, bounds: Bounds | None, notes: tuple[str, ...]) -> Iterator[str]:
        graph = self.graph
        yield f"// {_comment(name)}: {graph.n_states} states, {graph.n_pairs} choices"
        for note in notes:
            yield f"// {_comment(note)}"
        n_out = int(np.count_nonzero(~reachable_states(graph)))
        if n_out:
            yield f"// {n_out} of the states are unreachable, so PRISM does not build them"
        for what, new in self.names.renamed:
            yield f"// {_comment(what)} is {new}"
        yield "mdp"
        yield from self._constants()
        yield ""
        yield f"module {self.names.module}"
        starts = np.flatnonzero(graph.initial > 0)
        for position in range(len(graph.states.variables)):
            yield self._declaration(position, starts)
        yield ""
        for rule in grouped_rules(graph, branch_chances(graph, bounds), MOVING):
            outcomes = " + ".join(self._branch(branch) for branch in rule.branches)
            yield f"  [{self.names.actions[rule.action]}] {self._guard(rule.box)} -> {outcomes};"
        yield "endmodule"
        if len(starts) > 1:
            yield from ("", *self._starts(starts))
        if graph.labels:
            yield ""
        for label, states in graph.labels.items():
            yield f'label "{self.names.labels[label]}" = {self._set(np.flatnonzero(states))};'
        for reward, numbers in all_rewards(graph).items():
            yield from ("", *self._rewards(reward, numbers))

    def _constants(self) -> Iterator[str]:
        for variable, members in zip(self.graph.states.variables, self.names.members, strict=True):
            if members:
                yield ""
                yield f"// values of {_comment(variable.name)}"
            for number, member in enumerate(members):
                yield f"const int {member} = {number};"

    def _declaration(self, position: int, starts: IntArray) -> str:
        variable, name = self.graph.states.variables[position], self.names.variables[position]
        domain = "bool"
        if variable.kind != "bool":
            domain = f"[{variable.low}..{variable.low + variable.size - 1}]"
        text = f"  {name} : {domain}"
        if len(starts) == 1:
            text += f" init {self._value(position, int(self.cells[starts[0], position]))}"
        return f"{text};{_explanation(variable)}"

    def _branch(self, branch: Branch) -> str:
        chance, changes = branch
        updates = []
        for position, change in enumerate(changes):
            if change is None:
                continue
            kind, amount = change
            name = self.names.variables[position]
            if kind == "by":
                value = f"{name}{amount:+d}"
            else:
                value = self._value(position, amount)
            updates.append(f"({name}'={value})")
        return f"{chance}:{'&'.join(updates) if updates else 'true'}"

    def _starts(self, starts: IntArray) -> Iterator[str]:
        chances = self.graph.initial[starts]
        if not np.all(chances == chances[0]):
            yield "// PRISM has no initial distribution: probabilities of initial states are lost"
        # Whatever is named here becomes a state, so the boxes contain initial states only.
        yield "init"
        yield f"  {self._either(boxes_of(self.cells, starts, None))}"
        yield "endinit"

    def _rewards(self, name: str, numbers: FloatArray) -> Iterator[str]:
        graph = self.graph
        by_branch = graph.branch_rewards.get(name)
        if (graph.branch_reward if name == DEFAULT_REWARD else by_branch) is not None:
            yield "// rewards depend on the next state: these are their expectations"
        yield f'rewards "{self.names.rewards[name]}"'
        if not numbers.any():
            yield "  true : 0;"  # Storm rejects an empty structure
        for action in range(graph.n_actions):
            pairs = np.flatnonzero(graph.pair_action == action)
            states = graph.pair_state[pairs].astype(np.int64)
            rewards = numbers[pairs].tolist()
            for value, box in boxes_of_values(self.cells, states, rewards):
                assert isinstance(value, float)
                if value != 0:
                    action_name = self.names.actions[action]
                    yield f"  [{action_name}] {self._guard(box)} : {number_text(value)};"
        yield "endrewards"

    def _set(self, states: IntArray) -> str:
        """Return an expression that holds in these states of the model and no others."""
        others = np.setdiff1d(np.arange(self.graph.n_states), states, assume_unique=True)
        return self._either(boxes_of(self.cells, states, others))

    def _either(self, boxes: list[Box]) -> str:
        return " | ".join(f"({self._guard(box)})" for box in boxes) if boxes else "false"

    def _guard(self, box: Box) -> str:
        parts = []
        for position, (low, high) in enumerate(zip(box.low, box.high, strict=True)):
            variable, name = self.graph.states.variables[position], self.names.variables[position]
            if low == 0 and high == variable.size - 1:
                continue
            if variable.kind == "bool":
                parts.append(name if low else f"!{name}")
            elif low == high:
                parts.append(f"{name}={self._value(position, low)}")
            else:
                if low > 0:
                    parts.append(f"{name}>={self._value(position, low)}")
                if high < variable.size - 1:
                    parts.append(f"{name}<={self._value(position, high)}")
        return " & ".join(parts) if parts else "true"

    def _value(self, position: int, cell: int) -> str:
        variable = self.graph.states.variables[position]
        if variable.kind == "bool":
            return "true" if cell else "false"
        if variable.kind == "enum":
            return self.names.members[position][cell]
        return str(variable.low + cell)


def _explanation(variable: Variable) -> str:
    """Return a comment that lists the cells of a variable, if they are not its values."""
    if variable.kind == "real":
        assert variable.edges is not None
        how = ", wraps" if variable.wraps else ""
        return f"  // cell between {', '.join(f'{edge:.9g}' for edge in variable.edges)}{how}"
    if variable.kind == "set":
        assert variable.numbers is not None
        return f"  // index into {', '.join(f'{number:.9g}' for number in variable.numbers)}"
    return ""


def _comment(text: str) -> str:
    """Put a text on one line, because a comment ends with its line."""
    return " ".join(text.split())


class Prism(Format):
    """PRISM's language."""

    name, title, suffix = "prism", "PRISM source", ".prism"
    has_intervals = True

    def text(self, model: Model) -> str:
        """Return a model as the text of a file."""
        self.require_truth(model)
        return to_prism(model.graph, model.name)

    def interval_text(self, intervals: IntervalGraph, name: str, notes: tuple[str, ...]) -> str:
        """Return an interval MDP as the text of a file."""
        return to_prism(intervals.graph, name, intervals.bounds, notes)
