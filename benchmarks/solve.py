"""Seconds to a certified discounted optimum, against QuantEcon and Storm in the same run.

    pip install quantecon          # not a dependency of the project
    python benchmarks/solve.py [--rounds 5] [--side 316] [--json]

The discount is 0.999, and every side must be within 1e-6 of the optimum: QuantEcon runs with
epsilon = 2e-6, which bounds the error of its values by half of that, Storm with an absolute
precision of 1e-6 and its sound default. Models are built and code is compiled before the clock
starts. The sides alternate, so that a busy machine slows both; both wall-clock and CPU seconds are
reported.

* random: 100,000 states, 4 actions, 10 random successors, random rewards; QuantEcon's modified
  policy iteration (its best method) on sparse state-action pairs.
* grid: the shipped `gridworld` of side x side places, where the far corner has the reward and
  restarts; once in its own order of states, and once shuffled; Storm's `Rmax=? [Cdiscount=0.999]`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import mdpdsl
from mdpdsl.graph.convert import to_pair_matrix
from mdpdsl.graph.space import ActionSpace, FloatArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.discounted import solve_discounted

DISCOUNT = 0.999
TOLERANCE = 1e-6
#: States, actions and successors of the random model.
RANDOM_SIZE = (100_000, 4, 10)

Solver = Callable[[], FloatArray]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", type=int, default=316, help="of the grid")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    grid = mdpdsl.load("gridworld", n=options.side).graph
    chance = random_model(*RANDOM_SIZE, np.random.default_rng(0))
    results = [
        measure("random", chance, quantecon_solver(chance), "QuantEcon", options.rounds),
        measure("grid", grid, storm_solver(grid), "Storm", options.rounds),
    ]
    mixed = shuffled(grid, np.random.default_rng(0))
    results.append(measure("grid, shuffled", mixed, storm_solver(mixed), "Storm", options.rounds))
    if options.json:
        print(json.dumps(results))
        return
    for row in results:
        print(
            "{model:15} {states:,} states: mdpdsl {seconds:.2f} s ({cpu:.2f} CPU, {method}, "
            "{iterations:,} sweeps), {peer} {peer_seconds:.2f} s ({peer_cpu:.2f} CPU): ratio "
            "{ratio:.2f} ({ratio_cpu:.2f} CPU), values differ by {difference:.1e}".format(**row)
        )


def measure(
    name: str, graph: TransitionGraph, peer: Solver, peer_name: str, rounds: int
) -> dict[str, Any]:
    """Time both sides, alternating, and compare their values."""
    found = solve_discounted(graph, DISCOUNT, tolerance=TOLERANCE)  # also compiles
    assert found.status == "optimal"
    expected = peer()
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(timed(lambda: solve_discounted(graph, DISCOUNT, tolerance=TOLERANCE)))
        theirs.append(timed(peer))
    seconds, cpu = (statistics.median(column) for column in zip(*ours, strict=True))
    peer_seconds, peer_cpu = (statistics.median(column) for column in zip(*theirs, strict=True))
    return {
        "model": name,
        "states": graph.n_states,
        "method": found.method,
        "iterations": found.iterations,
        "bound": found.bound,
        "seconds": seconds,
        "cpu": cpu,
        "peer": peer_name,
        "peer_seconds": peer_seconds,
        "peer_cpu": peer_cpu,
        "ratio": seconds / peer_seconds,
        "ratio_cpu": cpu / peer_cpu,
        "difference": float(np.abs(found.values - expected).max()),
    }


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall-clock and CPU seconds."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def quantecon_solver(graph: TransitionGraph) -> Solver:
    try:
        from quantecon.markov import DiscreteDP
    except ImportError:
        sys.exit("the comparison needs QuantEcon: pip install quantecon")
    m = to_pair_matrix(graph)
    from scipy.sparse import csr_matrix

    problem = DiscreteDP(m.rewards, csr_matrix(m.transitions), DISCOUNT, m.states, m.actions)

    def solve() -> FloatArray:
        result = problem.solve(method="modified_policy_iteration", epsilon=2 * TOLERANCE)
        return np.asarray(result.v)

    return solve


def storm_solver(graph: TransitionGraph) -> Solver:
    """Build the model once; only model checking is timed, not reading the values."""
    import stormpy

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.solve.storm import drn

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.drn"
        path.write_text(drn(graph), encoding="utf-8")
        model = stormpy.build_model_from_drn(str(path))
    (prop,) = stormpy.parse_properties(f'R{{"r"}}max=? [Cdiscount={DISCOUNT}]')
    environment = stormpy.environments.sound()
    solver = environment.solver().min_max()
    solver.precision = stormpy.Rational(TOLERANCE)
    solver.relative_termination_criterion = False
    is_first = True

    def solve() -> FloatArray:
        nonlocal is_first
        result = stormpy.model_checking(model, prop, environment=environment)
        if not is_first:
            return np.zeros(0)
        is_first = False
        return np.array([result.get_value(state) for state in range(graph.n_states)])

    return solve


def random_model(
    n_states: int, n_actions: int, n_successors: int, rng: np.random.Generator
) -> TransitionGraph:
    """Return a model in which everything is random."""
    n_pairs = n_states * n_actions
    successor = rng.integers(0, n_states, (n_pairs, n_successors))
    # Successors of a pair must differ: one drawn twice is replaced by its neighbour.
    successor = np.sort(successor, axis=1)
    while (same := np.diff(successor, axis=1) == 0).any():
        successor[:, 1:][same] = (successor[:, 1:][same] + 1) % n_states
        successor = np.sort(successor, axis=1)
    names = tuple(f"a{i}" for i in range(n_actions))
    return TransitionGraph(
        states=StateSpace(Product((Variable("s", "int", n_states),)), np.arange(n_states)),
        actions=ActionSpace(Product((Variable("action", "enum", n_actions, members=names),))),
        pair_start=np.arange(0, n_pairs + 1, n_actions),
        pair_action=np.tile(np.arange(n_actions, dtype=np.int32), n_states),
        successor_start=np.arange(0, n_pairs * n_successors + 1, n_successors),
        successor=successor.ravel().astype(np.int32),
        probability=rng.dirichlet(np.ones(n_successors), n_pairs).ravel(),
        initial=np.eye(1, n_states)[0],
        reward=rng.random(n_pairs),
    )


def shuffled(graph: TransitionGraph, rng: np.random.Generator) -> TransitionGraph:
    """Return the same model with its states numbered at random."""
    order = rng.permutation(graph.n_states)
    place = np.argsort(order)
    assert graph.reward is not None
    pairs = np.concatenate([np.arange(*graph.pair_start[s : s + 2]) for s in order])
    branches = np.concatenate([np.arange(*graph.successor_start[p : p + 2]) for p in pairs])
    lengths = np.diff(graph.successor_start)[pairs]
    successor = place[graph.successor[branches]]
    row = np.repeat(np.arange(len(pairs)), lengths)
    ascending = np.lexsort((successor, row))
    return replace(
        graph,
        pair_start=np.concatenate([[0], np.cumsum(np.diff(graph.pair_start)[order])]),
        pair_action=graph.pair_action[pairs],
        successor_start=np.concatenate([[0], np.cumsum(lengths)]),
        successor=successor[ascending].astype(np.int32),
        probability=graph.probability[branches][ascending],
        initial=graph.initial[order],
        reward=graph.reward[pairs],
        branch_reward=None,
        labels={name: states[order] for name, states in graph.labels.items()},
    )


if __name__ == "__main__":
    main()
