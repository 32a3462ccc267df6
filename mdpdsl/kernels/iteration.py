"""Value iteration by whole Gauss-Seidel sweeps that skip actions which cannot be the best.

V(s) <- max_a [r(s,a) + gamma sum_s' P_hat(s'|s,a) V(s')], state by state in place (Puterman 1994,
chapter 6). Since a pair's q = r + gamma E V was last computed, it has risen by at most gamma times
the sum over sweeps of the largest rise of V. While that bound is below another pair of the state, q
need not be computed (an action elimination, as in MacQueen 1967): the result of the sweep is the
same to the bit.
"""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.graph.space import FloatArray
from mdpdsl.kernels.compiled import inner, seldom, total
from mdpdsl.kernels.incentives import KAPPA, MAXENT, Strategy
from mdpdsl.kernels.memory import (
    N_BACKUPS,
    N_UNSEEN,
    RISE,
    VALUE_SUM,
    IndexArray,
    Memory,
    fill_ends,
    start_sum,
)

#: A state with less than this share of the largest value has no useful path to where that is.
CUT_OFF = 0.01
#: The largest number of sweeps in one step.
MOST_SWEEPS = 1000
#: The sum of rises, in spans of V, at which it is reset to zero, long before rounding matters.
MOST_RISE = 1e4


@seldom
def iterate(memory: Memory, strategy: Strategy, here: int) -> None:
    """Sweep, starting from the last values, until the span of the update is small.

    Where the estimate has no path from here to the largest rewards, the values here are tiny beside
    that span. kappa-Explorer's values are positive; there they must have converged relative to
    their own size as well, or the explorer would stay where an old estimate promised rewards.
    """
    values = memory.value
    for _ in range(MOST_SWEEPS):
        before = values[here]
        span_of_change, smallest, largest = _sweep(memory, strategy.gamma)
        is_settled = span_of_change <= strategy.tolerance * (largest - smallest)
        if is_settled and strategy.kind == KAPPA and values[here] < CUT_OFF * largest:
            is_settled = abs(values[here] - before) <= strategy.tolerance * values[here]
        if memory.reals[RISE] > MOST_RISE * (largest - smallest):
            forget_bounds(memory)
        if is_settled:
            return


@inner
def bounds_after_visit(memory: Memory, strategy: Strategy, pair: int, all_changed: bool) -> None:
    """Mark the pairs whose rewards or successors a visit has changed as to be computed."""
    if all_changed:
        forget_bounds(memory)
    elif strategy.kind == MAXENT:
        state = memory.pair_state[pair]
        memory.q[memory.pair_start[state] : memory.pair_start[state + 1]] = math.inf
    else:
        memory.q[pair] = math.inf


@seldom
def forget_bounds(memory: Memory) -> None:
    """Mark every pair as to be computed in the next sweep."""
    memory.q[:] = math.inf
    memory.reals[RISE] = 0.0


@inner
def expectation(
    probability: FloatArray, successor: IndexArray, values: FloatArray, start: int, size: int
) -> float:
    """Return the sum of P_hat V over the slots of a pair."""
    result = 0.0
    for slot in range(np.uint64(start), np.uint64(start + size)):  # unsigned is 3 times as fast
        result += probability[slot] * values[successor[slot]]
    return result


@inner
def _sweep(memory: Memory, gamma: float) -> tuple[float, float, float]:
    """Do one sweep; return the span of the change, and the smallest and the largest value.

    `memory.q` has for each pair an upper bound of q, minus gamma times the rises up to then.
    """
    values, q, greedy = memory.value, memory.q, memory.greedy
    pair_start, reward = memory.pair_start, memory.reward
    slot_start, slot_size = memory.slot_start, memory.slot_size
    slot_probability, slot_state = memory.slot_probability, memory.slot_state
    S = len(values)
    has_unseen = memory.integers[N_UNSEEN] > 0
    value_sum = total(values) if has_unseen else 0.0
    low, high = math.inf, -math.inf
    smallest, largest = math.inf, -math.inf
    rise_before = memory.reals[RISE]
    rise = 0.0  # of this sweep so far
    for state in range(S):
        first, end = pair_start[state], pair_start[state + 1]
        if first == end:
            continue
        best_pair = greedy[state]
        best = -math.inf
        for turn in range(-1, end - first):
            pair = best_pair if turn < 0 else first + turn
            if turn >= 0 and (
                pair == best_pair or q[pair] + gamma * (rise_before + rise) * 1.000000001 < best
            ):
                continue
            if slot_size[pair] > 0:
                mean = expectation(
                    slot_probability, slot_state, values, slot_start[pair], slot_size[pair]
                )
            else:
                mean = value_sum / S
            new = reward[pair] + gamma * mean
            q[pair] = new - gamma * rise_before
            if new > best:
                best = new
                greedy[state] = pair
        change = best - values[state]
        value_sum += change
        values[state] = best
        rise = max(rise, change)
        low, high = min(low, change), max(high, change)
        smallest, largest = min(smallest, best), max(largest, best)
    if len(memory.ends) > 0:
        change = fill_ends(memory, values, start_sum(memory, values))
        value_sum += change * len(memory.ends)
        rise = max(rise, change)
        low, high = min(low, change), max(high, change)
    memory.reals[RISE] = rise_before + rise
    memory.integers[N_BACKUPS] += S
    if has_unseen:
        memory.reals[VALUE_SUM] = value_sum
    return high - low, smallest, largest
