"""The plain loop: a third party's explorer acts and observes, step by step; the loop counts.

The built-in explorers are compiled into one loop with the system instead, see `experience`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mdpdsl.estimate.empirical import estimated_graph
from mdpdsl.explore.experience import Experience, Outcome
from mdpdsl.explore.plugins import (
    ExplorerError,
    ExplorerFactory,
    accepted_flags,
    chosen_pair,
    explorer_name,
    make_explorer,
)
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.counts import Counts, merge, no_counts
from mdpdsl.graph.ends import settle
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.sequences import TransitionTable
from mdpdsl.simulate.failures import SimulationError


class PlainExplorer:
    """A third party's explorer, with the counts of the transitions that it has observed.

    It has the methods of the built-in `Explorer`, so a loop can run either.
    """

    def __init__(
        self,
        factory: ExplorerFactory,
        spaces: TransitionGraph,
        settings: ExploreSettings,
        generator: np.random.Generator,
    ) -> None:
        self.name = explorer_name(factory)
        self.settings = settings
        self.explorer = make_explorer(factory, spaces, generator)
        self.visits: IntArray = np.zeros(spaces.n_pairs, np.int64)
        self._spaces = spaces
        self._flags = accepted_flags(self.explorer.observe)
        self._pairs: dict[tuple[int, int], int] = {}  # those chosen so far
        self._table = TransitionTable(spaces.n_pairs, 2 * spaces.n_states)
        self.starts: IntArray = np.zeros(spaces.n_states, np.int64)
        self._is_declared = np.zeros(spaces.n_states, np.bool_)
        if spaces.ends is not None:
            self._is_declared = spaces.ends
        self._pending: list[int] = []  # transitions not yet in the table
        self._before = no_counts(spaces.n_pairs)
        self._done = 0
        self._is_between_episodes = False  # of the experience
        self._is_in_episode = False

    @property
    def counts(self) -> Counts:
        """All transitions observed so far, those that the trial began with included, in open form.

        See `graph.ends`: an end that the model does not declare is a successor of its own.
        """
        self._count()
        return merge(self._before, self._table.counts())

    def prepare(self, c: FloatArray | None = None) -> int:
        """Return for how many steps the explorer can act: it decides step by step."""
        return sys.maxsize

    def residual(self) -> float:
        """Return 0: only built-in explorers plan with values."""
        return 0.0

    def act(self, state: int) -> int:
        """Return the action that the explorer takes in a state; raise ExplorerError if it fails."""
        if not self._is_in_episode:
            self._is_in_episode = True
            self.starts[state] += 1
        action = self._called("act", self.explorer.act, state)
        if type(action) is int and (state, action) in self._pairs:
            return action
        pair = chosen_pair(self._spaces, state, action, self.name)
        action = int(self._spaces.pair_action[pair])
        self._pairs[state, action] = pair
        return action

    def observe(
        self, state: int, action: int, next_state: int, ended: bool = False, cut: bool = False
    ) -> None:
        """Let the explorer learn from one transition, and count it."""
        self._show(state, action, Outcome(next_state, ended, cut))
        pair = self._pairs.get((state, action))
        if pair is None:
            pair = self._spaces.pair(state, action)
        self.visits[pair] += 1
        S = self._spaces.n_states
        arrival = next_state + S if ended and not self._is_declared[next_state] else next_state
        self._pending.append(pair * 2 * S + arrival)
        self._is_in_episode = not (ended or cut)
        self._done += 1

    def break_off(self) -> None:
        """Let the episode stop after an outcome that cannot be observed: a new one starts."""
        self._is_in_episode = False

    def estimate(self) -> TransitionGraph:
        """Return the model estimated from the counts, with the ends found."""
        settled = settle(self._spaces, self.counts, self.starts)
        return estimated_graph(settled.counts, settled.graph, self.settings.prior)

    def learn_counts(
        self, counts: Counts, steps_done: int = 0, starts: IntArray | None = None
    ) -> None:
        """Let the explorer observe transitions counted elsewhere, pair by pair, in open form."""
        pairs = np.repeat(np.arange(self._spaces.n_pairs), np.diff(counts.successor_start))
        states, actions = self._spaces.pair_state[pairs], self._spaces.pair_action[pairs]
        columns = (states, actions, counts.successor, counts.count)
        for state, action, successor, n in zip(*(c.tolist() for c in columns), strict=True):
            for _ in range(n):
                self._show(state, action, self._outcome(successor))
        self.visits += counts.visits
        if starts is not None:
            self.starts += starts
        self._before = merge(self._before, counts)
        self._done += steps_done

    def take_counts(self, counts: Counts) -> None:
        """Take the counts of a finished trial, whose explorer no longer matters."""
        self.visits, self._before = counts.visits, counts

    def explore(self, experience: Experience, n_steps: int, seconds: float) -> int:
        """Act for at most n_steps, and not much longer than a time; return the steps done."""
        until = time.perf_counter() + seconds
        done = 0
        while done < n_steps and not experience.has_ended and time.perf_counter() < until:
            if self._is_between_episodes:
                self._is_between_episodes = False
                experience.begin()
                continue
            if not self._step(experience):
                break
            done += 1
        self._count()
        return done

    def _outcome(self, arrival: int) -> Outcome:
        """Return the outcome that an arrival in open form stands for."""
        S = self._spaces.n_states
        state = arrival - S if arrival >= S else arrival
        return Outcome(state, ended=arrival >= S or bool(self._is_declared[state]))

    def _step(self, experience: Experience) -> bool:
        """Do one step; return False if the experience has no answer left."""
        state = experience.state
        action = self.act(state)
        try:
            outcome = experience.answer(action)
        except SimulationError as error:
            raise SimulationError(f"step {self._done + 1:,}: {error}") from None
        if outcome is None:
            return False
        self.observe(state, action, *outcome)
        self._is_between_episodes = outcome.ended or outcome.cut
        return True

    def _show(self, state: int, action: int, outcome: Outcome) -> None:
        flags = {flag: getattr(outcome, flag) for flag in self._flags}
        observe = self.explorer.observe
        self._called("observe", observe, state, action, outcome.next_state, **flags)

    def _called(
        self, method: str, function: Callable[..., Any], *arguments: int, **flags: bool
    ) -> Any:
        try:
            return function(*arguments, **flags)
        except Exception as error:
            found = f"{type(error).__name__}: {error}".rstrip(": ")
            raise ExplorerError(
                f"`{self.name}.{method}` failed in step {self._done + 1:,}: {found}"
            ) from error

    def _count(self) -> None:
        if self._pending:
            self._table.add(np.array(self._pending, np.int64))
            self._pending.clear()
