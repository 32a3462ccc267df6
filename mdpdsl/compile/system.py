"""The continuous system behind a discretized model, as tables for a compiled kernel.

While `transitions` computes the distribution over cells, these tables serve to draw one step from
one point: which restart or `on` line applies there, which branch, which noise, and the next value
of each variable. Guards, restarts and probabilities are evaluated at the point itself, not at the
centre of its cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mdpdsl.compile.bytecode import Assembler, Bytecode, Instructions, Segment
from mdpdsl.compile.checked import Branch, CheckedModel, Rule, Spread
from mdpdsl.compile.noise import dependency_order
from mdpdsl.compile.terms import Term
from mdpdsl.compile.transitions import action_values, rules_of
from mdpdsl.diagnostics import Source, Span
from mdpdsl.graph.space import FloatArray, IntArray, Value, Variable

#: The kinds in `SystemTables.variables`; see `graph.space.Variable`.
CLIPPED, WRAPPED, INTEGER, TRUTH, MEMBER, NUMBER = range(6)
#: The families in `SystemTables.spreads`; `EVEN` is a uniform cell, and a uniform point in it.
DISCRETE, NORMAL, UNIFORM, EVEN = range(4)
#: Why a step may fail. A failure has a `KIND`, a `SUBJECT` (a variable, line or branch, or -1), the
#: `INSTRUCTION` that had no value, and the `ACTION` of the last step (-1 before the first).
(
    NO_FAILURE,
    FAULT,
    NOT_FINITE,
    OUT_OF_RANGE,
    NO_STATE,
    UNAVAILABLE,
    OVERLAP,
    NO_PROBABILITY,
    NO_DISTRIBUTION,
) = range(9)
KIND, SUBJECT, INSTRUCTION, ACTION = range(4)
#: Marks a missing segment: a line without a guard, or a branch without a probability.
NO_SEGMENT = Segment(0, 0, -1)


class SystemTables(NamedTuple):
    """Everything a step reads, as typed arrays; V variables, F action factors, N noises.

    The first registers hold the V values of a state, F of an action, N of the noises and V next
    values. A segment is its first and last instruction (exclusive), and the register of its value.
    """

    instructions: Instructions  # [n, 5]
    action_values: FloatArray  # [n_actions, F]
    action_lines: IntArray  # [n_actions + 1 + ...]  start of each action's lines in it; the lines
    restarts: IntArray  # [n_restarts, 3]  segments
    rules: IntArray  # [n_rules, 6]     segment of the guard, is otherwise, first and end branch
    branches: IntArray  # [n_branches, 5]  segment of the probability, first and end update
    updates: IntArray  # [n_updates, 4]   segment, variable; in order of computation
    variables: IntArray  # [V, 5]           kind, cells, stride, start and end of its grid
    ranges: FloatArray  # [V, 2]           lowest and highest value
    grid: FloatArray  # edges of real variables; ascending numbers of enumerations and sets
    grid_cells: IntArray  # the cell of each of these numbers
    spreads: IntArray  # [N + V, 2]       family, first weight; noises, then initial values
    spread_numbers: FloatArray  # [N + V, 2]       a, b
    weights: FloatArray  # [..., 2]         value of a discrete distribution, cumulative probability


@dataclass(frozen=True, eq=False)
class RawSystem:
    """A system with continuous states, and what is needed to describe it to a person."""

    tables: SystemTables
    bytecode: Bytecode
    variables: tuple[Variable, ...]
    symbols: Mapping[str, int]
    is_start_guarded: bool  # `init any when`: uniform over the initial states of the graph
    rule_spans: tuple[Span, ...]
    branch_spans: tuple[Span, ...]
    source: Source

    def native(self, values: FloatArray) -> dict[str, Value]:
        """Return the values of a state as a person writes them."""
        names = {number: name for name, number in self.symbols.items()}
        found: dict[str, Value] = {}
        for variable, value in zip(self.variables, values.tolist(), strict=True):
            if variable.kind == "enum":
                found[variable.name] = names[int(value)]
            elif variable.kind == "bool":
                found[variable.name] = value != 0
            else:
                is_whole = variable.kind == "int" or (variable.kind == "set" and value.is_integer())
                found[variable.name] = int(value) if is_whole else value
        return found

    def numbers(self, values: Mapping[str, Value]) -> FloatArray:
        """Return the values of a state as registers hold them; raise ValueError for a non-state."""
        if values.keys() != {variable.name for variable in self.variables}:
            names = ", ".join(variable.name for variable in self.variables)
            raise ValueError(f"give a value for each of {names}, not {dict(values)!r}")
        found = []
        for variable in self.variables:
            value = values[variable.name]
            cell = variable.index_of(value)
            if variable.kind == "real":
                found.append(float(variable.saturate(np.array([float(value)]))[0]))
            else:
                found.append(float(cell_numbers(variable, self.symbols)[cell]))
        return np.array(found)


def raw_system(model: CheckedModel, source: Source) -> RawSystem:
    """Compile the dynamics of a model for drawing one step at a time."""
    variables, factors = model.states.variables, model.actions.variables
    names = [("state", v.name) for v in variables]
    names += [("action", factor.name) for factor in factors]
    names += [("noise", noise.name) for noise in model.noises]
    inputs = {name: register for register, name in enumerate(names)}
    following = {v.name: len(names) + i for i, v in enumerate(variables)}
    assembler = Assembler(len(names) + len(variables), model.unknown_values)
    assembler.begin_group(inputs)
    restarts = [assembler.add(guard) for guard in model.restarts]
    lines = _Lines(model, assembler, inputs, following)
    action_lines = [
        [lines.number_of(rule) for rule in rules_of(model, action)]
        for action in range(model.actions.size)
    ]
    bytecode = assembler.finish()
    spreads = [_spread_row(noise.spread) for noise in model.noises]
    spreads += [_start_row(v, model.init.spreads.get(v.name), model.symbols) for v in variables]
    first_weights = _starts([spread.weights for spread in spreads])
    grids = [_grid(variable, model.symbols) for variable in variables]
    grid_ends = _starts([grid for grid, _ in grids])
    tables = SystemTables(
        instructions=bytecode.instructions,
        action_values=np.array(
            [[float(found["action", f.name]) for f in factors] for found in action_values(model)]
        ).reshape(model.actions.size, len(factors)),
        action_lines=np.concatenate(
            [_starts(action_lines) + len(action_lines) + 1, *map(_integers, action_lines)]
        ),
        restarts=_integers(restarts, 3),
        rules=_integers(lines.rule_rows, 6),
        branches=_integers(lines.branch_rows, 5),
        updates=_integers(lines.update_rows, 4),
        variables=_integers(
            [
                (_kind(v), v.size, model.states.strides[i], grid_ends[i], grid_ends[i + 1])
                for i, v in enumerate(variables)
            ],
            5,
        ),
        ranges=np.array([_ends(variable) for variable in variables]),
        grid=np.concatenate([grid for grid, _ in grids]),
        grid_cells=np.concatenate([cells for _, cells in grids]),
        spreads=_integers(
            [(spread.family, first_weights[i]) for i, spread in enumerate(spreads)], 2
        ),
        spread_numbers=np.array([(spread.a, spread.b) for spread in spreads]),
        weights=np.concatenate([spread.weights for spread in spreads]),
    )
    return RawSystem(
        tables=tables,
        bytecode=bytecode,
        variables=variables,
        symbols=dict(model.symbols),
        is_start_guarded=model.init.guard is not None,
        rule_spans=tuple(rule.span for rule in lines.rules),
        branch_spans=tuple(branch.span for rule in lines.rules for branch in rule.branches),
        source=source,
    )


def cell_numbers(variable: Variable, symbols: Mapping[str, int]) -> FloatArray:
    """Return the value of every cell of a variable, as expressions read it."""
    if variable.kind == "enum":
        return np.array([symbols[member] for member in variable.members], np.float64)
    return variable.values(np.arange(variable.size))


class _Lines:
    """Numbers the lines of a model and compiles each once, whichever actions share it."""

    def __init__(
        self,
        model: CheckedModel,
        assembler: Assembler,
        inputs: Mapping[tuple[str, str], int],
        following: Mapping[str, int],
    ) -> None:
        self.model = model
        self.assembler = assembler
        self.inputs = inputs
        self.following = following
        self.rules: list[Rule] = []
        self.rule_rows: list[tuple[int, ...]] = []
        self.branch_rows: list[tuple[int, ...]] = []
        self.update_rows: list[tuple[int, ...]] = []
        self._written = {id(rule) for rule in model.rules}
        self._numbers: dict[int, int] = {}

    def number_of(self, rule: Rule) -> int:
        """Return the number of a line; compile the line on first use."""
        # Actions without lines get equal lines that set nothing; these share one number.
        key = id(rule) if id(rule) in self._written else -1
        if key not in self._numbers:
            self._numbers[key] = len(self.rules)
            self.rules.append(rule)
            guard = self._segment(rule.guard)
            first = len(self.branch_rows)
            for branch in rule.branches:
                self._add_branch(branch)
            self.rule_rows.append((*guard, rule.is_otherwise, first, len(self.branch_rows)))
        return self._numbers[key]

    def _add_branch(self, branch: Branch) -> None:
        chance = self._segment(branch.probability)
        terms = {**self.model.equations, **branch.updates}
        positions = {v.name: i for i, v in enumerate(self.model.states.variables)}
        # A variable that nothing sets keeps its current value.
        read_next = {
            ("next", name): self.following[name] if name in terms else position
            for name, position in positions.items()
        }
        self.assembler.begin_group({**self.inputs, **read_next})
        first = len(self.update_rows)
        for name in dependency_order(terms):
            self.update_rows.append((*self.assembler.add(terms[name]), positions[name]))
        self.branch_rows.append((*chance, first, len(self.update_rows)))

    def _segment(self, term: Term | None) -> Segment:
        if term is None:
            return NO_SEGMENT
        self.assembler.begin_group(self.inputs)
        return self.assembler.add(term)


def _kind(variable: Variable) -> int:
    if variable.kind == "real":
        return WRAPPED if variable.wraps else CLIPPED
    return {"int": INTEGER, "bool": TRUTH, "enum": MEMBER, "set": NUMBER}[variable.kind]


def _ends(variable: Variable) -> tuple[float, float]:
    if variable.edges is not None:
        return float(variable.edges[0]), float(variable.edges[-1])
    return float(variable.low), float(variable.low + variable.size - 1)


def _grid(variable: Variable, symbols: Mapping[str, int]) -> tuple[FloatArray, IntArray]:
    """Return the grid for finding the cell of a number: edges, or numbers in ascending order."""
    if variable.edges is not None:
        return variable.edges, np.arange(len(variable.edges))
    if variable.kind not in ("enum", "set"):
        return np.zeros(0), np.zeros(0, np.int64)
    numbers = cell_numbers(variable, symbols)
    order = np.argsort(numbers)
    return numbers[order], order


class _SpreadRow(NamedTuple):
    family: int
    a: float
    b: float
    weights: FloatArray  # [n, 2]


def _spread_row(spread: Spread) -> _SpreadRow:
    """Return a distribution as numbers."""
    if spread.family != "discrete":
        family = NORMAL if spread.family == "normal" else UNIFORM
        return _SpreadRow(family, spread.a, spread.b, np.zeros((0, 2)))
    assert spread.values is not None and spread.probabilities is not None
    possible = spread.probabilities > 0
    cumulative = np.cumsum(spread.probabilities[possible])
    cumulative[-1] = 1.0
    weights = np.stack([spread.values[possible], cumulative], axis=1)
    return _SpreadRow(DISCRETE, 0.0, 0.0, weights)


def _start_row(variable: Variable, spread: Spread | None, symbols: Mapping[str, int]) -> _SpreadRow:
    """Return the distribution of a variable's initial value, as numbers for the registers."""
    if spread is None:
        return _SpreadRow(EVEN, 0.0, 0.0, np.zeros((0, 2)))
    found = _spread_row(spread)
    if variable.kind == "enum":
        cells = found.weights[:, 0].astype(np.int64)
    elif variable.kind == "set":
        cells = variable.indices(found.weights[:, 0])
    else:
        return found
    found.weights[:, 0] = cell_numbers(variable, symbols)[cells]
    return found


def _starts(rows: Sequence[Sequence[object] | FloatArray]) -> IntArray:
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)


def _integers(values: Sequence[object], n_columns: int | None = None) -> IntArray:
    found = np.array(values, np.int64)
    return found if n_columns is None else found.reshape(-1, n_columns)
