"""A log as explorers see it: a queue of successors for each logged pair.

States and pairs that the log does not contain are left out, as no explorer could learn about them,
and the others are renumbered. A state that the log reaches but never leaves has no pairs there: the
next logged episode starts, as after an end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.estimate.empirical import estimated_graph
from mdpdsl.estimate.metrics import squared_errors
from mdpdsl.explore.replay.logged_knowledge import logged_knowledge
from mdpdsl.graph.counts import Counts, counts_from
from mdpdsl.graph.ends import settle
from mdpdsl.graph.reward_fields import NO_REWARDS
from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.logs.order import LoggedTransitions
from mdpdsl.logs.sequences import TransitionTable
from mdpdsl.runs.run_models import settled_model

#: Transitions counted at a time.
BATCH = 1 << 20


@dataclass(frozen=True, eq=False)
class LogQueues:
    """The queues of a log, over the states and pairs that explorers are offered.

    `graph` is the estimate from the whole log, in which a pair without a queue leads to its own
    state.
    """

    graph: TransitionGraph
    queue_start: IntArray  # [n_pairs + 1]
    successor: StateArray  # [n_transitions]  in the order of the log within a pair
    episode: StateArray  # [n_episodes]  the first state of each
    is_cut: BoolArray  # [n_states]  whether it has no pairs, although it is no end of the model
    model_pair: IntArray  # [n_pairs]  the same pair in the model
    model_state: IntArray  # [n_states]
    n_model_pairs: int
    n_model_states: int
    most_steps: int | None = None  # a limit besides that of the settings

    @property
    def n_transitions(self) -> int:
        """The number of transitions in the log."""
        return len(self.successor)

    @property
    def logged(self) -> IntArray:
        """The pairs that the log contains."""
        return np.flatnonzero(np.diff(self.queue_start))

    @property
    def measured(self) -> IntArray:
        """The pairs in the log that are to be learned."""
        return np.flatnonzero((np.diff(self.queue_start) > 0) & self.graph.to_learn)

    def in_log(self, pair: int) -> int:
        """Return how often the log contains a pair."""
        return int(self.queue_start[pair + 1] - self.queue_start[pair])

    def model_counts(self, counts: Counts) -> Counts:
        """Return counts over the pairs of the model."""
        pair = np.repeat(np.arange(self.graph.n_pairs), np.diff(counts.successor_start))
        successor = self.model_state[counts.successor]
        return counts_from(self.model_pair[pair], successor, counts.count, self.n_model_pairs)

    def distance(self, counts: Counts) -> float:
        """Return the mean of ||P_hat of the whole log - P_hat||_2^2 over the pairs in the log.

        The estimate of a pair never visited is uniform over the model's states, or over those that
        the model file calls possible. Known pairs are left out.
        """
        errors = squared_errors(self.graph, counts)
        if self.graph.knowledge is None:
            # ||P - 1/S||^2 = sum P^2 - 1/S
            errors = np.where(counts.visits > 0, errors, errors - 1 / self.n_model_states)
        return float(errors[self.measured].mean()) if len(self.measured) else 0.0


def settled_log(
    model: Model, logged: LoggedTransitions, says_ends: bool
) -> tuple[Model, LoggedTransitions]:
    """Return a log over the states of a model with the ends that it shows, and that model.

    The arrivals of the log are in open form (`graph.ends`); afterwards they are states.
    """
    graph = model.graph
    S, arrivals = graph.n_states, logged.successor
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(logged.queue_start))
    one_each = np.ones(len(arrivals), np.int64)
    counts = counts_from(pair, arrivals.astype(np.int64), one_each, graph.n_pairs)
    starts = np.bincount(logged.episode, minlength=S)
    settled = settle(graph, counts, starts, says_ends)
    state_of = np.arange(2 * S) % S
    state_of[S + settled.mixed] = S + np.arange(len(settled.mixed))
    n_answers = np.diff(logged.queue_start)[settled.kept_pairs]
    found = LoggedTransitions(
        np.concatenate([[0], np.cumsum(n_answers)]),
        state_of[arrivals].astype(np.int32),
        logged.episode,
    )
    return settled_model(model, settled), found


def log_queues(
    model: TransitionGraph, logged: LoggedTransitions, *, offers_all: bool = False
) -> LogQueues:
    """Return the queues of a log; raise ValueError if it has no transition.

    Explorers can choose from the actions that were logged in a state, or with `offers_all` from all
    actions of the model, even those that were never logged.
    """
    if logged.n_transitions == 0:
        raise ValueError("the log has no transition")
    is_logged = np.diff(logged.queue_start) > 0
    is_left, is_reached = np.zeros((2, model.n_states), np.bool_)
    is_left[model.pair_state[is_logged]] = True
    is_reached[logged.successor] = True
    is_end = np.zeros(model.n_states, np.bool_) if model.ends is None else model.ends
    stops = is_reached & ~is_left
    if offers_all:
        is_state = np.ones(model.n_states, np.bool_)
        is_offered = ~stops[model.pair_state]
    else:
        is_state = is_left | is_reached
        is_offered = is_logged
    pairs, states = np.flatnonzero(is_offered), np.flatnonzero(is_state)
    new_state = (np.cumsum(is_state) - 1).astype(np.int32)
    per_state = np.bincount(new_state[model.pair_state[pairs]], minlength=len(states))
    queue_start = np.concatenate([[0], np.cumsum(np.diff(logged.queue_start)[pairs])])
    successor = new_state[logged.successor]
    episode = new_state[logged.episode]
    ends = (is_end | stops)[states]
    known = model.knowledge
    if known is not None:
        known = logged_knowledge(known, pairs, is_state, queue_start, successor)
    spaces = replace(
        model,
        states=model.states.chosen(is_state),
        pair_start=np.concatenate([[0], np.cumsum(per_state)]),
        pair_action=model.pair_action[pairs],
        successor_start=np.zeros(len(pairs) + 1, np.int64),
        successor=np.empty(0, np.int32),
        probability=np.empty(0),
        initial=np.bincount(episode, minlength=len(states)) / len(episode),
        **NO_REWARDS,
        labels={name: of[states] for name, of in model.labels.items()},
        ends=ends if ends.any() else None,
        knowledge=known,
    )
    counts = _whole_counts(spaces, queue_start, successor)
    return LogQueues(
        graph=replace(estimated_graph(counts, spaces), knowledge=known),
        queue_start=queue_start,
        successor=successor,
        episode=episode,
        is_cut=(stops & ~is_end)[states],
        model_pair=pairs,
        model_state=states,
        n_model_pairs=model.n_pairs,
        n_model_states=model.n_states,
    )


def _whole_counts(spaces: TransitionGraph, queue_start: IntArray, successor: StateArray) -> Counts:
    """Count a whole log; a pair without a queue leads to its own state, as it must have a row."""
    S = spaces.n_states
    table = TransitionTable(spaces.n_pairs, S)
    visits = np.diff(queue_start)
    empty = np.flatnonzero(visits == 0)
    table.add(empty * S + spaces.pair_state[empty])
    for low in range(0, len(successor), BATCH):
        part = successor[low : low + BATCH]
        places = np.arange(low, low + len(part))
        pair = np.searchsorted(queue_start, places, side="right") - 1
        table.add(pair * S + part)
    return table.counts()
