"""Steps of raw systems against the discretized rows, and against plain Python, draw by draw."""

import math
from functools import cache

import numba as nb
import numpy as np
import pytest
from scipy.stats import chisquare, kstest

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.raw_system import (
    SystemSimulator,
    new_system_simulator,
    place_system,
    start_system,
    step_system,
)

N_SAMPLES = 50_000
#: Seeds are fixed; a wrong distribution gets p-values far below this.
LEAST_P = 1e-4

MODELS = {
    "normal noise, clipped": """
        mdp m
        state x in [0, 1] clip bins 5
        action u in {-1, 0, 1}
        noise w ~ normal(0.02, 0.15)
        init any
        x' = x + 0.2*u + w
        discretize uniform points 200
    """,
    "uniform noise, wrapped": """
        mdp m
        state a in [-pi, pi] wrap edges [-pi, -2, 0, 0.5, pi]
        action u in {-1, 2}
        noise w ~ uniform(-0.8, 1.3)
        init any
        a' = a + 1.7*u + w
        discretize uniform points 300
    """,
    "discrete noise that two variables share, and a next value that is read": """
        mdp m
        state x in [-1, 1] clip bins 4
        state y in [0, 2] wrap bins 4
        action u in {-1, 1}
        noise w ~ {-0.4: 0.2, 0: 0.5, 0.7: 0.3}
        init any
        y' = y + 0.8*x' + w
        x' = 0.9*x + 0.3*u + w
        discretize uniform points 101
    """,
    "lines with branches beside an equation, and variables of every kind": """
        mdp m
        state x in [0, 1] wrap bins 4
        state mode in {slow, fast}
        state n in -1..1
        state gear in {0.5, 2, 1}
        state lit in bool
        action go, rest
        noise w ~ normal(0, 0.2)
        init any
        x' = x + 0.3*gear' + w
        on go when x < 0.5 and mode == slow -> x: n' = min(n + 1, 1), mode' = fast
                                             | 1 - x: n' = -n, lit' = not lit
        on go otherwise -> 0.25: gear' = (if lit then 2 else 0.5 + 1e-10) | 0.75: mode' = slow
        on rest -> gear' = 1, lit' = x > 0.5
        discretize uniform points 200
    """,
    "restarts": """
        mdp m
        state x in [0, 1] clip bins 4
        state v in {-1, 0, 3}
        action u in {-1, 1}
        noise w ~ uniform(-0.1, 0.1)
        init x ~ normal(0.3, 0.3), v ~ {-1: 0.25, 3: 0.75}
        restart when x >= 0.75
        x' = x + 0.4 + w
        v' = if u > 0 then 3 else 0
        discretize uniform points 200
    """,
}


@cache
def built(name: str) -> Model:
    return mdpdsl.loads(MODELS[name], all_states=True)


@cache
def fine_pendulum() -> Model:
    text = mdpdsl.load("pendulum").source.text
    return mdpdsl.loads(text.replace("discretize center", "discretize uniform points 16"))


def points_of(model: Model, state: int, n: int, generator: np.random.Generator) -> FloatArray:
    """Draw points of a state's cell, as registers have them."""
    native = model.graph.states.native(state)
    points = np.tile(model.system.numbers(native), (n, 1))
    for position, variable in enumerate(model.graph.states.variables):
        if variable.edges is not None:
            cell = model.graph.states.cells(variable.name)[state]
            low, high = variable.edges[cell : cell + 2].tolist()
            points[:, position] = generator.uniform(low, high, size=n)
    return points


@nb.njit(cache=False)
def next_states(
    simulator: SystemSimulator, points: FloatArray, action: int, generator: np.random.Generator
) -> IntArray:
    """Do one step from each of some points."""
    found = np.empty(len(points), np.int64)
    for i in range(len(points)):
        place_system(simulator, points[i])
        found[i] = step_system(simulator, action, generator)
    return found


@nb.njit(cache=False)
def starts(simulator: SystemSimulator, n: int, generator: np.random.Generator) -> IntArray:
    """Draw initial states."""
    found = np.empty(n, np.int64)
    for i in range(n):
        found[i] = start_system(simulator, generator)
    return found


def assert_distributed(found: IntArray, expected: FloatArray) -> None:
    """Compare counts of states with their probabilities; rare ones are thrown together."""
    counts = np.bincount(found, minlength=len(expected)).astype(float)
    assert counts[expected == 0].sum() == 0
    masses = expected * len(found)
    order = np.argsort(masses)
    rare = order[np.cumsum(masses[order]) < 10]
    common = np.setdiff1d(np.flatnonzero(masses), rare)
    observed = np.append(counts[common], counts[rare].sum())
    wanted = np.append(masses[common], masses[rare].sum())
    if wanted[-1] < 5:
        assert observed[-1] < 20
        observed, wanted = observed[:-1], wanted[:-1] * observed[:-1].sum() / wanted[:-1].sum()
    if len(wanted) > 1:
        assert chisquare(observed, wanted).pvalue > LEAST_P


@pytest.mark.parametrize("name", [*MODELS, "pendulum"])
def test_from_random_points_of_a_cell_the_next_cells_are_distributed_as_its_row(name: str) -> None:
    model = fine_pendulum() if name == "pendulum" else built(name)
    graph = model.graph
    generator = np.random.default_rng(3)
    simulator = new_system_simulator(model.system, graph)
    for pair in generator.choice(graph.n_pairs, size=8, replace=False).tolist():
        state, action = int(graph.pair_state[pair]), int(graph.pair_action[pair])
        expected = np.zeros(graph.n_states)
        successors, probabilities = graph.row(pair)
        expected[successors] = probabilities
        points = points_of(model, state, N_SAMPLES, generator)
        assert_distributed(next_states(simulator, points, action, generator), expected)


