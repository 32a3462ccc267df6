"""An explorer's two moves: choose a pair by planning on the estimate, and learn from a transition.

The plan solves  V(s) = max_a [r(s,a) + gamma sum_s' P_hat(s'|s,a) V(s')]  with the rewards of
`incentives`, by whole sweeps (`iteration`) or by prioritized sweeping; a horizon of k steps applies
the operator k - 1 times instead (paper, truncated planning). The estimate is
P_hat(s'|s,a) = T(s,a,s')/T(s,a), and 1/S for a pair never visited, whose expectation of V is
therefore mean(V): no dense row is stored. `known_slots` says what it is if more is known.
"""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.kernels.compiled import entry, inner, seldom, total
from mdpdsl.kernels.following import draw_pair
from mdpdsl.kernels.incentives import (
    KAPPA,
    POLICY,
    RANDOM,
    TRACKING,
    Strategy,
    renew_best_of_ends,
    reward_after_visit,
)
from mdpdsl.kernels.iteration import bounds_after_visit, expectation, iterate
from mdpdsl.kernels.memory import (
    BEST_SUM,
    N_STARTS,
    START_BEST,
    START_SUM,
    VALUE_SUM,
    Memory,
    count,
    fill_ends,
    start_sum,
)
from mdpdsl.kernels.prioritized import follow_starts, follow_visit, settle

#: Values whose relative difference is smaller differ by rounding only. It has to be this small, as
#: values may share a large constant that no choice changes.
TIE = 2e-15
#: A smaller value means that reachable rewards are negligible beside those out of reach.
VANISHED = 1e-280


@inner
def choose(memory: Memory, strategy: Strategy, state: int, generator: np.random.Generator) -> int:
    """Return the pair to take in a state: plan as the strategy says, then act greedily."""
    first, end = memory.pair_start[state], memory.pair_start[state + 1]
    if strategy.kind == POLICY:
        return draw_pair(memory, first, end, generator)
    if strategy.kind == TRACKING:
        return _pair_ahead(memory, first, end)
    if strategy.kind == RANDOM or (strategy.greed < 1.0 and generator.random() >= strategy.greed):
        return first + int(generator.random() * (end - first))
    if strategy.horizon == 1:
        return _best_pair(memory, memory.value, first, end, 0.0, 0.0)
    if strategy.horizon == 2:
        mean = memory.reals[BEST_SUM] / len(memory.value)
        return _best_pair(memory, memory.best_reward, first, end, strategy.gamma, mean)
    if strategy.horizon > 2:
        values = memory.scratch[_lookahead(memory, strategy)]
        mean = total(values) / len(values)
        return _best_pair(memory, values, first, end, strategy.gamma, mean)
    if strategy.is_prioritized:
        settle(memory, strategy)
    else:
        iterate(memory, strategy, state)
    if strategy.kind == KAPPA and memory.value[state] < VANISHED:
        return _least_known_pair(memory, first, end)
    if strategy.is_prioritized:
        return _best_known_pair(memory, strategy, first, end)
    gamma = strategy.gamma if strategy.discounts_last else 1.0
    mean = memory.reals[VALUE_SUM] / len(memory.value)
    return _best_pair(memory, memory.value, first, end, gamma, mean)


@inner
def learn(memory: Memory, strategy: Strategy, pair: int, following: int) -> None:
    """Learn from one transition: update counts, rewards, and what the values depend on."""
    count(memory, pair, following)
    all_changed = reward_after_visit(memory, strategy, pair)
    if strategy.horizon > 0 or strategy.kind in (RANDOM, POLICY, TRACKING):
        return
    if strategy.is_prioritized:
        follow_visit(memory, strategy, pair, all_changed)
    else:
        bounds_after_visit(memory, strategy, pair, all_changed)


@inner
def start_episode(memory: Memory, strategy: Strategy, state: int) -> None:
    """Note that an episode starts in a state: ends have the mean value of the starts."""
    memory.starts[state] += 1
    memory.integers[N_STARTS] += 1
    if len(memory.ends) == 0:
        return
    memory.here[0] = state
    memory.reals[START_SUM] += memory.value[state]
    memory.reals[START_BEST] += memory.best_reward[state]
    if strategy.horizon > 1:
        renew_best_of_ends(memory)
    elif strategy.horizon == 0 and strategy.is_prioritized:
        follow_starts(memory, strategy)


@entry
def bellman_residual(memory: Memory, strategy: Strategy) -> float:
    """Return the span of TV - V, T being the Bellman operator, relative to the span of V."""
    low, high = math.inf, -math.inf
    smallest, largest = math.inf, -math.inf
    mean = total(memory.value) / len(memory.value)
    for state in range(len(memory.value)):
        if memory.pair_start[state] == memory.pair_start[state + 1]:
            continue
        change = _backup(memory, memory.value, state, strategy.gamma, mean) - memory.value[state]
        low, high = min(low, change), max(high, change)
        smallest, largest = min(smallest, memory.value[state]), max(largest, memory.value[state])
    span = largest - smallest
    return (high - low) / span if span > 0 else 0.0


