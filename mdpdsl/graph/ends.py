"""Episodes that end: the same graph without its ends, or with ends that absorb.

An end e has no pairs. After it, the next episode starts in a state drawn from mu, the initial
distribution, and that start takes no step. So the states that can be visited again and again, and
the shares d of the visits, are those of the *closed* graph, whose rows are

    P(s'|s,a) + mu(s') P(E|s,a)    for every s' outside the set E of ends,

with the same pairs in the same order. For values, on the other hand, nothing follows an end: there
the *absorbing* graph is right, in which an end stays where it is and earns nothing.

Data may show ends that the model does not declare. Counts in their *open* form keep arrivals apart:
the successor n_states + s is an arrival in s that ended the episode. `settle` makes the graph that
fits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.graph.counts import Counts, counts_from
from mdpdsl.graph.reward_fields import mapped_rewards, rewards_of_pairs
from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph


def close(graph: TransitionGraph) -> TransitionGraph:
    """Return the closed graph: ends give way to the start of the next episode.

    Pairs keep their numbers; states lose those of the ends. Rewards of pairs are kept, but rewards
    that depend on the next state are not: a branch may stand for an end and for a start.
    """
    if graph.ends is None:
        return graph
    from scipy.sparse import csr_array

    kept = ~graph.ends
    spaces = replace(
        graph,
        states=graph.states.chosen(kept),
        pair_start=np.append(graph.pair_start[:-1][kept], graph.n_pairs),
        initial=graph.initial[kept],
        branch_reward=None,
        branch_rewards={},
        labels={name: states[kept] for name, states in graph.labels.items()},
        ends=None,
        knowledge=None,
    )
    if not graph.has_dynamics:
        return spaces
    P = graph.transition_matrix()
    ending = csr_array((P @ graph.ends.astype(np.float64))[:, None])
    ending.eliminate_zeros()
    rows = csr_array(P[:, kept] + ending @ csr_array(spaces.initial[None, :]))
    rows.sort_indices()
    return replace(
        spaces,
        successor_start=rows.indptr.astype(np.int64),
        successor=rows.indices.astype(np.int32),
        probability=rows.data,
    )


def absorb(graph: TransitionGraph) -> tuple[TransitionGraph, BoolArray]:
    """Return the absorbing graph, and which of its pairs are the graph's own.

    In it an end has one more pair, which stays there.
    """
    if graph.ends is None:
        return graph, np.ones(graph.n_pairs, np.bool_)
    ends = np.flatnonzero(graph.ends)
    at = graph.pair_start[ends]  # the pair before which each new one is inserted
    branch_at = graph.successor_start[at]
    n_pairs = np.diff(graph.pair_start) + graph.ends
    n_branches = np.insert(np.diff(graph.successor_start), at, 1)
    has_dynamics = graph.has_dynamics

    is_own = np.insert(np.ones(graph.n_pairs, np.bool_), at, False)
    absorbing = replace(
        graph,
        pair_start=_starts(n_pairs),
        pair_action=np.insert(graph.pair_action, at, 0),
        successor_start=_starts(n_branches if has_dynamics else np.zeros(len(is_own), np.int64)),
        successor=np.insert(graph.successor, branch_at, ends) if has_dynamics else graph.successor,
        probability=np.insert(graph.probability, branch_at, 1.0)
        if has_dynamics
        else graph.probability,
        ends=None,
        **mapped_rewards(
            graph,
            lambda rewards: np.insert(rewards, at, 0.0),
            lambda rewards: np.insert(rewards, branch_at, 0.0) if has_dynamics else rewards,
        ),
    )
    return absorbing, is_own


def own_choice(choice: IntArray, is_own: BoolArray) -> IntArray:
    """Return the pair chosen in each state as one of the graph's own pairs; -1 in ends."""
    number = np.where(is_own, np.cumsum(is_own) - 1, -1)
    return np.asarray(number[choice], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Settled:
    """A graph with the ends that the data show, and the counts over its pairs and states."""

    graph: TransitionGraph
    counts: Counts
    kept_pairs: IntArray  # [n_pairs]  the number that each pair had before
    found: IntArray  # states that are ends now
    mixed: IntArray  # states in which some episodes ended and others continued; each has a twin
    starts: IntArray  # [n_states]  episodes that started in each state, before there were twins
    says_ends: bool  # whether the data can show ends that the model does not declare
    spaces: TransitionGraph  # the graph before

    @property
    def n_outcomes(self) -> int:
        """The outcomes of a step that were possible before any data: states, and ends in them."""
        S, ends = self.spaces.n_states, self.spaces.ends
        if not self.says_ends:
            return S
        return 2 * S - (0 if ends is None else int(np.count_nonzero(ends)))

    @property
    def untried(self) -> IntArray:
        """The pairs that could have been tried and were not.

        They were never visited, and other actions were taken in their state. A state in which no
        action was taken may be out of reach, or every episode may have been over there. Known pairs
        need not be tried.
        """
        visits, pair_state = self.counts.visits, self.graph.pair_state
        acted = np.zeros(self.graph.n_states, np.bool_)
        acted[pair_state[visits > 0]] = True
        return np.flatnonzero((visits == 0) & acted[pair_state] & self.graph.to_learn)

    @property
    def has_changed(self) -> bool:
        """Whether the data show ends that the model does not declare."""
        return len(self.found) + len(self.mixed) > 0


def open_counts(
    counts: Counts, spaces: TransitionGraph, found: Sequence[int], mixed: Sequence[int]
) -> Counts:
    """Return counts over a settled graph in their open form, over the pairs of the spaces."""
    if len(found) + len(mixed) == 0:
        return counts
    S = spaces.n_states
    arrival = np.arange(S + len(mixed))
    arrival[np.asarray(found, np.int64)] += S
    arrival[S:] = S + np.asarray(mixed, np.int64)
    kept = np.flatnonzero(~np.isin(spaces.pair_state, found))
    pair = np.repeat(kept, np.diff(counts.successor_start))
    return counts_from(pair, arrival[counts.successor], counts.count, spaces.n_pairs)


def settle(
    graph: TransitionGraph, counts: Counts, starts: IntArray, says_ends: bool = True
) -> Settled:
    """Find the ends in data: counts in open form, and how many episodes started in each state.

    A state in which every arrival ended is an end: it loses its pairs. One in which some episodes
    ended and others continued keeps its pairs and gets a twin, an end with the same values and
    labels behind all other states, so that values are right.
    """
    S = graph.n_states
    known = np.zeros(S, np.bool_) if graph.ends is None else graph.ends
    counts = _with_declared(counts, known)
    is_ending = counts.successor >= S
    if not is_ending.any():
        nothing = np.empty(0, np.int64)
        every = np.arange(graph.n_pairs)
        return Settled(graph, counts, every, nothing, nothing, starts, says_ends, graph)
    ended = np.zeros(S, np.bool_)
    ended[counts.successor[is_ending] - S] = True
    continued = np.zeros(S, np.bool_)
    continued[counts.successor[~is_ending]] = True
    continued[graph.pair_state[counts.visits > 0]] = True
    continued[starts > 0] = True
    mixed = np.flatnonzero(ended & continued)
    found = ended & ~continued
    kept = ~found[graph.pair_state]
    new_state = np.arange(2 * S)
    new_state[S:] = np.arange(S)
    new_state[S + mixed] = S + np.arange(len(mixed))
    successor = new_state[counts.successor]
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(counts.successor_start))
    new_pair = np.cumsum(kept) - 1
    settled = counts_from(new_pair[pair], successor, counts.count, int(kept.sum()))
    return Settled(
        graph=_with_ends(graph, kept, known | found, mixed),
        counts=settled,
        kept_pairs=np.flatnonzero(kept),
        found=np.flatnonzero(found),
        mixed=mixed,
        starts=starts,
        says_ends=says_ends,
        spaces=graph,
    )


