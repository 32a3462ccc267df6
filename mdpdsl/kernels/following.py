"""Following a policy that was planned for an episode."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray
from mdpdsl.kernels.compiled import entry, inner
from mdpdsl.kernels.incentives import Strategy, complexity_bound
from mdpdsl.kernels.memory import Memory


@inner
def draw_pair(memory: Memory, first: int, end: int, generator: np.random.Generator) -> int:
    """Draw one of a state's pairs as the policy says."""
    u = generator.random()
    for pair in range(first, end - 1):
        if u < memory.policy[pair]:
            return pair
    return end - 1


@entry
def follow(memory: Memory, policy: FloatArray) -> None:
    """Have a policy pi(a|s) [n_pairs] followed from now on."""
    for state in range(len(memory.pair_start) - 1):
        total = 0.0
        last = memory.pair_start[state]
        for pair in range(memory.pair_start[state], memory.pair_start[state + 1]):
            total += policy[pair]
            memory.policy[pair] = total
            if policy[pair] > 0.0:
                last = pair
        # Rounding must not leave a chance for what comes after the last possible pair.
        memory.policy[last : memory.pair_start[state + 1]] = 1.0


@entry
def complexity_bounds(memory: Memory, strategy: Strategy) -> np.ndarray:
    """Return an upper confidence bound of c of every pair, as the plan's bonus has it."""
    bounds = np.empty(len(memory.visits))
    for pair in range(len(bounds)):
        bounds[pair] = complexity_bound(memory, strategy, pair)
    return bounds
