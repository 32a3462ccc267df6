"""Follow a policy that was planned for an episode.

`Memory.policy` has the running sums of pi(a|s) within a state; an action is drawn by inversion.
"""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.space import FloatArray
from mdpdsl.kernels.compiled import entry, inner
from mdpdsl.kernels.incentives import Strategy, complexity_bound
from mdpdsl.kernels.memory import Memory


@inner
def draw_pair(memory: Memory, first: int, end: int, generator: np.random.Generator) -> int:
    """Draw one of a state's pairs from the policy."""
    u = generator.random()
    for pair in range(first, end - 1):
        if u < memory.policy[pair]:
            return pair
    return end - 1


@entry
def follow(memory: Memory, policy: FloatArray) -> None:
    """Set the policy pi(a|s) [n_pairs] to follow from now on."""
    for state in range(len(memory.pair_start) - 1):
        total = 0.0
        last = memory.pair_start[state]
        for pair in range(memory.pair_start[state], memory.pair_start[state + 1]):
            total += policy[pair]
            memory.policy[pair] = total
            if policy[pair] > 0.0:
                last = pair
        # Rounding must not leave a chance to the pairs after the last possible one.
        memory.policy[last : memory.pair_start[state + 1]] = 1.0


@entry
def complexity_bounds(memory: Memory, strategy: Strategy) -> np.ndarray:
    """Return an upper confidence bound of every pair's c, by the bonus of the strategy."""
    bounds = np.empty(len(memory.visits))
    for pair in range(len(bounds)):
        bounds[pair] = complexity_bound(memory, strategy, pair)
    return bounds