def _with_declared(counts: Counts, ends: BoolArray) -> Counts:
    """Return open counts in which only ends that the model does not declare are apart."""
    S = len(ends)
    is_declared = counts.successor >= S
    is_declared[is_declared] = ends[counts.successor[is_declared] - S]
    if not is_declared.any():
        return counts
    pair = np.repeat(np.arange(len(counts.visits)), np.diff(counts.successor_start))
    successor = np.where(is_declared, counts.successor - S, counts.successor)
    return counts_from(pair, successor, counts.count, len(counts.visits))


def _with_ends(
    graph: TransitionGraph, kept: BoolArray, ends: BoolArray, mixed: IntArray
) -> TransitionGraph:
    """Return the spaces of a graph with some pairs left out, and twins of some states."""
    n_pairs = np.bincount(graph.pair_state[kept], minlength=graph.n_states)
    n_pairs = np.append(n_pairs, np.zeros(len(mixed), np.int64))
    initial = np.append(np.where(ends, 0.0, graph.initial), np.zeros(len(mixed)))
    has_starts = initial.sum() > 0
    return replace(
        graph,
        states=graph.states.with_twins(mixed),
        pair_start=_starts(n_pairs),
        pair_action=graph.pair_action[kept],
        successor_start=np.zeros(int(kept.sum()) + 1, np.int64),
        successor=graph.successor[:0],
        probability=graph.probability[:0],
        initial=initial / initial.sum()
        if has_starts
        else np.where(n_pairs > 0, 1.0, 0.0) / np.count_nonzero(n_pairs),
        labels={name: np.append(states, states[mixed]) for name, states in graph.labels.items()},
        ends=np.append(ends, np.ones(len(mixed), np.bool_)),
        knowledge=None,
        **rewards_of_pairs(graph, kept),
    )


def _starts(counts: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
