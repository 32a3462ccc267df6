"""A log in place of a system: for each pair, a queue of the successors that were logged.

    log = log_queues(model.graph, order.transitions())
    replay = LoggedExperience(log)
    explorer = Explorer(log.graph, settings, np.random.default_rng(0))
    action = explorer.act(replay.state)
    explorer.observe(replay.state, action, replay.step(action))

The explorer chooses, the queue of the pair answers with its next entry, and the run ends when the
queue of a chosen pair is empty. If the log is of a Markov process, the answers are draws from the
true P (the queue-based evaluator of Mandel et al., AAAI 2016).

In an end, and in a state that the log never leaves, no action is offered: `answer` says that the
episode has ended, or was cut, and `begin` starts the next logged one. That start is neither a step
nor a transition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mdpdsl.diagnostics import RunError
from mdpdsl.explore.experience import Outcome
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.replay.queues import LogQueues
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.describe import pair_text, state_text
from mdpdsl.graph.space import IntArray
from mdpdsl.kernels.memory import with_larger_pool


class LogEndedError(RunError):
    """A log that has no answer to an action; the message names the action and the state."""

    status = 1


@dataclass(frozen=True)
class ReplayEnd:
    """How many steps a replay took, and why it ended."""

    text: str
    pair: int | None  # of the model: the one without an answer
    in_log: int | None  # how often the log has that pair
    steps: int
    restarts: int
    distance: float  # of P_hat from that of the whole log


class LoggedExperience:
    """Answers actions from the queues of a log."""

    #: Never drawn from, as a log leaves nothing to chance; trials save one for every experience.
    generator: np.random.Generator

    def __init__(self, log: LogQueues) -> None:
        from mdpdsl.kernels.replay_loop import STARTS_TAKEN, Queues

        self.log = log
        self.generator = np.random.default_rng(0)
        self.measured = log.measured
        self.state = int(log.episode[0])
        self._queues = Queues(
            log.queue_start,
            log.successor,
            log.episode,
            log.queue_start[:-1].copy(),
            np.zeros(4, np.int64),
        )
        self._queues.counters[STARTS_TAKEN] = 1
        self._last_pair = -1

    @property
    def steps(self) -> int:
        """The number of transitions taken from the log."""
        from mdpdsl.kernels.replay_loop import TAKEN

        return int(self._queues.counters[TAKEN])

    @property
    def restarts(self) -> int:
        """The number of episodes started after the first."""
        from mdpdsl.kernels.replay_loop import STARTS_TAKEN

        return int(self._queues.counters[STARTS_TAKEN]) - 1

    @property
    def has_ended(self) -> bool:
        """Whether the last action had no answer, or the limit of steps is reached."""
        from mdpdsl.kernels.replay_loop import ENDING, GOING

        return self._queues.counters[ENDING] != GOING or self.steps == self.log.most_steps

    def answer(self, action: int) -> Outcome | None:
        """Take an action; return its outcome, or None if the log has no answer left."""
        following = self._taken(action)
        if following < 0:
            return None
        is_cut = bool(self.log.is_cut[following])
        return Outcome(following, ended=self._is_over(following) and not is_cut, cut=is_cut)

    def begin(self) -> None:
        """Start the next logged episode; the replay has ended if there is none."""
        from mdpdsl.kernels.replay_loop import take_start

        begun = int(take_start(self._queues, self._last_pair))
        if begun >= 0:
            self.state = begun

    def step(self, action: int) -> int:
        """Take an action; return the next state. Raise LogEndedError if the log has none."""
        following = self._taken(action)
        if following < 0:
            raise LogEndedError(self.end_text)
        return following

    def explore(self, explorer: Explorer, n_steps: int) -> int:
        """Let an explorer act for at most n_steps, compiled; return the number of steps done."""
        from mdpdsl.kernels.replay_loop import explore_logged_steps

        explorer.note_first_start(self.state)
        before = self.steps
        if self.log.most_steps is not None:
            n_steps = min(n_steps, self.log.most_steps - before)
        self.state, done = explore_logged_steps(
            explorer.memory,
            explorer.strategy,
            self._queues,
            self.state,
            n_steps,
            explorer.generator,
        )
        if done < n_steps and not self.has_ended:
            explorer.memory = with_larger_pool(explorer.memory)
        return self.steps - before

    def saved(self) -> dict[str, IntArray]:
        """Return how much of the queues is taken."""
        return {
            "queue_position": self._queues.position.copy(),
            "queue_counters": self._queues.counters.copy(),
        }

    def restore(self, state: int, saved: Mapping[str, IntArray]) -> None:
        """Return to where it was saved."""
        self.state = state
        self._queues.position[:] = saved["queue_position"]
        self._queues.counters[:] = saved["queue_counters"]

    @property
    def end_text(self) -> str:
        """The reason why the replay ended."""
        from mdpdsl.kernels.replay_loop import ENDING, LAST_PAIR, NO_START, QUEUE_EMPTY

        ending, pair = (int(self._queues.counters[i]) for i in (ENDING, LAST_PAIR))
        graph = self.log.graph
        if self.steps == self.log.n_transitions:
            return "every transition of the log was used"
        if ending == QUEUE_EMPTY and self.log.in_log(pair):
            return f"no more transitions of {pair_text(graph, pair)}"
        if ending == QUEUE_EMPTY:
            return f"the log never has {pair_text(graph, pair)}"
        if ending == NO_START:
            state = state_text(graph, self.state)
            return f"no more episodes to start after the end of one in {state}"
        return f"the limit of {self.steps:,} steps"

    def end(self, counts: Counts) -> ReplayEnd:
        """Return the end of the replay, given the counts of the explorer."""
        from mdpdsl.kernels.replay_loop import ENDING, LAST_PAIR, QUEUE_EMPTY

        pair = None
        if self._queues.counters[ENDING] == QUEUE_EMPTY:
            pair = int(self._queues.counters[LAST_PAIR])
        return ReplayEnd(
            text=self.end_text,
            pair=None if pair is None else int(self.log.model_pair[pair]),
            in_log=None if pair is None else self.log.in_log(pair),
            steps=self.steps,
            restarts=self.restarts,
            distance=self.log.distance(counts),
        )

    def _taken(self, action: int) -> int:
        """Take the next answer to an action; return the state it leads to, -1 if there is none."""
        from mdpdsl.kernels.replay_loop import take_next

        if self.has_ended:
            return -1
        self._last_pair = self.log.graph.pair(self.state, action)
        following = int(take_next(self._queues, self._last_pair))
        if following >= 0:
            self.state = following
        return following

    def _is_over(self, state: int) -> bool:
        """Return whether no action is offered in a state."""
        start = self.log.graph.pair_start
        return bool(start[state] == start[state + 1])
