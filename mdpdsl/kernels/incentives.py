"""The planning rewards of the explorers, updated pair by pair.

kappa-Explorer plans with r(s,a) = UCB(c^kappa) / T+^kappa (paper, algorithm general-dp), which
spans more than 1e40 at kappa = 10. It is computed as r = exp(kappa (log x - reference)) with
x = UCB(c)/T+. When the largest log x is too far from the reference, the reference moves there and
the values are rescaled, so that for any kappa rewards neither overflow nor all vanish. The rewards
of the other explorers are logarithms and need no scaling: -log d_hat(s) for maxent (Hazan et al.
2019), c (log n - log T) for weighted-maxent (Tarbouriech et al. 2020), log target - log d_hat(s,a)
for smm (Lee et al. 2019).

A pair whose row is known has c = 0: there is nothing to learn, and no reward. Where rewards are
logarithms of 1/T, it counts as visited n times, n being the steps of the run: less than any other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mdpdsl.kernels.compiled import inner, largest, seldom, total
from mdpdsl.kernels.memory import (
    BEST_SUM,
    BLOCK,
    N_UNSEEN,
    NEXT_REBASE,
    NEXT_REFRESH,
    REFERENCE,
    START_BEST,
    TIME,
    VACUOUS_VISITS,
    VALUE_SUM,
    Memory,
    fill_ends,
    start_sum,
)

#: The values of `Strategy.kind`.
RANDOM, KAPPA, MAXENT, WEIGHTED_MAXENT, SMM, POLICY, TRACKING = range(7)
#: The values of `Strategy.bonus`.
NO_BONUS, PAPER_BONUS, BERNSTEIN_BONUS = range(3)
#: Rewards are rebased when their largest exponent passes this: e^-30 is far from underflow.
FARTHEST = 30.0
#: The shortfall of a pair that has reached its target after one visit.
LEAST_SHORTFALL = 1e-9
#: All bounds are recomputed when time has grown by this factor; in between log(1/delta_t) hardly
#: changes.
REFRESH_FACTOR = 1.01


class Strategy(NamedTuple):
    """The settings of an explorer as numbers."""

    kind: int
    kappa: float
    gamma: float
    epsilon: float  # T+ = max(T, epsilon)
    delta: float
    bonus: int
    beta: float  # of the Bernstein bonus
    log_steps: float  # log n, for weighted-maxent
    horizon: int  # 0: infinite
    greed: float  # probability of planning; else a random action (maxent)
    is_uniform_target: bool  # smm: match the uniform distribution
    discounts_last: bool  # whether the choice of action discounts, as the values do
    is_prioritized: bool
    tolerance: float  # of value iteration, relative to the span of V
    most_backups: int  # of prioritized sweeping, per step
    is_steering: bool  # kappa: x is the shortfall of a pair from its target


@inner
def complexity_bound(memory: Memory, strategy: Strategy, pair: int) -> float:
    """Return an upper confidence bound of c(s,a) = 1 - sum P^2, at most 1.

    The paper's: c_hat + S sqrt(log(2S/delta_t) / (2T)), delta_t = delta / (pi^2/3 SA t^2) (paper,
    fact uniform_conf_P_c_kappa). Bernstein's: c_hat T/(T-1) + beta sqrt(c_hat(1-c_hat)/T) +
    beta^2/T.
    """
    T = memory.visits[pair]
    if memory.rest[pair] == 0.0:
        return 0.0
    if T == 0 or (strategy.bonus == PAPER_BONUS and memory.integers[VACUOUS_VISITS] >= T):
        return 1.0
    c = 1.0 - memory.squares[pair] / (float(T) * T)
    if strategy.bonus == PAPER_BONUS:
        bound = c + len(memory.value) * math.sqrt(_log_term(memory, strategy) / (2.0 * T))
    elif strategy.bonus == BERNSTEIN_BONUS:
        if T == 1:
            return 1.0
        c = min(1.0, c * T / (T - 1.0))
        bound = c + strategy.beta * math.sqrt(c * (1.0 - c) / T) + strategy.beta**2 / T
    else:
        bound = c
    return min(1.0, bound)


@inner
def _log_term(memory: Memory, strategy: Strategy) -> float:
    """Return log(2S/delta_t)."""
    S, n_pairs = len(memory.value), len(memory.visits)
    t = float(max(1, memory.integers[TIME]))
    return math.log(2.0 * S * math.pi**2 / 3.0 * n_pairs * t * t / strategy.delta)


@seldom
def start(memory: Memory, strategy: Strategy) -> None:
    """Compute all rewards, and the values for a model of which nothing is known."""
    refresh(memory, strategy)
    memory.value[:] = memory.reward[0] / (1.0 - strategy.gamma)
    memory.reals[VALUE_SUM] = total(memory.value)


@seldom
def refresh(memory: Memory, strategy: Strategy) -> None:
    """Recompute all bounds and rewards."""
    if strategy.kind == POLICY:  # its bounds are computed when an episode begins
        return
    for pair in range(len(memory.visits)):
        memory.upper[pair] = complexity_bound(memory, strategy, pair)
        memory.weight[pair] = _weight(memory, strategy, pair)
    if strategy.kind == KAPPA:
        for block in range(len(memory.block_best)):
            _renew_block(memory, block)
        _rebase(memory, strategy)
    else:
        for pair in range(len(memory.visits)):
            memory.reward[pair] = memory.weight[pair]
    _renew_all_best(memory)


@inner
def reward_after_visit(memory: Memory, strategy: Strategy, pair: int) -> bool:
    """Update the rewards after a visit of a pair; return whether all of them may have changed.

    If not, only the pair's has, and for maxent those of all pairs of its state.
    """
    if strategy.kind in (RANDOM, POLICY):
        return False
    if strategy.bonus == PAPER_BONUS and memory.integers[TIME] >= memory.integers[NEXT_REFRESH]:
        note_time(memory, strategy)
        if largest(memory.visits) > memory.integers[VACUOUS_VISITS]:
            refresh(memory, strategy)
            return True
    state = int(memory.pair_state[pair])
    if strategy.kind == MAXENT:
        weight = _state_weight(memory, strategy, state)
        for other in range(memory.pair_start[state], memory.pair_start[state + 1]):
            if memory.rest[other] > 0.0:
                memory.weight[other] = weight
                memory.reward[other] = weight
    else:
        memory.upper[pair] = complexity_bound(memory, strategy, pair)
        before = memory.weight[pair]
        weight = _weight(memory, strategy, pair)
        memory.weight[pair] = weight
        if strategy.kind == KAPPA:
            exponent = strategy.kappa * (weight - memory.reals[REFERENCE])
            memory.reward[pair] = math.exp(min(exponent, FARTHEST))
            if _needs_rebase(memory, strategy, pair, before):
                _rebase(memory, strategy)
                _renew_all_best(memory)
                return True
        else:
            memory.reward[pair] = weight
    if strategy.horizon > 1:
        _renew_best(memory, state)
    return False


@inner
def note_time(memory: Memory, strategy: Strategy) -> None:
    """Note up to how many visits the paper's bound of c is 1 now, and when to check again."""
    t = memory.integers[TIME]
    memory.integers[NEXT_REFRESH] = max(t + 1, int(t * REFRESH_FACTOR))
    S = float(len(memory.value))
    memory.integers[VACUOUS_VISITS] = int(min(1e18, S * S * _log_term(memory, strategy) / 2.0))


