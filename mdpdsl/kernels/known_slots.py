"""What a model file says of its rows, in an explorer's memory (see `graph.knowledge`).

A row is P(s'|s,a) = share(s') + w(s'). The shares are known; the weights of the open entries, which
sum to `rest`, are proportional to max(T(s,a,s')/T(s,a) - share(s'), 0). They are equal before the
first visit, and if all of these vanish. A known row has rest = 0 and never changes; a row of which
only the successors are known has rest = 1 and follows its counts from the first visit on.

Every pair has a slot for each of its possible successors from the start. A transition to another
state proves the file wrong: the pair gets one more slot, and follows its counts alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels.memory import (
    CHAIN_USED,
    FIRST_SLOTS,
    LARGEST_ROOM,
    N_UNSEEN,
    POOL_USED,
    Memory,
)

#: The least `rest` of a row that is not known, so that 0 means known.
LEAST_REST = 1e-300


def with_knowledge(memory: Memory, knowledge: Knowledge) -> Memory:
    """Return a memory that has seen nothing, with the possible successors of every pair."""
    n_entries = len(knowledge.successor)
    sizes = np.diff(knowledge.successor_start)
    largest = int(sizes.max(initial=FIRST_SLOTS))
    start = knowledge.successor_start[:-1]
    chain_first, chain_next = _chains(knowledge.successor, len(memory.value))
    pooled = {
        "slot_state": knowledge.successor,
        "slot_probability": knowledge.placeholder,
        "chain_pair": knowledge.entry_pair,
        "chain_offset": np.arange(n_entries) - start[knowledge.entry_pair],
        "chain_next": chain_next,
    }
    pool = max(len(memory.slot_state), n_entries + 4 * largest)
    arrays: dict[str, Any] = {"slot_count": np.zeros(pool)}
    for name, values in pooled.items():
        arrays[name] = np.zeros(pool, getattr(memory, name).dtype)
        arrays[name][:n_entries] = values
    integers = memory.integers.copy()
    integers[[N_UNSEEN, POOL_USED, CHAIN_USED, LARGEST_ROOM]] = 0, n_entries, n_entries, largest
    return memory._replace(
        **arrays,
        slot_start=start.astype(np.uint32),
        slot_size=sizes.astype(np.uint32),
        slot_room=sizes.astype(np.uint32),
        chain_first=chain_first,
        unseen=np.zeros_like(memory.unseen),
        integers=integers,
        rest=np.maximum(knowledge.rest, np.where(knowledge.is_known, 0.0, LEAST_REST)),
        share=knowledge.share.astype(np.float64),
        is_open=knowledge.is_open.astype(np.bool_),
    )


def estimated_rows(memory: Memory) -> tuple[IntArray, StateArray, FloatArray]:
    """Return the rows P_hat as starts [n + 1], successors and probabilities [entries]."""
    pairs, slots = used_slots(memory)
    is_possible = memory.slot_probability[slots] > 0
    pairs, slots = pairs[is_possible], slots[is_possible]
    order = np.lexsort((memory.slot_state[slots], pairs))
    n_successors = np.bincount(pairs, minlength=len(memory.visits))
    return (
        np.concatenate([[0], np.cumsum(n_successors)]),
        memory.slot_state[slots][order].astype(np.int32),
        memory.slot_probability[slots][order],
    )


def used_slots(memory: Memory) -> tuple[IntArray, IntArray]:
    """Return the pair of every slot in use, and the slot."""
    sizes = memory.slot_size.astype(np.int64)
    pairs = np.repeat(np.arange(len(sizes)), sizes)
    before = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    return pairs, np.arange(len(pairs)) - before[pairs] + memory.slot_start.astype(np.int64)[pairs]


def _chains(successor: IntArray, n_states: int) -> tuple[IntArray, IntArray]:
    """Link the entries that lead to a state, in order; return the first [S] and next [entries]."""
    order = np.argsort(successor, kind="stable")
    target = successor[order]
    is_last = np.append(target[1:] != target[:-1], True)
    is_first = np.append(True, is_last[:-1])
    following = np.full(len(successor), -1, np.int64)
    following[order[:-1]] = np.where(is_last[:-1], -1, order[1:])
    first = np.full(n_states, -1, np.int64)
    first[target[is_first]] = order[is_first]
    return first, following
