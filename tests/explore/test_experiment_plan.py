"""Plans of the next steps: optimal, honest about few visits, and true when they are followed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.estimate.confidence import bernstein_upper_bound
from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.explore.experiment_plan import ExperimentPlan, PlanError
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.planned_visits import plan_visits
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.counts import Counts, merge
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.following import complexity_bounds
from tests.explore.experiments import counted, simulated
from tests.graph.build import graph_from_rows
from tests.programs.models import graphs

#: How far the solver may leave a figure from the best.
SLACK = 1e-4


def two_rooms() -> TransitionGraph:
    """Return two states with two noisy actions each."""
    return graph_from_rows(
        [{0: {0: 0.7, 1: 0.3}, 1: {0: 0.2, 1: 0.8}}, {0: {0: 0.5, 1: 0.5}, 1: {0: 0.1, 1: 0.9}}]
    )


def best_by_trying(graph: TransitionGraph, counts: Counts, steps: float, kappa: float) -> float:
    """Return the least F that the policies of a fine grid reach, for two states of two actions."""
    T = counts.visits
    c = np.minimum(bernstein_upper_bound(estimated_complexity(counts), T), 0.5)
    P_hat = np.zeros((4, 2))
    pair = np.repeat(np.arange(4), np.diff(counts.successor_start))
    P_hat[pair, counts.successor] = counts.count / T[pair]
    first = np.linspace(0, 1, 401)
    p, q = np.meshgrid(first, first)
    leaves = p * P_hat[0, 1] + (1 - p) * P_hat[1, 1]
    returns = q * P_hat[2, 0] + (1 - q) * P_hat[3, 0]
    share = returns / (leaves + returns)
    d = np.stack([share * p, share * (1 - p), (1 - share) * q, (1 - share) * (1 - q)], axis=-1)
    ratio = c / (T + steps * d)
    if np.isinf(kappa):
        return float(ratio.max(axis=-1).min())
    if kappa == 1:
        return float(np.exp(np.sum(c * np.log(ratio), axis=-1) / c.sum()).min())
    return float((np.sum(c * ratio ** (kappa - 1), axis=-1) ** (1 / (kappa - 1))).min())


def reached(found: ExperimentPlan) -> float:
    """Return F of a plan, as `best_by_trying` has it."""
    c, ratio = found.complexity, found.complexity / found.expected_visits
    if np.isinf(found.kappa):
        return float(ratio.max())
    if found.kappa == 1:
        return float(np.exp(np.sum(c * np.log(ratio)) / c.sum()))
    return float(np.sum(c * ratio ** (found.kappa - 1)) ** (1 / (found.kappa - 1)))


def closed(graph: TransitionGraph, counts: Counts) -> Counts:
    """Return the counts of a run with one step more, from where it ended to where it began."""
    leaving = np.bincount(graph.pair_state, counts.visits, minlength=graph.n_states)
    arriving = np.bincount(counts.successor, counts.count, minlength=graph.n_states)
    if np.array_equal(leaving, arriving):
        return counts
    end, begin = int(np.argmin(leaving - arriving)), int(np.argmax(leaving - arriving))
    return merge(
        counts, counted(graph, (end, int(graph.pair_action[graph.pair_start[end]]), begin, 1))
    )


@pytest.mark.parametrize("kappa", [1.0, 2.0, 6.0, np.inf])
@pytest.mark.parametrize("steps", [10, 200, 5_000])
def test_no_policy_of_a_fine_grid_is_better(kappa: float, steps: int) -> None:
    graph = two_rooms()
    counts = simulated(graph, 400, policy=np.array([0.9, 0.1, 0.6, 0.4]))
    found = plan_visits(counts, graph, kappa, steps, episode_length=np.inf)
    best = best_by_trying(graph, counts, steps, kappa)
    assert reached(found) == pytest.approx(best, rel=2e-3)
    assert reached(found) <= best * (1 + SLACK)


@settings(deadline=None, max_examples=30)
@given(graphs, st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 10.0]))
def test_the_plan_for_the_worst_case_has_the_least_and_never_loses_to_going_on(
    graph: TransitionGraph, seed: int, share: float
) -> None:
    counts = closed(graph, simulated(graph, 60 * graph.n_pairs, seed))
    assume(np.all(counts.visits > 0))
    steps = share * counts.n_transitions
    worst = [
        plan_visits(counts, graph, kappa, steps, episode_length=np.inf).bounded
        for kappa in (1.0, 3.0, 30.0, np.inf)
    ]
    least = worst[-1].planned.worst_error
    assert all(least <= other.planned.worst_error * (1 + SLACK) for other in worst)
    # What was done so far is in balance with the estimate, so that it could be done again.
    assert least <= worst[-1].continued.worst_error * (1 + SLACK)
    assert worst[-1].continued.worst == pytest.approx(worst[-1].now.worst)


@pytest.mark.parametrize(("name", "n_steps"), [("weather", 20_000), ("riverswim", 40_000)])
def test_followed_the_policy_adds_the_visits_that_were_expected(name: str, n_steps: int) -> None:
    graph = mdpdsl.load(name).graph
    # From logs without many visits to the far end, the estimate would be off by more than chance.
    counts = simulated(graph, n_steps, policy=_upstream(graph))
    found = plan_visits(counts, graph, 2.0, 100_000)
    added = simulated(graph, 100_000, seed=1, policy=found.policy.probability).visits
    assert added.sum() == pytest.approx(found.added_visits.sum())
    assert np.abs(added - found.added_visits).sum() <= 0.08 * found.added_visits.sum()


def _upstream(graph: TransitionGraph) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.tile([0.2, 0.8], graph.n_states)


def test_the_plan_beats_a_random_continuation_when_both_are_run() -> None:
    graph = mdpdsl.load("riverswim").graph
    counts = simulated(graph, 4_000, policy=_upstream(graph))
    found = plan_visits(counts, graph, np.inf)
    c = found.complexity
    by_plan = simulated(graph, 4_000, seed=1, policy=found.policy.probability).visits
    by_chance = simulated(graph, 4_000, seed=1).visits
    worst = [float((c / (counts.visits + more)).max()) for more in (by_plan, by_chance)]
    assert worst[0] < 0.7 * worst[1]


@pytest.mark.parametrize("kappa", [1.0, 2.0, 1_000.0, np.inf])
def test_a_pair_never_tried_is_planned_for_first(kappa: float) -> None:
    graph = two_rooms()
    whole = simulated(graph, 2_000)
    counts = simulated(graph, 2_000, policy=np.array([0.5, 0.5, 1.0, 0.0]))
    assert counts.visits[3] == 0
    found = plan_visits(counts, graph, kappa, 500)
    assert found.order[0] == 3
    assert found.added_visits[3] > 50
    assert (found.complexity[3], found.bounded.now.worst) == (0.5, np.inf)
    assert np.isfinite(found.bounded.planned.worst)
    assert len(found.by_hand) == 0
    assert np.isfinite(plan_visits(whole, graph, kappa).bounded.now.worst)


def test_few_visits_that_agree_do_not_make_a_pair_certain() -> None:
    graph = graph_from_rows(
        [{a: {0: 1.0, 1: 0.0} if a else {1: 1.0} for a in range(2)}, {0: {0: 1.0}}]
    )
    counts = counted(graph, (0, 0, 1, 400), (1, 0, 0, 400), (0, 1, 0, 3))
    found = plan_visits(counts, graph, 2.0, 100)
    assert estimated_complexity(counts)[1] == 0
    assert found.complexity[1] == 0.5  # no distribution over two states has more
    assert found.complexity[0] < 0.02
    assert found.order[0] == 1
    assert found.added_visits[1] > 30


@settings(deadline=None, max_examples=20)
@given(graphs, st.integers(0, 2**32 - 1), st.sampled_from([0.5, 2.0, 2.5]))
def test_the_bound_is_the_one_that_explorers_have(
    graph: TransitionGraph, seed: int, beta: float
) -> None:
    chosen = ExploreSettings(algorithm="kappa-dp", bonus="bernstein", beta=beta)
    explorer = Explorer(graph, chosen, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    for _ in range(30):
        pair = int(rng.integers(graph.n_pairs))
        successors, probabilities = graph.row(pair)
        following = int(rng.choice(successors, p=probabilities / probabilities.sum()))
        explorer.observe(int(graph.pair_state[pair]), int(graph.pair_action[pair]), following)
    counts = explorer.counts
    expected = complexity_bounds(explorer.memory, explorer.strategy)
    bound = bernstein_upper_bound(estimated_complexity(counts), counts.visits, beta)
    assert bound == pytest.approx(expected, abs=1e-12)


def test_what_was_never_reached_is_left_to_be_tried_by_hand() -> None:
    graph = mdpdsl.loads("mdp line  state x in 0..5  action a, b  init x = 0").graph
    counts = counted(graph, (0, 0, 1, 50), (1, 0, 0, 50), (0, 1, 0, 50), (1, 1, 1, 50))
    found = plan_visits(counts, graph, 2.0)
    assert found.by_hand.tolist() == [4, 5, 6, 7, 8, 9, 10, 11]
    assert found.added_visits[:4].sum() == pytest.approx(200)
    assert not found.added_visits[4:].any()
    assert found.policy.probability[4:] == pytest.approx(0.5)
    sums = np.add.reduceat(found.policy.probability, graph.pair_start[:-1])
    assert sums == pytest.approx(1)


def test_a_state_alone_has_nothing_to_learn() -> None:
    graph = graph_from_rows([{0: {0: 1.0}, 1: {0: 1.0}}])
    found = plan_visits(counted(graph, (0, 0, 0, 5)), graph, 2.0, 10)
    assert found.added_visits.sum() == pytest.approx(10)
    assert (found.bounded.now.worst, found.bounded.planned.worst) == (0, 0)


@pytest.mark.parametrize("kappa", [1.0, 8.0, np.inf])
def test_a_few_more_steps_after_very_many_still_go_where_they_matter(kappa: float) -> None:
    graph = graph_from_rows([{a: {0: 0.5, 1: 0.5} for a in range(2)}, {0: {0: 1.0}}])
    counts = counted(
        graph, (0, 0, 0, 500_000), (0, 0, 1, 500_000), (0, 1, 0, 50_000), (0, 1, 1, 50_000),
        (1, 0, 0, 550_000),
    )  # fmt: skip
    found = plan_visits(counts, graph, kappa, 30, episode_length=np.inf)
    first, second, _ = found.added_visits
    assert second > 100 * first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kappa": 0.5}, "kappa must be 1 or more"),
        ({"kappa": np.nan}, "kappa must be 1 or more"),
        ({"steps": 0}, "steps must be 1 or more"),
        ({"steps": np.inf}, "steps must be 1 or more"),
        ({"episode_length": 0.5}, "episode_length must be 1 or more"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, float], message: str) -> None:
    graph = two_rooms()
    chosen = {"kappa": 1.0, "steps": 10.0, "episode_length": np.inf} | changes
    with pytest.raises(PlanError, match=message):
        plan_visits(
            simulated(graph, 50),
            graph,
            chosen["kappa"],
            chosen["steps"],
            episode_length=chosen["episode_length"],
        )


def test_without_a_transition_there_is_no_plan() -> None:
    graph = two_rooms()
    empty = Counts(np.zeros(5, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64))
    with pytest.raises(PlanError, match="not a single transition"):
        plan_visits(empty, graph, 1.0)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(mdpdsl.ModelError, match="not a run directory"):
        mdpdsl.plan(tmp_path)


LAKE = "mdp lake  state row in 0..3  state col in 0..3  action left, down, right, up"


@pytest.mark.parametrize("is_declared", [True, False])
@pytest.mark.parametrize("episode_length", [None, 12])
def test_a_plan_knows_that_episodes_end_and_start_again(
    is_declared: bool, episode_length: int | None, tmp_path: Path
) -> None:
    """Its visits satisfy the closed flow, with the starts and the cuts of the log."""
    lake = mdpdsl.load("frozen_lake")
    log = mdpdsl.simulate(lake, steps=40_000, episode_length=episode_length, seed=2)
    found = mdpdsl.estimate(lake if is_declared else mdpdsl.loads(LAKE), log, out=tmp_path / "run")
    todo = mdpdsl.plan(found, kappa=2, steps=1_000)
    graph, d = found.estimate, todo.added_visits / 1_000
    counts = found.counts
    n_cut = found.settled.starts.sum() - sum(end.arrivals for end in found.summary.ends)
    rate = n_cut / found.transitions if n_cut > 1 else 0.0
    assert (1 / todo.episode_length) == pytest.approx(rate)
    assert (counts.visits > 0).all()
    assert (rate > 0.01) == (episode_length is not None)
    start = np.zeros(graph.n_states)
    start[: len(found.settled.starts)] = found.settled.starts / found.settled.starts.sum()
    P = graph.transition_matrix().toarray()
    assert graph.ends is not None
    P = P[:, :] * ~graph.ends + P[:, graph.ends].sum(axis=1)[:, None] * start
    P = (1 - rate) * P + rate * start
    left = np.bincount(graph.pair_state, d, minlength=graph.n_states)
    assert d.sum() == pytest.approx(1)
    assert np.abs(left - d @ P).max() < 1e-9
    read = mdpdsl.plan(tmp_path / "run", kappa=2, steps=1_000)
    assert np.allclose(read.added_visits, todo.added_visits)
