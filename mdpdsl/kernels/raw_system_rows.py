"""Trajectories of a raw system under a policy of its model, in the rows of `simulating`.

The policy sees only the cell that the system is in; the rows also have its raw values.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.compiled import entry
from mdpdsl.kernels.raw_system import SystemSimulator, advance, start_system
from mdpdsl.kernels.simulating import NO_STATE, STATE, Choices, Rows, begin_row, is_over


@entry
def fill_system_rows(
    choices: Choices,
    simulator: SystemSimulator,
    pair_action: StateArray,
    position: IntArray,
    n_steps: int,
    episode_length: int,
    rows: Rows,
    values: FloatArray,
    generator: np.random.Generator,
) -> int:
    """Fill rows and their raw values, [n, V], like `fill_rows`.

    Return -1 if the system has failed (see `simulator.failure`).
    """
    for row in range(len(rows.state)):
        if is_over(position, n_steps):
            return row
        if position[STATE] == NO_STATE:
            state = start_system(simulator, generator)
            if state < 0:
                return -1
            position[STATE] = state
        for variable in range(values.shape[1]):
            values[row, variable] = simulator.registers[variable]
        if begin_row(choices, position, n_steps, episode_length, rows, row, generator):
            state = advance(simulator, pair_action[rows.pair[row]], generator)
            if state < 0:
                return -1
            position[STATE] = state
    return len(rows.state)
