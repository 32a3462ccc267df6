"""The best possible allocation: figures, closed forms, another solver, certificates."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.graph.analysis import is_communicating
from mdpdsl.graph.complexity import complexity
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.allocation import certify, optimal_allocation, optimum
from mdpdsl.programs.objective import allocation_objective
from mdpdsl.programs.occupancy import flow_rows, stationary_policy
from mdpdsl.programs.program import Status, load_backend
from mdpdsl.programs.visitable import AllocationError
from tests.graph.build import graph_from_rows, ruin
from tests.graph.test_ends import CORRIDOR
from tests.programs.cone_oracle import least_mean
from tests.programs.models import graphs

TOLERANCE = 1e-6
#: The accuracy of the other solver.
ORACLE_TOLERANCE = 1e-5
KAPPAS = (1.0, 1.5, 2.0, 7.0, 30.0, 100.0, np.inf)

kappas = st.sampled_from([1.0, 1.2, 2.0, 3.0, 10.0, 50.0, np.inf])


def f_value(c: FloatArray, d: FloatArray, kappa: float) -> float:
    """Return F(d) from its definition, or U(d) for kappa = 1."""
    c, d = c[c > 0], d[c > 0]
    if kappa == 1:
        return float(np.sum(c * np.log(d)))
    if np.isinf(kappa):
        return float(np.max(c / d))
    return float(np.sum(c * (c / d) ** (kappa - 1)) ** (1 / (kappa - 1)))


def imbalance(graph: TransitionGraph, d: FloatArray) -> float:
    graph = graph.closed
    P = graph.transition_matrix()
    out = np.bincount(graph.pair_state, d, minlength=graph.n_states)
    return float(np.max(np.abs(out - d @ P) / out))


def excess(c: FloatArray, kappa: float, value: float, best: float) -> float:
    """Return F/F* - 1; for kappa = 1 the same of the geometric mean."""
    return float(np.expm1((best - value) / c.sum())) if kappa == 1 else value / best - 1


@pytest.mark.parametrize(
    ("name", "worst", "average", "off_worst", "off_average"),
    [
        ("pendulum", 257.365, 159.152, 0.05, 0.05),
        ("mountain_car", 138_281, 3_356.2, 50, 1),
    ],
)
def test_the_limits_of_the_papers_models(
    name: str, worst: float, average: float, off_worst: float, off_average: float
) -> None:
    graph = mdpdsl.load(name).graph
    found = optimum(graph, complexity(graph))
    assert found.worst == pytest.approx(worst, abs=off_worst)
    assert found.average == pytest.approx(average, abs=off_average)


@pytest.mark.parametrize("name", mdpdsl.shipped_models())
def test_every_communicating_model_is_solved_for_every_kappa(name: str) -> None:
    graph = mdpdsl.load(name).graph
    if not graph.has_dynamics or not is_communicating(graph):
        return
    c = complexity(graph)
    # The rarest pairs of cart_pole have 10^-11 of the visits.
    for kappa in (10.0, np.inf) if graph.n_states > 1_000 else (*KAPPAS, 1_000.0):
        found = optimal_allocation(graph, c, kappa)
        assert found.status is Status.OPTIMAL
        assert found.gap <= TOLERANCE
        assert imbalance(graph, found.occupancy) <= 1e-9
        assert found.occupancy.sum() == pytest.approx(1, abs=1e-12)
        assert np.all(found.occupancy >= 0)


@settings(deadline=None, max_examples=60)
@given(graphs, kappas)
def test_another_solver_finds_the_same_optimum(graph: TransitionGraph, kappa: float) -> None:
    c = complexity(graph)
    assume(np.any(c > 0))
    found = optimal_allocation(graph, c, kappa)
    assert found.status is Status.OPTIMAL
    best = least_mean(graph, c, kappa)
    assume(best is not None)
    assert best is not None
    # The oracle works in x = n d.
    n = graph.n_pairs
    best = best - c.sum() * np.log(n) if kappa == 1 else best * n
    value = f_value(c, found.occupancy, kappa)
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert abs(excess(c, kappa, value, best)) <= ORACLE_TOLERANCE
    assert excess(c, kappa, value, best) <= found.gap + ORACLE_TOLERANCE


@settings(deadline=None, max_examples=60)
@given(graphs, kappas, st.floats(0.05, 0.9), st.integers(0, 2**32 - 1))
def test_the_gap_of_a_perturbed_allocation_covers_what_it_loses(
    graph: TransitionGraph, kappa: float, share: float, seed: int
) -> None:
    c = complexity(graph)
    assume(np.any(c > 0))
    best = optimal_allocation(graph, c, kappa, tolerance=1e-9)
    rng = np.random.default_rng(seed)
    other_c = rng.uniform(0.01, 1, graph.n_pairs)
    other = optimal_allocation(graph, other_c, 1)
    d = (1 - share) * best.occupancy + share * other.occupancy
    lost = excess(c, kappa, f_value(c, d, kappa), f_value(c, best.occupancy, kappa))
    anything = 10 * rng.normal(size=graph.n_states)
    for multipliers in (best.multipliers, other.multipliers, anything):
        assert certify(graph, c, kappa, d, multipliers) >= lost - 1e-9
    assert certify(graph, c, kappa, d, best.multipliers) <= lost + 1e-6


@settings(deadline=None, max_examples=40)
@given(graphs, st.sampled_from([1.0, 1.5, 2.0, 10.0]), st.integers(0, 2**32 - 1))
def test_the_certificate_is_at_least_as_good_as_that_of_the_gradient(
    graph: TransitionGraph, kappa: float, seed: int
) -> None:
    """lambda / <g,d> with g = (c/d)^kappa, lambda = max [g + P h - h]."""
    rng = np.random.default_rng(seed)
    c = rng.uniform(0.05, 1, graph.n_pairs)
    d = optimal_allocation(graph, rng.uniform(0.05, 1, graph.n_pairs), kappa).occupancy
    g = (c / d) ** kappa
    h = rng.normal(size=graph.n_states) * g.mean()
    P = graph.transition_matrix()
    level = float(np.max(g + P @ h - h[graph.pair_state]))
    bound = level / float(g @ d)
    assert certify(graph, c, kappa, d, h / level) <= bound - 1 + 1e-9


def test_a_single_state_is_visited_in_proportion_to_complexity() -> None:
    graph = graph_from_rows([{action: {0: 1.0} for action in range(4)}])
    c = np.array([0.1, 0.4, 0.0, 0.5])
    for kappa in KAPPAS:
        found = optimal_allocation(graph, c, kappa)
        # The objective is flat at its optimum: a gap of g allows errors of sqrt(g).
        assert found.occupancy == pytest.approx(c / c.sum(), abs=1e-3)
        assert found.objective == pytest.approx(f_value(c, c / c.sum(), kappa), rel=1e-6)
        assert found.without_need.tolist() == [2]


def test_a_chain_without_choice_has_its_stationary_distribution() -> None:
    graph = graph_from_rows([{0: {0: 0.9, 1: 0.1}}, {0: {0: 0.3, 1: 0.7}}])
    c = complexity(graph)
    for kappa in KAPPAS:
        found = optimal_allocation(graph, c, kappa)
        assert found.occupancy == pytest.approx([0.75, 0.25], abs=1e-12)
        assert found.gap <= TOLERANCE


def test_actions_with_the_same_transitions_share_as_their_complexities() -> None:
    rows = [{0: {0: 0.5, 1: 0.5}, 1: {0: 0.5, 1: 0.5}}, {0: {0: 0.2, 1: 0.8}}]
    graph = graph_from_rows(rows)
    d = optimal_allocation(graph, np.array([0.3, 0.1, 0.2]), 3, tolerance=1e-10).occupancy
    assert d[0] / d[1] == pytest.approx(3, rel=1e-4)


@pytest.mark.parametrize("name", ["pendulum", "mountain_car", "riverswim", "queue"])
def test_a_larger_kappa_never_raises_the_worst_case(name: str) -> None:
    graph = mdpdsl.load(name).graph
    c = complexity(graph)
    found = [optimal_allocation(graph, c, kappa, tolerance=1e-8) for kappa in KAPPAS]
    worst = np.array([each.worst for each in found])
    assert np.all(np.diff(worst) <= 1e-3 * worst[:-1])
    assert worst[-1] == min(worst)
    # The power means themselves rise with their exponent, up to the worst case.
    means = [
        allocation_objective(c, k).log_mean(each.occupancy)
        for k, each in zip(KAPPAS, found, strict=True)
    ]
    assert np.all(np.diff(means) >= -1e-7)


def test_no_other_kappa_has_a_smaller_average() -> None:
    graph = mdpdsl.load("thermostat").graph
    c = complexity(graph)
    least = optimum(graph, c).average
    for kappa in KAPPAS:
        assert optimal_allocation(graph, c, kappa).average >= least * (1 - TOLERANCE)


@pytest.mark.parametrize("name", ["riverswim", "pendulum", "gridworld", "bayes_bandit", "six_arms"])
def test_the_linear_program_has_the_same_worst_case(name: str) -> None:
    graph = mdpdsl.load(name).graph
    c = complexity(graph)
    by_program = optimal_allocation(graph, c, np.inf, backend=load_backend("highs"))
    assert by_program.status is Status.OPTIMAL
    assert by_program.gap <= TOLERANCE
    assert imbalance(graph, by_program.occupancy + 1e-300) <= 1e-9
    assert by_program.worst == pytest.approx(optimal_allocation(graph, c, np.inf).worst, rel=2e-6)


def test_a_grid_of_ten_thousand_states_is_solved() -> None:
    graph = mdpdsl.load("gridworld", n=100).graph
    found = optimal_allocation(graph, complexity(graph), 2)
    assert found.status is Status.OPTIMAL
    assert imbalance(graph, found.occupancy) <= 1e-9


def test_a_deterministic_model_leaves_nothing_to_estimate() -> None:
    graph = mdpdsl.load("windy_gridworld").graph
    found = optimal_allocation(graph, complexity(graph), 3)
    assert (found.status, found.objective, found.gap) == (Status.OPTIMAL, 0.0, 0.0)
    assert (found.worst, found.average) == (0.0, 0.0)
    assert imbalance(graph, found.occupancy) <= 1e-9


def test_a_policy_that_follows_the_shares_has_them_as_its_stationary_distribution() -> None:
    graph = mdpdsl.load("pendulum").graph
    d = optimal_allocation(graph, complexity(graph), 2).occupancy
    policy = stationary_policy(graph, d)
    chain = np.zeros((graph.n_states, graph.n_states))
    np.add.at(chain, graph.pair_state, policy[:, None] * graph.transition_matrix().toarray())
    states = np.bincount(graph.pair_state, d)
    assert states @ chain == pytest.approx(states, rel=1e-9)
    assert np.bincount(graph.pair_state, policy) == pytest.approx(np.ones(graph.n_states))


def test_a_policy_is_uniform_in_unvisited_states() -> None:
    graph = graph_from_rows([{0: {0: 1.0}}, {0: {0: 1.0}, 1: {0: 1.0}}])
    assert stationary_policy(graph, np.array([1.0, 0.0, 0.0])).tolist() == [1.0, 0.5, 0.5]


def test_flow_rows_sum_to_zero_over_the_states() -> None:
    flow = flow_rows(mdpdsl.load("mountain_car").graph)
    assert np.abs(flow.sum(axis=0)).max() < 1e-15


def test_a_stop_in_time_says_what_was_reached() -> None:
    graph = mdpdsl.load("mountain_car").graph
    found = optimal_allocation(graph, complexity(graph), 10, time_limit=1e-9)
    assert found.status is Status.TIME_LIMIT
    # Not even a point of the polytope was found: there are no figures.
    assert found.gap == found.worst == found.average == found.objective == np.inf


def test_transient_pairs_are_named_and_left_out_on_request() -> None:
    # 0 -> {1, 2} for ever; 1 and 2 have two actions each.
    rows = [
        {0: {1: 0.5, 2: 0.5}},
        {0: {1: 0.5, 2: 0.5}, 1: {1: 0.1, 2: 0.9}},
        {0: {1: 0.5, 2: 0.5}},
    ]
    graph = graph_from_rows(rows)
    c = complexity(graph)
    with pytest.raises(AllocationError, match=r"1 of 4 pairs infinitely often.*a in s = 0"):
        optimal_allocation(graph, c, 2)
    found = optimal_allocation(graph, c, 2, recurrent=True)
    assert found.left_out.tolist() == [0]
    assert found.occupancy[0] == 0
    inner = graph_from_rows([{0: {0: 0.5, 1: 0.5}, 1: {0: 0.1, 1: 0.9}}, {0: {0: 0.5, 1: 0.5}}])
    alone = optimal_allocation(inner, c[1:], 2)
    assert found.occupancy[1:] == pytest.approx(alone.occupancy)
    assert (found.worst, found.average) == pytest.approx((alone.worst, alone.average))


def test_a_run_that_may_end_in_two_places_must_choose() -> None:
    chance = {1: 0.5, 2: 0.5}
    rows = [{0: {1: 0.5, 3: 0.5}}, {0: chance}, {0: chance}, {0: {3: 0.3, 4: 0.7}}, {0: {3: 1.0}}]
    graph = graph_from_rows(rows)
    c = complexity(graph)
    with pytest.raises(AllocationError, match=r"one of 2 parts.*1 .*s = 1.*2 .*s = 3"):
        optimal_allocation(graph, c, 2, recurrent=True)
    for component, part in ((1, [1, 2]), (2, [3, 4])):
        found = optimal_allocation(graph, c, 2, recurrent=True, component=component)
        assert np.flatnonzero(found.occupancy).tolist() == part
    with pytest.raises(AllocationError, match="no component 3"):
        optimal_allocation(graph, c, 2, recurrent=True, component=3)


def test_transient_pairs_that_need_no_visits_do_not_matter() -> None:
    graph = graph_from_rows([{0: {1: 1.0}}, {0: {1: 0.5, 2: 0.5}}, {0: {1: 0.5, 2: 0.5}}])
    found = optimal_allocation(graph, complexity(graph), 2)
    assert found.occupancy == pytest.approx([0, 0.5, 0.5])
    assert found.average == pytest.approx((0 + 1 + 1) / 3)


def test_absorbing_ends_leave_nothing_to_estimate() -> None:
    graph = ruin(9)
    found = optimal_allocation(graph, complexity(graph), 2, recurrent=True)
    assert (found.objective, found.worst) == (0.0, 0.0)


@pytest.mark.parametrize("kappa", [0.99, -1.0, np.nan])
def test_a_kappa_below_one_is_refused(kappa: float) -> None:
    graph = mdpdsl.load("weather").graph
    with pytest.raises(AllocationError, match="kappa must be 1 or more"):
        optimal_allocation(graph, complexity(graph), kappa)


def test_a_model_too_large_is_refused_before_its_matrix_is_made() -> None:
    graph = mdpdsl.load("gridworld", n=600).graph
    with pytest.raises(AllocationError, match=r"too large.*360,000 states"):
        optimal_allocation(graph, complexity(graph), 2)


def test_the_shares_of_a_model_with_ends_are_those_of_its_closed_graph() -> None:
    model = mdpdsl.loads(CORRIDOR)
    graph = model.graph
    found = mdpdsl.allocate(model, kappa=np.inf)
    d, P = found.occupancy, graph.transition_matrix().toarray()
    arriving = d @ P
    assert graph.ends is not None
    leaving = np.bincount(graph.pair_state, d, minlength=graph.n_states)
    expected = np.where(graph.ends, 0.0, arriving + graph.initial * arriving[graph.ends].sum())
    assert leaving == pytest.approx(expected, abs=1e-7)
    assert mdpdsl.allocate(model, kappa=np.inf, method="lp").worst == pytest.approx(found.worst)
    # A simulation of its policy visits pairs in these shares.
    log = mdpdsl.simulate(model, steps=200_000, policy=found.policy, seed=0)
    counts = mdpdsl.estimate(model, log).counts.visits
    assert counts / counts.sum() == pytest.approx(d, abs=0.005)
