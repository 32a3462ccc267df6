"""Planning on the estimate: value iteration, truncated lookahead, prioritized sweeping.

P_hat(s'|s,a) = T(s,a,s')/T(s,a), and 1/S for a pair never visited: its expectation of V is mean(V),
carried along instead of a dense row.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from mdpdsl.kernels.memory import N_BACKUPS, QUEUE_FIRST, QUEUE_SIZE, VALUE_SUM, Memory
from mdpdsl.kernels.rewards import KAPPA, RANDOM, Plan

#: A state worth less than this share of the best has no way there that matters.
CUT_OFF = 0.01
#: Below this, rewards within reach have vanished beside those out of reach.
VANISHED = 1e-280
#: Sweeps of value iteration in one step, at the most.
MOST_SWEEPS = 1000


@nb.njit(cache=True)
def choose(memory: Memory, plan: Plan, state: int, generator: np.random.Generator) -> int:
    """Return the pair to take in a state: plan as the settings say, then act greedily."""
    first, end = memory.pair_start[state], memory.pair_start[state + 1]
    if plan.kind == RANDOM or (plan.greed < 1.0 and generator.random() >= plan.greed):
        return first + int(generator.random() * (end - first))
    if plan.horizon == 1:
        return _best_pair(memory, memory.value, first, end, 0.0)
    if plan.horizon > 1:
        values = _lookahead(memory, plan)
        return _best_pair(memory, values, first, end, plan.gamma)
    if plan.is_prioritized:
        _sweep_prioritized(memory, plan, state)
    else:
        _iterate(memory, plan, state)
    if plan.kind == KAPPA and memory.value[state] < VANISHED:
        return _least_known_pair(memory, first, end)
    gamma = plan.gamma if plan.discounts_last else 1.0
    return _best_pair(memory, memory.value, first, end, gamma)


@nb.njit(cache=True)
def bellman_residual(memory: Memory, plan: Plan) -> float:
    """Return the span of TV - V relative to the span of V: how far the values are from solved."""
    low, high = math.inf, -math.inf
    mean = memory.value.sum() / len(memory.value)
    for state in range(len(memory.value)):
        change = _backup(memory, memory.value, state, plan.gamma, mean) - memory.value[state]
        low, high = min(low, change), max(high, change)
    span = memory.value.max() - memory.value.min()
    return (high - low) / span if span > 0 else 0.0


@nb.njit(cache=True)
def _expectation(memory: Memory, values: np.ndarray, pair: int, mean: float) -> float:
    T = memory.visits[pair]
    if T == 0:
        return mean
    start = memory.slot_start[pair]
    total = 0.0
    for slot in range(start, start + memory.slot_size[pair]):
        total += memory.slot_count[slot] * values[memory.slot_state[slot]]
    return total / T


@nb.njit(cache=True)
def _backup(memory: Memory, values: np.ndarray, state: int, gamma: float, mean: float) -> float:
    """Return max_a [r + gamma E V]: the Bellman operator as it is written."""
    best = -math.inf
    for pair in range(memory.pair_start[state], memory.pair_start[state + 1]):
        q = memory.reward[pair] + gamma * _expectation(memory, values, pair, mean)
        best = max(best, q)
    return best


@nb.njit(cache=True)
def _best_pair(memory: Memory, values: np.ndarray, first: int, end: int, gamma: float) -> int:
    """Return the first pair of a state that is best: reward + gamma E V."""
    mean = values.sum() / len(values) if gamma > 0.0 else 0.0
    best, chosen = -math.inf, first
    for pair in range(first, end):
        q = memory.reward[pair]
        if gamma > 0.0:
            q += gamma * _expectation(memory, values, pair, mean)
        if q > best:
            best, chosen = q, pair
    return chosen


@nb.njit(cache=True)
def _least_known_pair(memory: Memory, first: int, end: int) -> int:
    """Return the first pair of a state with the largest UCB(c)/T+."""
    chosen = first
    for pair in range(first + 1, end):
        if memory.weight[pair] > memory.weight[chosen]:
            chosen = pair
    return chosen


@nb.njit(cache=True)
def _iterate(memory: Memory, plan: Plan, here: int) -> None:
    """Gauss-Seidel value iteration from the last values, until the update's span is small.

    Where the estimate has no way from here to what is worth most, the values here are tiny against
    that span; kappa-Explorer's, which are positive, must then have settled by their own size as
    well, or it would rest where it once had hopes.
    """
    values = memory.value
    S = len(values)
    for _ in range(MOST_SWEEPS):
        before = values[here]
        total = values.sum()
        low, high = math.inf, -math.inf
        smallest, largest = math.inf, -math.inf
        for state in range(S):
            new = _backup(memory, values, state, plan.gamma, total / S)
            change = new - values[state]
            total += change
            values[state] = new
            low, high = min(low, change), max(high, change)
            smallest, largest = min(smallest, new), max(largest, new)
        memory.integers[N_BACKUPS] += S
        is_settled = high - low <= plan.tolerance * (largest - smallest)
        if is_settled and plan.kind == KAPPA and values[here] < CUT_OFF * largest:
            is_settled = abs(values[here] - before) <= plan.tolerance * values[here]
        if is_settled:
            return


@nb.njit(cache=True)
def _lookahead(memory: Memory, plan: Plan) -> np.ndarray:
    """Return the values of horizon - 1 more steps (paper, truncated planning)."""
    if plan.horizon == 2:
        return memory.best_reward
    memory.scratch[0] = memory.best_reward
    current = 0
    for _ in range(plan.horizon - 2):
        old, new = memory.scratch[current], memory.scratch[1 - current]
        mean = old.sum() / len(old)
        for state in range(len(old)):
            new[state] = _backup(memory, old, state, plan.gamma, mean)
        current = 1 - current
    return memory.scratch[current]


@nb.njit(cache=True)
def _sweep_prioritized(memory: Memory, plan: Plan, state: int) -> None:
    """Back up the current state, then those whose values depend on what has changed.

    A queue of states in the order of their calls; a change is passed on to the states with a pair
    seen to lead there if it matters beyond the tolerance.
    """
    values = memory.value
    S = len(values)
    _enqueue(memory, state)
    scale = max(1e-300, abs(values[state]))
    for _ in range(plan.most_backups):
        if memory.integers[QUEUE_SIZE] == 0:
            return
        first = memory.integers[QUEUE_FIRST]
        current = memory.queue[first]
        memory.integers[QUEUE_FIRST] = (first + 1) % S
        memory.integers[QUEUE_SIZE] -= 1
        memory.is_queued[current] = False
        mean = memory.reals[VALUE_SUM] / S
        new = _backup(memory, values, current, plan.gamma, mean)
        change = new - values[current]
        values[current] = new
        memory.reals[VALUE_SUM] += change
        memory.integers[N_BACKUPS] += 1
        if abs(change) <= plan.tolerance * scale:
            continue
        link = memory.chain_first[current]
        while link >= 0:
            _enqueue(memory, memory.pair_state[memory.chain_pair[link]])
            link = memory.chain_next[link]


@nb.njit(cache=True)
def _enqueue(memory: Memory, state: int) -> None:
    if memory.is_queued[state]:
        return
    S = len(memory.queue)
    memory.queue[(memory.integers[QUEUE_FIRST] + memory.integers[QUEUE_SIZE]) % S] = state
    memory.integers[QUEUE_SIZE] += 1
    memory.is_queued[state] = True