@inner
def _needs_rebase(memory: Memory, strategy: Strategy, pair: int, before: float) -> bool:
    """Update the largest weight of a block; return whether the largest has left the reference.

    The largest of all blocks is computed only now and then, as rewards are far from vanishing.
    """
    block = pair // BLOCK
    weight = memory.weight[pair]
    if weight > memory.block_best[block]:
        memory.block_best[block] = weight
    elif before >= memory.block_best[block]:
        _renew_block(memory, block)
    # Nothing weighs more than an unseen pair, so while there is one, its weight is the reference.
    if memory.integers[N_UNSEEN] > 0 or memory.integers[TIME] < memory.integers[NEXT_REBASE]:
        return False
    memory.integers[NEXT_REBASE] = memory.integers[TIME] + 1 + len(memory.block_best) // 8
    exponent = strategy.kappa * (largest(memory.block_best) - memory.reals[REFERENCE])
    return exponent < -FARTHEST or exponent > 0.0


@inner
def _weight(memory: Memory, strategy: Strategy, pair: int) -> float:
    """Return log x for kappa-Explorer, and the reward itself for the others.

    The files of `mdpdsl.explore.algorithms` state these rules; tests compare the two.
    """
    if memory.rest[pair] == 0.0:
        return _known_weight(strategy)
    if strategy.kind == MAXENT:
        return _state_weight(memory, strategy, int(memory.pair_state[pair]))
    if strategy.is_steering and memory.visits[pair] > 0:
        return _shortfall(memory, pair)
    log_visits = math.log(max(float(memory.visits[pair]), strategy.epsilon))
    c = memory.upper[pair]
    if strategy.kind == WEIGHTED_MAXENT:  # c (log n - log T) (Tarbouriech et al. 2020)
        return c * (strategy.log_steps - log_visits)
    if strategy.kind == SMM and strategy.is_uniform_target:
        return -log_visits
    if c <= 0.0:
        return -math.inf if strategy.kind == KAPPA else -1e3 - log_visits
    return math.log(c) - log_visits  # kappa: log x; smm: log target - log d_hat (Lee et al. 2019)


