"""Transition graphs to and from the types of other libraries: networkx and scipy.

MDP toolbox reads one matrix per action (`to_scipy`); QuantEcon's `DiscreteDP` reads one row per
pair (`to_pair_matrix`). Both come from the same arrays, and `from_scipy` takes the first form back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.branches import Branches, named_actions, starts_of
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.reward_fields import NO_REWARDS
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph

if TYPE_CHECKING:
    import networkx
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class ActionMatrices:
    """One matrix per action. For MDP toolbox: `ValueIteration(list(m.transitions), m.rewards, …)`.

    If an action is not available in a state, its row is empty and its reward is -inf. In an end,
    every action stays there and has the reward 0.
    """

    transitions: tuple[csr_array, ...]  # n_actions times [n_states, n_states]
    rewards: FloatArray | None  # [n_states, n_actions]  expected; None if none is declared
    initial: FloatArray  # [n_states]
    ends: BoolArray | None = None  # [n_states]


@dataclass(frozen=True, eq=False)
class PairMatrix:
    """One row per pair. For QuantEcon: `DiscreteDP(m.rewards, m.transitions, beta, m.states,
    m.actions)`.

    An end has one row, which stays there, with the reward 0 and the first action.
    """

    transitions: csr_array  # [n_pairs, n_states]
    rewards: FloatArray | None  # [n_pairs]  expected; None if none is declared
    states: IntArray  # [n_pairs]
    actions: IntArray  # [n_pairs]
    initial: FloatArray  # [n_states]


def to_scipy(graph: TransitionGraph) -> ActionMatrices:
    """Return one transition matrix per action, and the rewards by state and action."""
    from scipy.sparse import csr_array, diags_array

    size = (graph.n_states, graph.n_states)
    n_successors = np.diff(graph.successor_start)
    branch_action = np.repeat(graph.pair_action, n_successors)
    branch_state = np.repeat(graph.pair_state, n_successors)
    matrices = []
    for action in range(graph.n_actions):
        chosen = branch_action == action
        counts = np.bincount(branch_state[chosen], minlength=graph.n_states)
        row = (graph.probability[chosen], graph.successor[chosen], starts_of(counts))
        matrix = csr_array(row, shape=size)
        if graph.ends is not None:
            matrix = csr_array(matrix + diags_array(graph.ends.astype(np.float64)))
        matrices.append(matrix)
    rewards = None
    if graph.reward is not None:
        rewards = np.full((graph.n_states, graph.n_actions), -np.inf)
        rewards[graph.pair_state, graph.pair_action] = graph.reward
        if graph.ends is not None:
            rewards[graph.ends] = 0.0
    return ActionMatrices(tuple(matrices), rewards, graph.initial.copy(), graph.ends)


def to_pair_matrix(graph: TransitionGraph) -> PairMatrix:
    """Return one transition row per pair, with the pair's state, action and reward."""
    graph, _ = absorb(graph)
    return PairMatrix(
        transitions=graph.transition_matrix().copy(),
        rewards=None if graph.reward is None else graph.reward.copy(),
        states=graph.pair_state.astype(np.int64),
        actions=graph.pair_action.astype(np.int64),
        initial=graph.initial.copy(),
    )


def with_rows(spaces: TransitionGraph, rows: Any, initial: FloatArray) -> TransitionGraph:
    """Return a graph with the same spaces and the transitions of a matrix, [n_pairs, n_states].

    Its rows are normalised to sum to 1; the rewards and labels of the graph are left out.
    """
    from scipy.sparse import csr_array

    P: Any = csr_array(rows)
    P.sum_duplicates()
    P.eliminate_zeros()
    P = scaled_rows(P, 1 / np.asarray(P.sum(axis=1)))
    P.sort_indices()
    return replace(
        spaces,
        successor_start=P.indptr.astype(np.int64),
        successor=P.indices.astype(np.int32),
        probability=P.data,
        initial=initial,
        labels={},
        **NO_REWARDS,
    )


