"""Trajectories of a model under a policy, drawn in chunks of rows by compiled loops.

    schedule = Schedule(n_steps=1_000_000, episode_length=200)
    for chunk in draw_trajectory(graph, schedule, np.random.default_rng(0)):
        chunk.state, chunk.pair

A row is a state with the pair taken there; the last row of an episode has the state that was
reached, and no pair. The rows do not depend on the size of the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mdpdsl.compile.system import RawSystem
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.kernels.simulating import (
    EPISODE,
    NO_PAIR,
    STATE,
    STEPS,
    TIME,
    Rows,
    fill_rows,
    filled_rows,
    new_choices,
    new_moves,
    new_position,
    new_rows,
)
from mdpdsl.simulate.failures import SimulationError, describe_failure

#: Rows drawn at a time: enough work for one call, and little memory.
CHUNK_ROWS = 1 << 20

#: Fills rows; returns how many, and their values if the system has any besides its state.
Fill = Callable[[Rows, IntArray], tuple[int, FloatArray | None]]


@dataclass(frozen=True)
class Schedule:
    """The length of a trajectory: steps in total, and per episode (None: one episode)."""

    n_steps: int
    episode_length: int | None = None  # episodes may end earlier

    def __post_init__(self) -> None:
        """Reject lengths below 1."""
        if self.n_steps < 1 or (self.episode_length is not None and self.episode_length < 1):
            raise ValueError("a trajectory and its episodes must have at least one step")

    @property
    def longest(self) -> int:
        """The largest number of steps of an episode."""
        return min(self.n_steps, self.episode_length or self.n_steps)

    @property
    def n_episodes(self) -> int:
        """The number of episodes if none ends by itself; the last may be shorter."""
        return -(-self.n_steps // self.longest)

    @property
    def n_rows(self) -> int:
        """The number of rows if no episode ends by itself: one for each step and each episode."""
        return self.n_steps + self.n_episodes


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows of a trajectory."""

    state: StateArray  # [n]
    pair: IntArray  # [n]  -1 in the last row of an episode
    episode: IntArray  # [n]  from 0
    time: IntArray  # [n]  from 0 in each episode
    values: FloatArray | None  # [n, V]  of a continuous system, as its registers have them
    next_state: int  # of the row after the last one; -1 if the last one ends an episode
    next_values: FloatArray | None  # [V]
    steps_done: int  # since the first row of the trajectory
    episodes_done: int
    is_next_last: bool  # whether the row after the last one is the last of its episode

    @property
    def has_pair(self) -> BoolArray:
        """Which rows have a pair, that is, do not end an episode, [n]."""
        return np.not_equal(self.pair, NO_PAIR)


def uniform_policy(graph: TransitionGraph) -> FloatArray:
    """Return the policy that takes all available actions with equal probability, [n_pairs]."""
    n_available = np.diff(graph.pair_start)
    shares: FloatArray = 1.0 / np.repeat(n_available, n_available)
    return shares


def draw_trajectory(
    graph: TransitionGraph,
    schedule: Schedule,
    generator: np.random.Generator,
    *,
    policy: FloatArray | None = None,
    system: RawSystem | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Iterator[Chunk]:
    """Draw a trajectory whose episodes start from `init`; raise SimulationError if it ends early.

    The policy, [n_pairs], is uniform by default. With a system, the trajectory is that of the
    continuous system behind the graph, and the policy sees only its cell.
    """
    if not graph.has_dynamics:
        raise ValueError("a graph without dynamics has no trajectories")
    probability = uniform_policy(graph) if policy is None else policy
    position = new_position()
    if system is None:
        fill, present = _graph_fill(graph, schedule, generator, probability), None
    else:
        fill, present = _system_fill(graph, schedule, generator, probability, system)
    has_ends = graph.ends is not None
    n_left = schedule.n_rows
    while n_left > 0:
        rows = new_rows(chunk_rows if has_ends else min(n_left, chunk_rows))
        n_filled, values = fill(rows, position)
        n_left = n_left if has_ends else n_left - n_filled
        if n_filled < len(rows.state):
            rows = filled_rows(rows, n_filled)
            values = None if values is None else values[:n_filled]
            n_left = 0
        state, steps = int(position[STATE]), int(position[STEPS])
        yield Chunk(
            *rows,
            values,
            next_state=state,
            next_values=None if present is None else present.copy(),
            steps_done=steps,
            episodes_done=int(position[EPISODE]),
            is_next_last=steps == schedule.n_steps or int(position[TIME]) == schedule.longest,
        )


def _graph_fill(
    graph: TransitionGraph,
    schedule: Schedule,
    generator: np.random.Generator,
    probability: FloatArray,
) -> Fill:
    choices, moves = new_choices(graph, probability), new_moves(graph)

    def fill(rows: Rows, position: IntArray) -> tuple[int, None]:
        lengths = schedule.n_steps, schedule.longest
        return fill_rows(choices, moves, position, *lengths, rows, generator), None

    return fill


def _system_fill(
    graph: TransitionGraph,
    schedule: Schedule,
    generator: np.random.Generator,
    probability: FloatArray,
    system: RawSystem,
) -> tuple[Fill, FloatArray]:
    """Return a function that fills rows, and the array [V] of the system's current values."""
    from mdpdsl.kernels.raw_system import new_system_simulator
    from mdpdsl.kernels.raw_system_rows import fill_system_rows

    choices, simulator = new_choices(graph, probability), new_system_simulator(system, graph)
    n_variables = len(system.variables)

    def fill(rows: Rows, position: IntArray) -> tuple[int, FloatArray]:
        values = np.empty((len(rows.state), n_variables))
        lengths = schedule.n_steps, schedule.longest
        n_filled = fill_system_rows(
            choices, simulator, graph.pair_action, position, *lengths, rows, values, generator
        )
        if n_filled < 0:
            what = describe_failure(system, graph, simulator)
            raise SimulationError(f"step {max(int(position[STEPS]), 1):,}: {what}")
        return n_filled, values

    return fill, simulator.registers[:n_variables]
