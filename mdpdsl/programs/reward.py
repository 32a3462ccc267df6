"""The linear program of optimal values (d'Epenoux 1963; Puterman 1994, section 6.9).

    minimise sum_s V(s)   subject to   V(s) - sum_s' W(s,a,s') V(s') >= c(s,a)   every pair,

with W = gamma P and c the reward. Solvers have absolute tolerances only, so the program is stated
in V (1 - gamma)/max|c|, whose entries are of order 1. The dual of a pair's row is the weight with
which an optimal policy takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.program import Block, LinearProgram, Solution


@dataclass(frozen=True, eq=False)
class RewardSolution:
    """The optimum of the program, within the solver's tolerance."""

    values: FloatArray  # [n_states]
    choice: IntArray  # [n_states]  the pair of largest weight


Decode = Callable[[Solution], RewardSolution]


def reward_program(
    graph: TransitionGraph, reward: FloatArray, gamma: float
) -> tuple[LinearProgram, Decode]:
    """Return the program that maximises the discounted reward [n_pairs], and its decoder."""
    if not 0 <= gamma < 1:
        raise ValueError(f"the discount {gamma} is not in [0, 1)")
    matrix = gamma * graph.transition_matrix()
    scale = max(float(np.abs(reward).max()), np.finfo(np.float64).tiny) / (1 - gamma)

    def state_name(state: int) -> tuple[object, ...]:
        return tuple(graph.states.native(state).values())

    def pair_name(pair: int) -> tuple[object, ...]:
        action = graph.actions.labels[int(graph.pair_action[pair])]
        return (*state_name(int(graph.pair_state[pair])), action)

    return affine_program(
        matrix, reward, graph.pair_start, scale, names=("reward", state_name, pair_name)
    )


def affine_program(
    matrix: csr_array,
    constant: FloatArray,
    pair_start: IntArray,
    scale: float,
    names: tuple[str, Callable[[int], tuple[object, ...]], Callable[[int], tuple[object, ...]]] = (
        "values",
        lambda i: (i,),
        lambda i: (i,),
    ),
) -> tuple[LinearProgram, Decode]:
    """Return the program of  V(s) = max_a c + W V,  W [n_pairs, n_states], and its decoder.

    `scale` is the approximate size of the values.
    """
    n_pairs, n_states = matrix.shape
    state_of = np.repeat(np.arange(n_states), np.diff(pair_start))
    incidence = csr_array((np.ones(n_pairs), (np.arange(n_pairs), state_of)), shape=matrix.shape)
    name, state_name, pair_name = names
    program = LinearProgram(
        name=name,
        objective=-np.ones(n_states) / n_states,
        matrix=csr_array(incidence - matrix),
        row_lower=constant / scale,
        row_upper=np.full(n_pairs, np.inf),
        lower=np.full(n_states, -np.inf),
        upper=np.full(n_states, np.inf),
        columns=(Block("value", 0, n_states, state_name),),
        rows=(Block("bellman", 0, n_pairs, pair_name),),
    )

    def decode(solution: Solution) -> RewardSolution:
        if solution.values is None or solution.row_dual is None:
            raise ValueError(f"the solution has no values: {solution.status}")
        weight = np.abs(solution.row_dual)
        start = pair_start[:-1].astype(np.int64)
        best = np.maximum.reduceat(weight, start)
        places = np.where(weight == best[state_of], np.arange(n_pairs), n_pairs)
        return RewardSolution(solution.values * scale, np.minimum.reduceat(places, start))

    return program, decode
