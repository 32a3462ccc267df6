"""The compact program against the full one, and both against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

import mdpdsl
from mdpdsl.programs.direction import ProgramError, policy_of
from mdpdsl.programs.optimistic import compact_program, compact_size, decoded
from mdpdsl.programs.optimistic_full import full_program, full_size
from mdpdsl.programs.oracle import LinearOracle
from mdpdsl.programs.program import LinearProgram, Status, load_backend
from mdpdsl.programs.uncertain import UncertainModel, known_model
from tests.programs.uncertain import Instance, check_direction, instances, uncertain_model

#: Tolerances of values, relative to the largest weight, and of shares.
TOLERANCE = 1e-7


@settings(max_examples=300, deadline=None)
@given(instances())
def test_compact_and_full_agree_and_both_decode_to_a_model_within_the_balls(
    instance: Instance,
) -> None:
    model, weights = instance.model, instance.weights
    backend = load_backend("highs")
    compact, full = LinearOracle(backend, "compact"), LinearOracle(backend, "full")
    least, other = compact.interior(model).least, full.interior(model).least
    assert least == pytest.approx(other, abs=TOLERANCE)
    eta = instance.share * least / 2
    one, two = compact.answer(model, weights, eta), full.answer(model, weights, eta)
    assert one.value is not None
    assert two.value is not None
    assert abs(one.value - two.value) <= TOLERANCE * weights.max()
    for plan in (one, two):
        check_direction(model, plan.direction, eta, TOLERANCE)


@settings(max_examples=50, deadline=None)
@given(instances())
def test_rows_stay_in_the_balls_despite_the_tolerance_of_a_solver(instance: Instance) -> None:
    """Even columns that are far less accurate than a solver give rows within the balls."""
    model = instance.model
    program, _ = compact_program(model, instance.weights, 0.0)
    values = load_backend("highs").solve(program).values
    assert values is not None
    off_by = np.random.default_rng(0).normal(scale=1e-3, size=len(values))
    x, v, z = np.split(values + off_by, [block.stop for block in program.columns[:2]])
    rows = decoded(model, x, v, 0.0, float(z[0]) if len(z) else None).kernel
    assert rows.dense().min() >= 0
    assert rows.dense().sum(axis=1) == pytest.approx(1)
    estimate = np.zeros((model.n_pairs, model.n_states))
    estimate[model.entry_pair, model.successor] = model.probability
    off = np.abs(rows.dense() - estimate).sum(axis=1)
    assert (off <= model.radius + 1e-9)[model.radius < 2].all()


@settings(max_examples=50, deadline=None)
@given(instances())
def test_sizes_are_known_before_a_program_is_built(instance: Instance) -> None:
    for size, build in ((compact_size, compact_program), (full_size, full_program)):
        built, _ = build(instance.model, instance.weights, 0.0)
        expected = size(instance.model)
        assert (expected.rows, expected.columns) == (built.n_rows, built.n_columns)
        assert expected.nonzeros == built.matrix.nnz


def test_blocks_cover_all_columns_and_rows_and_have_names() -> None:
    model = known_model(mdpdsl.load("riverswim").graph, 0.3)
    for build in (compact_program, full_program):
        built, _ = build(model, np.ones(model.n_pairs), 0.0)
        assert covered(built) == (built.n_columns, built.n_rows)
        for block in (*built.columns, *built.rows):
            labels = [block.label(i) for i in range(block.stop - block.start)]
            assert len(set(labels)) == len(labels)
    compact, _ = compact_program(model, np.ones(model.n_pairs), 0.0)
    assert compact.columns[0].label(3) == ("pos=1", "right")
    assert compact.columns[1].label(1) == ("pos=0", "right", "pos=0")
    assert compact.rows[0].label(5) == ("pos=5",)


def covered(program: LinearProgram) -> tuple[int, int]:
    ends = []
    for blocks in (program.columns, program.rows):
        end = 0
        for block in blocks:
            assert block.start == end
            end = block.stop
        ends.append(end)
    return ends[0], ends[1]


def best_by_policies(model: UncertainModel, weights: np.ndarray) -> float:
    """Return the best gain of a deterministic policy of an exactly known ergodic model."""
    rows = np.zeros((model.n_pairs, model.n_states))
    rows[model.entry_pair, model.successor] = model.probability
    ranges = [range(a, b) for a, b in zip(model.pair_start, model.pair_start[1:], strict=False)]
    best = -np.inf
    for chosen in product(*ranges):
        P = rows[list(chosen)]
        A = np.vstack([P.T - np.eye(model.n_states), np.ones(model.n_states)])
        d = np.linalg.lstsq(A, np.eye(model.n_states + 1)[-1], rcond=None)[0]
        best = max(best, float(d @ weights[list(chosen)]))
    return best


def test_with_certain_rows_the_oracle_is_the_best_policy() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        S = 4
        counts = rng.integers(1, 5, (S, 2, S)).tolist()
        model = uncertain_model(counts, [0.0] * 2 * S, S)
        weights = rng.random(2 * S)
        plan = LinearOracle(load_backend("highs")).answer(model, weights, 0.0)
        assert plan.value == pytest.approx(best_by_policies(model, weights), abs=1e-9)


def test_without_knowledge_the_oracle_stays_with_the_best_pair() -> None:
    model = uncertain_model([[[0, 0]], [[0, 0], [0, 0]]], [2.0] * 3, 2)
    plan = LinearOracle(load_backend("highs")).answer(model, np.array([0.3, 0.2, 0.9]), 0.05)
    assert plan.direction.occupancy == pytest.approx([0.1, 0.1, 0.8])
    assert compact_size(model).columns == 3


def test_a_larger_radius_is_never_worse() -> None:
    graph = mdpdsl.load("riverswim").graph
    weights = np.random.default_rng(1).random(graph.n_pairs)
    oracle = LinearOracle(load_backend("highs"))
    values = [oracle.answer(known_model(graph, b), weights, 0.001).value for b in (0, 0.1, 0.5, 2)]
    assert all(v is not None for v in values)
    assert np.all(np.diff(np.array(values, float)) >= -1e-9)


def test_an_infeasible_program_is_a_value_and_its_policy_an_error() -> None:
    model = known_model(mdpdsl.load("riverswim").graph)
    plan = LinearOracle(load_backend("highs")).answer(model, np.ones(model.n_pairs), 0.04)
    assert plan.status is Status.INFEASIBLE
    with pytest.raises(ProgramError, match="choose a smaller `eta=`"):
        _ = plan.direction


def test_absurd_sizes_are_refused_before_they_are_built() -> None:
    model = known_model(mdpdsl.load("gridworld", n=60).graph)
    with pytest.raises(ProgramError, match="the compact formulation or the backend evi"):
        full_program(model, np.ones(model.n_pairs), 0.0)


def test_a_policy_is_uniform_in_unvisited_states() -> None:
    policy = policy_of(np.array([0.3, 0.1, 0.0, 0.0, 0.6]), np.array([0, 2, 4, 5]))
    assert policy == pytest.approx([0.75, 0.25, 0.5, 0.5, 1.0])


def test_radii_and_rows_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 2"):
        uncertain_model([[[1]]], [2.5], 1)
    with pytest.raises(ValueError, match="must have the radius 2"):
        UncertainModel(
            np.array([0, 1]),
            np.array([0, 0]),
            np.zeros(0, np.int32),
            np.zeros(0),
            np.array([1.0]),
            lambda: ([], []),
            np.ones(1),
        )
