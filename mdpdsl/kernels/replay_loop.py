"""The explore loop on a log: like `loop`, with the system replaced by one queue for each pair.

A pair is answered with its next successor in the order of the log, and the run ends when a queue
is empty. In a log of a Markov decision process the successors of a pair are independent draws from
P(.|s,a), so they serve any explorer (Mandel et al. 2016, the queue-based evaluator). A state
without pairs ends an episode; the next logged one starts without a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mdpdsl.graph.space import IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.choice import choose, learn, start_episode
from mdpdsl.kernels.compiled import entry, inner
from mdpdsl.kernels.incentives import Strategy
from mdpdsl.kernels.memory import Memory, has_room

#: Positions in `Queues.counters`.
TAKEN, STARTS_TAKEN, ENDING, LAST_PAIR = range(4)
#: The values of `Queues.counters[ENDING]`: running; the queue of a pair, or that of starts, empty.
GOING, QUEUE_EMPTY, NO_START = range(3)


class Queues(NamedTuple):
    """The queues of a log, and how much of each has been used."""

    start: IntArray  # [n_pairs + 1]
    successor: StateArray  # [n_transitions]  in the order of the log within a pair
    episode: StateArray  # [n_episodes]  the states that episodes start in
    position: IntArray  # [n_pairs]  the next answer of a pair's queue
    counters: IntArray  # [4]


@entry
def take_next(queues: Queues, pair: int) -> int:
    """Return the log's next answer to a pair, or -1 if it has none left."""
    return _take(queues, pair)


@entry
def take_start(queues: Queues, pair: int) -> int:
    """Return where the next logged episode starts, or -1 if none is left; a pair led to the end."""
    return _start(queues, pair)


@inner
def _start(queues: Queues, pair: int) -> int:
    counters = queues.counters
    begun = counters[STARTS_TAKEN]
    if begun == len(queues.episode):
        counters[ENDING], counters[LAST_PAIR] = NO_START, pair
        return -1
    counters[STARTS_TAKEN] = begun + 1
    return queues.episode[begun]


@inner
def _take(queues: Queues, pair: int) -> int:
    counters = queues.counters
    place = queues.position[pair]
    if place == queues.start[pair + 1]:
        counters[ENDING], counters[LAST_PAIR] = QUEUE_EMPTY, pair
        return -1
    queues.position[pair] = place + 1
    counters[TAKEN] += 1
    return queues.successor[place]


@entry
def explore_logged_steps(
    memory: Memory,
    strategy: Strategy,
    queues: Queues,
    state: int,
    n_steps: int,
    generator: np.random.Generator,
) -> tuple[int, int]:
    """Explore a log; return the state reached and how many steps were done.

    If fewer were done than asked for, either the log has no answer left (see the counters) or the
    memory needs a larger pool.
    """
    for step in range(n_steps):
        if not has_room(memory):
            return state, step
        pair = choose(memory, strategy, state, generator)
        following = _take(queues, pair)
        if following < 0:
            return state, step
        learn(memory, strategy, pair, following)
        state = following
        if memory.pair_start[state] == memory.pair_start[state + 1]:
            begun = _start(queues, pair)
            if begun < 0:
                return state, step + 1
            state = begun
            start_episode(memory, strategy, state)
    return state, n_steps
