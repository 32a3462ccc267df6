"""Explorers: what they plan with, what they choose, and that both ways of running them agree."""

import math

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import SettingsError
from mdpdsl.explore.algorithms import strategy_for
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.trial import continue_trial, new_trial
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.loop import choose_pair as choose
from mdpdsl.kernels.loop import draw_successor, new_simulator

VARIANTS = [
    ExploreSettings(steps=2_000, kappa=10, gamma=0.95),
    ExploreSettings(steps=2_000, kappa=1, horizon=1),
    ExploreSettings(steps=2_000, kappa=2, horizon=2),
    ExploreSettings(steps=2_000, kappa=2, horizon=4),
    ExploreSettings(steps=2_000, kappa=1, bonus="bernstein"),
    ExploreSettings(steps=2_000, kappa=2, planner="prioritized"),
    ExploreSettings(steps=2_000, algorithm="random"),
    ExploreSettings(steps=2_000, algorithm="maxent", gamma=0.95),
    ExploreSettings(steps=2_000, algorithm="weighted-maxent", gamma=0.95),
    ExploreSettings(steps=2_000, algorithm="smm", gamma=0.95),
]


def label(settings: ExploreSettings) -> str:
    words = (settings.algorithm, settings.kappa, settings.horizon, settings.bonus, settings.planner)
    return "-".join(str(word) for word in words)


def by_hand(graph: TransitionGraph, settings: ExploreSettings, seed: int) -> Explorer:
    """Run an explorer in a loop of one's own, with the generators of a trial."""
    trial = new_trial(graph, settings, np.random.SeedSequence(seed))
    explorer, state = trial.explorer, trial.state
    simulator = new_simulator(graph)
    for _ in range(settings.steps):
        action = explorer.act(state)
        following = draw_successor(simulator, graph.pair(state, action), trial.system_generator)
        explorer.observe(state, action, int(following))
        state = int(following)
    return explorer


@pytest.mark.parametrize("settings", VARIANTS, ids=label)
def test_step_by_step_and_compiled_loop_give_the_same_counts(settings: ExploreSettings) -> None:
    graph = mdpdsl.load("riverswim", n=9).graph
    trial = new_trial(graph, settings, np.random.SeedSequence(5))
    continue_trial(trial, graph, lambda _: True, None)
    explorer = by_hand(graph, settings, 5)
    for name in ("successor_start", "successor", "count"):
        assert np.array_equal(getattr(trial.counts, name), getattr(explorer.counts, name))
    assert trial.counts.n_transitions == settings.steps


def test_the_estimate_is_counts_over_visits() -> None:
    graph = mdpdsl.load("riverswim").graph
    explorer = by_hand(graph, ExploreSettings(steps=500, kappa=1), 1)
    estimate = explorer.estimate()
    estimate.validate()
    counts = explorer.counts
    for pair in range(graph.n_pairs):
        entries = slice(counts.successor_start[pair], counts.successor_start[pair + 1])
        if counts.visits[pair]:
            expected = counts.count[entries] / counts.visits[pair]
            assert estimate.row(pair)[1] == pytest.approx(expected)
        else:
            assert estimate.row(pair)[1] == pytest.approx(np.full(graph.n_states, 1 / 6))


def test_before_anything_is_seen_the_estimate_is_uniform() -> None:
    graph = mdpdsl.load("weather").graph
    explorer = Explorer(graph, ExploreSettings(), np.random.default_rng(0))
    assert explorer.estimate().transition_matrix().toarray() == pytest.approx(np.full((4, 2), 0.5))


def dense_estimate(explorer: Explorer) -> FloatArray:
    return np.asarray(explorer.estimate().transition_matrix().toarray())


