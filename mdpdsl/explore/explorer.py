"""The built-in explorers for a loop of your own: act, observe, estimate.

explorer = Explorer(model, kappa=10, seed=0)
action = explorer.act(state)
explorer.observe(state, action, next_state)
estimate = explorer.estimate()
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import SettingsError, did_you_mean
from mdpdsl.estimate.empirical import estimated_graph
from mdpdsl.explore.algorithms import EPISODIC, MANY_STATES, STAGED, strategy_for
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.graph.counts import Counts, counts_from, merge, no_counts, one_count
from mdpdsl.graph.ends import Settled, open_counts, settle
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.choice import bellman_residual
from mdpdsl.kernels.incentives import Strategy
from mdpdsl.kernels.known_slots import used_slots, with_knowledge
from mdpdsl.kernels.loop import begin, choose_pair, learn_step, note_start
from mdpdsl.kernels.memory import N_STARTS, TIME, Memory, new_memory, with_larger_pool

if TYPE_CHECKING:
    from mdpdsl.compile.family import Family
    from mdpdsl.explore.algorithms.experiment_design import DesignStages
    from mdpdsl.explore.algorithms.oracle_episodes import Episodes
    from mdpdsl.explore.algorithms.tracking.stages import Tracking


#: Of prioritized sweeping per step, in large models whose file states rows.
INFORMED_BACKUPS = 5_000


class Explorer:
    """Decides what to do next from what it has seen.

    Of the model it reads the states and the available actions, and what the file says of its rows
    if it says what is not known; never the other transitions. Settings are given by keyword
    (`kappa=10`, `algorithm="random"`, see `ExploreSettings`), or together as `settings`, in which
    keywords replace single ones. Random choices are drawn from the generator, or from one made with
    `seed`. To explore for unknown numbers (`purpose="parameters"`), give a model, or a graph and
    the `family` of its rows.

    Episodes may end where the model has no end. `graph` has the ends found so far; its pairs are
    the ones that can be tried.

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
        family: Family | None = None,
        **chosen: Any,
    ) -> None:
        spaces = model if isinstance(model, TransitionGraph) else model.graph
        settings = _joined(settings, chosen)
        self.spaces = spaces
        self.graph = spaces
        self.settings = settings
        settings = _informed(settings, spaces)
        self.generator = np.random.default_rng(seed) if generator is None else generator
        self.strategy: Strategy = strategy_for(settings, spaces.n_states)
        self.memory: Memory = _memory(spaces)
        self.episodes: Episodes | Tracking | DesignStages | None = _stages(
            settings, model, spaces, family
        )
        self._found = _nothing_found(spaces)
        self._is_in_episode = False
        if spaces.knowledge is None:
            begin(self.memory, self.strategy)
        else:
            self._plan_afresh()

    def act(self, state: int) -> int:
        """Return the action to take in a state, by its index."""
        if not self._is_in_episode:
            self._is_in_episode = True
            self._start(state)
        self.prepare()
        pair = choose_pair(self.memory, self.strategy, state, self.generator)
        return int(self.graph.pair_action[pair])

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
        """Learn from one transition, and whether it ended the episode or the episode was cut.

        The next transition may then start anywhere. An end of the model needs no flag.
        """
        S = self.spaces.n_states
        if not 0 <= next_state < S:
            raise ValueError(f"{next_state} is not a state; there are {S}")
        pair = self.graph.pair(state, action)
        is_declared = self.spaces.ends is not None and bool(self.spaces.ends[next_state])
        successor = self._found.successor(next_state, ended and not is_declared)
        if successor < 0:  # the first end in this state, or the first episode that continues
            arrival = next_state + S if ended else next_state
            self._settle(one_count(self._found.kept_pairs[pair], arrival, self.spaces.n_pairs))
        else:
            while not learn_step(self.memory, self.strategy, pair, successor):
                self.memory = with_larger_pool(self.memory)
        if ended or cut or is_declared:
            self.break_off()
        else:
            self._is_in_episode = True

    def break_off(self) -> None:
        """Let the episode stop after an outcome that cannot be observed: a new one starts."""
        self.memory.here[0] = -1
        self._is_in_episode = False

    def note_first_start(self, state: int) -> None:
        """Note where a run of a model with ends starts; a compiled loop notes all later starts."""
        if len(self.memory.ends) and self.memory.here[0] < 0:
            self._start(state)

    def learn_counts(
        self, counts: Counts, steps_done: int = 0, starts: IntArray | None = None
    ) -> None:
        """Learn from transitions counted elsewhere, as if they had been observed.

        They are over the pairs of the spaces, in open form (see `graph.ends`); `starts` has the
        episodes that started in each state. The first `steps_done` of them are steps of this run.
        """
        if starts is not None:
            self.memory.starts[: len(starts)] += starts
            self.memory.integers[N_STARTS] += int(starts.sum())
        if self.graph is not self.spaces or np.any(counts.successor >= self.spaces.n_states):
            self._settle(counts)
        else:
            self._add(counts)
        if self.episodes is not None:
            self.episodes.steps_before = int(self.memory.integers[TIME]) - steps_done
        n_steps = self.settings.steps + int(self.memory.integers[TIME])
        self.strategy = self.strategy._replace(log_steps=math.log(n_steps))
        self._plan_afresh()

    @property
    def visits(self) -> IntArray:
        """The visits of every pair of the spaces so far, [n_pairs]."""
        if self.graph is self.spaces:
            return self.memory.visits
        visits = np.zeros(self.spaces.n_pairs, np.int64)
        visits[self._found.kept_pairs] = self.memory.visits
        return visits

    @property
    def counts(self) -> Counts:
        """All transitions observed so far, over the pairs and states of `graph`."""
        return memory_counts(self.memory)

    @property
    def open_counts(self) -> Counts:
        """All transitions observed so far, over the pairs of the spaces, in open form."""
        found = self._found
        return open_counts(self.counts, self.spaces, sorted(found.ends), sorted(found.twins))

    @property
    def starts(self) -> IntArray:
        """The episodes that started in each state of the spaces, [n_states]."""
        return self.memory.starts[: self.spaces.n_states]

    def estimate(self) -> TransitionGraph:
        """Return the model estimated so far, with the ends found."""
        return estimated_graph(self.counts, self.graph, self.settings.prior)

    def residual(self) -> float:
        """Return the Bellman residual of the values, relative to their span."""
        return float(bellman_residual(self.memory, self.strategy))

    def _start(self, state: int) -> None:
        """Note that an episode starts in a state."""
        if self._found.is_end(state):  # not every episode that comes here ends
            self.memory.starts[state] += 1
            self.memory.integers[N_STARTS] += 1
            self._settle(no_counts(self.spaces.n_pairs))
            return
        note_start(self.memory, self.strategy, state)

    def _settle(self, more: Counts) -> None:
        """Learn counts in open form, and take up the graph with the ends that all data show."""
        counts, before, starts = merge(self.open_counts, more), self._found, self.starts
        settled = settle(self.spaces, counts, starts)
        old = self.memory
        self.graph, self._found = settled.graph, _Found.of(settled, self.spaces)
        self.memory = _memory(self.graph)
        self.memory.starts[: len(starts)] = starts
        self.memory.integers[N_STARTS] = starts.sum()
        self.memory.center[: len(starts)] = old.center[: len(starts)]
        kept = self._found.kept_pairs
        _, here, there = np.intersect1d(before.kept_pairs, kept, return_indices=True)
        for name in ("policy", "target"):
            getattr(self.memory, name)[there] = getattr(old, name)[here]
        self._add(settled.counts)
        if self.episodes is not None:
            self.episodes.spaces = self.graph
        self._plan_afresh()

    def _plan_afresh(self) -> None:
        """Compute rewards and values from all that is known."""
        # Imported here, as few runs begin with more than nothing.
        from mdpdsl.kernels.merging import plan_afresh

        plan_afresh(self.memory, self.strategy)

    def _add(self, counts: Counts) -> None:
        """Put counts over the pairs of the graph into the memory."""
        from mdpdsl.kernels.merging import add_entries

        pairs = np.repeat(np.arange(self.graph.n_pairs), np.diff(counts.successor_start))
        successors = counts.successor.astype(np.int64)
        done = 0
        while True:
            done = add_entries(self.memory, pairs, successors, counts.count, done)
            if done == len(pairs):
                break
            self.memory = with_larger_pool(self.memory)


