"""The explore loop: choose a pair, draw its successor, learn; and each of them for Python's loops.

Successors are drawn from P(.|s,a) by inversion (see `drawing`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.kernels.choice import choose, learn, start_episode
from mdpdsl.kernels.compiled import entry, inner
from mdpdsl.kernels.drawing import drawn_entry, running_sums
from mdpdsl.kernels.incentives import Strategy, start
from mdpdsl.kernels.memory import Memory, has_room
from mdpdsl.kernels.prioritized import start_afresh


class Simulator(NamedTuple):
    """A transition graph to draw successors from."""

    successor_start: IntArray  # [n_pairs + 1]
    successor: StateArray  # [n_branches]
    cumulative: FloatArray  # [n_branches]  running sums within a pair, the last 1
    pair_start: IntArray  # [n_states + 1]
    start_cumulative: FloatArray  # [n_states]  running sums of the initial distribution


def new_simulator(graph: TransitionGraph) -> Simulator:
    """Prepare a graph for drawing."""
    cumulative = running_sums(graph.successor_start, graph.probability)
    starts = np.cumsum(graph.initial)
    return Simulator(
        graph.successor_start, graph.successor, cumulative, graph.pair_start, starts / starts[-1]
    )


@entry
def draw_successor(simulator: Simulator, pair: int, generator: np.random.Generator) -> int:
    """Draw the next state of a pair."""
    return _draw(simulator, pair, generator)


@inner
def _draw(simulator: Simulator, pair: int, generator: np.random.Generator) -> int:
    low, high = simulator.successor_start[pair], simulator.successor_start[pair + 1] - 1
    return simulator.successor[drawn_entry(simulator.cumulative, low, high, generator)]


@inner
def _draw_start(simulator: Simulator, generator: np.random.Generator) -> int:
    """Draw a start; `Generator.choice` draws the same."""
    return int(np.searchsorted(simulator.start_cumulative, generator.random(), side="right"))


@entry
def begin(memory: Memory, strategy: Strategy) -> None:
    """Compute rewards and values for a memory that has seen nothing."""
    start(memory, strategy)
    if strategy.is_prioritized:
        start_afresh(memory, strategy)


@entry
def choose_pair(
    memory: Memory, strategy: Strategy, state: int, generator: np.random.Generator
) -> int:
    """Return the pair to take in a state."""
    return choose(memory, strategy, state, generator)


@entry
def learn_step(memory: Memory, strategy: Strategy, pair: int, following: int) -> bool:
    """Learn from one transition; return False, with nothing learnt, if the pool is too small."""
    if not has_room(memory):
        return False
    learn(memory, strategy, pair, following)
    return True


@entry
def note_start(memory: Memory, strategy: Strategy, state: int) -> None:
    """Note that an episode starts in a state."""
    start_episode(memory, strategy, state)


@entry
def explore_steps(
    memory: Memory,
    strategy: Strategy,
    simulator: Simulator,
    state: int,
    n_steps: int,
    explorer_generator: np.random.Generator,
    system_generator: np.random.Generator,
) -> tuple[int, int]:
    """Explore a simulated system; return the state reached and how many steps were done.

    After an end, the next episode starts at once: the start takes no step.
    If fewer were done than asked for, the memory needs a larger pool.
    """
    for step in range(n_steps):
        if not has_room(memory):
            return state, step
        pair = choose(memory, strategy, state, explorer_generator)
        state = _draw(simulator, pair, system_generator)
        learn(memory, strategy, pair, state)
        if simulator.pair_start[state] == simulator.pair_start[state + 1]:
            state = _draw_start(simulator, system_generator)
            start_episode(memory, strategy, state)
    return state, n_steps
