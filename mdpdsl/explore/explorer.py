"""The built-in explorers for a loop of your own: act, observe, estimate.

explorer = Explorer(model, kappa=10, seed=0)
action = explorer.act(state)
explorer.observe(state, action, next_state)
estimate = explorer.estimate()
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import SettingsError, did_you_mean
from mdpdsl.estimate.empirical import estimated_graph
from mdpdsl.explore.algorithms import EPISODIC, STAGED, strategy_for
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.graph.counts import Counts, counts_from
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.choice import bellman_residual
from mdpdsl.kernels.incentives import Strategy
from mdpdsl.kernels.loop import begin, choose_pair, learn_step
from mdpdsl.kernels.memory import TIME, Memory, new_memory, with_larger_pool

if TYPE_CHECKING:
    from mdpdsl.explore.algorithms.oracle_episodes import Episodes
    from mdpdsl.explore.algorithms.tracking.stages import Tracking


class Explorer:
    """Decides what to do next from what it has seen.

    Of the model it reads the states and the available actions only, never the transitions. Settings
    are given by keyword (`kappa=10`, `algorithm="random"`, see `ExploreSettings`), or together as
    `settings`, in which keywords replace single ones. Random choices are drawn from the generator,
    or from one made with `seed`.

    >>> import mdpdsl
    >>> model = mdpdsl.load("riverswim")
    >>> explorer = mdpdsl.Explorer(model, kappa=10, seed=0)
    >>> action = explorer.act(0)
    >>> explorer.observe(0, action, next_state=0)
    >>> int(explorer.visits.sum()), explorer.estimate().n_states
    (1, 6)
    """

    def __init__(
        self,
        model: Model | TransitionGraph,
        settings: ExploreSettings | None = None,
        generator: np.random.Generator | None = None,
        *,
        seed: int = 0,
        **chosen: Any,
    ) -> None:
        spaces = model if isinstance(model, TransitionGraph) else model.graph
        settings = _joined(settings, chosen)
        self.spaces = spaces
        self.settings = settings
        self.generator = np.random.default_rng(seed) if generator is None else generator
        self.strategy: Strategy = strategy_for(settings, spaces.n_states)
        self.memory: Memory = new_memory(spaces.pair_start, spaces.pair_state)
        self.episodes: Episodes | Tracking | None = _stages(settings, spaces)
        begin(self.memory, self.strategy)

    def act(self, state: int) -> int:
        """Return the action to take in a state, by its index."""
        self.prepare()
        pair = choose_pair(self.memory, self.strategy, state, self.generator)
        return int(self.spaces.pair_action[pair])

    def prepare(self, c: FloatArray | None = None) -> int:
        """Plan if an episode or stage begins; return for how many steps its strategy holds.

        The true complexities c, if they are known, are only used for the record of the episode.
        """
        if self.episodes is None:
            return sys.maxsize
        done = int(self.memory.integers[TIME])
        if self.episodes.next_start <= done:
            self.strategy = self.episodes.begin(self.memory, self.strategy, lambda: self.counts, c)
        return self.episodes.next_start - done

    def observe(
        self, state: int, action: int, next_state: int, ended: bool = False, cut: bool = False
    ) -> None:
        """Learn from one transition; `ended` or `cut`, the next one may start anywhere."""
        if not 0 <= next_state < self.spaces.n_states:
            raise ValueError(f"{next_state} is not a state; there are {self.spaces.n_states}")
        pair = self.spaces.pair(state, action)
        while not learn_step(self.memory, self.strategy, pair, next_state):
            self.memory = with_larger_pool(self.memory)
        if ended or cut:
            self.memory.here[0] = -1

    def learn_counts(self, counts: Counts, steps_done: int = 0) -> None:
        """Learn from transitions counted elsewhere, as if they had been observed.

        The first `steps_done` of them are steps of this run.
        """
        # Imported here, as few runs begin with counts.
        from mdpdsl.kernels.merging import add_entries, plan_afresh

        pairs = np.repeat(np.arange(self.spaces.n_pairs), np.diff(counts.successor_start))
        successors = counts.successor.astype(np.int64)
        done = 0
        while True:
            done = add_entries(self.memory, pairs, successors, counts.count, done)
            if done == len(pairs):
                break
            self.memory = with_larger_pool(self.memory)
        if self.episodes is not None:
            self.episodes.steps_before = int(self.memory.integers[TIME]) - steps_done
        n_steps = self.settings.steps + int(self.memory.integers[TIME])
        self.strategy = self.strategy._replace(log_steps=math.log(n_steps))
        plan_afresh(self.memory, self.strategy)

    @property
    def visits(self) -> IntArray:
        """The visits of every pair so far, [n_pairs]."""
        return self.memory.visits

    @property
    def counts(self) -> Counts:
        """All transitions observed so far."""
        return memory_counts(self.memory)

    def estimate(self) -> TransitionGraph:
        """Return the model estimated so far."""
        return estimated_graph(self.counts, self.spaces, self.settings.prior)

    def residual(self) -> float:
        """Return the Bellman residual of the values, relative to their span."""
        return float(bellman_residual(self.memory, self.strategy))


def _joined(settings: ExploreSettings | None, chosen: dict[str, Any]) -> ExploreSettings:
    """Return settings with some replaced by keywords."""
    known = [field.name for field in fields(ExploreSettings)]
    for name in chosen:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise SettingsError(f"unknown setting `{name}=`; {hint}")
    return settings_from({} if settings is None else asdict(settings), chosen)


def _stages(settings: ExploreSettings, spaces: TransitionGraph) -> Episodes | Tracking | None:
    """Return the episodes or stages of an algorithm that has them."""
    # Imported here, as the other algorithms need no solver and start faster without it.
    if settings.algorithm not in STAGED:
        return None
    if settings.algorithm in EPISODIC:
        from mdpdsl.explore.algorithms.oracle_episodes import episodes_for

        return episodes_for(settings, spaces)
    from mdpdsl.explore.algorithms.tracking.stages import Tracking

    return Tracking(settings, spaces)


def memory_counts(memory: Memory) -> Counts:
    """Return the counts in a memory."""
    sizes = memory.slot_size.astype(np.int64)
    pairs = np.repeat(np.arange(len(sizes)), sizes)
    before = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    slots = np.arange(len(pairs)) - before[pairs] + memory.slot_start.astype(np.int64)[pairs]
    found = memory.slot_count[slots].astype(np.int64)
    return counts_from(pairs, memory.slot_state[slots].astype(np.int64), found, len(sizes))