@dataclass(frozen=True, eq=False)
class _Found:
    """The ends that the data of an explorer have shown, besides those of the spaces."""

    kept_pairs: IntArray  # [n_pairs]  the number in the spaces of each pair of the graph
    ends: frozenset[int]
    twins: dict[int, int]  # by the state in which some episodes ended and others continued

    @classmethod
    def of(cls, settled: Settled, spaces: TransitionGraph) -> _Found:
        """Return what settling has found."""
        twins = {state: spaces.n_states + i for i, state in enumerate(settled.mixed.tolist())}
        return cls(settled.kept_pairs, frozenset(settled.found.tolist()), twins)

    def is_end(self, state: int) -> bool:
        """Return whether every arrival in a state has ended the episode so far."""
        return state in self.ends

    def successor(self, state: int, ended: bool) -> int:
        """Return the state of the graph for an arrival; -1 if it shows something new."""
        if ended:
            return state if state in self.ends else self.twins.get(state, -1)
        return -1 if state in self.ends else state


def _nothing_found(spaces: TransitionGraph) -> _Found:
    return _Found(np.arange(spaces.n_pairs), frozenset(), {})


def _joined(settings: ExploreSettings | None, chosen: dict[str, Any]) -> ExploreSettings:
    """Return settings with some replaced by keywords."""
    known = [field.name for field in fields(ExploreSettings)]
    for name in chosen:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise SettingsError(f"unknown setting `{name}=`; {hint}")
    return settings_from({} if settings is None else asdict(settings), chosen)


