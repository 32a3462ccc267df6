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
from mdpdsl.compile.rewards import RewardKernel, reward_fields
from mdpdsl.diagnostics import Diagnostic
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import DEFAULT_REWARD, TransitionGraph

#: Branches evaluated in one batch.
BATCH = 1 << 18


def with_transition_rewards(
    model: CheckedModel, graph: TransitionGraph
) -> tuple[TransitionGraph, list[Diagnostic]]:
    """Return the graph with the model's rewards that depend on the next state, if there are any.

    If a reward cannot be evaluated on some transition of the graph (the model itself may never make
    it), the graph does not get this reward, and the diagnostics say why.
    """
    by_pair = {name: of for name in model.reward_names if (of := graph.reward_of(name)) is not None}
    by_branch: dict[str, FloatArray] = {}
    diagnostics: list[Diagnostic] = []
    for name in model.reward_names:
        problems = Problems(model.states, graph.actions)
        kernel = RewardKernel(model, name, problems)
        if not kernel.depends_on_next:
            continue
        by_pair[name], by_branch[name] = _evaluated(kernel, graph)
        found = problems.diagnostics(lambda codes: graph.states.indices(codes) >= 0)
        if found:
            del by_pair[name], by_branch[name]
            what = "" if name == DEFAULT_REWARD else f"reward `{name}`: "
            diagnostics += [replace(d, message=f"{what}{d.message}") for d in found]
    if not by_branch and not diagnostics:
        return graph, []
    return replace(graph, **reward_fields(by_pair, by_branch)), diagnostics


def _evaluated(kernel: RewardKernel, graph: TransitionGraph) -> tuple[FloatArray, FloatArray]:
    """Return one reward of every pair and of every branch of a graph."""
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
    return reward, branch_reward
