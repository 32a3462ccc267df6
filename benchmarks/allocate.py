"""Seconds to the best allocation with a certified gap of 1e-6, against Clarabel in the same run.

    python benchmarks/allocate.py [--rounds 3] [--json]

Both start from the graph in memory and alternate. Clarabel gets the same problem with power cones
(kappa = 1: exponential cones; inf: a linear program), built before the clock starts, with its own
tolerances of 1e-8. The models are pendulum, mountain_car and a random model of 1,000 states with 4
actions of 10 successors each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import clarabel
import numpy as np
from scipy.sparse import coo_array, csc_array

import mdpdsl
from mdpdsl.graph.complexity import complexity
from mdpdsl.graph.space import ActionSpace, FloatArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.allocation import optimal_allocation
from mdpdsl.programs.objective import allocation_objective
from mdpdsl.programs.occupancy import flow_rows

KAPPAS = (1.0, 2.0, 10.0, np.inf)
N_STATES, N_ACTIONS, N_SUCCESSORS = 1_000, 4, 10


def random_graph() -> TransitionGraph:
    """Return a model with random successors and probabilities."""
    rng = np.random.default_rng(0)
    n_pairs = N_STATES * N_ACTIONS
    successors = [
        np.sort(rng.choice(N_STATES, N_SUCCESSORS, replace=False)) for _ in range(n_pairs)
    ]
    state = Variable("s", "int", N_STATES)
    action = Variable("a", "int", N_ACTIONS)
    return TransitionGraph(
        states=StateSpace(Product((state,)), np.arange(N_STATES)),
        actions=ActionSpace(Product((action,))),
        pair_start=np.arange(N_STATES + 1) * N_ACTIONS,
        pair_action=np.tile(np.arange(N_ACTIONS, dtype=np.int32), N_STATES),
        successor_start=np.arange(n_pairs + 1) * N_SUCCESSORS,
        successor=np.concatenate(successors).astype(np.int32),
        probability=rng.dirichlet(np.ones(N_SUCCESSORS), n_pairs).ravel(),
        initial=np.eye(N_STATES)[0],
    )


def cone_solver(graph: TransitionGraph, c: FloatArray, kappa: float) -> Any:
    """Return Clarabel's solver of the problem in x = n d, t and G = 1/F; all c positive."""
    flow = flow_rows(graph)[1:].tocoo()
    n, n_states = graph.n_pairs, graph.n_states
    width = 2 * n + 1
    need = c if kappa in (1, np.inf) else c / c.sum() ** (1 / kappa)
    row, column = flow.coords
    rows, columns, values = [row], [column], [flow.data]

    def add(at: Any, where: Any, what: Any) -> None:
        at, where, what = np.broadcast_arrays(at, where, np.asarray(what, dtype=np.float64))
        rows.append(at.ravel())
        columns.append(where.ravel())
        values.append(what.ravel())

    pairs = np.arange(n)
    add(n_states - 1, pairs, 1.0)  # sum x = n
    b: list[FloatArray] = [np.zeros(n_states - 1), np.array([float(n)])]
    cost = np.zeros(width)
    first = n_states
    if np.isinf(kappa):
        cost[-1] = -1.0
        add(first + pairs, pairs, -1.0)
        add(first + pairs, 2 * n, need)
        b.append(np.zeros(n))
        cones = [clarabel.ZeroConeT(n_states), clarabel.NonnegativeConeT(n)]
    elif kappa == 1:
        cost[n : 2 * n] = -need
        add(first + 3 * pairs, n + pairs, -1.0)
        add(first + 3 * pairs + 2, pairs, -1.0)
        b.append(np.tile([0.0, 1.0, 0.0], n))
        cones = [clarabel.ZeroConeT(n_states), *[clarabel.ExponentialConeT()] * n]
    else:
        cost[-1] = -1.0
        add(first, n + pairs, 1.0)  # sum t = G
        add(first, 2 * n, -1.0)
        first += 1
        add(first + 3 * pairs, n + pairs, -1.0)
        add(first + 3 * pairs + 1, pairs, -1.0)
        add(first + 3 * pairs + 2, 2 * n, -need)
        b += [np.zeros(1), np.zeros(3 * n)]
        cones = [clarabel.ZeroConeT(n_states + 1), *[clarabel.PowerConeT(1 / kappa)] * n]
    right = np.concatenate(b)
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    matrix = csc_array(coo_array(entries, shape=(len(right), width)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    empty = csc_array((width, width))
    return clarabel.DefaultSolver(empty, cost, matrix, right, cones, settings)


def measure(name: str, graph: TransitionGraph, kappa: float, rounds: int) -> dict[str, Any]:
    """Time both on one problem, alternating."""
    c = complexity(graph)
    ours, theirs = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        found = optimal_allocation(graph, c, kappa)
        ours.append(time.perf_counter() - begin)
        solver = cone_solver(graph, c, kappa)
        begin = time.perf_counter()
        solution = solver.solve()
        theirs.append(time.perf_counter() - begin)
    x = np.maximum(np.asarray(solution.x)[: graph.n_pairs], 1e-300)
    log_mean = allocation_objective(c, kappa).log_mean
    above = float(np.expm1(log_mean(x / graph.n_pairs) - log_mean(found.occupancy)))
    fast, slow = statistics.median(ours), statistics.median(theirs)
    return {
        "model": name,
        "kappa": "inf" if np.isinf(kappa) else kappa,
        "status": str(found.status),
        "gap": found.gap,
        "iterations": found.iterations,
        "seconds": fast,
        "clarabel": slow,
        "clarabel_status": str(solution.status),
        "clarabel_objective_above_ours": above,
        "ratio": slow / fast,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    graphs = {name: mdpdsl.load(name).graph for name in ("pendulum", "mountain_car")}
    graphs["random, S = 1,000"] = random_graph()
    rows = []
    for name, graph in graphs.items():
        for kappa in KAPPAS:
            row = measure(name, graph, kappa, arguments.rounds)
            rows.append(row)
            if not arguments.json:
                print(
                    "{model:18} kappa {kappa!s:>4}: {seconds:7.3f} s to a gap of {gap:.0e} in "
                    "{iterations} steps; Clarabel {clarabel:7.3f} s ({clarabel_status}, objective "
                    "{clarabel_objective_above_ours:+.0e}): {ratio:.1f} times".format(**row),
                    flush=True,
                )
    if arguments.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