@inner
def _expectation(memory: Memory, values: np.ndarray, pair: int, mean: float) -> float:
    if memory.slot_size[pair] == 0:
        return mean
    return expectation(
        memory.slot_probability,
        memory.slot_state,
        values,
        memory.slot_start[pair],
        memory.slot_size[pair],
    )


@inner
def _backup(memory: Memory, values: np.ndarray, state: int, gamma: float, mean: float) -> float:
    """Return max_a [r + gamma E V], the Bellman operator at one state."""
    best = -math.inf
    for pair in range(memory.pair_start[state], memory.pair_start[state + 1]):
        q = memory.reward[pair] + gamma * _expectation(memory, values, pair, mean)
        best = max(best, q)
    return best


@inner
def _best_pair(
    memory: Memory, values: np.ndarray, first: int, end: int, gamma: float, mean: float
) -> int:
    """Return the first pair of a state with the largest reward + gamma E V."""
    best, worst, chosen = -math.inf, math.inf, first
    for pair in range(first, end):
        q = memory.reward[pair]
        if gamma > 0.0:
            q += gamma * _expectation(memory, values, pair, mean)
        if q > best:
            best, chosen = q, pair
        worst = min(worst, q)
    return _chosen_or_least_known(memory, first, end, chosen, best, worst)


@inner
def _best_known_pair(memory: Memory, strategy: Strategy, first: int, end: int) -> int:
    """Return the first pair of a state with the largest q."""
    best, worst, chosen = -math.inf, math.inf, first
    for pair in range(first, end):
        q = memory.q[pair]
        if not strategy.discounts_last:
            q = memory.reward[pair] + (q - memory.reward[pair]) / strategy.gamma
        if q > best:
            best, chosen = q, pair
        worst = min(worst, q)
    return _chosen_or_least_known(memory, first, end, chosen, best, worst)


@inner
def _pair_ahead(memory: Memory, first: int, end: int) -> int:
    """Return, among a state's pairs below their target, the one with the largest UCB(c)/T+.

    If a state is visited as often as planned, the order of its pairs does not matter. If it is
    visited less often, this order gives every pair its share. Where no pair is half a visit below
    its target, return the one that exceeds its target the least. A pair whose row is known is only
    passed through; it keeps its share of the planned visits of its state.
    """
    if len(memory.share) > 0:
        due = _known_pair_due(memory, first, end)
        if due >= 0:
            return due
    chosen, nearest = -1, first
    for pair in range(first, end):
        missing = memory.target[pair] - memory.visits[pair]
        if missing >= 0.5 and (chosen < 0 or memory.weight[pair] > memory.weight[chosen]):
            chosen = pair
        if missing > memory.target[nearest] - memory.visits[nearest]:
            nearest = pair
    return nearest if chosen < 0 else chosen


@seldom
def _known_pair_due(memory: Memory, first: int, end: int) -> int:
    """Return the known pair that is most behind the plan of its state; -1 if none is.

    `memory.policy` has the visits that were planned, which began when the targets were set.
    """
    missing, planned = 0.0, 0.0
    for pair in range(first, end):
        missing += max(memory.target[pair] - memory.visits[pair], 0.0)
        planned += memory.policy[pair]
    if planned <= 0.0:
        return -1
    due, most = -1, missing / planned
    for pair in range(first, end):
        left = memory.target[pair] - memory.visits[pair]
        if memory.rest[pair] == 0.0 and left >= 0.5 and left > most * memory.policy[pair]:
            due, most = pair, left / memory.policy[pair]
    return due


@inner
def _chosen_or_least_known(
    memory: Memory, first: int, end: int, chosen: int, best: float, worst: float
) -> int:
    """Return the pair that was chosen, or the least known one if all have the same value.

    They do where no path to a reward is known; the explorer would then repeat the first for ever.
    """
    if best - worst <= TIE * abs(best):
        return _least_known_pair(memory, first, end)
    return chosen


@inner
def _least_known_pair(memory: Memory, first: int, end: int) -> int:
    """Return the first pair of a state with the largest UCB(c)/T+; of known ones, the rarest.

    Where all rows are known and no reward is in sight, each action in its turn makes a rotor walk
    (Priezzhev et al. 1996), which visits all states that certain moves connect.
    """
    chosen = first
    for pair in range(first + 1, end):
        weight, best = memory.weight[pair], memory.weight[chosen]
        if weight > best or (
            weight == best
            and memory.rest[pair] == 0.0
            and memory.visits[pair] < memory.visits[chosen]
        ):
            chosen = pair
    return chosen


@seldom
def _lookahead(memory: Memory, strategy: Strategy) -> int:
    """Compute the values of horizon - 1 steps (paper, truncated planning); return their row."""
    for state in range(len(memory.value)):
        memory.scratch[0, state] = memory.best_reward[state]
    current = 0
    for _ in range(strategy.horizon - 2):
        old, new = memory.scratch[current], memory.scratch[1 - current]
        mean = total(old) / len(old)
        for state in range(len(old)):
            if memory.pair_start[state] < memory.pair_start[state + 1]:
                new[state] = _backup(memory, old, state, strategy.gamma, mean)
            else:
                new[state] = old[state]
        if len(memory.ends) > 0:
            fill_ends(memory, new, start_sum(memory, new))
        current = 1 - current
    return current
