"""Put counts from elsewhere into a memory at once, and plan from them.

Learning them one by one would update rewards and values once per transition.
"""

from __future__ import annotations

from mdpdsl.graph.space import IntArray
from mdpdsl.kernels.compiled import entry, total
from mdpdsl.kernels.incentives import (
    KAPPA,
    PAPER_BONUS,
    POLICY,
    RANDOM,
    TRACKING,
    Strategy,
    note_time,
    refresh,
)
from mdpdsl.kernels.iteration import forget_bounds, iterate
from mdpdsl.kernels.memory import VALUE_SUM, Memory, count_many, has_room, renew_row
from mdpdsl.kernels.prioritized import start_afresh


@entry
def add_entries(
    memory: Memory, pairs: IntArray, successors: IntArray, counts: IntArray, done: int
) -> int:
    """Add T(s,a,s') starting with the entry `done`; return how many entries are done afterwards.

    Entries are grouped by pair, and a pair has each successor once. If not all are done, the
    memory needs a larger pool.
    """
    last, n_known = -1, 0
    while done < len(pairs) and has_room(memory):
        pair = pairs[done]
        if pair != last:
            last, n_known = pair, int(memory.slot_size[pair])
        count_many(memory, pair, successors[done], counts[done], n_known)
        done += 1
    return done


@entry
def plan_afresh(memory: Memory, strategy: Strategy) -> None:
    """Compute probabilities, bounds and rewards from the counts, and solve for the values."""
    for pair in range(len(memory.visits)):
        if memory.visits[pair] > 0:
            renew_row(memory, pair)
    if strategy.kind in (RANDOM, POLICY):
        return
    if strategy.bonus == PAPER_BONUS:
        note_time(memory, strategy)
    refresh(memory, strategy)
    if strategy.kind == TRACKING:
        return
    # kappa-Explorer's rewards are positive and span many orders of magnitude. Starting from zero,
    # even tiny values converge quickly; falling from above they would take long.
    start_value = 0.0
    if strategy.kind != KAPPA:
        start_value = total(memory.best_reward) / len(memory.value) / (1.0 - strategy.gamma)
    memory.value[:] = start_value
    memory.reals[VALUE_SUM] = total(memory.value)
    if strategy.horizon > 0:
        return
    forget_bounds(memory)
    iterate(memory, strategy, 0)
    memory.reals[VALUE_SUM] = total(memory.value)
    forget_bounds(memory)
    if strategy.is_prioritized:
        start_afresh(memory, strategy)