def _informed(settings: ExploreSettings, spaces: TransitionGraph) -> ExploreSettings:
    """Return the settings to plan with: with more backups if the model file states rows.

    Known rows lead values far, and after every visit these have to fall on the whole way.
    """
    is_large = spaces.n_states > MANY_STATES and settings.most_backups is None
    if spaces.knowledge is None or not is_large:
        return settings
    return replace(settings, most_backups=INFORMED_BACKUPS)


def _stages(
    settings: ExploreSettings,
    model: Model | TransitionGraph,
    spaces: TransitionGraph,
    family: Family | None,
) -> Episodes | Tracking | DesignStages | None:
    """Return the episodes or stages of an algorithm that has them."""
    # Imported here, as the other algorithms need no solver and start faster without it.
    if settings.algorithm not in STAGED:
        return None
    if settings.algorithm in EPISODIC:
        from mdpdsl.explore.algorithms.oracle_episodes import episodes_for

        return episodes_for(settings, spaces)
    if settings.purpose is not None:
        from mdpdsl.explore.algorithms.designed_law import law_of
        from mdpdsl.explore.algorithms.experiment_design import DesignStages

        if family is None and isinstance(model, Model):
            family = law_of(model)
        if family is None:
            raise SettingsError(
                "there are no unknown numbers to explore for; declare one in the model, as in "
                "`unknown slip in [0, 0.5]`, or leave out `purpose=`"
            )
        return DesignStages(settings, spaces, family)
    from mdpdsl.explore.algorithms.tracking.stages import Tracking

    return Tracking(settings, spaces)


def memory_counts(memory: Memory) -> Counts:
    """Return the counts in a memory."""
    pairs, slots = used_slots(memory)
    found = memory.slot_count[slots].astype(np.int64)
    is_seen = found > 0
    if not is_seen.all():  # successors that are only known to be possible
        pairs, slots, found = pairs[is_seen], slots[is_seen], found[is_seen]
    n_pairs = len(memory.visits)
    return counts_from(pairs, memory.slot_state[slots].astype(np.int64), found, n_pairs)


def _memory(spaces: TransitionGraph) -> Memory:
    """Return a memory that has seen nothing, with what the model file says of its rows."""
    memory = new_memory(spaces.pair_start, spaces.pair_state)
    return memory if spaces.knowledge is None else with_knowledge(memory, spaces.knowledge)