@pytest.mark.parametrize("kappa", [1, 2, 10])
@pytest.mark.parametrize("bonus", ["paper", "bernstein"])
def test_rewards_are_the_gradient_of_the_objective_up_to_scale(kappa: float, bonus: str) -> None:
    graph = mdpdsl.load("riverswim").graph
    explorer = by_hand(graph, ExploreSettings(steps=700, kappa=kappa, bonus=bonus), 2)
    counts = explorer.counts
    T = counts.visits.astype(float)
    c = 1 - (dense_estimate(explorer) ** 2).sum(axis=1)
    if bonus == "paper":
        delta_t = 0.1 / (math.pi**2 / 3 * graph.n_pairs * 700**2)
        width = graph.n_states * np.sqrt(np.log(2 * graph.n_states / delta_t) / (2 * T))
        upper = np.minimum(1, c + width)
    else:
        unbiased = np.minimum(1, c * T / np.maximum(T - 1, 1))
        upper = np.minimum(1, unbiased + 2 * np.sqrt(unbiased * (1 - unbiased) / T) + 4 / T)
        upper[T <= 1] = 1
    expected = (upper / np.maximum(T, 0.1)) ** kappa
    found = explorer.memory.reward
    # A pair's bound is of the time of its last visit, or of the last refresh, whichever is later.
    tolerance = 0.01 * kappa if bonus == "paper" else 1e-9
    assert found / found.max() == pytest.approx(expected / expected.max(), rel=tolerance)


def test_values_solve_the_bellman_equation_of_the_estimate() -> None:
    graph = mdpdsl.load("riverswim").graph
    settings = ExploreSettings(steps=800, kappa=2, gamma=0.9, tolerance=1e-12)
    explorer = by_hand(graph, settings, 3)
    choose(explorer.memory, explorer.strategy, 0, explorer.generator)
    P, r = dense_estimate(explorer), explorer.memory.reward
    V = np.zeros(graph.n_states)
    for _ in range(2_000):
        q = r + 0.9 * P @ V
        V = np.maximum.reduceat(q, graph.pair_start[:-1])
    assert explorer.memory.value == pytest.approx(V, rel=1e-6)


def test_prioritized_sweeping_comes_near_the_same_values() -> None:
    graph = mdpdsl.load("riverswim").graph
    settings = ExploreSettings(steps=3_000, kappa=1, gamma=0.9, planner="prioritized")
    assert by_hand(graph, settings, 3).residual() < 0.02


@pytest.mark.parametrize("kappa", [1, 30, 300, 1000])
def test_no_kappa_overflows_or_loses_all_rewards(kappa: float) -> None:
    graph = mdpdsl.load("riverswim").graph
    trial = new_trial(graph, ExploreSettings(steps=5_000, kappa=kappa), np.random.SeedSequence(0))
    continue_trial(trial, graph, lambda _: True, None)
    memory = trial.explorer.memory
    assert np.isfinite(memory.reward).all()
    assert np.isfinite(memory.value).all()
    assert memory.reward.max() > 1e-14
    assert (memory.visits > 0).all()


def test_greedy_choice_takes_the_least_visited_action() -> None:
    graph = mdpdsl.load("riverswim").graph
    explorer = Explorer(graph, ExploreSettings(horizon=1), np.random.default_rng(0))
    explorer.observe(0, 0, 0)
    assert explorer.act(0) == 1
    for _ in range(3):
        explorer.observe(0, 1, 0)
    assert explorer.act(0) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kappa": 0.5}, "kappa must be 1 or more"),
        ({"kappa": math.inf}, "kappa must be 1 or more"),
        ({"gamma": 1.0}, "gamma must be between 0 and 1"),
        ({"steps": 0}, "steps must be 1 or more"),
        ({"horizon": 0}, "horizon must be 1 or more"),
        ({"bonus": "papr"}, "did you mean `paper`"),
    ],
)
def test_settings_that_cannot_be_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ExploreSettings(**change)  # type: ignore[arg-type]


def test_an_unknown_algorithm_is_refused_with_a_hint() -> None:
    with pytest.raises(SettingsError, match="did you mean `random`"):
        strategy_for(ExploreSettings(algorithm="rando"), 10)


def test_an_explorer_sees_only_states() -> None:
    graph = mdpdsl.load("riverswim").graph
    explorer = Explorer(graph, ExploreSettings(), np.random.default_rng(0))
    with pytest.raises(ValueError, match="is not a state"):
        explorer.observe(0, 0, 6)