@inner
def _state_weight(memory: Memory, strategy: Strategy, state: int) -> float:
    """Return -log d_hat(s), up to the constant log t, which no policy can change."""
    return -math.log(max(float(memory.state_visits[state]), strategy.epsilon))


@inner
def _known_weight(strategy: Strategy) -> float:
    """Return the weight of a pair whose row is known: that of no reward."""
    if strategy.kind == WEIGHTED_MAXENT:
        return 0.0
    if strategy.kind in (MAXENT, SMM):
        return -strategy.log_steps
    return -math.inf


@inner
def _shortfall(memory: Memory, pair: int) -> float:
    """Return log x with x = (target - T) / (target + T), which is less than for an unseen pair.

    A pair that has reached its target gets next to no reward, and less the more it was visited.
    """
    target, T = memory.target[pair], memory.visits[pair]
    least = LEAST_SHORTFALL / T
    return math.log(max((target - T) / (target + T), least))


@inner
def _renew_block(memory: Memory, block: int) -> None:
    best = -math.inf
    for pair in range(block * BLOCK, min(len(memory.visits), (block + 1) * BLOCK)):
        best = max(best, memory.weight[pair])
    memory.block_best[block] = best


@inner
def _renew_best(memory: Memory, state: int) -> None:
    best = _best_reward(memory, state)
    change = best - memory.best_reward[state]
    memory.reals[BEST_SUM] += change
    memory.best_reward[state] = best
    if len(memory.ends) > 0 and memory.starts[state] > 0:
        memory.reals[START_BEST] += memory.starts[state] * change
        renew_best_of_ends(memory)


@inner
def renew_best_of_ends(memory: Memory) -> None:
    """Give the ends the mean of the best rewards over the starts."""
    change = fill_ends(memory, memory.best_reward, memory.reals[START_BEST])
    memory.reals[BEST_SUM] += len(memory.ends) * change


@inner
def _best_reward(memory: Memory, state: int) -> float:
    best = -math.inf
    for pair in range(memory.pair_start[state], memory.pair_start[state + 1]):
        best = max(best, memory.reward[pair])
    return best


@seldom
def _renew_all_best(memory: Memory) -> None:
    for state in range(len(memory.value)):
        if memory.pair_start[state] < memory.pair_start[state + 1]:
            memory.best_reward[state] = _best_reward(memory, state)
    if len(memory.ends) > 0:
        memory.reals[START_BEST] = start_sum(memory, memory.best_reward)
        fill_ends(memory, memory.best_reward, memory.reals[START_BEST])
    memory.reals[BEST_SUM] = total(memory.best_reward)


@seldom
def _rebase(memory: Memory, strategy: Strategy) -> None:
    """Make the largest reward 1 again, and scale the values with it."""
    top = largest(memory.block_best)
    if top == -math.inf:  # every pair is deterministic: nothing is left to learn
        memory.reward[:] = 0.0
        return
    scale = math.exp(min(700.0, strategy.kappa * (memory.reals[REFERENCE] - top)))
    memory.reals[REFERENCE] = top
    for pair in range(len(memory.visits)):
        memory.reward[pair] = math.exp(strategy.kappa * (memory.weight[pair] - top))
    value_sum = 0.0
    ceiling = 1.0 / (1.0 - strategy.gamma)
    for state in range(len(memory.value)):
        memory.value[state] = min(ceiling, memory.value[state] * scale)
        value_sum += memory.value[state]
    memory.reals[VALUE_SUM] = value_sum
