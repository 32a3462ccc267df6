"""Prioritized sweeping (Moore and Atkeson 1993) over predecessors, with residuals always known.

q(s,a) = r + gamma sum P_hat V is stored for every pair. When V(s') changes by x, the q of each pair
seen to lead there changes by gamma P_hat(s'|s,a) x. The residual max_a q(s,a) - V(s) of every state
is thus known without visiting its successors. States whose residual exceeds a threshold wait in a
queue. When it is empty, the span of the Bellman residual is within the tolerance of the span of V,
which is the stopping rule of whole sweeps.

Pairs never visited are assumed to lead to every state with equal probability: their q is
r + gamma mean(V), and is recomputed when the mean has changed too much. All ends have one value,
the mean of V over the starts; when that has changed too much, the first end waits in the queue for
all of them.
"""

from __future__ import annotations

import math

from mdpdsl.kernels.compiled import inner, seldom, total
from mdpdsl.kernels.incentives import KAPPA, MAXENT, Strategy
from mdpdsl.kernels.memory import (
    LARGEST,
    N_BACKUPS,
    N_STARTS,
    N_UNSEEN,
    NEXT_SURVEY,
    PRECISE_AT,
    QUEUE_FIRST,
    QUEUE_SIZE,
    SPAN,
    START_SUM,
    THRESHOLD,
    TIME,
    UNSEEN_MEAN,
    VALUE_SUM,
    Memory,
    fill_ends,
    start_sum,
)

#: A state with less than this share of the span has to converge relative to its own value.
CUT_OFF = 0.05
#: When the largest value falls to this share, every q is recomputed, as old rounding errors would
#: show.
FALL = 0.01
#: Up to this many states a survey is so cheap that it is made whenever the mean has changed.
SMALL = 1_000
#: The largest number of surveys in one step.
MOST_SURVEYS = 20
#: The relative precision of sums of values.
ROUNDING = 1e-12
#: Smaller values count as zero.
VANISHED = 1e-290


@seldom
def settle(memory: Memory, strategy: Strategy) -> None:
    """Back up states until every residual is small or the step's number of backups is used up.

    If more states are waiting than a step may back up, half of its backups are for the latest ones,
    which are near: the explorer must see what has just changed around it before older changes far
    away.
    """
    if memory.integers[TIME] >= memory.integers[NEXT_SURVEY]:
        survey(memory, strategy)
    n, n_surveys = 0, 0
    while n < strategy.most_backups:
        if memory.integers[QUEUE_SIZE] == 0:
            if (
                len(memory.value) <= SMALL
                and n_surveys < MOST_SURVEYS
                and _has_mean_moved(memory, strategy)
            ):
                survey(memory, strategy)
                n_surveys += 1
            if memory.integers[QUEUE_SIZE] == 0:
                break
        is_crowded = memory.integers[QUEUE_SIZE] > strategy.most_backups
        n += 1
        _back_up(memory, strategy, _dequeue(memory, is_crowded and 2 * n < strategy.most_backups))
    memory.integers[N_BACKUPS] += n


@inner
def follow_visit(memory: Memory, strategy: Strategy, pair: int, all_changed: bool) -> None:
    """Update q after a visit that is already counted and whose reward is updated."""
    if all_changed:
        start_afresh(memory, strategy)
        return
    state = int(memory.pair_state[pair])
    if strategy.kind == MAXENT:  # the rewards of all pairs of the state have changed
        for other in range(memory.pair_start[state], memory.pair_start[state + 1]):
            memory.q[other] = _fresh_q(memory, strategy, other)
    else:
        memory.q[pair] = _fresh_q(memory, strategy, pair)
    if abs(_best(memory, state) - memory.value[state]) > _threshold(memory, strategy, state):
        _enqueue(memory, state)


@inner
def follow_starts(memory: Memory, strategy: Strategy) -> None:
    """Put the ends into the queue if the mean of V over the starts has changed too much."""
    if len(memory.ends) == 0 or memory.integers[N_STARTS] == 0:
        return
    end = memory.ends[0]
    mean = memory.reals[START_SUM] / memory.integers[N_STARTS]
    if abs(mean - memory.value[end]) > _threshold(memory, strategy, end):
        _enqueue(memory, end)


@seldom
def start_afresh(memory: Memory, strategy: Strategy) -> None:
    """Compute every q anew from the rewards, counts and values."""
    memory.reals[UNSEEN_MEAN] = total(memory.value) / len(memory.value)
    for pair in range(len(memory.q)):
        memory.q[pair] = _fresh_q(memory, strategy, pair)
    _measure(memory)
    memory.reals[PRECISE_AT] = memory.reals[LARGEST]
    memory.reals[THRESHOLD] = _tolerable(memory, strategy)
    _scan(memory, strategy)


