"""One step of a raw system with continuous state, x' = f(x, a, noise), and the model's state there.

The model's state is the cell of the grid that contains x'. A step draws from one generator, in this
order: the branch (only where a line has several), then every noise in the order of the file. A
restart draws the variables of the initial state instead.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mdpdsl.compile.branch_probabilities import PROBABILITY_TOLERANCE
from mdpdsl.compile.bytecode import Instructions
from mdpdsl.compile.system import (
    ACTION,
    CLIPPED,
    DISCRETE,
    EVEN,
    FAULT,
    INSTRUCTION,
    INTEGER,
    KIND,
    MEMBER,
    NO_DISTRIBUTION,
    NO_FAILURE,
    NO_PROBABILITY,
    NO_STATE,
    NORMAL,
    NOT_FINITE,
    OUT_OF_RANGE,
    OVERLAP,
    SUBJECT,
    TRUTH,
    UNAVAILABLE,
    WRAPPED,
    RawSystem,
    SystemTables,
)
from mdpdsl.graph.space import SET_TOLERANCE, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.compiled import entry, inner
from mdpdsl.kernels.registers import maximum, minimum, modulo, run


class SystemSimulator(NamedTuple):
    """A raw system while it runs; the first registers are the values of its state."""

    tables: SystemTables
    codes: IntArray  # [n_states]  product codes of the model's states, ascending
    pair_start: IntArray  # [n_states + 1]  an end has no pairs
    start_codes: IntArray  # possible starts if guarded; empty: each variable on its own
    n_codes: int  # size of the whole product
    registers: FloatArray  # [n_registers]
    faults: IntArray  # [n_registers]
    cells: IntArray  # [V]  of the present values
    next_values: FloatArray  # [V]
    next_cells: IntArray  # [V]
    failure: IntArray  # [4]
    failure_value: FloatArray  # [1]  the number that was not allowed


def new_system_simulator(system: RawSystem, graph: TransitionGraph) -> SystemSimulator:
    """Prepare a system for drawing; call `start_system` before the first step."""
    n_variables = len(system.variables)
    codes = np.array(graph.states.codes, np.int64)
    start_codes = codes[graph.initial > 0] if system.is_start_guarded else codes[:0].copy()
    return SystemSimulator(
        tables=system.tables,
        codes=codes,
        pair_start=graph.pair_start,
        start_codes=start_codes,
        n_codes=graph.states.product.size,
        registers=system.bytecode.registers.copy(),
        faults=np.zeros(len(system.bytecode.registers), np.int64),
        cells=np.zeros(n_variables, np.int64),
        next_values=np.zeros(n_variables),
        next_cells=np.zeros(n_variables, np.int64),
        failure=np.array([NO_FAILURE, -1, -1, -1]),
        failure_value=np.zeros(1),
    )


def forget_failure(simulator: SystemSimulator) -> None:
    """Let a system that has failed continue from where it is."""
    simulator.failure[:] = (NO_FAILURE, -1, -1, -1)


@entry
def step_system(simulator: SystemSimulator, action: int, generator: np.random.Generator) -> int:
    """Draw the next state; return its index, or -1 if there is none (`failure` says why).

    A system that fails stays where it was.
    """
    return advance(simulator, action, generator)


@entry
def start_system(simulator: SystemSimulator, generator: np.random.Generator) -> int:
    """Draw an initial state that is no end; return its index, or -1."""
    return start_outside_ends(simulator, generator)


@entry
def place_system(simulator: SystemSimulator, values: FloatArray) -> int:
    """Put the system at a point; return the index of its state, or -1."""
    return _placed(simulator, values)


@inner
def advance(simulator: SystemSimulator, action: int, generator: np.random.Generator) -> int:
    """Do what `step_system` does, for compiled loops."""
    tables, registers, faults = simulator.tables, simulator.registers, simulator.faults
    instructions, failure = tables.instructions, simulator.failure
    n_variables, n_factors = len(tables.variables), tables.action_values.shape[1]
    n_noises = len(tables.spreads) - n_variables
    failure[ACTION] = action
    for factor in range(n_factors):
        registers[n_variables + factor] = tables.action_values[action, factor]
    is_restarting = False
    for i in range(len(tables.restarts)):
        if not _has_value(instructions, tables.restarts, i, registers, faults, failure, -1):
            return -1
        is_restarting |= registers[tables.restarts[i, 2]] != 0.0
    if is_restarting:
        return start_outside_ends(simulator, generator)
    rule = _applying_rule(
        instructions, tables.action_lines, tables.rules, action, registers, faults, failure
    )
    if rule < 0:
        return -1
    branch = tables.rules[rule, 4]
    if tables.rules[rule, 5] - branch > 1 or tables.branches[branch, 2] >= 0:
        branch = _drawn_branch(
            instructions,
            tables.rules,
            tables.branches,
            rule,
            registers,
            faults,
            failure,
            simulator.failure_value,
            generator,
        )
        if branch < 0:
            return -1
    for noise in range(n_noises):
        registers[n_variables + n_factors + noise] = _drawn(
            tables.spreads, tables.spread_numbers, tables.weights, noise, generator
        )
    for variable in range(n_variables):
        simulator.next_values[variable] = registers[variable]
        simulator.next_cells[variable] = simulator.cells[variable]
    for i in range(tables.branches[branch, 3], tables.branches[branch, 4]):
        variable = tables.updates[i, 3]
        if not _has_value(instructions, tables.updates, i, registers, faults, failure, variable):
            return -1
        value = registers[tables.updates[i, 2]]
        if not math.isfinite(value):
            simulator.failure_value[0] = value
            return _failed(failure, NOT_FINITE, variable)
        # Other variables read a real variable within its range, and a finite one as computed.
        followed = _in_range(tables.variables, tables.ranges, variable, value)
        registers[n_variables + n_factors + n_noises + variable] = followed
        if not _place(simulator, variable, followed):
            return -1
    return _arrive(simulator)


@inner
def start_outside_ends(simulator: SystemSimulator, generator: np.random.Generator) -> int:
    """Do what `start_system` does, for compiled loops."""
    while True:
        state = _drawn_start(simulator, generator)
        if state < 0 or simulator.pair_start[state] < simulator.pair_start[state + 1]:
            return state


@inner
def _drawn_start(simulator: SystemSimulator, generator: np.random.Generator) -> int:
    tables = simulator.tables
    n_variables = len(tables.variables)
    n_noises = len(tables.spreads) - n_variables
    code = -1
    if len(simulator.start_codes):
        code = simulator.start_codes[int(generator.random() * len(simulator.start_codes))]
    for variable in range(n_variables):
        spread = n_noises + variable
        if tables.spreads[spread, 0] != EVEN:
            value = _drawn(tables.spreads, tables.spread_numbers, tables.weights, spread, generator)
            value = _in_range(tables.variables, tables.ranges, variable, value)
            if not _place(simulator, variable, value):
                return -1
            continue
        size, stride = tables.variables[variable, 1], tables.variables[variable, 2]
        cell = code // stride % size if code >= 0 else int(generator.random() * size)
        simulator.next_cells[variable] = cell
        simulator.next_values[variable] = _drawn_in_cell(tables, variable, cell, generator)
    return _arrive(simulator)


@inner
def _placed(simulator: SystemSimulator, values: FloatArray) -> int:
    for variable in range(len(values)):
        if not _place(simulator, variable, values[variable]):
            return -1
    return _arrive(simulator)


@inner
def _failed(failure: IntArray, kind: int, subject: int) -> int:
    failure[KIND] = kind
    failure[SUBJECT] = subject
    return -1


@inner
def _has_value(
    instructions: Instructions,
    segments: IntArray,
    i: int,
    registers: FloatArray,
    faults: IntArray,
    failure: IntArray,
    subject: int,
) -> bool:
    """Compute a segment; return whether everything it depends on had a value."""
    run(instructions, segments[i, 0], segments[i, 1], registers, faults)
    fault = faults[segments[i, 2]]
    if fault != 0:
        failure[INSTRUCTION] = fault - 1
        _failed(failure, FAULT, subject)
    return fault == 0


@inner
def _applying_rule(
    instructions: Instructions,
    action_lines: IntArray,
    rules: IntArray,
    action: int,
    registers: FloatArray,
    faults: IntArray,
    failure: IntArray,
) -> int:
    """Return the line of an action whose guard holds, or -1."""
    found = -1
    for i in range(action_lines[action], action_lines[action + 1]):
        rule = action_lines[i]
        holds = True
        if rules[rule, 3] != 0:  # otherwise
            holds = found < 0
        elif rules[rule, 2] >= 0:
            if not _has_value(instructions, rules, rule, registers, faults, failure, -1):
                return -1
            holds = registers[rules[rule, 2]] != 0.0
        if holds and found >= 0:
            return _failed(failure, OVERLAP, rule)
        if holds:
            found = rule
    if found < 0:
        return _failed(failure, UNAVAILABLE, -1)
    return found


@inner
def _drawn_branch(
    instructions: Instructions,
    rules: IntArray,
    branches: IntArray,
    rule: int,
    registers: FloatArray,
    faults: IntArray,
    failure: IntArray,
    failure_value: FloatArray,
    generator: np.random.Generator,
) -> int:
    """Draw a branch of a line, whose probabilities must be a distribution."""
    first, end = rules[rule, 4], rules[rule, 5]
    u = generator.random() if end - first > 1 else 0.0
    total, chosen = 0.0, -1
    for branch in range(first, end):
        if not _has_value(instructions, branches, branch, registers, faults, failure, -1):
            return -1
        chance = registers[branches[branch, 2]]
        if not -PROBABILITY_TOLERANCE <= chance <= 1.0 + PROBABILITY_TOLERANCE:
            failure_value[0] = chance
            return _failed(failure, NO_PROBABILITY, branch)
        if chance > 0.0 and total <= u:  # the last such branch, so rounding never leaves none
            chosen = branch
        total += max(chance, 0.0)
    if abs(total - 1.0) > PROBABILITY_TOLERANCE:
        failure_value[0] = total
        return _failed(failure, NO_DISTRIBUTION, rule)
    return chosen


@inner
def _drawn(
    spreads: IntArray,
    numbers: FloatArray,
    weights: FloatArray,
    spread: int,
    generator: np.random.Generator,
) -> float:
    """Draw from a distribution other than an even one."""
    family = spreads[spread, 0]
    a, b = numbers[spread, 0], numbers[spread, 1]
    if family == NORMAL:
        return a + b * generator.standard_normal()
    if family != DISCRETE:
        return a + (b - a) * generator.random()
    entry = spreads[spread, 1]
    u = generator.random()
    while u >= weights[entry, 1]:
        entry += 1
    return weights[entry, 0]


@inner
def _drawn_in_cell(
    tables: SystemTables, variable: int, cell: int, generator: np.random.Generator
) -> float:
    """Draw a point of a real variable's cell; a finite variable's cell has one value."""
    kind, entry = tables.variables[variable, 0], tables.variables[variable, 3]
    if kind in (CLIPPED, WRAPPED):
        low, high = tables.grid[entry + cell], tables.grid[entry + cell + 1]
        return low + (high - low) * generator.random()
    if kind in (INTEGER, TRUTH):
        return tables.ranges[variable, 0] + cell
    while tables.grid_cells[entry] != cell:
        entry += 1
    return tables.grid[entry]


@inner
def _in_range(variables: IntArray, ranges: FloatArray, variable: int, value: float) -> float:
    """Wrap or clip the value of a real variable."""
    low, high = ranges[variable, 0], ranges[variable, 1]
    kind = variables[variable, 0]
    if kind == WRAPPED:
        return low + modulo(value - low, high - low)
    if kind == CLIPPED:
        return minimum(maximum(value, low), high)
    return value


@inner
def _place(simulator: SystemSimulator, variable: int, value: float) -> bool:
    """Find the cell of a next value; store it with the value that the cell has for it."""
    tables = simulator.tables
    kind, size = tables.variables[variable, 0], tables.variables[variable, 1]
    first, end = tables.variables[variable, 3], tables.variables[variable, 4]
    cell = -1
    if kind in (CLIPPED, WRAPPED):
        cell = _cell_between(tables.grid, first, size, value)
    elif kind in (INTEGER, TRUTH):
        offset = value - tables.ranges[variable, 0]
        if 0 <= offset < size:
            cell = int(offset)
    else:
        tolerance = 0.0 if kind == MEMBER else SET_TOLERANCE
        for entry in range(first, end):
            if abs(tables.grid[entry] - value) <= tolerance:
                cell, value = tables.grid_cells[entry], tables.grid[entry]
                break
    if cell < 0:
        simulator.failure_value[0] = value
        _failed(simulator.failure, OUT_OF_RANGE, variable)
        return False
    simulator.next_cells[variable] = cell
    simulator.next_values[variable] = value
    return True


@inner
def _cell_between(grid: FloatArray, first: int, size: int, value: float) -> int:
    """Return the cell that contains a value in range; the last cell includes its upper edge."""
    low, high = 0, size - 1
    while low < high:
        middle = (low + high + 1) // 2
        if grid[first + middle] <= value:
            low = middle
        else:
            high = middle - 1
    return low


@inner
def _arrive(simulator: SystemSimulator) -> int:
    """Make the next values the present ones; return the state of the model there, or -1."""
    code = 0
    for variable in range(len(simulator.cells)):
        code += simulator.tables.variables[variable, 2] * simulator.next_cells[variable]
    state = code
    if len(simulator.codes) < simulator.n_codes:
        state = int(np.searchsorted(simulator.codes, code))
        if state == len(simulator.codes) or simulator.codes[state] != code:
            return _failed(simulator.failure, NO_STATE, -1)
    for variable in range(len(simulator.cells)):
        simulator.registers[variable] = simulator.next_values[variable]
        simulator.cells[variable] = simulator.next_cells[variable]
    return state
