"""Extended value iteration against the linear program that it replaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import mdpdsl
from mdpdsl.programs.oracle import LinearOracle, Oracle, load_oracle
from mdpdsl.programs.program import Status, load_backend
from mdpdsl.programs.uncertain import known_model
from tests.programs.uncertain import Instance, check_direction, instances, uncertain_model

#: Relative to the gain, ten times the tolerance of evi.
TOLERANCE = 1e-7


@settings(max_examples=150, deadline=None)
@given(instances(least_radius=0.05))
def test_evi_finds_the_value_of_the_program(instance: Instance) -> None:
    model, weights = instance.model, instance.weights
    plan = load_oracle("evi").answer(model, weights, 0.0, None)
    expected = LinearOracle(load_backend("highs")).answer(model, weights, 0.0).value
    assert plan.status is Status.OPTIMAL
    assert plan.value == pytest.approx(expected, rel=TOLERANCE, abs=1e-30)
    check_direction(model, plan.direction, 0.0, 1e-7)


@settings(max_examples=100, deadline=None)
@given(instances(least_radius=0.05))
def test_a_mixed_plan_is_allowed_and_loses_no_more_than_its_share(instance: Instance) -> None:
    model, weights = instance.model, instance.weights
    oracle = load_oracle("evi")
    interior = oracle.interior(model)
    best = LinearOracle(load_backend("highs")).interior(model).least
    assert 0 < interior.least <= best + 1e-9
    eta = min(instance.share, 0.99) * interior.least / 2
    plan = oracle.answer(model, weights, eta, interior)
    free = oracle.answer(model, weights, 0.0, None)
    check_direction(model, plan.direction, eta, 1e-7)
    assert plan.value is not None
    assert free.value is not None
    alpha = 2 * eta / interior.least
    assert plan.value >= (1 - alpha) * free.value * (1 - 1e-9)


def test_a_periodic_model_is_solved() -> None:
    model = uncertain_model([[[0, 1]], [[1, 0]]], [0.0, 0.0], 2)
    plan = load_oracle("evi").answer(model, np.array([1.0, 0.0]), 0.0, None)
    assert plan.value == pytest.approx(0.5)


def test_a_model_of_separate_parts_is_reported_and_not_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    oracle = load_oracle("evi")
    monkeypatch.setattr(sys.modules[type(oracle).__module__], "MOST_SWEEPS", 1_000)
    model = uncertain_model([[[1, 0]], [[0, 1]]], [0.0, 0.0], 2)
    plan = oracle.answer(model, np.array([1.0, 0.2]), 0.0, None)
    assert plan.status is Status.FAILED
    assert "use the backend highs" in plan.message


def test_an_eta_beyond_the_interior_point_is_reported() -> None:
    model = known_model(mdpdsl.load("riverswim").graph, 0.1)
    oracle = load_oracle("evi")
    interior = oracle.interior(model)
    plan = oracle.answer(model, np.ones(model.n_pairs), interior.least, interior)
    assert plan.status is Status.INFEASIBLE
    assert "the backend highs" in plan.message


def test_a_time_limit_is_kept() -> None:
    model = known_model(mdpdsl.load("gridworld", n=30).graph, 0.001)
    oracle = load_oracle("evi", time_limit=1e-9)
    weights = np.zeros(model.n_pairs)
    weights[-1] = 1.0
    assert oracle.answer(model, weights, 0.0, None).status is Status.TIME_LIMIT


def test_the_program_s_values_at_a_thousand_states() -> None:
    graph = mdpdsl.load("gridworld", n=32).graph
    model = known_model(graph, 0.2)
    weights = np.random.default_rng(0).random(graph.n_pairs) ** 4
    oracle = load_oracle("evi")
    plan = oracle.answer(model, weights, 0.0, None)
    assert plan.status is Status.OPTIMAL
    check_direction(model, plan.direction, 0.0, 1e-7)
    assert isinstance(oracle, Oracle)
