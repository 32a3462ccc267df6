"""A log in the place of a system: for each pair a queue of the successors it was logged with.

    log = log_queues(model.graph, order.transitions())
    replay = LoggedExperience(log)
    explorer = Explorer(log.graph, settings, np.random.default_rng(0))
    action = explorer.act(replay.state)
    explorer.observe(replay.state, action, replay.step(action))

The explorer chooses, the queue of the pair answers with its next entry, and the run ends when a
queue that is asked has none left. Answers of a Markov process are, in this way, draws from the true
P (the queue-based evaluator of Mandel et al., AAAI 2016).

A state that the log never leaves is the end of an episode. There, whatever is done starts the next
logged episode, as `restart when` does in a model: the explorer learns of it as of a transition,
while steps and measures leave it out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.diagnostics import RunError
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.replay.queues import LogQueues
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.describe import pair_text, state_text
from mdpdsl.graph.space import IntArray
from mdpdsl.kernels.memory import with_larger_pool


class LogEndedError(RunError):
    """A log that has no answer to an action; the message says to which."""

    status = 1


@dataclass(frozen=True)
class ReplayEnd:
    """How far a replay got, and why not farther."""

    text: str
    pair: int | None  # of the model: the one that had no answer
    in_log: int | None  # how often the log has it
    steps: int
    restarts: int
    distance: float  # of P_hat from that of the whole log


class LoggedExperience:
    """Answers actions from the queues of a log."""

    #: What a step of the log leaves to chance: nothing; trials of all kinds have it.
    generator: np.random.Generator

    def __init__(self, log: LogQueues) -> None:
        from mdpdsl.kernels.replay_loop import STARTS_TAKEN, Queues

        self.log = log
        self.generator = np.random.default_rng(0)
        self.measured = log.logged
        self.state = int(log.episode[0])
        self._queues = Queues(
            log.queue_start,
            log.successor,
            log.restarts,
            log.episode,
            log.queue_start[:-1].copy(),
            np.zeros(4, np.int64),
        )
        self._queues.counters[STARTS_TAKEN] = 1

    @property
    def steps(self) -> int:
        """How many transitions were taken from the log."""
        from mdpdsl.kernels.replay_loop import TAKEN

        return int(self._queues.counters[TAKEN])

    @property
    def restarts(self) -> int:
        """How often another episode was started."""
        from mdpdsl.kernels.replay_loop import STARTS_TAKEN

        return int(self._queues.counters[STARTS_TAKEN]) - 1

    @property
    def has_ended(self) -> bool:
        """Whether there was no answer to the last action, or enough were given."""
        from mdpdsl.kernels.replay_loop import ENDING, GOING

        return self._queues.counters[ENDING] != GOING or self.steps == self.log.most_steps

    def step(self, action: int) -> int:
        """Do an action; return the next state. Raise LogEndedError where the log has none."""
        from mdpdsl.kernels.replay_loop import take_next

        if self.has_ended:
            raise LogEndedError(self.end_text)
        following = int(take_next(self._queues, self.log.graph.pair(self.state, action)))
        if following < 0:
            raise LogEndedError(self.end_text)
        self.state = following
        return following

    def explore(self, explorer: Explorer, n_steps: int) -> int:
        """Let an explorer act for up to so many steps, compiled; return how many it were."""
        from mdpdsl.kernels.replay_loop import explore_logged_steps

        before = self.steps
        if self.log.most_steps is not None:
            n_steps = min(n_steps, self.log.most_steps - before)
        self.state, n_moves = explore_logged_steps(
            explorer.memory,
            explorer.strategy,
            self._queues,
            self.state,
            n_steps,
            explorer.generator,
        )
        if n_moves < n_steps and not self.has_ended:
            explorer.memory = with_larger_pool(explorer.memory)
        return self.steps - before

    def saved(self) -> dict[str, IntArray]:
        """Return what `state` and the generator leave out: how much of the queues is taken."""
        return {
            "queue_position": self._queues.position.copy(),
            "queue_counters": self._queues.counters.copy(),
        }

    def restore(self, state: int, saved: dict[str, IntArray]) -> None:
        """Go back to where it was saved."""
        self.state = state
        self._queues.position[:] = saved["queue_position"]
        self._queues.counters[:] = saved["queue_counters"]

    @property
    def end_text(self) -> str:
        """Say why the replay ended."""
        from mdpdsl.kernels.replay_loop import ENDING, LAST_PAIR, NO_START, QUEUE_EMPTY

        ending, pair = (int(self._queues.counters[i]) for i in (ENDING, LAST_PAIR))
        graph = self.log.graph
        if ending == QUEUE_EMPTY and self.log.in_log(pair):
            return f"no more transitions of {pair_text(graph, pair)}"
        if ending == QUEUE_EMPTY:
            return f"the log never has {pair_text(graph, pair)}"
        if ending == NO_START:
            state = state_text(graph, int(graph.pair_state[pair]))
            return f"no more episodes to start after the end of one in {state}"
        if self.steps == self.log.n_transitions:
            return "every transition of the log was used"
        return f"the limit of {self.steps:,} steps"

    def end(self, counts: Counts) -> ReplayEnd:
        """Return how far it got, with the counts that the explorer has."""
        from mdpdsl.kernels.replay_loop import ENDING, GOING, LAST_PAIR

        pair = None
        if self._queues.counters[ENDING] != GOING:
            pair = int(self._queues.counters[LAST_PAIR])
        return ReplayEnd(
            text=self.end_text,
            pair=None if pair is None else int(self.log.model_pair[pair]),
            in_log=None if pair is None else self.log.in_log(pair),
            steps=self.steps,
            restarts=self.restarts,
            distance=self.log.distance(counts),
        )
