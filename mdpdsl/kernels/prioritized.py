"""Prioritized sweeping over predecessors, with residuals that are known at any time.

q(s,a) = r + gamma sum P_hat V is kept for every pair. When V(s') moves by x, the q of each pair
seen to lead there moves by gamma P_hat(s'|s,a) x, so the residual max_a q(s,a) - V(s) of every
state is known without a look at its successors. States whose residual exceeds a threshold wait in
a queue; when it is empty the span of the Bellman residual is within the tolerance of the span of V,
the stopping rule of whole sweeps.

Pairs never visited lead anywhere alike: their q is r + gamma mean(V), one number for all of them,
renewed when the mean has moved too far.
"""

from __future__ import annotations

import math

from mdpdsl.kernels.compiled import inner, seldom, total
from mdpdsl.kernels.incentives import KAPPA, MAXENT, Strategy
from mdpdsl.kernels.memory import (
    LARGEST,
    N_BACKUPS,
    N_UNSEEN,
    NEXT_SURVEY,
    PRECISE_AT,
    QUEUE_FIRST,
    QUEUE_SIZE,
    SPAN,
    THRESHOLD,
    TIME,
    UNSEEN_MEAN,
    VALUE_SUM,
    Memory,
)

#: A state worth less than this share of the span is settled relative to its own worth.
CUT_OFF = 0.05
#: The fall of the largest value at which every q is computed afresh, lest old rounding show.
FALL = 0.01
#: Up to so many states a survey costs so little that it comes whenever the mean has moved.
SMALL = 1_000
#: Surveys in one step, at the most.
MOST_SURVEYS = 20
#: Sums of values are not more exact than this, relatively.
ROUNDING = 1e-12
#: Values below this have vanished.
VANISHED = 1e-290


@seldom
def settle(memory: Memory, strategy: Strategy) -> None:
    """Back up states until every residual is small, or as many as a step may.

    If more are waiting than a step may back up, half of them are the latest, which are near: old
    ones far away must not keep the explorer from seeing what has just changed around it.
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
    """Bring q up to date after a visit, whose count and reward are made."""
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


@seldom
def start_afresh(memory: Memory, strategy: Strategy) -> None:
    """Compute every q from the rewards, counts and values."""
    memory.reals[UNSEEN_MEAN] = total(memory.value) / len(memory.value)
    for pair in range(len(memory.q)):
        memory.q[pair] = _fresh_q(memory, strategy, pair)
    _measure(memory)
    memory.reals[PRECISE_AT] = memory.reals[LARGEST]
    memory.reals[THRESHOLD] = _tolerable(memory, strategy)
    _scan(memory, strategy)


@inner
def _has_mean_moved(memory: Memory, strategy: Strategy) -> bool:
    """Tell whether the q of unseen pairs have too old a mean of V in them."""
    if memory.integers[N_UNSEEN] == 0:
        return False
    mean = memory.reals[VALUE_SUM] / len(memory.value)
    moved = strategy.gamma * abs(mean - memory.reals[UNSEEN_MEAN])
    return moved > 0.5 * memory.reals[THRESHOLD] + ROUNDING * abs(mean)


@seldom
def survey(memory: Memory, strategy: Strategy) -> None:
    """Look at all states: the span of V, its mean, and whether what was derived still holds."""
    S = len(memory.value)
    # So often that it costs no more than a few backups per step.
    memory.integers[NEXT_SURVEY] = memory.integers[TIME] + 8 + S // 32
    _measure(memory)
    if memory.reals[LARGEST] < FALL * memory.reals[PRECISE_AT]:
        start_afresh(memory, strategy)
        return
    memory.reals[PRECISE_AT] = max(memory.reals[PRECISE_AT], memory.reals[LARGEST])
    threshold = _tolerable(memory, strategy)
    # To lower it takes a scan: not for less than a half.
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


@inner
def _tolerable(memory: Memory, strategy: Strategy) -> float:
    """Return a quarter of the tolerance of the span of V, or what rounding makes of it.

    The span of the residual is twice that at the most, or four times where the threshold is older.
    """
    return max(
        0.25 * strategy.tolerance * memory.reals[SPAN], ROUNDING * abs(memory.reals[LARGEST])
    )


@inner
def _threshold(memory: Memory, strategy: Strategy, state: int) -> float:
    """Return what residual a state may have.

    Where the estimate has no good way to what is worth most, values are tiny against the span;
    kappa-Explorer's, which are positive, must then be settled by their own size, or it would rest
    where it once had hopes.
    """
    threshold = memory.reals[THRESHOLD]
    if strategy.kind == KAPPA:
        own = (0.5 / CUT_OFF) * strategy.tolerance * memory.value[state]
        return min(threshold, max(own, VANISHED))
    return threshold


@seldom
def _renew_unseen(memory: Memory, strategy: Strategy, mean: float) -> None:
    """Renew the q of unseen pairs for a mean of V that has moved.

    Where kappa-Explorer's values are larger than pairs seen once could make them, nearly all worth
    comes from unseen pairs, u each; all values are then scaled to the u that solves u = r + gamma
    mean, where the mean scales along: one pass instead of as many as it takes for the change to go
    round.
    """
    S = len(memory.value)
    if strategy.kind == KAPPA and mean > 2.0 * strategy.epsilon**strategy.kappa / (
        1.0 - strategy.gamma
    ):
        r = 1.0  # of an unseen pair: its weight is the reference
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
                if memory.visits[pair] == 0:
                    memory.q[pair] = memory.reward[pair] + strategy.gamma * mean
    _scan(memory, strategy)


@seldom
def _scan(memory: Memory, strategy: Strategy) -> None:
    """Put every state with a residual beyond the threshold into the queue."""
    for state in range(len(memory.value)):
        if abs(_best(memory, state) - memory.value[state]) > _threshold(memory, strategy, state):
            _enqueue(memory, state)


@inner
def _back_up(memory: Memory, strategy: Strategy, state: int) -> None:
    """Set V(s) = max_a q(s,a), and tell the pairs that lead there."""
    old = memory.value[state]
    new = _best(memory, state)
    if abs(new) < 0.5 * abs(old):  # what remains after a fall may be rounding: look again
        for pair in range(memory.pair_start[state], memory.pair_start[state + 1]):
            memory.q[pair] = _fresh_q(memory, strategy, pair)
        new = _best(memory, state)
    change = new - old
    if abs(change) <= _threshold(memory, strategy, state):
        return
    memory.value[state] = new
    memory.reals[VALUE_SUM] += change
    change *= strategy.gamma
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
    if memory.visits[pair] == 0:
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
