"""The linear program of the best long-run average in components (Puterman 1994, section 8.8).

    minimise sum_c g(c)   subject to   g(c) + h(s) - sum_s' P(s'|s,a) h(s') >= r(s,a)   every pair,

with c the component of s, from which no pair leads out, and h = 0 in one state of each. The dual of
a pair's row is its long-run share of the visits under an optimal policy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, hstack

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.programs.program import Block, LinearProgram, Solution

#: A share below this is an error of the solver.
SMALLEST_SHARE = 1e-7


@dataclass(frozen=True, eq=False)
class AverageSolution:
    """The optimum of the program, within the solver's tolerance."""

    gain: FloatArray  # [n_components]
    choice: IntArray  # [n_states]  the pair with the largest share
    is_visited: BoolArray  # [n_states]  whether any pair has a share


Decode = Callable[[Solution], AverageSolution]


def average_program(
    matrix: csr_array, reward: FloatArray, pair_start: IntArray, component_of: IntArray
) -> tuple[LinearProgram, Decode]:
    """Return the program for P [n_pairs, n_states] and the rewards, and its decoder."""
    n_pairs, n_states = matrix.shape
    n_components = int(component_of.max()) + 1
    scale = max(float(np.abs(reward).max()), np.finfo(np.float64).tiny)
    state_of = np.repeat(np.arange(n_states), np.diff(pair_start))
    ones, pairs = np.ones(n_pairs), np.arange(n_pairs)
    incidence = csr_array((ones, (pairs, state_of)), shape=matrix.shape)
    of = csr_array((ones, (pairs, component_of[state_of])), shape=(n_pairs, n_components))
    n_columns = n_states + n_components
    lower, upper = np.full(n_columns, -np.inf), np.full(n_columns, np.inf)
    first = np.unique(component_of, return_index=True)[1]
    lower[first], upper[first] = 0.0, 0.0
    program = LinearProgram(
        name="average",
        objective=np.concatenate([np.zeros(n_states), -np.ones(n_components)]),
        matrix=csr_array(hstack([incidence - matrix, of])),
        row_lower=reward / scale,
        row_upper=np.full(n_pairs, np.inf),
        lower=lower,
        upper=upper,
        columns=(Block("value", 0, n_states), Block("gain", n_states, n_columns)),
        rows=(Block("bellman", 0, n_pairs),),
    )

    def decode(solution: Solution) -> AverageSolution:
        if solution.values is None or solution.row_dual is None:
            raise ValueError(f"the solution has no values: {solution.status}")
        share = np.abs(solution.row_dual)
        start = pair_start[:-1].astype(np.int64)
        best = np.maximum.reduceat(share, start)
        places = np.where(share == best[state_of], pairs, n_pairs)
        gain = solution.values[n_states:] * scale
        return AverageSolution(gain, np.minimum.reduceat(places, start), best > SMALLEST_SHARE)

    return program, decode
