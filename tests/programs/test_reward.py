"""The linear program of optimal values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.program import Solution, Status, load_backend
from mdpdsl.programs.reward import reward_program
from tests.solve.small import best_worth, discounted_worth, small_graphs

#: HiGHS's own tolerance, in proportion to the values.
SOLVER = 1e-6


@settings(max_examples=60, deadline=None)
@given(small_graphs(), st.sampled_from([0.0, 0.5, 0.9, 0.99]))
def test_the_optimum_is_the_best_of_all_policies(graph: TransitionGraph, gamma: float) -> None:
    assert graph.reward is not None
    program, decode = reward_program(graph, graph.reward, gamma)
    found = decode(load_backend("highs").solve(program))
    expected = best_worth(graph, gamma)
    atol = SOLVER * (1 + np.abs(graph.reward).max() / (1 - gamma))
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=atol)
    worth = discounted_worth(graph, found.choice, gamma)
    np.testing.assert_allclose(worth, expected, rtol=0, atol=atol)


def test_rows_are_pairs_and_columns_states_by_name() -> None:
    graph = mdpdsl.load("riverswim").graph
    assert graph.reward is not None
    program, _ = reward_program(graph, graph.reward, 0.9)
    assert (program.n_rows, program.n_columns) == (graph.n_pairs, graph.n_states)
    (columns,), (rows,) = program.columns, program.rows
    assert (columns.name, columns.stop, columns.label(4)) == ("value", 6, (4,))
    assert (rows.name, rows.stop, rows.label(9)) == ("bellman", 12, (4, "right"))


def test_an_unsolved_program_has_no_values() -> None:
    graph = mdpdsl.load("riverswim").graph
    assert graph.reward is not None
    _, decode = reward_program(graph, graph.reward, 0.9)
    with pytest.raises(ValueError, match="time limit"):
        decode(Solution(Status.TIME_LIMIT))


def test_a_discount_of_1_has_no_program() -> None:
    graph = mdpdsl.load("riverswim").graph
    assert graph.reward is not None
    with pytest.raises(ValueError, match="discount"):
        reward_program(graph, graph.reward, 1.0)
