"""A transition graph as the text of an `.mdp` file from which it can be rebuilt.

Transitions become `on` lines, each for all states in which an action has the same effect. Some
graphs cannot be expressed with their variables: they have an unreachable part of a product, or a
start that is not drawn variable by variable. Their states become the values of one variable `s`. A
state in which only some episodes end becomes two, which differ in a further variable `ended`. If
the model says what is not known, the text has its truth, and a comment says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mdpdsl.formats.loops import with_distinct_twins
from mdpdsl.formats.mdp_names import language_names
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
from mdpdsl.graph.branches import numbered_states
from mdpdsl.graph.space import FloatArray, IntArray, Variable
from mdpdsl.graph.transition_graph import TransitionGraph

#: From this many pairs or branches up, a graph is better kept as arrays: a text is slow to read.
MANY_PAIRS, MANY_BRANCHES = 10_000, 20_000

#: The largest error at which a start counts as a product of distributions of its variables.
START_TOLERANCE = 1e-12

#: The comment in a file with numbers that the original leaves open.
TRUTH_NOTE = "written with the values to simulate with; what the original leaves open is fixed here"

#: The size up to which a product is searched for states.
LARGEST_PRODUCT = 100_000_000


def model_text(
    graph: TransitionGraph, name: str, title: str | None = None, notes: tuple[str, ...] = ()
) -> str:
    """Return the text of a model with this graph; raise FormatError without true rows."""
    require_rows(graph)
    if graph.knowledge is not None:
        notes = (*notes, TRUTH_NOTE)
    graph = with_distinct_twins(graph)
    if not _can_be_said(graph):
        notes = (*notes, "the states are numbered by one variable")
        graph = replace(graph, states=numbered_states(graph.n_states))
    graph, renamed, name = language_names(graph, name)
    notes = (*notes, *(f"{what} is {new}" for what, new in renamed))
    return "\n".join(_Text(graph).lines(name, title, notes)) + "\n"


class _Text:
    """The parts of the text of one model."""

    def __init__(self, graph: TransitionGraph) -> None:
        self.graph = graph
        self.cells: IntArray = cells_of(graph.states)
        self.variables = graph.states.variables

    def lines(self, name: str, title: str | None, notes: tuple[str, ...]) -> Iterator[str]:
        graph = self.graph
        yield from (f"# {' '.join(note.split())}" for note in notes)
        title = " ".join((title or "").replace('"', "'").split())
        yield f'mdp {name} "{title}"' if title else f"mdp {name}"
        yield ""
        yield from (f"state {_domain(variable)}" for variable in self.variables)
        yield from (_action_line(variable) for variable in graph.actions.product.variables)
        yield f"init {self._start()}"
        if not reachable_states(graph).all():
            yield "states all"
        if any(variable.kind == "real" for variable in self.variables):
            yield "discretize center"
        yield ""
        for rule in grouped_rules(graph, branch_chances(graph), frozenset({"int"})):
            outcomes = " | ".join(
                self._branch(branch, len(rule.branches) == 1) for branch in rule.branches
            )
            yield f"on {self._condition(rule.action, rule.box)} -> {outcomes}"
        nowhere = np.setdiff1d(np.arange(graph.n_actions), graph.pair_action)
        whole = Box((0,) * len(self.variables), tuple(v.size - 1 for v in self.variables))
        for action in nowhere.tolist():  # every action needs a line, even if it is never available
            condition = self._condition(action, whole)
            yield f"on {condition} {'and' if ' when ' in condition else 'when'} false -> stay"
        if graph.ends is not None:
            yield ""
        for box in [] if graph.ends is None else self._boxes(np.flatnonzero(graph.ends)):
            yield f"end when {self._guard(box)}"
        if graph.reward is not None:
            yield from ("", *self._rewards("", graph.reward, graph.branch_reward))
        for reward, numbers in graph.rewards.items():
            by_branch = graph.branch_rewards.get(reward)
            yield from ("", *self._rewards(f" {reward}", numbers, by_branch))
        if graph.labels:
            yield ""
        for label, states in graph.labels.items():
            yield f"label {label} when {self._set(np.flatnonzero(states))}"

    def _start(self) -> str:
        initial = self.graph.initial
        starts = np.flatnonzero(initial > 0)
        if len(starts) > 1 and np.all(initial[starts] == initial[starts[0]]):
            boxes = boxes_of(self.cells, starts, None)
            guard = " or ".join(self._guard(box) or "true" for box in boxes)
            return "any" if guard == "true" else f"any when {guard}"
        parts = []
        for position, variable in enumerate(self.variables):
            masses = np.bincount(self.cells[:, position], initial, variable.size)
            drawn = np.flatnonzero(masses > 0).tolist()
            if len(drawn) == 1:
                parts.append(f"{variable.name} = {_value(variable, drawn[0])}")
            else:
                items = [f"{_value(variable, c)}: {number_text(float(masses[c]))}" for c in drawn]
                parts.append(f"{variable.name} ~ {{{', '.join(items)}}}")
        return ", ".join(parts)

    def _branch(self, branch: Branch, is_only: bool) -> str:
        chance, changes = branch
        updates = []
        for variable, change in zip(self.variables, changes, strict=True):
            if change is None:
                continue
            kind, amount = change
            if kind == "by":
                value = f"{variable.name} {'+' if amount > 0 else '-'} {abs(amount)}"
            else:
                value = _value(variable, amount)
            updates.append(f"{variable.name}' = {value}")
        text = ", ".join(updates) if updates else "stay"
        return text if is_only else f"{chance}: {text}"

    def _rewards(
        self, name: str, numbers: FloatArray, by_branch: FloatArray | None
    ) -> Iterator[str]:
        graph = self.graph
        n_lines = 0
        for action in range(graph.n_actions):
            pairs = np.flatnonzero(graph.pair_action == action)
            states = graph.pair_state[pairs].astype(np.int64)
            keys = [self._pair_rewards(pair, numbers, by_branch) for pair in pairs.tolist()]
            for key, box in boxes_of_values(self.cells, states, keys):
                assert isinstance(key, tuple)
                for target, reward in key:
                    n_lines += 1
                    yield f"reward{name} on {self._reward(action, box, target, reward)}"
        if n_lines == 0:
            yield f"reward{name} : 0"

    def _pair_rewards(
        self, pair: int, numbers: FloatArray, by_branch: FloatArray | None
    ) -> tuple[tuple[int, float], ...]:
        """Return the nonzero rewards of a pair by next state; the state -1 means any."""
        graph = self.graph
        start, end = graph.successor_start[pair], graph.successor_start[pair + 1]
        if by_branch is None:
            found = [(-1, float(numbers[pair]))]
        else:
            targets, rewards = graph.successor[start:end], by_branch[start:end]
            found = list(zip(targets.tolist(), rewards.tolist(), strict=True))
            if len(set(rewards.tolist())) == 1:
                found = [(-1, float(rewards[0]))]
        return tuple((target, reward) for target, reward in found if reward != 0)

    def _reward(self, action: int, box: Box, target: int, reward: float) -> str:
        condition = self._condition(action, box)
        if target >= 0:
            cells = tuple(self.cells[target].tolist())
            after = self._guard(Box(cells, cells), "'", is_whole=True)
            condition += f" and {after}" if " when " in condition else f" when {after}"
        return f"{condition} : {number_text(reward)}"

    def _condition(self, action: int, box: Box) -> str:
        """Return the action and the guard of a line."""
        named, parts = "any", []
        product = self.graph.actions.product
        for variable, value in zip(product.variables, product.native(action).values(), strict=True):
            if variable.name == "action" and variable.kind == "enum":
                named = str(value)
            else:
                parts.append(_equality(variable, variable.index_of(value), ""))
        guard = self._guard(box)
        parts += [guard] if guard else []
        return f"{named} when {' and '.join(parts)}" if parts else named

    def _set(self, states: IntArray) -> str:
        boxes = self._boxes(states)
        return " or ".join(self._guard(box) or "true" for box in boxes) if boxes else "false"

    def _boxes(self, states: IntArray) -> list[Box]:
        others = np.setdiff1d(np.arange(self.graph.n_states), states, assume_unique=True)
        return boxes_of(self.cells, states, others)

    def _guard(self, box: Box, prime: str = "", is_whole: bool = False) -> str:
        """Return the condition of a box, empty if it always holds."""
        parts = []
        for variable, low, high in zip(self.variables, box.low, box.high, strict=True):
            if is_whole or low > 0 or high < variable.size - 1:
                parts.append(_range(variable, low, high, prime))
        return " and ".join(part for part in parts if part)


def _range(variable: Variable, low: int, high: int, prime: str) -> str:
    """Return the condition that a variable is in a range of its cells."""
    name = variable.name + prime
    if variable.kind == "real":
        assert variable.edges is not None
        lower = f"{number_text(float(variable.edges[low]))} <= " if low > 0 else ""
        last = variable.size - 1
        upper = f" < {number_text(float(variable.edges[high + 1]))}" if high < last else ""
        return f"{lower}{name}{upper}" if lower or upper else ""
    if low == high:
        return _equality(variable, low, prime)
    if variable.kind == "int":
        return f"{_value(variable, low)} <= {name} <= {_value(variable, high)}"
    either = [_equality(variable, cell, prime) for cell in range(low, high + 1)]
    return f"({' or '.join(either)})"


def _equality(variable: Variable, cell: int, prime: str) -> str:
    name = variable.name + prime
    if variable.kind == "bool":
        return name if cell else f"not {name}"
    return f"{name} == {_value(variable, cell)}"


def _value(variable: Variable, cell: int) -> str:
    value = variable.native(cell)
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, float) else str(value)


def _domain(variable: Variable) -> str:
    name = variable.name
    if variable.kind == "bool":
        return f"{name} in bool"
    if variable.kind == "int":
        return f"{name} in {variable.low}..{variable.low + variable.size - 1}"
    if variable.kind == "real":
        assert variable.edges is not None
        edges = [number_text(float(edge)) for edge in variable.edges]
        how = "wrap" if variable.wraps else "clip"
        return f"{name} in [{edges[0]}, {edges[-1]}] {how} edges [{', '.join(edges)}]"
    return f"{name} in {{{', '.join(_value(variable, cell) for cell in range(variable.size))}}}"


def _action_line(variable: Variable) -> str:
    if variable.name == "action" and variable.kind == "enum":
        return f"action {', '.join(variable.members)}"
    return f"action {_domain(variable)}"


def _can_be_said(graph: TransitionGraph) -> bool:
    """Return whether a file with these variables builds these states, with this start."""
    product = graph.states.product
    if product.size > LARGEST_PRODUCT:
        return False
    if graph.n_states != product.size and not reachable_states(graph).all():
        return False
    initial, starts = graph.initial, graph.initial[graph.initial > 0]
    if np.all(starts == starts[0]):
        return True
    joint = np.ones(graph.n_states)
    cells = cells_of(graph.states)
    for position, variable in enumerate(product.variables):
        joint *= np.bincount(cells[:, position], initial, variable.size)[cells[:, position]]
    return bool(np.abs(joint - initial).max() <= START_TOLERANCE and abs(joint.sum() - 1) < 1e-9)