@inner
def _has_mean_moved(memory: Memory, strategy: Strategy) -> bool:
    """Return whether the mean of V in the q of unseen pairs is too old."""
    if memory.integers[N_UNSEEN] == 0:
        return False
    mean = memory.reals[VALUE_SUM] / len(memory.value)
    moved = strategy.gamma * abs(mean - memory.reals[UNSEEN_MEAN])
    return moved > 0.5 * memory.reals[THRESHOLD] + ROUNDING * abs(mean)


@seldom
def survey(memory: Memory, strategy: Strategy) -> None:
    """Measure the span and the mean of V over all states; update what depends on them."""
    S = len(memory.value)
    # Rarely enough to cost no more than a few backups per step.
    memory.integers[NEXT_SURVEY] = memory.integers[TIME] + 8 + S // 32
    _measure(memory)
    if memory.reals[LARGEST] < FALL * memory.reals[PRECISE_AT]:
        start_afresh(memory, strategy)
        return
    memory.reals[PRECISE_AT] = max(memory.reals[PRECISE_AT], memory.reals[LARGEST])
    threshold = _tolerable(memory, strategy)
    # Lowering it requires a scan, which is not worth it for less than a half.
    must_scan = threshold < 0.5 * memory.reals[THRESHOLD]
    if must_scan or threshold > memory.reals[THRESHOLD]:
        memory.reals[THRESHOLD] = threshold
    if _has_mean_moved(memory, strategy):
        _renew_unseen(memory, strategy, memory.reals[VALUE_SUM] / S)
    elif must_scan:
        _scan(memory, strategy)


@inner
def _measure(memory: Memory) -> None:
    value_sum, smallest, largest = 0.0, math.inf, -math.inf
    for state in range(len(memory.value)):
        value = memory.value[state]
        value_sum += value
        smallest, largest = min(smallest, value), max(largest, value)
    memory.reals[VALUE_SUM] = value_sum
    memory.reals[LARGEST] = largest
    memory.reals[SPAN] = largest - smallest
    if len(memory.ends) > 0:
        memory.reals[START_SUM] = start_sum(memory, memory.value)


@inner
def _tolerable(memory: Memory, strategy: Strategy) -> float:
    """Return a quarter of the tolerance times the span of V, or the rounding error if larger.

    The span of the residual is at most twice that, or four times if the threshold is older.
    """
    return max(
        0.25 * strategy.tolerance * memory.reals[SPAN], ROUNDING * abs(memory.reals[LARGEST])
    )


@inner
def _threshold(memory: Memory, strategy: Strategy, state: int) -> float:
    """Return the largest residual that a state may have.

    Where the estimate has no good path to the largest rewards, values are tiny beside the span.
    kappa-Explorer's values are positive; there they have to converge relative to their own size, or
    the explorer would stay where an old estimate promised rewards.
    """
    threshold = memory.reals[THRESHOLD]
    if strategy.kind == KAPPA:
        own = (0.5 / CUT_OFF) * strategy.tolerance * memory.value[state]
        return min(threshold, max(own, VANISHED))
    return threshold


@seldom
def _renew_unseen(memory: Memory, strategy: Strategy, mean: float) -> None:
    """Recompute the q of unseen pairs for a new mean of V.

    If kappa-Explorer's values are larger than pairs seen once could make them, nearly all value
    comes from unseen pairs, whose q is u. All values are then scaled to the u that solves
    u = r + gamma mean, in which the mean scales with u. This takes one pass instead of many.
    """
    S = len(memory.value)
    if strategy.kind == KAPPA and mean > 2.0 * strategy.epsilon**strategy.kappa / (
        1.0 - strategy.gamma
    ):
        r = 1.0  # the reward of an unseen pair, whose weight is the reference
        u = r + strategy.gamma * memory.reals[UNSEEN_MEAN]
        share = strategy.gamma * mean / u
        if share < 1.0:
            scale = r / (1.0 - share) / u
            mean *= scale
            for state in range(S):
                memory.value[state] *= scale
            for pair in range(len(memory.q)):
                r = memory.reward[pair]
                memory.q[pair] = r + scale * (memory.q[pair] - r)
            _measure(memory)
    memory.reals[UNSEEN_MEAN] = mean
    for state in range(S):
        if memory.unseen[state] > 0:
            for pair in range(memory.pair_start[state], memory.pair_start[state + 1]):
                if memory.slot_size[pair] == 0:
                    memory.q[pair] = memory.reward[pair] + strategy.gamma * mean
    _scan(memory, strategy)


