"""Where an explorer's experience comes from: systems that answer actions with states.

    system = SimulatedSystem(model.graph, model.system, np.random.default_rng(0))
    state = system.state
    action = explorer.act(state)
    outcome = system.answer(action)
    explorer.observe(state, action, *outcome)

`step` is a shorter form of `answer` that returns the next state alone. After an end, `begin` starts
the next episode. A loop like this one and the compiled loop (`explore`) draw the same random
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from mdpdsl.compile.system import KIND, NO_FAILURE, RawSystem
from mdpdsl.graph.space import FloatArray, IntArray, Value
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.loop import draw_successor, explore_steps, new_simulator
from mdpdsl.kernels.memory import with_larger_pool
from mdpdsl.simulate.failures import SimulationError, describe_failure

if TYPE_CHECKING:
    from mdpdsl.explore.explorer import Explorer


class Outcome(NamedTuple):
    """What an action led to.

    An episode that has `ended` is over because of the state it reached; one that was `cut` was
    stopped for another reason, such as a limit of time.
    """

    next_state: int
    ended: bool = False
    cut: bool = False


class Experience(Protocol):
    """Answers an action in the present state; states and actions are given by their indices.

    After an outcome that ended or cut the episode, `begin` starts the next one.
    """

    @property
    def state(self) -> int:
        """The present state."""

    @property
    def has_ended(self) -> bool:
        """Whether there are no more answers."""

    def answer(self, action: int) -> Outcome | None:
        """Take an action; return its outcome, or None if there is no answer left."""

    def begin(self) -> None:
        """Start the next episode; `has_ended` if there is none."""


class TrialExperience(Experience, Protocol):
    """Experience for a trial: it also runs the built-in explorers compiled, and can be saved."""

    generator: np.random.Generator

    @property
    def measured(self) -> slice | IntArray:
        """The pairs that measures are taken over; the others are known, or not in a log."""

    def explore(self, explorer: Explorer, n_steps: int) -> int:
        """Let an explorer act for at most n_steps, compiled; return the number of steps done."""

    def saved(self) -> dict[str, Any]:
        """Return the arrays that, with `state` and the generator, determine what follows."""

    def restore(self, state: int, saved: Mapping[str, Any]) -> None:
        """Return to where it was saved."""


class SimulatedGraph:
    """The finite model itself: successors are drawn from its transition graph."""

    has_ended = False
    state: int

    def __init__(self, graph: TransitionGraph, generator: np.random.Generator) -> None:
        self.graph = graph
        self.measured = _to_learn(graph)
        self.generator = generator
        self._simulator = new_simulator(graph)
        self.begin()

    def answer(self, action: int) -> Outcome:
        """Take an action; return its outcome."""
        state = self.step(action)
        return Outcome(state, ended=_is_end(self.graph, state))

    def begin(self) -> None:
        """Start an episode in a state drawn from the initial ones."""
        self.state = int(self.generator.choice(self.graph.n_states, p=self.graph.initial))

    def step(self, action: int) -> int:
        """Take an action; return the next state."""
        pair = self.graph.pair(self.state, action)
        self.state = int(draw_successor(self._simulator, pair, self.generator))
        return self.state

    def explore(self, explorer: Explorer, n_steps: int) -> int:
        """Let an explorer act for at most n_steps, compiled; return the number of steps done."""
        explorer.note_first_start(self.state)
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
        """Return nothing: `state` and the generator determine what follows."""
        return {}

    def restore(self, state: int, saved: Mapping[str, FloatArray]) -> None:
        """Return to where it was saved."""
        self.state = state


class SimulatedSystem:
    """The raw continuous system behind a model, seen through its bins.

    The states it shows are not a Markov process: the next state depends on where in its cell the
    system is, so the estimate of a pair depends on how its cell was entered. An episode ends in the
    cells that are ends of the model. Kernels are imported
    when they are needed, so that runs of finite models never load them.
    """

    has_ended = False
    state: int

    def __init__(
        self, graph: TransitionGraph, system: RawSystem, generator: np.random.Generator
    ) -> None:
        from mdpdsl.kernels.raw_system import new_system_simulator

        self.graph = graph
        self.measured = _to_learn(graph)
        self.system = system
        self.generator = generator
        self._simulator = new_system_simulator(system, graph)
        self.begin()

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

    def answer(self, action: int) -> Outcome:
        """Take an action; return its outcome. Raise SimulationError if the system fails."""
        state = self.step(action)
        return Outcome(state, ended=_is_end(self.graph, state))

    def begin(self) -> None:
        """Start an episode at an initial point."""
        from mdpdsl.kernels.raw_system import start_system

        self.state = self._arrived(start_system(self._simulator, self.generator))

    def step(self, action: int) -> int:
        """Take an action; return the next state. Raise SimulationError if the system fails."""
        from mdpdsl.kernels.raw_system import step_system

        self.graph.pair(self.state, action)
        self.state = self._arrived(step_system(self._simulator, action, self.generator))
        return self.state

    def explore(self, explorer: Explorer, n_steps: int) -> int:
        """Let an explorer act for at most n_steps, compiled; return the number of steps done.

        Raise SimulationError if the system fails.
        """
        from mdpdsl.kernels.raw_system_loop import explore_system_steps

        explorer.note_first_start(self.state)
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
        """Return the raw values of the variables."""
        return {"raw_values": self._simulator.registers[: len(self.system.variables)].copy()}

    def restore(self, state: int, saved: Mapping[str, FloatArray]) -> None:
        """Return to where it was saved."""
        from mdpdsl.kernels.raw_system import place_system

        self.state = self._arrived(place_system(self._simulator, saved["raw_values"]))
        assert self.state == state

    def _arrived(self, state: int) -> int:
        if state < 0:
            raise SimulationError(self._failure())
        return int(state)

    def _failure(self) -> str:
        """Describe what went wrong, and clear the failure."""
        from mdpdsl.kernels.raw_system import forget_failure

        text = describe_failure(self.system, self.graph, self._simulator)
        forget_failure(self._simulator)
        return text


def _to_learn(graph: TransitionGraph) -> slice | IntArray:
    """Return the pairs that measures are taken over: all but those whose rows are known."""
    return slice(None) if graph.knowledge is None else np.flatnonzero(graph.to_learn)


def _is_end(graph: TransitionGraph, state: int) -> bool:
    return graph.ends is not None and bool(graph.ends[state])
