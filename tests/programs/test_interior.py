"""t*, the largest share that every pair can have, and the eta that it allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import mdpdsl
from mdpdsl.programs.direction import ProgramError
from mdpdsl.programs.interior import AUTO_FRACTION, Interior, chosen_eta, interior_program
from mdpdsl.programs.optimistic import compact_program
from mdpdsl.programs.oracle import LinearOracle
from mdpdsl.programs.program import Status, load_backend
from mdpdsl.programs.uncertain import known_model
from tests.programs.uncertain import Instance, instances, uncertain_model


def oracle() -> LinearOracle:
    return LinearOracle(load_backend("highs"))


def test_two_states_that_alternate_share_evenly() -> None:
    model = uncertain_model([[[0, 1]], [[1, 0], [1, 0]]], [0.0] * 3, 2)
    found = oracle().interior(model)
    assert found.least == pytest.approx(0.25)
    assert found.occupancy == pytest.approx([0.5, 0.25, 0.25])


def test_t_star_does_not_depend_on_the_eta_of_the_program_it_is_made_from() -> None:
    model = known_model(mdpdsl.load("riverswim").graph, 0.1)
    backend = load_backend("highs")
    found = []
    for eta in (0.0, 0.001):
        program, decode = interior_program(
            compact_program(model, np.ones(model.n_pairs), eta)[0], model.n_pairs
        )
        found.append(decode(backend.solve(program)).least)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_a_state_that_nothing_flows_into_leaves_no_share() -> None:
    model = uncertain_model([[[0, 1]], [[0, 1]]], [0.0, 0.0], 2)
    assert oracle().interior(model).least == pytest.approx(0, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(instances())
def test_just_below_t_star_there_is_a_plan_and_just_above_there_is_none(
    instance: Instance,
) -> None:
    found = oracle().interior(instance.model)
    assert found.occupancy.min() == pytest.approx(found.least, abs=1e-9)
    below = oracle().answer(instance.model, instance.weights, (1 - 1e-6) * found.least / 2)
    above = oracle().answer(instance.model, instance.weights, found.least / 2 + 1e-5)
    assert (below.status, above.status) == (Status.OPTIMAL, Status.INFEASIBLE)


def test_t_star_of_the_papers_pendulum_is_the_allocation_for_equal_complexities() -> None:
    model = known_model(mdpdsl.load("pendulum").graph)
    found = oracle().interior(model)
    flow = np.add.reduceat(found.occupancy, model.pair_start[:-1])
    P = mdpdsl.load("pendulum").graph.transition_matrix()
    assert P.T @ found.occupancy == pytest.approx(flow, abs=1e-9)
    assert 0 < found.least < 1 / model.n_pairs


def test_an_eta_is_taken_clipped_or_refused() -> None:
    interior = Interior(np.full(4, 0.25), 0.02, is_best=True)
    assert chosen_eta(0.005, interior) == (0.005, None)
    assert chosen_eta(None, interior)[0] == pytest.approx(AUTO_FRACTION * 0.01)
    eta, warning = chosen_eta(0.3, interior)
    assert eta == pytest.approx(0.01, rel=1e-5)
    assert warning is not None
    assert "t* is 0.02" in warning
    with pytest.raises(ProgramError, match=r"t\* is 0.02, so eta can be at most 0.01"):
        chosen_eta(0.3, interior, is_strict=True)
