"""Where an explorer's experience comes from: simulated systems that answer actions with states.

    system = SimulatedSystem(model.graph, model.system, np.random.default_rng(0))
    action = explorer.act(system.state)
    explorer.observe(system.state, action, system.step(action))

Here a step in one's own loop and the compiled loop (`explore`) draw the same numbers.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mdpdsl.compile.system import KIND, NO_FAILURE, RawSystem
from mdpdsl.explore.explorer import Explorer
from mdpdsl.graph.space import FloatArray, Value
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.loop import draw_successor, explore_steps, new_simulator
from mdpdsl.kernels.memory import with_larger_pool
from mdpdsl.simulate.failures import SimulationError, describe_failure


class Experience(Protocol):
    """Answers actions with states, by their indices."""

    @property
    def state(self) -> int:
        """The present state."""

    def step(self, action: int) -> int:
        """Do an action; return the next state."""


class SimulatedGraph:
    """The finite model itself: successors are drawn from its transition graph."""

    has_ended = False
    measured = slice(None)  # all pairs

    def __init__(self, graph: TransitionGraph, generator: np.random.Generator) -> None:
        self.graph = graph
        self.generator = generator
        self.state = int(generator.choice(graph.n_states, p=graph.initial))
        self._simulator = new_simulator(graph)

    def step(self, action: int) -> int:
        """Do an action; return the next state."""
        pair = self.graph.pair(self.state, action)
        self.state = int(draw_successor(self._simulator, pair, self.generator))
        return self.state

    def explore(self, explorer: Explorer, n_steps: int) -> int:
        """Let an explorer act for up to so many steps, compiled; return how many it were."""
        self.state, done = explore_steps(
            explorer.memory,
            explorer.strategy,
            self._simulator,
            self.state,
            n_steps,
            explorer.generator,
            self.generator,
        )
        if done < n_steps:
            explorer.memory = with_larger_pool(explorer.memory)
        return int(done)

    def saved(self) -> dict[str, FloatArray]:
        """Return what `state` and the generator leave out; here nothing."""
        return {}

    def restore(self, state: int, saved: dict[str, FloatArray]) -> None:
        """Go back to where it was saved."""
        self.state = state


class SimulatedSystem:
    """The raw continuous system behind a model, seen through its bins.

    What it shows is not a Markov process: where in its cell the system is goes on to matter, so
    the estimate of a pair depends on how its cell was entered. Its kernels are loaded where they
    are needed, which a run of the finite model never does.
    """

    has_ended = False
    measured = slice(None)  # all pairs

    def __init__(
        self, graph: TransitionGraph, system: RawSystem, generator: np.random.Generator
    ) -> None:
        from mdpdsl.kernels.raw_system import new_system_simulator, start_system

        self.graph = graph
        self.system = system
        self.generator = generator
        self._simulator = new_system_simulator(system, graph)
        self.state = self._arrived(start_system(self._simulator, generator))

    @property
    def values(self) -> dict[str, Value]:
        """The raw values of all variables."""
        return self.system.native(self._simulator.registers[: len(self.system.variables)])

    def place(self, **values: Value) -> int:
        """Put the system at a point; return its state."""
        from mdpdsl.kernels.raw_system import place_system

        numbers = self.system.numbers(values)
        self.state = self._arrived(place_system(self._simulator, numbers))
        return self.state

    def step(self, action: int) -> int:
        """Do an action; return the next state. Raise SimulationError where there is none."""
        from mdpdsl.kernels.raw_system import step_system

        self.graph.pair(self.state, action)
        self.state = self._arrived(step_system(self._simulator, action, self.generator))
        return self.state

    def explore(self, explorer: Explorer, n_steps: int) -> int:
        """Let an explorer act for up to so many steps, compiled; return how many it were.

        Raise SimulationError where the system fails.
        """
        from mdpdsl.kernels.raw_system_loop import explore_system_steps

        self.state, done = explore_system_steps(
            explorer.memory,
            explorer.strategy,
            self._simulator,
            self.graph.pair_action,
            self.state,
            n_steps,
            explorer.generator,
            self.generator,
        )
        if self._simulator.failure[KIND] != NO_FAILURE:
            n_done = int(explorer.memory.visits.sum())
            raise SimulationError(f"step {n_done + 1:,}: {self._failure()}")
        if done < n_steps:
            explorer.memory = with_larger_pool(explorer.memory)
        return int(done)

    def saved(self) -> dict[str, FloatArray]:
        """Return what `state` and the generator leave out: the raw values."""
        return {"raw_values": self._simulator.registers[: len(self.system.variables)].copy()}

    def restore(self, state: int, saved: dict[str, FloatArray]) -> None:
        """Go back to where it was saved."""
        from mdpdsl.kernels.raw_system import place_system

        self.state = self._arrived(place_system(self._simulator, saved["raw_values"]))
        assert self.state == state

    def _arrived(self, state: int) -> int:
        if state < 0:
            raise SimulationError(self._failure())
        return int(state)

    def _failure(self) -> str:
        """Say what went wrong, and forget it."""
        from mdpdsl.kernels.raw_system import forget_failure

        text = describe_failure(self.system, self.graph, self._simulator)
        forget_failure(self._simulator)
        return text
