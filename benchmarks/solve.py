"""Seconds to certified values, against QuantEcon and Storm in the same run.

    pip install quantecon          # not a dependency of the project
    python benchmarks/solve.py [--rounds 5] [--side 316] [--only WORD] [--json]

Both sides must be within 1e-6 of the optimum. Models are built and code is compiled before the
clock starts. The sides alternate, so that a busy machine slows both; both wall-clock and CPU
seconds are reported, and the values of all states are compared.

Models:

* random: 100,000 states, 4 actions, 10 random successors, random rewards; 100 random states are the
  goal, and 100 others are traps.
* grid: the shipped `gridworld` of side x side places, where the far corner has the reward and
  restarts; in its own order of states, or shuffled.

Objectives:

* discounted by 0.999, within 1e-6: QuantEcon's modified policy iteration (its best method) on
  sparse state-action pairs with epsilon = 2e-6, which bounds the error of its values by half of
  that; Storm's `Rmax=? [ Cdiscount=0.999 ]` with an absolute precision of 1e-6.
* total: the least cost until the goal, within 1e-6 of its size. The costs are 1 for each step on
  the grid, and the rewards of the random model.
* within 1,000 steps: the largest probability of reaching the goal; in the random model only that
  without a trap counts.
* average: the largest long-run average of the rewards, to six digits.
* robust: the largest probability of reaching the goal without a trap, for the worst probabilities
  within 30 % of those of the model. Storm has no sound method for intervals: it stops when a sweep
  changes little, so its values may be off by more than 1e-6.

Storm always uses its sound methods where it has any. Its averages and robust values take minutes on
grids of more than 10,000 places, so these rows have a smaller grid. To add a row, write a function
that returns a `Case` and list it in `CASES`.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import mdpdsl
from mdpdsl.graph.convert import to_pair_matrix
from mdpdsl.graph.objectives import Average, Discounted, Objective, Total, Until
from mdpdsl.graph.space import ActionSpace, FloatArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.solution import SolveOutcome
from mdpdsl.solve.solve_objective import solve_objective

DISCOUNT = 0.999
TOLERANCE = 1e-6
#: Within so many steps the goal must be reached.
STEPS = 1_000
#: States, actions and successors of the random model, and the states of each of its labels.
RANDOM_SIZE = (100_000, 4, 10)
RANDOM_LABELLED = 100
#: Intervals reach this share of a probability to both sides; one of so many places is a trap.
INTERVAL, TRAPS = 0.3, 20
#: The side of the largest grid on which Storm finds averages in seconds.
AVERAGE_SIDE = 100


@dataclass(frozen=True, eq=False)
class Case:
    """One question for both sides."""

    n_states: int
    ours: Callable[[], SolveOutcome]
    peer: str  # its name
    theirs: Callable[[], Any]
    read: Callable[[Any], FloatArray]  # the values of all states; not timed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", type=int, default=316, help="of the grid")
    parser.add_argument("--only", default="", metavar="WORD", help="in the names of rows to run")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    results = []
    for name, (asked, build) in CASES.items():
        if options.only in name:
            row = measure(name, asked, build(options.side), options.rounds)
            results.append(row)
            if not options.json:
                print(LINE.format(**row), flush=True)
    if options.json:
        print(json.dumps(results))


LINE = (
    "{name:30} {states:,} states: mdpdsl {seconds:.2f} s ({cpu:.2f} CPU, {method}, "
    "{iterations:,} sweeps), {peer} {peer_seconds:.2f} s ({peer_cpu:.2f} CPU): ratio {ratio:.2f} "
    "({ratio_cpu:.2f} CPU), asked {asked:.1f}; values differ by {difference:.1e}"
)


def measure(name: str, asked: float, case: Case, rounds: int) -> dict[str, Any]:
    """Time both sides, alternating, and compare their values."""
    found = case.ours()  # also compiles
    assert found.status == "optimal"
    expected = case.read(case.theirs())
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(timed(case.ours))
        theirs.append(timed(case.theirs))
    seconds, cpu = (statistics.median(column) for column in zip(*ours, strict=True))
    peer_seconds, peer_cpu = (statistics.median(column) for column in zip(*theirs, strict=True))
    size = np.maximum(1.0, np.abs(expected))
    return {
        "name": name,
        "states": case.n_states,
        "method": found.method,
        "iterations": found.iterations,
        "bound": found.bound,
        "seconds": seconds,
        "cpu": cpu,
        "peer": case.peer,
        "peer_seconds": peer_seconds,
        "peer_cpu": peer_cpu,
        "ratio": seconds / peer_seconds,
        "ratio_cpu": cpu / peer_cpu,
        "asked": asked,
        "difference": float((np.abs(found.values - expected) / size).max()),
    }


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall-clock and CPU seconds."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


# The rows


def discounted_random(_: int) -> Case:
    try:
        from quantecon.markov import DiscreteDP
    except ImportError:
        sys.exit("the comparison needs QuantEcon: pip install quantecon")
    from scipy.sparse import csr_matrix

    graph = random_graph()
    m = to_pair_matrix(graph)
    problem = DiscreteDP(m.rewards, csr_matrix(m.transitions), DISCOUNT, m.states, m.actions)

    def solve() -> Any:
        return problem.solve(method="modified_policy_iteration", epsilon=2 * TOLERANCE)

    ours = our_solver(graph, Discounted(rewards(graph), DISCOUNT), tolerance=TOLERANCE)
    return Case(graph.n_states, ours, "QuantEcon", solve, lambda result: np.asarray(result.v))


def discounted_grid(side: int, *, is_shuffled: bool = False) -> Case:
    graph = grid(side)
    if is_shuffled:
        graph = shuffled(graph, np.random.default_rng(0))
    objective = Discounted(rewards(graph), DISCOUNT)
    ours = our_solver(graph, objective, tolerance=TOLERANCE)
    return against_storm(graph, ours, f'R{{"r"}}max=? [Cdiscount={DISCOUNT}]', is_relative=False)


def total_grid(side: int) -> Case:
    return total(replace(grid(side), reward=np.ones(grid(side).n_pairs), branch_reward=None))


def total_random(_: int) -> Case:
    return total(random_graph())


def total(graph: TransitionGraph) -> Case:
    objective = Total(rewards(graph), graph.labels["goal"])
    ours = our_solver(graph, objective, is_minimised=True)
    return against_storm(graph, ours, 'R{"r"}min=? [F "goal"]')


def steps_grid(side: int) -> Case:
    graph = grid(side)
    ours = our_solver(graph, Until(graph.labels["goal"], steps=STEPS))
    return against_storm(graph, ours, f'Pmax=? [F<={STEPS} "goal"]')


def steps_random(_: int) -> Case:
    graph = random_graph()
    ours = our_solver(graph, Until(graph.labels["goal"], ~graph.labels["trap"], STEPS))
    return against_storm(graph, ours, f'Pmax=? [!"trap" U<={STEPS} "goal"]')


def average_grid(_: int) -> Case:
    return average(grid(AVERAGE_SIDE))


def average_random(_: int) -> Case:
    return average(random_graph())


def average(graph: TransitionGraph) -> Case:
    ours = our_solver(graph, Average(rewards(graph)))
    return against_storm(graph, ours, 'R{"r"}max=? [LRA]')


#: The rows by name: at most which part of the peer's time is asked for, and the case by the side of
#: the grid.
def robust_random(_: int) -> Case:
    """Return the random model with traps in a fifth of the states."""
    graph = random_graph()
    trap = (np.random.default_rng(1).random(graph.n_states) < 0.2) & ~graph.labels["goal"]
    graph = replace(graph, labels={"goal": graph.labels["goal"], "trap": trap})
    return robust(graph, Until(graph.labels["goal"], ~trap))


def robust_grid(_: int) -> Case:
    """Return the grid with traps in one of TRAPS places; the far corner is the goal."""
    graph = grid(AVERAGE_SIDE)
    trap = np.random.default_rng(0).random(graph.n_states) < 1 / TRAPS
    goal = np.arange(graph.n_states) == graph.n_states - 1
    trap[[0, -1]] = False
    return robust(replace(graph, labels={"goal": goal, "trap": trap}), Until(goal, ~trap))


def robust(graph: TransitionGraph, objective: Until) -> Case:
    """Return robust reachability on intervals around all probabilities, the worst of them."""
    import tempfile

    import stormpy

    from mdpdsl.formats.drn import to_drn
    from mdpdsl.graph.interval_graph import Bounds
    from mdpdsl.graph.row_sets import RowSets
    from mdpdsl.solve.robust_objective import solve_robust_objective

    p, none = graph.probability, np.zeros(graph.n_pairs)
    is_sure = np.repeat(np.diff(graph.successor_start) == 1, np.diff(graph.successor_start))
    low = np.where(is_sure, 1.0, (1 - INTERVAL) * p)
    high = np.where(is_sure, 1.0, np.minimum((1 + INTERVAL) * p, 1.0))
    sets = RowSets(
        graph.successor_start, graph.successor, p, low, high, none, none, none, none + 2.0
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.drn"
        path.write_text(to_drn(graph, bounds=Bounds(low, high)), encoding="utf-8")
        model = stormpy.build_model_from_drn[stormpy.Interval](str(path))
    (prop,) = stormpy.parse_properties('Pmax=? [ !"trap" U "goal" ]')
    environment = stormpy.environments.sound()
    solver = environment.solver().min_max()
    solver.precision = stormpy.Rational(TOLERANCE)
    worst = stormpy.UncertaintyResolutionMode.MINIMIZE

    def theirs() -> Any:
        return stormpy.model_checking(
            model, prop, environment=environment, uncertainty_resolution_mode=worst
        )

    def read(result: Any) -> FloatArray:
        return np.array([result.get_value(state) for state in range(graph.n_states)])

    ours = functools.partial(solve_robust_objective, graph, sets, objective, tolerance=TOLERANCE)
    return Case(graph.n_states, ours, "Storm", theirs, read)


CASES: dict[str, tuple[float, Callable[[int], Case]]] = {
    "discounted, random": (0.6, discounted_random),
    "discounted, grid": (0.4, discounted_grid),
    "discounted, grid, shuffled": (0.4, functools.partial(discounted_grid, is_shuffled=True)),
    "total, grid": (1.0, total_grid),
    "total, random": (1.0, total_random),
    "within 1,000 steps, grid": (1.0, steps_grid),
    "within 1,000 steps, random": (1.0, steps_random),
    "average, grid": (1.0, average_grid),
    "average, random": (1.0, average_random),
    "robust, random": (0.7, robust_random),
    "robust, grid": (0.7, robust_grid),
}


def our_solver(
    graph: TransitionGraph,
    objective: Objective,
    *,
    is_minimised: bool = False,
    tolerance: float | None = None,
) -> Callable[[], SolveOutcome]:
    """Return a call that solves a graph; without a tolerance it is 1e-6 of each value's size."""
    return functools.partial(
        solve_objective, graph, objective, is_minimised=is_minimised, tolerance=tolerance
    )


