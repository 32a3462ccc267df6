"""Weighted normal equations of the flow, full and banded."""

import numpy as np
import pytest

import mdpdsl
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.normal_equations import NormalEquations
from mdpdsl.programs.occupancy import flow_rows
from tests.graph.build import random_graph


def graphs() -> dict[str, TransitionGraph]:
    return {
        "full rows": mdpdsl.load("mountain_car").graph,
        "sparse rows": random_graph(400, 4, 5, np.random.default_rng(1)),
        "a band": mdpdsl.load("gridworld", n=30).graph,
        "one state": random_graph(1, 3, 1, np.random.default_rng(2)),
    }


@pytest.mark.parametrize("name", list(graphs()))
def test_solutions_solve_the_equations(name: str) -> None:
    equations = NormalEquations(flow_rows(graphs()[name]))
    assert equations.is_banded == (name == "a band")
    rng = np.random.default_rng(0)
    k = 10 ** rng.uniform(-3, 3, equations.flow.shape[1])
    r = equations.flow @ rng.normal(size=len(k))
    equations.factorize(k)
    h = equations.solve(r)
    assert np.abs(h).min() <= 1e-9 * np.abs(h).max()  # it is 0 in one state
    N = equations.flow.toarray()
    assert N @ (k * (N.T @ h)) == pytest.approx(r, abs=1e-8 * max(1.0, np.abs(r).max()))


def test_a_grid_costs_little_and_says_so() -> None:
    equations = NormalEquations(flow_rows(mdpdsl.load("gridworld", n=100).graph))
    assert equations.is_banded
    assert equations.multiplications < 1e9
    assert equations.n_entries < 1e7