@seldom
def _scan(memory: Memory, strategy: Strategy) -> None:
    """Put every state with a residual beyond the threshold into the queue."""
    for state in range(len(memory.value)):
        if memory.pair_start[state] == memory.pair_start[state + 1]:
            continue
        if abs(_best(memory, state) - memory.value[state]) > _threshold(memory, strategy, state):
            _enqueue(memory, state)
    follow_starts(memory, strategy)


@inner
def _back_up(memory: Memory, strategy: Strategy, state: int) -> None:
    """Set V(s) = max_a q(s,a), and update the q of the pairs that lead there."""
    if memory.pair_start[state] == memory.pair_start[state + 1]:
        _back_up_ends(memory, strategy)
        return
    old = memory.value[state]
    new = _best(memory, state)
    if abs(new) < 0.5 * abs(old):  # the rest may be rounding: recompute
        for pair in range(memory.pair_start[state], memory.pair_start[state + 1]):
            memory.q[pair] = _fresh_q(memory, strategy, pair)
        new = _best(memory, state)
    change = new - old
    if abs(change) <= _threshold(memory, strategy, state):
        return
    memory.value[state] = new
    memory.reals[VALUE_SUM] += change
    _spread(memory, strategy, state, strategy.gamma * change)
    if len(memory.ends) > 0 and memory.starts[state] > 0:
        memory.reals[START_SUM] += memory.starts[state] * change
        follow_starts(memory, strategy)


@seldom
def _back_up_ends(memory: Memory, strategy: Strategy) -> None:
    """Give all ends their value, and update the q of the pairs that lead there."""
    change = fill_ends(memory, memory.value, memory.reals[START_SUM])
    memory.reals[VALUE_SUM] += change * len(memory.ends)
    for end in memory.ends:
        _spread(memory, strategy, end, strategy.gamma * change)


@inner
def _spread(memory: Memory, strategy: Strategy, state: int, change: float) -> None:
    """Update the q of the pairs that lead to a state whose gamma V has changed."""
    link = memory.chain_first[state]
    while link >= 0:
        pair = memory.chain_pair[link]
        slot = memory.slot_start[pair] + memory.chain_offset[link]
        before = memory.q[pair]
        after = before + memory.slot_probability[slot] * change
        memory.q[pair] = after
        source = int(memory.pair_state[pair])
        gap = after - memory.value[source]
        threshold = _threshold(memory, strategy, source)
        if gap > threshold or (
            gap < -threshold
            and before - memory.value[source] >= -threshold  # it may have been the best
            and memory.value[source] - _best(memory, source) > threshold
        ):
            _enqueue(memory, source)
        link = memory.chain_next[link]


@inner
def _fresh_q(memory: Memory, strategy: Strategy, pair: int) -> float:
    if memory.slot_size[pair] == 0:
        return memory.reward[pair] + strategy.gamma * memory.reals[UNSEEN_MEAN]
    first = memory.slot_start[pair]
    mean = 0.0
    for slot in range(first, first + memory.slot_size[pair]):
        mean += memory.slot_probability[slot] * memory.value[memory.slot_state[slot]]
    return memory.reward[pair] + strategy.gamma * mean


@inner
def _best(memory: Memory, state: int) -> float:
    best = -math.inf
    for pair in range(memory.pair_start[state], memory.pair_start[state + 1]):
        best = max(best, memory.q[pair])
    return best


@inner
def _enqueue(memory: Memory, state: int) -> None:
    if memory.is_queued[state]:
        return
    place = memory.integers[QUEUE_FIRST] + memory.integers[QUEUE_SIZE]
    if place >= len(memory.queue):
        place -= len(memory.queue)
    memory.queue[place] = state
    memory.integers[QUEUE_SIZE] += 1
    memory.is_queued[state] = True


@inner
def _dequeue(memory: Memory, takes_last: bool) -> int:
    first = memory.integers[QUEUE_FIRST]
    memory.integers[QUEUE_SIZE] -= 1
    if takes_last:
        place = first + memory.integers[QUEUE_SIZE]
        if place >= len(memory.queue):
            place -= len(memory.queue)
    else:
        place = first
        memory.integers[QUEUE_FIRST] = 0 if first + 1 == len(memory.queue) else first + 1
    state = int(memory.queue[place])
    memory.is_queued[state] = False
    return state