def against_storm(
    graph: TransitionGraph,
    ours: Callable[[], SolveOutcome],
    formula: str,
    *,
    is_relative: bool = True,
) -> Case:
    """Return a case with Storm as the peer: its model is built here, and only checking is timed."""
    import stormpy

    model = storm_model_of(graph)
    (prop,) = stormpy.parse_properties(formula)
    environment = stormpy.environments.sound()
    solver = environment.solver().min_max()
    solver.precision = stormpy.Rational(TOLERANCE)
    solver.relative_termination_criterion = is_relative

    def solve() -> Any:
        return stormpy.model_checking(model, prop, environment=environment)

    def read(result: Any) -> FloatArray:
        return np.array([result.get_value(state) for state in range(graph.n_states)])

    return Case(graph.n_states, ours, "Storm", solve, read)


# The models


@functools.cache
def grid(side: int) -> TransitionGraph:
    return mdpdsl.load("gridworld", n=side).graph


@functools.cache
def random_graph() -> TransitionGraph:
    rng = np.random.default_rng(0)
    graph = random_model(*RANDOM_SIZE, rng)
    label = np.zeros(graph.n_states, np.int8)
    label[rng.choice(graph.n_states, 2 * RANDOM_LABELLED, replace=False)] = 1
    label[np.flatnonzero(label)[::2]] = 2
    return replace(graph, labels={"goal": label == 1, "trap": label == 2})


@functools.lru_cache(maxsize=2)
def storm_model_of(graph: TransitionGraph) -> Any:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.solve.storm import storm_model

    return storm_model(graph)


def rewards(graph: TransitionGraph) -> FloatArray:
    assert graph.reward is not None
    return graph.reward


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
