"""What an explorer has seen and what it plans with: arrays that compiled loops read and write.

The counts T(s,a,s') are sparse and grow. Each pair has a run of slots in one pool, one slot per
successor seen; a full run moves to the end of the pool and gets twice its room. Each state has a
linked list of the pairs seen to lead to it. Beside the counts, `squares` has sum_s' T(s,a,s')^2,
which gives the estimate of the complexity c(s,a) = 1 - sum_s' P(s'|s,a)^2 (paper) without a sum.

What a model file says of a row is in `rest`, `share` and `is_open` (see `known_slots`).

An end has no pairs. The next episode starts in another state, without a step, so the value of every
end is the mean of V over the starts seen so far, V(e) = sum_s mu_hat(s) V(s).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.kernels.compiled import inner, seldom

#: Unsigned, so that compiled code need not check for negative indices.
IndexArray = npt.NDArray[np.uint32]

#: Positions in `Memory.integers`.
(
    TIME,
    POOL_USED,
    CHAIN_USED,
    LARGEST_ROOM,
    QUEUE_FIRST,
    QUEUE_SIZE,
    N_BACKUPS,
    N_UNSEEN,  # pairs never visited, of which nothing is known
    NEXT_REFRESH,
    NEXT_REBASE,
    NEXT_SURVEY,
    VACUOUS_VISITS,  # the paper's bound of c is 1 up to this many visits
    N_STARTS,  # of episodes
) = range(13)
#: Positions in `Memory.reals`.
(
    REFERENCE,
    VALUE_SUM,
    BEST_SUM,  # of `best_reward`
    UNSEEN_MEAN,  # the mean of V in the q of unseen pairs
    SPAN,  # of V
    LARGEST,  # of V
    PRECISE_AT,  # the largest V when all q were last recomputed
    THRESHOLD,
    RISE,  # by how much V may have risen since the bounds of q were reset
    START_SUM,  # of V over the starts; kept only if there are ends
    START_BEST,  # of `best_reward` over the starts; kept only if there are ends
) = range(11)

#: Slots that a pair gets at its first visit.
FIRST_SLOTS = 4
#: The number of pairs in a block, whose largest log-weight is stored.
BLOCK = 64


class Memory(NamedTuple):
    """Counts, rewards and values of one run; S states, n pairs."""

    pair_start: IntArray  # [S + 1]
    pair_state: StateArray  # [n]
    visits: IntArray  # [n]     T(s,a)
    state_visits: IntArray  # [S]     sum_a T(s,a)
    squares: FloatArray  # [n]     sum_s' T(s,a,s')^2
    slot_start: IndexArray  # [n]     first slot of a pair
    slot_size: IndexArray  # [n]     slots in use
    slot_room: IndexArray  # [n]     slots it has
    slot_state: IndexArray  # [pool]  successor
    slot_count: FloatArray  # [pool]  T(s,a,s'), whole
    slot_probability: FloatArray  # [pool]  P_hat: T(s,a,s') / T(s,a), unless more is known
    chain_first: IntArray  # [S]     first link of the pairs that lead to a state, -1 if none
    chain_pair: StateArray  # [pool]
    chain_offset: IndexArray  # [pool]  which of the pair's slots leads there
    chain_next: IntArray  # [pool]  next link, -1 at the end
    unseen: IntArray  # [S]     pairs of a state never visited, of which nothing is known
    upper: FloatArray  # [n]     upper confidence bound of c
    weight: FloatArray  # [n]     log of the base of the reward, or the reward itself
    block_best: FloatArray  # [n / BLOCK]  largest weight of a block of pairs
    reward: FloatArray  # [n]
    policy: FloatArray  # [n]     running sums of pi(a|s) within a state, where one is followed
    target: FloatArray  # [n]     planned visits, where `tracking` follows a plan
    center: FloatArray  # [S]     where the search for the next plan starts
    here: IntArray  # [1]     the state that the last transition led to, -1 before
    ends: IntArray  # [n_ends]  states without pairs
    starts: IntArray  # [S]     episodes that started in a state
    best_reward: FloatArray  # [S]     max_a reward
    value: FloatArray  # [S]     V
    q: FloatArray  # [n]     r + gamma E V, or the bound that whole sweeps have
    greedy: IntArray  # [S]     the best pair of the last sweep
    scratch: FloatArray  # [2, S]
    queue: StateArray  # [S]     states waiting for a backup, a ring
    is_queued: npt.NDArray[np.bool_]  # [S]
    integers: IntArray  # [13]
    reals: FloatArray  # [11]
    rest: FloatArray  # [n]     what counts decide: 1 if nothing is known, 0 if the row is known
    share: FloatArray  # [entries]  known probabilities, of the first slots; empty if none are
    is_open: BoolArray  # [entries]  whether a successor may have more than its share


#: Fields that follow from the model and from the counts; they are not saved.
DERIVED = ("pair_start", "pair_state", "rest", "share", "is_open")


def new_memory(pair_start: IntArray, pair_state: StateArray) -> Memory:
    """Return a memory that has seen nothing, and knows nothing."""
    n_pairs, n_states = len(pair_state), len(pair_start) - 1
    pool = 2 * FIRST_SLOTS * n_pairs + 64
    integers = np.zeros(N_STARTS + 1, np.int64)
    integers[N_UNSEEN] = n_pairs
    return Memory(
        pair_start=pair_start.astype(np.int64),
        pair_state=pair_state.astype(np.int32),
        visits=np.zeros(n_pairs, np.int64),
        state_visits=np.zeros(n_states, np.int64),
        squares=np.zeros(n_pairs),
        slot_start=np.zeros(n_pairs, np.uint32),
        slot_size=np.zeros(n_pairs, np.uint32),
        slot_room=np.zeros(n_pairs, np.uint32),
        slot_state=np.zeros(pool, np.uint32),
        slot_count=np.zeros(pool),
        slot_probability=np.zeros(pool),
        chain_first=np.full(n_states, -1, np.int64),
        chain_pair=np.zeros(pool, np.int32),
        chain_offset=np.zeros(pool, np.uint32),
        chain_next=np.full(pool, -1, np.int64),
        unseen=np.diff(pair_start).astype(np.int64),
        upper=np.ones(n_pairs),
        weight=np.zeros(n_pairs),
        block_best=np.full(-(-n_pairs // BLOCK), -np.inf),
        reward=np.zeros(n_pairs),
        policy=np.ones(n_pairs),
        target=np.zeros(n_pairs),
        center=np.zeros(n_states),
        here=np.full(1, -1, np.int64),
        ends=np.flatnonzero(np.diff(pair_start) == 0),
        starts=np.zeros(n_states, np.int64),
        best_reward=np.zeros(n_states),
        value=np.zeros(n_states),
        q=np.full(n_pairs, np.inf),
        greedy=pair_start[:-1].astype(np.int64),
        scratch=np.zeros((2, n_states)),
        queue=np.zeros(n_states, np.int32),
        is_queued=np.zeros(n_states, np.bool_),
        integers=integers,
        reals=np.zeros(START_BEST + 1),
        rest=np.ones(n_pairs),
        share=np.empty(0),
        is_open=np.empty(0, np.bool_),
    )


def with_larger_pool(memory: Memory) -> Memory:
    """Return the same memory with twice the room for successors."""
    pools = (
        "slot_state",
        "slot_count",
        "slot_probability",
        "chain_pair",
        "chain_offset",
        "chain_next",
    )
    arrays = {name: getattr(memory, name) for name in pools}
    larger = {name: np.concatenate([a, np.zeros_like(a)]) for name, a in arrays.items()}
    return memory._replace(**larger)


def restored(memory: Memory, saved: Mapping[str, np.ndarray]) -> Memory:
    """Return a new memory with what was saved, by a version that may have known fewer numbers."""
    names = [name for name in Memory._fields if name not in DERIVED and name in saved]
    arrays = {name: saved[name] for name in names}
    for name in ("integers", "reals"):
        whole = getattr(memory, name).copy()
        whole[: len(arrays[name])] = arrays[name]
        arrays[name] = whole
    # A pair with more slots than the model has successors proved it wrong.
    is_wrong = arrays["slot_size"] > memory.slot_size
    return memory._replace(**arrays, rest=np.where(is_wrong, 1.0, memory.rest))


def start_shares(memory: Memory, spaces: TransitionGraph) -> FloatArray:
    """Return mu_hat, the shares of the starts seen; before the first, what the spaces say, [S]."""
    n_starts = int(memory.integers[N_STARTS])
    return memory.starts / n_starts if n_starts else spaces.initial


@inner
def start_sum(memory: Memory, values: FloatArray) -> float:
    """Return the sum of some values over the starts of episodes."""
    result = 0.0
    for state in range(len(values)):
        if memory.starts[state] > 0:
            result += memory.starts[state] * values[state]
    return result


@inner
def fill_ends(memory: Memory, values: FloatArray, sum_over_starts: float) -> float:
    """Give all ends the mean over the starts, V(e) = sum_s mu_hat(s) V(s); return the change."""
    if len(memory.ends) == 0 or memory.integers[N_STARTS] == 0:
        return 0.0
    mean = sum_over_starts / memory.integers[N_STARTS]
    change = mean - values[memory.ends[0]]
    for end in memory.ends:
        values[end] = mean
    return change


@inner
def has_room(memory: Memory) -> bool:
    """Return whether a new successor of any pair fits into the pool."""
    needed = max(FIRST_SLOTS, 2 * memory.integers[LARGEST_ROOM])
    return memory.integers[POOL_USED] + needed <= len(memory.slot_state) and memory.integers[
        CHAIN_USED
    ] < len(memory.chain_pair)


@inner
def count(memory: Memory, pair: int, following: int) -> None:
    """Count one transition."""
    memory.integers[TIME] += 1
    memory.here[0] = following
    if memory.slot_size[pair] == 0:
        memory.integers[N_UNSEEN] -= 1
        memory.unseen[memory.pair_state[pair]] -= 1
    memory.visits[pair] += 1
    memory.state_visits[memory.pair_state[pair]] += 1
    _count_successor(memory, pair, following)
    renew_row(memory, pair)


@inner
def renew_row(memory: Memory, pair: int) -> None:
    """Compute the probabilities of a pair that was visited from its counts."""
    if memory.rest[pair] < 1.0:
        _renew_known_row(memory, pair)
        return
    share = 1.0 / memory.visits[pair]
    start = memory.slot_start[pair]
    for slot in range(start, start + memory.slot_size[pair]):
        memory.slot_probability[slot] = memory.slot_count[slot] * share


@seldom
def _renew_known_row(memory: Memory, pair: int) -> None:
    """Compute the probabilities of a pair of which something is known (`known_slots`)."""
    rest, visits = memory.rest[pair], float(memory.visits[pair])
    if rest == 0.0:
        return
    first = memory.slot_start[pair]
    end = first + memory.slot_size[pair]
    excess, n_open = 0.0, 0
    for slot in range(first, end):
        if memory.is_open[slot]:
            excess += max(memory.slot_count[slot] / visits - memory.share[slot], 0.0)
            n_open += 1
    for slot in range(first, end):
        weight = 0.0
        if memory.is_open[slot]:
            if excess > 0.0:
                more = max(memory.slot_count[slot] / visits - memory.share[slot], 0.0)
                weight = rest * more / excess
            else:
                weight = rest / n_open
        memory.slot_probability[slot] = memory.share[slot] + weight


@inner
def _count_successor(memory: Memory, pair: int, following: int) -> None:
    start, size = memory.slot_start[pair], memory.slot_size[pair]
    for slot in range(start, start + size):
        if memory.slot_state[slot] == following:
            memory.squares[pair] += 2.0 * memory.slot_count[slot] + 1.0
            memory.slot_count[slot] += 1.0
            return
    _add_slot(memory, pair, following, 1.0)


@inner
def count_many(memory: Memory, pair: int, following: int, n: int, n_known: int) -> None:
    """Count n transitions at once, without updating the pair's probabilities.

    The successor is looked for in the first n_known slots of the pair only.
    """
    memory.integers[TIME] += n
    if memory.slot_size[pair] == 0:
        memory.integers[N_UNSEEN] -= 1
        memory.unseen[memory.pair_state[pair]] -= 1
    memory.visits[pair] += n
    memory.state_visits[memory.pair_state[pair]] += n
    start = memory.slot_start[pair]
    for slot in range(start, start + n_known):
        if memory.slot_state[slot] == following:
            memory.squares[pair] += (2.0 * memory.slot_count[slot] + n) * n
            memory.slot_count[slot] += n
            return
    _add_slot(memory, pair, following, float(n))


@inner
def _add_slot(memory: Memory, pair: int, following: int, n: float) -> None:
    """Add a successor that the pair did not have: whatever was known of the row is wrong."""
    memory.rest[pair] = 1.0
    size = memory.slot_size[pair]
    if size == memory.slot_room[pair]:
        _move(memory, pair)
    start = memory.slot_start[pair]
    memory.slot_state[start + size] = following
    memory.slot_count[start + size] = n
    memory.slot_size[pair] = size + 1
    memory.squares[pair] += n * n
    link = memory.integers[CHAIN_USED]
    memory.integers[CHAIN_USED] = link + 1
    memory.chain_pair[link] = pair
    memory.chain_offset[link] = size
    memory.chain_next[link] = memory.chain_first[following]
    memory.chain_first[following] = link


@seldom
def _move(memory: Memory, pair: int) -> None:
    """Give a pair twice its room, at the end of the pool."""
    size = memory.slot_size[pair]
    room = max(FIRST_SLOTS, 2 * int(memory.slot_room[pair]))
    old, new = memory.slot_start[pair], memory.integers[POOL_USED]
    for i in range(size):
        memory.slot_state[new + i] = memory.slot_state[old + i]
        memory.slot_count[new + i] = memory.slot_count[old + i]
    memory.slot_start[pair] = new
    memory.slot_room[pair] = room
    memory.integers[LARGEST_ROOM] = max(memory.integers[LARGEST_ROOM], room)
    memory.integers[POOL_USED] = new + room
