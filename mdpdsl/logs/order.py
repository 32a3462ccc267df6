"""Transitions of logs in order: for each pair, a queue of the successors that the log shows.

An episode starts in the state of its first transition. Rows that are whole transitions have no
episodes: there, an episode starts where a row's state is not the next state of the row before, or
where that row stopped its episode. Successors are arrivals, as in counts in open form
(`graph.ends`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdpdsl.files import write_arrays
from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.kernels import queueing
from mdpdsl.logs.log_rows import Records


@dataclass(frozen=True, eq=False)
class LoggedTransitions:
    """All transitions of a log over the pairs of a graph."""

    queue_start: IntArray  # [n_pairs + 1]
    successor: StateArray  # [n_transitions]  arrivals in the order of the log within a pair
    episode: StateArray  # [n_episodes]  the state that each episode starts in

    @property
    def n_transitions(self) -> int:
        """How many transitions there are."""
        return len(self.successor)

    @property
    def hash(self) -> str:
        """Identify the transitions and their order."""
        digest = hashlib.sha256()
        for array in (self.queue_start, self.successor, self.episode):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


class TransitionOrder:
    """Keeps transitions in order, in eight bytes each."""

    def __init__(self, graph: TransitionGraph) -> None:
        self._graph = graph
        self.clear(graph.n_states)

    def clear(self, n_arrivals: int) -> None:
        """Forget everything, as the log is read again; there are so many arrivals."""
        self.n_arrivals = n_arrivals
        self._pairs: list[StateArray] = []
        self._successors: list[StateArray] = []
        self._starts: list[StateArray] = []
        self._is_begun = False

    def add(self, codes: IntArray, rows: Records, kind: StateArray) -> None:
        """Add the transitions of rows, each given as pair * n_arrivals + arrival.

        `kind` says how each row follows the one before; row 0 repeats the last row of the call
        before.
        """
        is_first = np.empty(len(codes), np.bool_)
        self._is_begun = bool(
            queueing.mark_first(kind, rows.pair, rows.state, self._is_begun, is_first)
        )
        self._add(codes, is_first)

    def add_whole(self, codes: IntArray, is_start: BoolArray) -> None:
        """Add transitions that were each a row, and whether an episode starts with each."""
        self._add(codes, is_start)

    def transitions(self) -> LoggedTransitions:
        """Return the queues of all pairs, and forget everything to save memory."""
        n_pairs = self._graph.n_pairs
        visits = np.zeros(n_pairs, np.int64)
        for part in self._pairs:
            visits += np.bincount(part, minlength=n_pairs)
        queue_start = np.concatenate([[0], np.cumsum(visits)])
        successor = np.empty(int(queue_start[-1]), np.int32)
        end = queue_start[:-1].copy()
        self._pairs.reverse()
        self._successors.reverse()
        while self._pairs:
            queueing.append(self._pairs.pop(), self._successors.pop(), end, successor)
        starts = [np.empty(0, np.int32), *self._starts]
        self.clear(self.n_arrivals)
        return LoggedTransitions(queue_start, successor, np.concatenate(starts))

    def _add(self, codes: IntArray, is_first: BoolArray) -> None:
        pairs, successors = np.divmod(codes, self.n_arrivals)
        self._pairs.append(pairs.astype(np.int32))
        self._successors.append(successors.astype(np.int32))
        self._starts.append(self._graph.pair_state[pairs[is_first]])


def save_transitions(logged: LoggedTransitions, path: Path) -> None:
    """Write the queues of a log to a file."""
    write_arrays(
        path,
        {
            "queue_start": logged.queue_start,
            "successor": logged.successor,
            "episode": logged.episode,
        },
    )


def load_transitions(path: Path) -> LoggedTransitions:
    """Read the queues of a log; raise OSError, ValueError or KeyError if it is not such a file."""
    with np.load(path, allow_pickle=False) as saved:
        return LoggedTransitions(saved["queue_start"], saved["successor"], saved["episode"])
