"""The explore loop against a log: as `loop`, with a queue for each pair in the system's place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.choice import choose, learn
from mdpdsl.kernels.compiled import entry, inner
from mdpdsl.kernels.incentives import Strategy
from mdpdsl.kernels.memory import Memory, has_room

#: Positions in `Queues.counters`.
TAKEN, STARTS_TAKEN, ENDING, LAST_PAIR = range(4)
#: What `Queues.counters[ENDING]` may be: on its way; the queue of a pair, or that of starts, empty.
GOING, QUEUE_EMPTY, NO_START = range(3)


class Queues(NamedTuple):
    """The queues of a log and how much of them is taken."""

    start: IntArray  # [n_pairs + 1]
    successor: StateArray  # [n_transitions]  in the order of the log within a pair
    restarts: BoolArray  # [n_pairs]  whether a pair stands for the end of an episode
    episode: StateArray  # [n_episodes]  the states that episodes start in
    position: IntArray  # [n_pairs]  what a pair's queue answers next
    counters: IntArray  # [4]


@entry
def take_next(queues: Queues, pair: int) -> int:
    """Return what the log answers to a pair; -1 where it has no answer left."""
    return _take(queues, pair)


@inner
def _take(queues: Queues, pair: int) -> int:
    counters = queues.counters
    if queues.restarts[pair]:
        begun = counters[STARTS_TAKEN]
        if begun == len(queues.episode):
            counters[ENDING], counters[LAST_PAIR] = NO_START, pair
            return -1
        counters[STARTS_TAKEN] = begun + 1
        return queues.episode[begun]
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
    n_moves: int,
    generator: np.random.Generator,
) -> tuple[int, int]:
    """Explore a log; return the state reached and how many moves were made.

    A move is a step or the start of another episode. Fewer than asked for mean that the log has no
    answer left, as the counters tell, or else that the memory needs a larger pool.
    """
    for move in range(n_moves):
        if not has_room(memory):
            return state, move
        pair = choose(memory, strategy, state, generator)
        following = _take(queues, pair)
        if following < 0:
            return state, move
        learn(memory, strategy, pair, following)
        state = following
    return state, n_moves
