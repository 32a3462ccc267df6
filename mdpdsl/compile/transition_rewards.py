"""Rewards that depend on the next state, for the transitions of an estimate.

An estimate takes its transitions from a log and its rewards from the model. r(s,a,s') is evaluated
on every branch, and r(s,a) = sum_s' P_hat(s'|s,a) r(s,a,s'). The row of a pair that was never
visited is uniform, so its reward is the mean over all next states.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.merge import Transitions
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.rewards import RewardKernel
from mdpdsl.diagnostics import Diagnostic
from mdpdsl.graph.transition_graph import TransitionGraph

#: Branches evaluated in one batch.
BATCH = 1 << 18


def with_transition_rewards(
    model: CheckedModel, graph: TransitionGraph
) -> tuple[TransitionGraph, list[Diagnostic]]:
    """Return the graph with the model's rewards, if any of them depends on the next state.

    If they cannot be evaluated on some transition of the graph (the model itself may never make
    it), the graph gets no rewards, and the diagnostics say why.
    """
    problems = Problems(model.states, graph.actions)
    kernel = RewardKernel(model, problems)
    if not kernel.depends_on_next:
        return graph, []
    reward, branch_reward = np.zeros(graph.n_pairs), np.zeros(graph.n_branches)
    codes = graph.states.codes
    begin = 0
    while begin < graph.n_pairs:
        first = graph.successor_start[begin]
        end = int(np.searchsorted(graph.successor_start, first + BATCH, side="right")) - 1
        end = max(begin + 1, min(end, graph.n_pairs))
        branches = slice(first, graph.successor_start[end])
        found = Transitions(
            pair_rows=graph.pair_state[begin:end].astype(np.int64),
            pair_actions=graph.pair_action[begin:end].astype(np.int64),
            starts=graph.successor_start[begin : end + 1] - first,
            targets=codes[graph.successor[branches]],
            probabilities=graph.probability[branches],
        )
        plain = kernel.pair_rewards(codes, found)
        per_branch = kernel.branch_rewards(codes, found) + np.repeat(plain, np.diff(found.starts))
        branch_reward[branches] = per_branch
        reward[begin:end] = np.add.reduceat(per_branch * found.probabilities, found.starts[:-1])
        begin = end
    diagnostics = problems.diagnostics(lambda found: graph.states.indices(found) >= 0)
    if diagnostics:
        return replace(graph, reward=None, branch_reward=None), diagnostics
    return replace(graph, reward=reward, branch_reward=branch_reward), []