def scaled_rows(matrix: csr_array, factor: FloatArray) -> csr_array:
    """Multiply each row by its factor, several times faster than by a diagonal matrix."""
    from scipy.sparse import csr_array

    data = np.repeat(factor, np.diff(matrix.indptr)) * matrix.data
    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def from_scipy(
    transitions: Sequence[Any],
    rewards: Any = None,
    initial: npt.ArrayLike | None = None,
    actions: Sequence[str] | None = None,
    ends: BoolArray | None = None,
) -> TransitionGraph:
    """Return the graph of one transition matrix per action, sparse or dense, [n_states, n_states].

    An empty row means that the action is not available there. `rewards` is by state [n_states], by
    state and action [n_states, n_actions], or one matrix [n_states, n_states] per action. Without
    `initial`, the initial state is uniform. The states are the values of an integer `s`. The rows
    of `ends` [n_states] are ignored.
    """
    from scipy.sparse import csr_array

    matrices = [csr_array(matrix, dtype=np.float64) for matrix in transitions]
    if not matrices:
        raise ValueError("give at least one transition matrix, one per action")
    n_states = matrices[0].shape[0]
    for action, matrix in enumerate(matrices):
        if matrix.shape != (n_states, n_states):
            raise ValueError(
                f"matrix {action} has shape {matrix.shape}, not {(n_states, n_states)}"
            )
    entries = [matrix.tocoo() for matrix in matrices]
    branches = Branches(
        state=np.concatenate([e.coords[0] for e in entries]),
        action=np.repeat(np.arange(len(matrices)), [e.nnz for e in entries]),
        target=np.concatenate([e.coords[1] for e in entries]),
        probability=np.concatenate([e.data for e in entries]),
        reward=None,
    )
    if rewards is not None:
        by_branch = _reward_of_branches(rewards, branches, n_states, len(matrices))
        branches = branches.with_reward(by_branch)
    names = tuple(actions or (f"a{i}" for i in range(len(matrices))))
    if len(names) != len(matrices):
        raise ValueError(f"there are {len(names)} action names for {len(matrices)} matrices")
    states = StateSpace(Product((Variable("s", "int", n_states),)), np.arange(n_states))
    start = np.full(n_states, 1 / n_states) if initial is None else initial
    start = np.array(start, dtype=np.float64)
    return branches.graph(states, named_actions(names), start, ends=ends)


def to_networkx(graph: TransitionGraph) -> networkx.MultiDiGraph:
    """Return a network with a node per state and an edge per branch, keyed by its action.

    A node has `label`, `values` (by variable), `labels`, `initial` and, if episodes end there,
    `end`; an edge has `action`, `probability` and, if rewards are declared, `reward`; the network
    has the spaces.
    """
    import networkx

    if not graph.has_dynamics:
        raise ValueError("the dynamics of this model are unknown, so there are no edges to convert")
    network = networkx.MultiDiGraph(
        states=graph.states, actions=graph.actions, labels=tuple(graph.labels)
    )
    for state in range(graph.n_states):
        network.add_node(
            state,
            label=graph.states.label(state),
            values=graph.states.native(state),
            labels=tuple(name for name, states in graph.labels.items() if states[state]),
            initial=float(graph.initial[state]),
            **({"end": True} if graph.ends is not None and graph.ends[state] else {}),
        )
    n_successors = np.diff(graph.successor_start)
    reward = graph.branch_reward
    if reward is None and graph.reward is not None:
        reward = np.repeat(graph.reward, n_successors)
    columns = (
        np.repeat(graph.pair_state, n_successors).tolist(),
        np.repeat(graph.pair_action, n_successors).tolist(),
        graph.successor.tolist(),
        graph.probability.tolist(),
        [None] * graph.n_branches if reward is None else reward.tolist(),
    )
    for state, action, target, p, r in zip(*columns, strict=True):
        name = graph.actions.labels[action]
        extra = {} if r is None else {"reward": r}
        network.add_edge(state, target, key=name, action=name, probability=p, **extra)
    return network