STARTS = [
    "init x ~ normal(0.3, 0.4), mode = fast, n ~ {0: 0.5, 3: 0.5}",
    "init x ~ uniform(0.1, 0.6), mode ~ {slow: 0.1, fast: 0.9}, n = 2",
    "init x = 1, mode = slow",
    "init any",
    "init any when x > 0.3 and n >= 1",
]


def starting(start: str) -> tuple[Model, SystemSimulator]:
    model = mdpdsl.loads(f"""
        mdp m
        state x in [0, 1] clip edges [0, 0.2, 0.5, 1]
        state mode in {{slow, fast}}
        state n in 0..3
        action stay_there
        {start}
        on stay_there -> stay
    """)
    return model, new_system_simulator(model.system, model.graph)


@pytest.mark.parametrize("start", STARTS)
def test_starts_are_distributed_as_the_initial_distribution(start: str) -> None:
    model, simulator = starting(start)
    generator = np.random.default_rng(1)
    assert_distributed(starts(simulator, N_SAMPLES, generator), model.graph.initial)


def test_a_start_is_drawn_from_its_distribution_and_not_only_its_cell() -> None:
    generator = np.random.default_rng(2)

    def drawn(start: str) -> FloatArray:
        _, simulator = starting(start)
        found = np.empty(4_000)
        for i in range(len(found)):
            start_system(simulator, generator)
            found[i] = simulator.registers[0]
        return found

    assert kstest(drawn(STARTS[1]), "uniform", args=(0.1, 0.5)).pvalue > LEAST_P
    assert set(drawn(STARTS[2])) == {1.0}
    even = drawn(STARTS[3])
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 1.0)):
        inside = even[(even >= low) & (even < high)]
        assert kstest(inside, "uniform", args=(low, high - low)).pvalue > LEAST_P


LINEAR = """
    mdp linear
    state p in [-2, 2] wrap bins 8
    state v in [-1, 1] clip bins 4
    state k in 0..2
    action u in {-1, 0, 1}
    noise w ~ normal(0.1, 0.3)
    noise s ~ uniform(-0.2, 0.4)
    noise j ~ {-0.5: 0.25, 0: 0.5, 0.25: 0.25}
    init p = 2, v = 0, k = 1
    p' = 0.75*p + 0.5*v' + j
    v' = 0.875*v - 0.25*p + 0.5*u + w + s
    on any when k == 0 -> k' = 2
    on any otherwise -> 0.3: k' = k - 1 | 0.7: stay
    discretize center
"""


def test_a_linear_system_moves_as_plain_python_with_the_same_draws() -> None:
    model = mdpdsl.loads(LINEAR, all_states=True)
    simulator = new_system_simulator(model.system, model.graph)
    generator, same = np.random.default_rng(9), np.random.default_rng(9)
    actions = np.random.default_rng(0).integers(0, 3, size=3_000).tolist()
    start_system(simulator, generator)
    for _ in range(3):  # one for each variable
        same.random()
    p, v, k = -2.0, 0.0, 1
    for action in actions:
        state = step_system(simulator, action, generator)
        if k == 0:
            k = 2
        elif same.random() < 0.3:
            k -= 1
        w, s = same.normal(0.1, 0.3), same.uniform(-0.2, 0.4)
        j = (-0.5, 0.0, 0.25)[int(np.searchsorted([0.25, 0.75, 1.0], same.random(), "right"))]
        v = min(max(0.875 * v - 0.25 * p + 0.5 * (action - 1) + w + s, -1.0), 1.0)
        p = -2.0 + (0.75 * p + 0.5 * v + j + 2.0) % 4.0
        assert simulator.registers[:3].tolist() == [p, v, k]
        assert state == model.graph.state(p=p, v=v, k=k)
    assert generator.bit_generator.state == same.bit_generator.state


def test_an_inner_edge_belongs_to_the_cell_above_it() -> None:
    model = built("normal noise, clipped")
    simulator = new_system_simulator(model.system, model.graph)
    (variable,) = model.graph.states.variables
    assert variable.edges is not None
    near = [np.nextafter(variable.edges, -1), variable.edges, np.nextafter(variable.edges, 2)]
    for value in np.clip(np.concatenate(near), 0, 1).tolist():
        state = place_system(simulator, np.array([value]))
        assert state == variable.indices(np.array([value]))[0]


def test_the_last_cell_includes_its_end_and_a_circle_has_none() -> None:
    model = mdpdsl.loads("""
        mdp m
        state x in [0, 1] clip bins 4
        state a in [-pi, pi] wrap bins 4
        action go
        init x = 1, a = pi
        x' = x + 1
        a' = a + 2*pi
    """)
    simulator = new_system_simulator(model.system, model.graph)
    state = start_system(simulator, np.random.default_rng(0))
    assert model.graph.states.native(state)["x"] == 0.875
    assert simulator.cells.tolist() == [3, 0]
    assert simulator.registers[:2].tolist() == [1.0, -math.pi]
    assert step_system(simulator, 0, np.random.default_rng(0)) == state
    assert simulator.registers[:2].tolist() == [1.0, -math.pi]
