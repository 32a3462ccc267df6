"""What a model file says of the rows of a log, over the states and pairs that the log contains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.row_sets import entry_pairs, row_sums
from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.transition_graph import StateArray


def logged_knowledge(
    known: Knowledge,
    pairs: IntArray,
    is_state: BoolArray,
    queue_start: IntArray,
    successor: StateArray,
) -> Knowledge:
    """Return what is known of some pairs, given that they lead to one of some states.

    Both are numbered anew, in their order; the queues of the pairs are over the new states. A pair
    stays one to learn, or known. If none of its possible successors is in the log, the log
    contradicts the file, and the pair may lead where the log says it does.
    """
    new_pair = np.full(known.n_pairs, -1, np.int64)
    new_pair[pairs] = np.arange(len(pairs))
    new_state = np.cumsum(is_state) - 1
    inside = (new_pair[known.entry_pair] >= 0) & is_state[known.successor]
    pair = new_pair[known.entry_pair[inside]]
    target, share = new_state[known.successor[inside]], known.share[inside]
    is_open, is_joined = known.is_open[inside], known.is_joined[inside]

    # P(s' | one of the states) = P(s') / P(one of the states), as far as that is known.
    n_pairs, was_known = len(pairs), known.is_known[pairs]
    dropped = row_sums(
        known.entry_pair, np.where(is_state[known.successor], 0.0, known.share), known.n_pairs
    )
    left = np.where(was_known, row_sums(pair, share, n_pairs), 1.0 - dropped[pairs])
    share = share / np.where(left > 0, left, 1.0)[pair]
    has_open = np.bincount(pair[is_open], minlength=n_pairs) > 0
    is_open = is_open | ~(has_open | was_known)[pair]

    empty = np.bincount(pair, minlength=n_pairs) == 0
    logged = entry_pairs(queue_start)
    keys = np.unique(logged[empty[logged]] * np.int64(len(is_state)) + successor[empty[logged]])
    extra, n_extra = keys // len(is_state), len(keys)
    order = np.lexsort((np.append(target, keys % len(is_state)), np.append(pair, extra)))
    sizes = np.bincount(np.append(pair, extra), minlength=n_pairs)
    return replace(
        known,
        successor_start=np.concatenate([[0], np.cumsum(sizes)]),
        successor=np.append(target, keys % len(is_state))[order],
        share=np.append(share, np.zeros(n_extra))[order],
        is_open=np.append(is_open, np.ones(n_extra, np.bool_))[order],
        is_joined=np.append(is_joined, np.zeros(n_extra, np.bool_))[order],
        is_law=known.is_law[pairs],
        has_truth=True,
    )
