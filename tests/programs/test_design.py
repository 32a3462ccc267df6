"""The best experiment for unknown numbers: closed forms, other solvers, certificates."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

import mdpdsl
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.design import Design, optimal_design, random_design, range_weights
from mdpdsl.programs.design_search import DesignObjective, certified_excess
from mdpdsl.programs.normal_equations import NormalEquations
from mdpdsl.programs.occupancy import flow_rows, random_occupancy
from mdpdsl.programs.program import Status
from mdpdsl.programs.visitable import AllocationError
from tests.graph.build import graph_from_rows, ruin
from tests.graph.test_ends import CORRIDOR
from tests.programs.models import communicating_graph, graphs

TOLERANCE = 1e-6
#: The accuracy of the other solver.
ORACLE_TOLERANCE = 1e-4

seeds = st.integers(0, 2**32 - 1)


def bandit(n_arms: int) -> TransitionGraph:
    """Return one state with some actions that lead back to it."""
    return graph_from_rows([{arm: {0: 1.0} for arm in range(n_arms)}])


def information_of(rng: np.random.Generator, n_pairs: int, k: int, part: float = 1.0) -> FloatArray:
    """Return random matrices of rank 2 for a part of the pairs."""
    J = rng.normal(size=(n_pairs, 2, k)) * (rng.random((n_pairs, 1, 1)) < part)
    return np.asarray(J.transpose(0, 2, 1) @ J)


def names_of(k: int) -> list[str]:
    return [f"p{i}" for i in range(k)]


def a_value(F: FloatArray, W: FloatArray, u: FloatArray) -> float:
    return float(np.sum(W * np.diag(np.linalg.inv(np.tensordot(u, F, axes=1)))))


def d_value(F: FloatArray, u: FloatArray) -> float:
    return float(-np.linalg.slogdet(np.tensordot(u, F, axes=1))[1] / F.shape[1])


def occupancy_of(graph: TransitionGraph, policy: FloatArray) -> FloatArray:
    """Return the shares of visits of a policy, [n_pairs], of a communicating graph."""
    P = graph.pair_incidence() @ (policy[:, None] * graph.transition_matrix().toarray())
    S = graph.n_states
    rows = np.vstack([P.T - np.eye(S), np.ones(S)])
    shares = np.linalg.lstsq(rows, np.append(np.zeros(S), 1.0), rcond=None)[0]
    return np.asarray(shares[graph.pair_state] * policy)


def random_policy(graph: TransitionGraph, rng: np.random.Generator) -> FloatArray:
    weight = rng.exponential(size=graph.n_pairs) ** 3 + 1e-9
    total = np.bincount(graph.pair_state, weight, minlength=graph.n_states)
    return np.asarray(weight / total[graph.pair_state])


def imbalance(graph: TransitionGraph, d: FloatArray) -> float:
    graph = graph.closed
    out = np.bincount(graph.pair_state, d, minlength=graph.n_states)
    return float(np.max(np.abs(out - d @ graph.transition_matrix())))


def test_two_arms_are_tried_in_proportion_to_the_deviations_of_their_estimates() -> None:
    F = np.zeros((2, 2, 2))
    F[0, 0, 0], F[1, 1, 1] = 4.0, 0.25
    W = np.array([1.0, 9.0])
    found = optimal_design(bandit(2), F, ["left", "right"], W, tolerance=1e-9)
    # tr(W M^-1) = sum w / (f d) is least for d in proportion to sqrt(w / f).
    share = np.sqrt(W / np.array([4.0, 0.25]))
    assert found.occupancy == pytest.approx(share / share.sum(), rel=1e-5)
    assert found.objective == pytest.approx(share.sum() ** 2, rel=1e-8)
    assert found.deviations == pytest.approx(
        1 / np.sqrt(np.array([4.0, 0.25]) * found.occupancy), rel=1e-9
    )
    assert found.status is Status.OPTIMAL


def test_the_criterion_d_tries_two_arms_alike_whatever_their_units() -> None:
    F = np.zeros((2, 2, 2))
    F[0, 0, 0], F[1, 1, 1] = 400.0, 0.25
    found = optimal_design(bandit(2), F, ["a", "b"], np.array([1.0, 50.0]), criterion="d")
    assert found.occupancy == pytest.approx([0.5, 0.5], abs=1e-3)
    assert found.objective == pytest.approx(-np.log(400 * 0.25 / 4) / 2, abs=1e-4)


def test_three_arms_that_show_two_numbers_together_agree_with_a_grid() -> None:
    v = np.array([[1.0, 0.0], [1.0, 1.0], [0.2, 2.0]])
    F, W = np.einsum("ni,nj->nij", v, v), np.array([1.0, 2.0])
    grid = [(a, b) for a in np.linspace(0.005, 0.99, 198) for b in np.linspace(0.0, 1 - a, 200)]
    best = min(a_value(F, W, np.array([a, b, 1 - a - b])) for a, b in grid if a + b < 0.999)
    found = optimal_design(bandit(3), F, ["x", "y"], W, tolerance=1e-8)
    assert found.objective <= best * (1 + 1e-9)
    assert found.objective == pytest.approx(best, rel=1e-3)


@given(seed=seeds, graph=graphs)
@settings(max_examples=25, deadline=None)
def test_one_number_is_a_linear_program(seed: int, graph: TransitionGraph) -> None:
    F = np.random.default_rng(seed).exponential(size=(graph.n_pairs, 1, 1)) ** 2
    found = optimal_design(graph, F, ["slip"], np.ones(1), tolerance=TOLERANCE)
    rows = np.vstack([flow_rows(graph).toarray(), np.ones(graph.n_pairs)])
    right = np.append(np.zeros(graph.n_states), 1.0)
    best = linprog(-F[:, 0, 0], A_eq=rows, b_eq=right, method="highs")
    assert best.fun is not None
    assert 1 / found.objective == pytest.approx(-best.fun, rel=2 * TOLERANCE)
    assert found.gap <= TOLERANCE


@pytest.mark.parametrize("criterion", ["a", "d"])
@pytest.mark.parametrize("seed", range(6))
def test_a_general_solver_finds_the_same_optimum(seed: int, criterion: str) -> None:
    rng = np.random.default_rng(seed)
    graph = communicating_graph(seed, int(rng.integers(2, 6)), 3, 0.3, 0.3)
    k = int(rng.integers(2, 4))
    F, W = information_of(rng, graph.n_pairs, k), rng.exponential(size=k)
    visits = rng.integers(0, 30, graph.n_pairs).astype(float) if seed % 2 else None
    T, m = (np.zeros(graph.n_pairs), 1.0) if visits is None else (visits, 50.0)
    found = optimal_design(
        graph, F, names_of(k), W, criterion=criterion, visits=visits, steps_left=m,
        tolerance=1e-8,
    )  # fmt: skip
    rows = flow_rows(graph).toarray()

    def value(d: FloatArray) -> float:
        return a_value(F, W, T + m * d) if criterion == "a" else d_value(F, T + m * d)

    best: Any = minimize(  # type: ignore[call-overload]
        value,
        random_occupancy(graph),
        method="SLSQP",
        bounds=[(1e-9, 1)] * graph.n_pairs,
        constraints=[
            {"type": "eq", "fun": lambda d: (rows @ d)[:-1]},
            {"type": "eq", "fun": lambda d: d.sum() - 1},
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.objective == pytest.approx(value(found.occupancy), rel=1e-9)
    assert found.objective <= best.fun + 1e-6 * abs(best.fun)
    assert found.objective == pytest.approx(best.fun, rel=ORACLE_TOLERANCE, abs=ORACLE_TOLERANCE)


@given(graph=graphs, seed=seeds, criterion=st.sampled_from(["a", "d"]), is_mixed=st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_policy_does_better_than_the_certificate_allows(
    graph: TransitionGraph, seed: int, criterion: str, is_mixed: bool
) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 4))
    F, W = information_of(rng, graph.n_pairs, k, 0.7), np.exp(rng.normal(size=k))
    need = rng.random(graph.n_pairs) if is_mixed else None
    try:
        found = optimal_design(
            graph, F, names_of(k), W, criterion=criterion, need=need, mix=0.5, tolerance=TOLERANCE
        )
    except AllocationError:
        assume(False)
    assert found.status is Status.OPTIMAL
    assert found.gap <= TOLERANCE
    assert imbalance(graph, found.occupancy) <= 1e-12
    assert found.occupancy.sum() == pytest.approx(1.0)
    for _ in range(5):
        d = occupancy_of(graph, random_policy(graph, rng))
        value = a_value(F, W, d) if criterion == "a" else d_value(F, d)
        if need is not None:
            A = value if criterion == "a" else np.exp(d_value(F, d) + np.log(W).mean())
            value = A / found.units[0] + 0.5 * float(np.sum(need / d)) / found.units[1]
        slack = found.gap if criterion == "d" and need is None else found.gap * abs(value)
        assert found.objective <= value + slack + 1e-9 * abs(value)


@given(graph=graphs, seed=seeds, criterion=st.sampled_from(["a", "d"]))
@settings(max_examples=30, deadline=None)
def test_the_certificate_of_any_shares_and_multipliers_holds(
    graph: TransitionGraph, seed: int, criterion: str
) -> None:
    rng = np.random.default_rng(seed)
    n = graph.n_pairs
    F, W = information_of(rng, n, 2), np.exp(rng.normal(size=2))
    try:
        best = optimal_design(graph, F, names_of(2), W, criterion=criterion, tolerance=1e-7)
    except AllocationError:
        assume(False)
    d = occupancy_of(graph, random_policy(graph, rng))
    weight = np.diag(W) if criterion == "a" else None
    objective = DesignObjective(F, weight, np.zeros(n), np.zeros(n), np.zeros((2, 2)), (1.0, 0.0))
    equations = NormalEquations(flow_rows(graph))
    bound = certified_excess(equations, objective, n * d, rng.normal(size=graph.n_states))
    value = a_value(F, W, d) if criterion == "a" else d_value(F, d)
    ratio = value / best.objective if criterion == "a" else np.exp(value - best.objective)
    assert ratio - 1 <= bound + 1e-6


def test_a_mixed_design_is_equally_far_from_both_optima_in_their_own_units() -> None:
    # Arm 0 shows the number, arm 1 has the row to be estimated.
    F, need = np.array([[[100.0]], [[0.0]]]), np.array([0.0, 0.2])
    found = optimal_design(bandit(2), F, ["slip"], np.ones(1), need=need, tolerance=1e-9)
    # 1/(100 d) and 0.2/(1 - d) are 1/100 and 0.2 at best: 1/d + 1/(1 - d) is least at 1/2.
    assert found.occupancy == pytest.approx([0.5, 0.5], abs=1e-3)
    assert found.units == pytest.approx((0.01, 0.2), rel=1e-4)
    assert found.objective == pytest.approx(4.0, rel=1e-4)
    more = optimal_design(bandit(2), F, ["slip"], np.ones(1), need=need, mix=4.0, tolerance=1e-9)
    assert more.occupancy == pytest.approx([1 / 3, 2 / 3], abs=1e-3)


def test_visits_already_made_leave_the_rest_of_the_budget_to_what_is_missing() -> None:
    F = np.zeros((2, 2, 2))
    F[0, 0, 0] = F[1, 1, 1] = 1.0
    found = optimal_design(
        bandit(2), F, ["a", "b"], np.ones(2), visits=np.array([30.0, 10.0]), steps_left=40.0,
        tolerance=1e-9,
    )  # fmt: skip
    assert 40 * found.occupancy == pytest.approx([10.0, 30.0], abs=1e-2)
    assert found.deviations == pytest.approx([1 / np.sqrt(40)] * 2, rel=1e-4)


def test_numbers_that_only_show_together_are_named() -> None:
    v = np.array([1.0, 1.0, 0.0])
    F = np.stack([np.outer(v, v), np.diag([0.0, 0.0, 2.0])])
    names, W = ["gain", "load", "drift"], np.array([1.0, 1.0, 4.0])
    with pytest.raises(AllocationError, match="gain and load cannot be told apart") as error:
        optimal_design(bandit(2), F, names, W)
    assert "gain +0.71, load -0.71" in str(error.value) or (
        "gain -0.71, load +0.71" in str(error.value)
    )
    found = optimal_design(bandit(2), F, names, W, identifiable=True, tolerance=1e-8)
    # What shows is (gain + load)/sqrt(2), with information 2 d, and drift, with 2 (1 - d).
    d = np.sqrt(0.5) / (np.sqrt(0.5) + np.sqrt(2.0))
    assert found.occupancy == pytest.approx([d, 1 - d], abs=1e-4)
    assert np.isinf(found.deviations).tolist() == [True, True, False]
    assert found.deviations[2] == pytest.approx(1 / np.sqrt(2 * (1 - d)), rel=1e-3)


def test_a_number_of_no_interest_need_not_be_identified() -> None:
    F = np.stack([np.diag([1.0, 0.0]), np.diag([2.0, 0.0])])
    with pytest.raises(AllocationError, match="no transition that can be repeated shows noise"):
        optimal_design(bandit(2), F, ["slip", "noise"], np.ones(2))
    found = optimal_design(bandit(2), F, ["slip", "noise"], np.array([1.0, 0.0]))
    assert found.objective == pytest.approx(0.5, rel=1e-3)


def test_information_that_is_seen_only_once_does_not_count_but_visits_there_do() -> None:
    # State 0 leads to 1 for ever; only there is `b` shown.
    graph = graph_from_rows([{0: {1: 1.0}}, {0: {1: 1.0}, 1: {1: 1.0}}])
    F = np.stack([np.diag([0.0, 5.0]), np.diag([1.0, 0.0]), np.diag([3.0, 0.0])])
    with pytest.raises(AllocationError, match="shows b"):
        optimal_design(graph, F, ["a", "b"], np.ones(2))
    found = optimal_design(
        graph, F, ["a", "b"], np.ones(2), visits=np.array([2.0, 0.0, 0.0]), steps_left=10.0
    )
    assert found.occupancy == pytest.approx([0.0, 0.0, 1.0], abs=1e-2)
    assert found.deviations[1] == pytest.approx(np.sqrt(1 / 10))


def test_ends_lead_to_the_next_episode() -> None:
    graph = mdpdsl.loads(CORRIDOR).graph
    found = optimal_design(graph, np.ones((graph.n_pairs, 1, 1)), ["slip"], np.ones(1))
    assert found.objective == pytest.approx(1.0)
    assert imbalance(graph, found.occupancy) <= 1e-12


def test_parts_that_no_run_leaves_are_told_apart() -> None:
    graph = ruin(5)
    with pytest.raises(AllocationError, match="component"):
        optimal_design(graph, np.ones((graph.n_pairs, 1, 1)), ["slip"], np.ones(1))


def test_random_actions_have_their_stationary_shares() -> None:
    graph = communicating_graph(7, 9, 3, 0.3, 0.2)
    policy = 1 / np.diff(graph.pair_start)[graph.pair_state]
    assert random_occupancy(graph) == pytest.approx(occupancy_of(graph, policy), abs=1e-12)
    # One of two absorbing states, with chances 1/4 and 3/4.
    split = graph_from_rows([{0: {1: 0.25, 2: 0.75}}, {0: {1: 1.0}, 1: {1: 1.0}}, {0: {2: 1.0}}])
    assert random_occupancy(split) == pytest.approx([0.0, 0.125, 0.125, 0.75])


@pytest.mark.parametrize("name", ["pendulum", "mountain_car", "four_rooms", "frozen_lake", "taxi"])
def test_shipped_models_are_solved_and_beat_random_actions(name: str) -> None:
    graph = mdpdsl.load(name).graph
    F = information_of(np.random.default_rng(0), graph.n_pairs, 3, 0.2)
    W = range_weights(np.zeros(3), np.array([1.0, 0.5, 10.0]))
    found = optimal_design(graph, F, names_of(3), W)
    random = random_design(graph, F, names_of(3), W)
    assert isinstance(random, Design)
    assert found.status is Status.OPTIMAL
    assert found.gap <= 1e-4
    assert found.objective < random.objective


def test_what_cannot_be_meant_is_refused() -> None:
    F = np.ones((2, 1, 1))
    with pytest.raises(AllocationError, match="criterion"):
        optimal_design(bandit(2), F, ["slip"], np.ones(1), criterion="e")
    with pytest.raises(AllocationError, match="weight"):
        optimal_design(bandit(2), F, ["slip"], np.zeros(1))
    with pytest.raises(AllocationError, match="mix"):
        optimal_design(bandit(2), F, ["slip"], np.ones(1), mix=-1)


def test_time_that_runs_out_leaves_balanced_shares_and_a_bound() -> None:
    graph = mdpdsl.load("pendulum").graph
    F = information_of(np.random.default_rng(1), graph.n_pairs, 3, 0.2)
    found = optimal_design(graph, F, names_of(3), np.ones(3), time_limit=1e-9)
    assert found.status is Status.TIME_LIMIT
    assert found.gap > 1e-4
