"""The explore loop on a raw system: like `loop`, in a file that only such runs load."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.choice import choose, learn, start_episode
from mdpdsl.kernels.compiled import entry
from mdpdsl.kernels.incentives import Strategy
from mdpdsl.kernels.memory import Memory, has_room
from mdpdsl.kernels.raw_system import SystemSimulator, advance, start_outside_ends


@entry
def explore_system_steps(
    memory: Memory,
    strategy: Strategy,
    simulator: SystemSimulator,
    pair_action: StateArray,
    state: int,
    n_steps: int,
    explorer_generator: np.random.Generator,
    system_generator: np.random.Generator,
) -> tuple[int, int]:
    """Explore a raw system through its bins; return the state reached and the steps done.

    If fewer were done than asked for, either the system has failed (see `simulator.failure`) or
    the memory needs a larger pool.
    """
    for step in range(n_steps):
        if not has_room(memory):
            return state, step
        pair = choose(memory, strategy, state, explorer_generator)
        following = advance(simulator, pair_action[pair], system_generator)
        if following < 0:
            return state, step
        learn(memory, strategy, pair, following)
        state = following
        if memory.pair_start[state] == memory.pair_start[state + 1]:
            state = start_outside_ends(simulator, system_generator)
            if state < 0:
                return following, step + 1
            start_episode(memory, strategy, state)
    return state, n_steps
