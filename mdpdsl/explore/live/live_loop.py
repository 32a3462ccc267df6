"""The loop of a live run: act, observe, write to the log, learn.

Everything follows from the log: what the explorer knows, the measures over time and what was
rejected. So the log is all that is needed to resume a run.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import RunError
from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.estimate.metrics import Measures, checkpoints, measure
from mdpdsl.estimate.saved import with_data_starts
from mdpdsl.explore.algorithms import third_party_explorer
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.live.journal import LiveLog, Unwritten
from mdpdsl.explore.live.observed import LiveColumns
from mdpdsl.explore.live.observer import Observer, Replay, no_replay, plain, texts_of
from mdpdsl.explore.plain_loop import PlainExplorer
from mdpdsl.explore.plugins import ExplorerFactory
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.value_bounds import ValueBounds
from mdpdsl.graph.counts import Counts, merge, no_counts
from mdpdsl.graph.describe import state_text
from mdpdsl.graph.ends import Settled, settle
from mdpdsl.graph.space import IntArray, Value
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.sequences import TransitionTable

#: A run stops after this many episodes in a row whose first observation is not a state.
MOST_BAD_STARTS = 20

#: Called after each step with the number of steps done; returns False to stop.
Watch = Callable[[int], bool | None]

#: Called with the measures of each checkpoint.
Checkpoint = Callable[[Measures], None]


class LiveError(RunError):
    """A live run failed; everything observed before is kept."""

    status = 1


class LiveSystem(Protocol):
    """A system that can be explored live."""

    def reset(self) -> Mapping[str, Any]:
        """Begin an episode; return what is observed, by column."""

    def step(
        self, action: Mapping[str, Value], /
    ) -> tuple[Mapping[str, Any], bool] | tuple[Mapping[str, Any], bool, bool]:
        """Take an action; return what is observed, whether the episode ended, and if it was cut.

        With a single truth value, an episode that is over counts as cut: it may have been either.
        """


@runtime_checkable
class SeededSystem(Protocol):
    """A system that gets the number of each episode before `reset`, to seed its random draws."""

    def seed_episode(self, episode: int, /) -> None:
        """Set the number of the next episode."""


class LiveLoop:
    """A live run in progress."""

    def __init__(
        self,
        model: Model,
        settings: ExploreSettings,
        system: LiveSystem,
        name: str,
        seed: int,
        explorer: ExplorerFactory | None = None,
    ) -> None:
        self.model = model
        self.graph = graph = model.graph
        self.settings = settings
        self.explorer: Explorer | PlainExplorer
        if explorer is None:
            explorer = third_party_explorer(settings.algorithm)
        if explorer is None:
            self.explorer = Explorer(model, settings, _generator(seed, 0))
        else:
            self.explorer = PlainExplorer(explorer, graph, settings, _generator(seed, 0))
        _compile(graph, seed)
        self.history: list[Measures] = []
        self._bounds: ValueBounds | None = None
        self._kept: dict[int, Settled] = {}  # by step: what bounds are computed from
        self.done = 0  # steps
        self.episodes = 0
        self.transitions = 0
        self.seconds = self.system_seconds = 0.0
        self.timed_steps = 0
        self._system = system
        self._name = name
        self._seed = seed
        self._first: dict[str, Value] | None = None  # first observation of an episode already begun
        self._time = -1  # of the last row
        self._over_at = -1  # the state in which the last episode was over before its first step

    @property
    def is_finished(self) -> bool:
        """Whether all steps are done."""
        return self.done >= self.settings.steps

    def reset(self) -> dict[str, Value]:
        """Begin an episode; return what is observed."""
        if isinstance(self._system, SeededSystem):
            self._system.seed_episode(self.episodes)
        self._first = self._plain(self._called("begin an episode", self._system.reset))
        return self._first

    def open(
        self,
        model: CheckedModel,
        columns: LiveColumns,
        path: Path | None,
        warm_start: Counts | None,
    ) -> None:
        """Open the log; let the explorer learn from it and from the warm start.

        Without a path nothing is written; only the counts are kept.
        """
        self.log: LiveLog | Unwritten = Unwritten() if path is None else LiveLog(path, columns)
        if isinstance(self.log, LiveLog):
            columns = self.log.columns
        self.observer = Observer(model, self.graph, columns, self.log.path)
        self._columns = columns
        replay = no_replay() if path is None else self.observer.replay()
        counted = replay.arrival >= 0
        self.done, self.episodes = len(replay.pair), replay.episodes
        self.transitions = int(np.count_nonzero(counted))
        self.log.rows, self._time = replay.rows, replay.rows - 1
        counts = self._replayed(replay, warm_start or no_counts(self.graph.n_pairs))
        if counts.n_transitions:
            starts = self._starts(replay, self.done)
            self.explorer.learn_counts(counts, steps_done=self.transitions, starts=starts)
            if isinstance(self.explorer, Explorer):
                self.explorer.generator = _generator(self._seed, replay.rows)
        product = self.graph.actions.product
        self._actions = [product.native(action) for action in range(product.size)]

    def run(self, watch: Watch | None, checkpoint: Checkpoint | None = None) -> None:
        """Explore to the end, or until `watch` or Ctrl-C stops the run; raise LiveError.

        `checkpoint` is called with the measures whenever they are taken.
        """
        pending = [t for t in checkpoints(self.settings.steps) if t > self.done]
        if not pending:
            return
        began, n_before = time.perf_counter(), self.done
        state, n_bad = -1, 0
        with _interrupts() as interrupted:
            try:
                while pending and not interrupted:
                    if state < 0:
                        state = self._begin()
                        n_bad = 0 if state >= 0 else n_bad + 1
                        if n_bad == MOST_BAD_STARTS:
                            raise LiveError(self._no_start())
                        continue
                    state = self._step(state)
                    if self.done == pending[0]:
                        pending.pop(0)
                        self._note(self.settled())
                        if checkpoint is not None:
                            checkpoint(self.history[-1])
                    if watch is not None and watch(self.done) is False:
                        break
            finally:
                self.seconds += time.perf_counter() - began
                self.timed_steps += self.done - n_before

    def close(self) -> None:
        """Write the log to disk and close it."""
        self.log.close()

    def settled(self) -> Settled:
        """Return what is known so far, with the ends found."""
        explorer = self.explorer
        counts = explorer.open_counts if isinstance(explorer, Explorer) else explorer.counts
        return settle(self.graph, counts, explorer.starts, self.observer.sources.has_stops)

    def measured(self, settled: Settled) -> Measures:
        """Return the measures with the estimated complexities, over the pairs visited."""
        counts, measured = settled.counts, settled.graph.to_learn
        c_hat, kappa = estimated_complexity(counts)[measured], self.settings.kappa
        visits, n = counts.visits[measured], counts.n_transitions
        return measure(self.done, visits, c_hat, kappa, n, over_visited=True)

    def keep_for(self, bounds: ValueBounds | None) -> None:
        """Keep what is known at some checkpoints, to compute bounds from it in the end.

        The system does not have to wait for them while it runs.
        """
        self._bounds = bounds

    def add_bounds(self) -> None:
        """Compute the bounds of a finished run at the checkpoints that were kept."""
        if self._bounds is None or not self.is_finished:
            return
        for place, measures in enumerate(self.history):
            kept = self._kept.pop(measures.step, None)
            if kept is not None:
                settled = with_data_starts(self.model, kept)
                self.history[place] = self._bounds.add_to(measures, settled.counts, settled)

    def final_measures(self, settled: Settled) -> Measures:
        """Return the measures at the end, with the bounds if they were computed."""
        measures, last = self.measured(settled), self.history[-1] if self.history else None
        if last is None or last.step != self.done:
            return measures
        return replace(measures, guaranteed=last.guaranteed, possible=last.possible)

    def _note(self, settled: Settled) -> None:
        """Measure a checkpoint."""
        self.history.append(self.measured(settled))
        if self._bounds is not None and self.done in self._bounds.times:
            self._kept[self.done] = settled

    def _begin(self) -> int:
        """Begin an episode; return its first state, or -1 if no action can be taken there."""
        observed = self._first or self.reset()
        self._first = None
        self._require_columns(observed)
        values = observed | dict.fromkeys(self._columns.flags, False)
        texts = texts_of(values)
        self._time = 0 if self._columns.restarts_time else self._time + 1
        self._written(lambda: self.log.begin(self.episodes, self._time, texts))
        self.episodes += 1
        found = self.observer.read(values, texts, self.log.rows)
        self._over_at = -1
        if found is None:
            return -1
        if found.ended or found.cut or self._is_end(found.state):
            self._over_at = found.state
            return -1
        return found.state

    def _step(self, state: int) -> int:
        """Do one step; return the state reached, or -1 if the episode is over or broken off."""
        explorer = self.explorer
        action = explorer.act(state)
        answer = self._called("do a step", self._system.step, self._actions[action])
        observation, flags, is_over = self._answered(answer)
        observed = self._plain(observation)
        self._require_columns(observed)
        values = observed | flags
        texts = texts_of(values)
        self._time += 1
        self._written(lambda: self.log.step(action, self.episodes - 1, self._time, texts))
        self.done += 1
        found = self.observer.read(values, texts, self.log.rows)
        if found is None:
            explorer.break_off()
            return -1
        ended = found.ended or self._is_end(found.state)
        is_over |= ended or found.cut
        explorer.observe(state, action, found.state, ended=ended, cut=is_over and not ended)
        self.transitions += 1
        return -1 if is_over else found.state

    def _answered(self, answer: object) -> tuple[object, dict[str, Value], bool]:
        """Return what was observed, the flags by column, and whether the episode is over."""
        columns = self._columns
        if not isinstance(answer, tuple | list) or len(answer) not in (2, 3):
            raise LiveError(
                f"{self._name} returned {answer!r:.80} for a step; expected what is observed, "
                "whether the episode ended, and whether it was cut"
            )
        observation, *said = answer
        if len(said) == 1:  # it mixes both
            said = [said[0], False] if columns.is_done_an_end else [False, said[0]]
        elif not all(isinstance(flag, bool | np.bool_) for flag in said):  # a reward, perhaps
            raise LiveError(
                f"{self._name} returned {said[0]!r:.40} and {said[1]!r:.40} after what is "
                "observed; expected whether the episode ended and whether it was cut, each True or "
                "False"
            )
        ended, cut = map(bool, said)
        named = ((columns.ended, ended), (columns.cut, cut))
        return observation, {name: flag for name, flag in named if name is not None}, ended or cut

    def _is_end(self, state: int) -> bool:
        return self.graph.ends is not None and bool(self.graph.ends[state])

    def _called(self, what: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Call the system; any exception ends the run."""
        began = time.perf_counter()
        try:
            return function(*arguments)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            raise LiveError(
                f"{self._name} failed to {what}, after {self.done:,} steps: {reason}"
            ) from error
        finally:
            self.system_seconds += time.perf_counter() - began

    def _plain(self, observed: object) -> dict[str, Value]:
        if not isinstance(observed, Mapping):
            raise LiveError(
                f"{self._name} observed {observed!r:.80}; expected values by column, as in "
                '{"obs_0": 0.5}'
            )
        try:
            return {name: plain(value, name) for name, value in observed.items()}
        except TypeError as error:
            raise LiveError(f"{self._name}: {error}") from None

    def _require_columns(self, observed: dict[str, Value]) -> None:
        """Put the columns in the order of the log; raise LiveError if they are not the same."""
        names = self._columns.observed
        if tuple(observed) == names:
            return
        odd = sorted(set(observed) ^ set(names))
        if odd:
            verb = "gives" if odd[0] in observed else "does not give"
            raise LiveError(
                f"{self._name} {verb} the column `{odd[0]}`, unlike before; give the same columns "
                f"every time ({', '.join(names)}), with None for a missing value"
            )
        ordered = {name: observed[name] for name in names}
        observed.clear()
        observed.update(ordered)

    def _written(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            raise LiveError(f"cannot write {self.log.path}: {error.strerror}") from error

    def _replayed(self, replay: Replay, counts: Counts) -> Counts:
        """Return all counts; add the measures of the checkpoints already passed."""
        S = self.graph.n_states
        table = TransitionTable(self.graph.n_pairs, 2 * S)
        done, self.done = self.done, 0
        warm_start = counts
        for t in [*(t for t in checkpoints(self.settings.steps) if t <= done), done]:
            pair, arrival = replay.pair[self.done : t], replay.arrival[self.done : t]
            table.add((pair * 2 * S + arrival)[arrival >= 0])
            self.done = t
            counts = merge(warm_start, table.counts())
            if not self.history or self.history[-1].step < t:
                settled = settle(self.graph, counts, self._starts(replay, t))
                self._note(settled)
        if self.history and self.history[-1].step not in checkpoints(self.settings.steps):
            self.history.pop()
        return counts

    def _starts(self, replay: Replay, n_steps: int) -> IntArray:
        """Return how many episodes started in each state in the first steps, [n_states]."""
        first = replay.pair[:n_steps][replay.is_start[:n_steps]]
        return np.bincount(self.graph.pair_state[first], minlength=self.graph.n_states)

    def _no_start(self) -> str:
        """Say why no episode could be begun."""
        if self._over_at >= 0:
            return (
                f"{MOST_BAD_STARTS} episodes in a row were over before their first step (the last "
                f"in {state_text(self.graph, self._over_at)}); let `reset` begin elsewhere, or "
                "change where episodes end in the model"
            )
        examples = [e.found for kept in self.observer.rejected.examples.values() for e in kept]
        reasons = ", ".join(f"{r}: {n:,}" for r, n in self.observer.rejected.counts.items())
        return (
            f"{MOST_BAD_STARTS} episodes in a row began with an observation that is not a state "
            f"of the model ({reasons}; the last: {examples[-1]})"
        )


def _compile(graph: TransitionGraph, seed: int) -> None:
    """Compile or load the kernels first, so that the system does not wait for its first action."""
    explorer = Explorer(graph, ExploreSettings(algorithm="random"), _generator(seed, 0))
    state = int(graph.pair_state[0])
    explorer.observe(state, explorer.act(state), state)


def _generator(seed: int, rows: int) -> np.random.Generator:
    """Return the generator of an explorer whose log has this many rows."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 0, rows)))


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Yield a list to which Ctrl-C adds, so that no step is interrupted half-way.

    A second Ctrl-C interrupts at once, in case the system waits for something that never happens.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def interrupt(number: int, frame: object) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, previous)