def from_networkx(network: networkx.MultiDiGraph) -> TransitionGraph:
    """Return the graph of a network made by `to_networkx`, or by hand.

    Every edge needs a `probability` and an `action` (in a DiGraph, too), and may have a `reward`;
    nodes may have `initial`, `labels` and `end`. Without the spaces of `to_networkx`, the states
    are an integer `s`, or an enumeration if every node is a name; actions are in order of
    appearance; and if no node has `initial`, the initial state is uniform.
    """
    nodes = {node: number for number, node in enumerate(network.nodes)}
    edges = list(network.edges(data=True))
    for origin, target, edge in edges:
        if "probability" not in edge or "action" not in edge:
            missing = "probability" if "probability" not in edge else "action"
            raise ValueError(f"the edge from {origin!r} to {target!r} has no {missing}")
    states = network.graph.get("states") or _states_of_nodes(list(nodes))
    actions = network.graph.get("actions") or named_actions(
        tuple(dict.fromkeys(str(edge["action"]) for _, _, edge in edges))
    )
    number_of = {label: number for number, label in enumerate(actions.labels)}
    has_reward = any("reward" in edge for _, _, edge in edges)
    branches = Branches(
        state=np.array([nodes[origin] for origin, _, _ in edges], dtype=np.int64),
        action=np.array([number_of[str(edge["action"])] for _, _, edge in edges], dtype=np.int64),
        target=np.array([nodes[target] for _, target, _ in edges], dtype=np.int64),
        probability=np.array([edge["probability"] for _, _, edge in edges], dtype=np.float64),
        reward=np.array([edge.get("reward", 0.0) for _, _, edge in edges]) if has_reward else None,
    )
    initial = np.array([network.nodes[n].get("initial", 0.0) for n in nodes], dtype=np.float64)
    if not initial.any():
        initial = np.full(len(nodes), 1 / len(nodes))
    ends = np.array([bool(network.nodes[n].get("end")) for n in nodes])
    members = [network.nodes[node].get("labels", ()) for node in nodes]
    names = network.graph.get("labels") or sorted({name for labels in members for name in labels})
    labels = {name: np.array([name in m for m in members], dtype=np.bool_) for name in names}
    return branches.graph(states, actions, initial, labels, ends)


def _reward_of_branches(
    rewards: Any, branches: Branches, n_states: int, n_actions: int
) -> FloatArray:
    """Read rewards in any of the three shapes as one number per branch."""
    from scipy.sparse import csr_array, issparse

    per_action = [(n_actions, n_states, n_states), (n_states, n_actions, n_states)]
    if hasattr(rewards, "toarray"):
        rewards = rewards.toarray()
    if any(issparse(each) for each in rewards):
        shape = (len(rewards), *rewards[0].shape)
    else:
        rewards = np.asarray(rewards, dtype=np.float64)
        shape = rewards.shape
    if shape == (n_states,):
        return np.asarray(rewards[branches.state])
    if shape == (n_states, n_actions):
        return np.asarray(rewards[branches.state, branches.action])
    if shape not in per_action:
        raise ValueError(
            f"the rewards have the shape {list(shape)}; with {n_states} states and {n_actions} "
            f"actions, give [{n_states}], [{n_states}, {n_actions}] or {list(per_action[0])}"
        )
    if shape != per_action[0]:
        return np.asarray(rewards[branches.state, branches.action, branches.target])
    result = np.zeros(len(branches.state))
    for action in range(n_actions):
        chosen = branches.action == action
        matrix = csr_array(rewards[action], dtype=np.float64)
        result[chosen] = matrix[branches.state[chosen], branches.target[chosen]]
    return result


def _states_of_nodes(nodes: list[Any]) -> StateSpace:
    if nodes and all(isinstance(node, str) for node in nodes):
        variable = Variable("s", "enum", len(nodes), members=tuple(nodes))
    else:
        variable = Variable("s", "int", len(nodes))
    return StateSpace(Product((variable,)), np.arange(len(nodes)))
