"""Graphs as the text of a model file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import mdpdsl
from mdpdsl.formats.mdp import model_text
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.space import Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.build import enum_variable, graph_from_rows, int_variable
from tests.solve.small import small_graphs

#: Models whose texts take seconds to read.
LONG = ("cart_pole", "mountain_car", "double_integrator", "gambler", "bayes_bandit")
MODELS = [name for name in mdpdsl.shipped_models() if name not in (*LONG, "pendulum_unknown")]


@pytest.mark.parametrize("name", MODELS)
def test_the_text_of_a_shipped_model_builds_the_same_graph(name: str) -> None:
    graph = mdpdsl.load(name).graph
    again = mdpdsl.loads(model_text(graph, name)).graph
    graph = replace(graph, knowledge=None)  # the text has the truth
    if np.all(graph.probability <= 1):
        assert again.hash == graph.hash
    else:  # a sum of branches, above 1 by rounding, is written as 1
        np.testing.assert_allclose(again.probability, graph.probability, rtol=0, atol=1e-15)


@settings(deadline=None, max_examples=60)
@given(small_graphs())
def test_the_text_of_any_graph_builds_the_same_graph(graph: TransitionGraph) -> None:
    again = mdpdsl.loads(model_text(graph, "any")).graph
    for name in ("pair_start", "pair_action", "successor", "probability", "reward"):
        np.testing.assert_array_equal(getattr(again, name), getattr(graph, name))
    np.testing.assert_allclose(again.initial, graph.initial, atol=1e-15)
    np.testing.assert_array_equal(again.labels["goal"], graph.labels["goal"])


def test_states_with_the_same_effect_share_a_line() -> None:
    text = model_text(mdpdsl.load("riverswim", n=500).graph, "long")
    assert len(text.splitlines()) < 25
    assert "1 <= pos <= 498" in text
    assert "pos' = pos + 1" in text


def test_states_that_the_variables_cannot_express_become_numbers() -> None:
    """With an unreachable part of a product, no file with these variables has these states."""
    pair = (int_variable("x", 2), int_variable("y", 2))
    rows = [{0: {0: 1.0}}, {0: {0: 1.0}}, {0: {0: 1.0}}]
    graph = graph_from_rows(rows, variables=pair, codes=[0, 1, 3])
    assert not reachable_states(graph).all()
    text = model_text(graph, "part")
    assert "the states are numbered by one variable" in text
    again = mdpdsl.loads(text).graph
    assert again.n_states == 3
    np.testing.assert_array_equal(again.successor, graph.successor)


def test_a_start_that_is_not_a_product_becomes_numbers() -> None:
    pair = (int_variable("x", 2), int_variable("y", 2))
    rows = [{0: {s: 1.0}} for s in range(4)]
    graph = graph_from_rows(rows, variables=pair, initial=np.array([0.5, 0.0, 0.2, 0.3]))
    again = mdpdsl.loads(model_text(graph, "joint")).graph
    assert [v.name for v in again.states.variables] == ["s"]
    np.testing.assert_allclose(again.initial[again.initial > 0], [0.5, 0.2, 0.3])


def test_names_of_other_tools_become_names_of_the_language() -> None:
    variables = (enum_variable("state", "on-1", "2nd"), Variable("e", "bool", 2))
    graph = graph_from_rows(
        [{0: {3: 1.0}}, {0: {0: 1.0}}, {0: {1: 1.0}}, {0: {2: 1.0}}],
        variables=variables,
        labels={"in": np.array([True, False, False, False]), "in_": np.zeros(4, np.bool_)},
    )
    again = mdpdsl.loads(model_text(graph, "mdp", 'a "title"')).graph
    assert [v.name for v in again.states.variables] == ["state_", "e_"]
    assert again.states.variables[0].members == ("onm1", "_2nd")
    assert list(again.labels) == ["in_", "in__"]
    np.testing.assert_array_equal(again.successor, graph.successor)


def test_a_reward_of_zero_is_still_declared() -> None:
    graph = mdpdsl.load("riverswim").graph
    nothing = replace(graph, reward=np.zeros(graph.n_pairs))
    assert mdpdsl.loads(model_text(nothing, "free")).graph.hash == nothing.hash
    undeclared = replace(graph, reward=None)
    assert mdpdsl.loads(model_text(undeclared, "free")).graph.reward is None


def test_a_product_that_is_too_large_to_search_becomes_numbers() -> None:
    wide = Variable("x", "int", 10**9)
    graph = mdpdsl.load("riverswim").graph
    states = StateSpace(Product((wide,)), graph.states.codes * 10**8)
    again = mdpdsl.loads(model_text(replace(graph, states=states), "wide")).graph
    np.testing.assert_array_equal(again.successor, graph.successor)


def test_a_model_without_dynamics_is_refused() -> None:
    with pytest.raises(ValueError, match="dynamics of this model are unknown"):
        model_text(mdpdsl.load("pendulum_unknown").graph, "unknown")
