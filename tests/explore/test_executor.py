"""Trials give the same counts however they are run: in processes, in pieces, resumed."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import SettingsError
from mdpdsl.estimate.metrics import checkpoints, mean_squared_error, measure, utility
from mdpdsl.explore.executor import run_trials, trial_seeds
from mdpdsl.explore.feasible import require_explorable
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.summary import summarize
from mdpdsl.explore.trial import continue_trial, load_trial, new_trial
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.counts import merge
from tests.graph.build import ruin

SETTINGS = ExploreSettings(steps=4_000, kappa=2, gamma=0.95)


def test_the_number_of_processes_does_not_change_a_bit() -> None:
    graph = mdpdsl.load("pendulum").graph
    runs = [run_trials(graph, SETTINGS, seed=7, trials=4, jobs=jobs) for jobs in (1, 2, 4)]
    for results in runs[1:]:
        for one, other in zip(runs[0], results, strict=True):
            assert one.counts.count.tobytes() == other.counts.count.tobytes()
            assert one.counts.successor.tobytes() == other.counts.successor.tobytes()
            assert one.measures == other.measures


def test_trials_and_seeds_differ() -> None:
    graph = mdpdsl.load("riverswim").graph
    one, other = run_trials(graph, SETTINGS, seed=1, trials=2, jobs=1)
    (third,) = run_trials(graph, SETTINGS, seed=2, trials=1, jobs=1)
    assert one.counts.count.tobytes() != other.counts.count.tobytes()
    assert one.counts.count.tobytes() != third.counts.count.tobytes()


@pytest.mark.parametrize("algorithm", ["kappa-dp", "maxent"])
def test_a_trial_stopped_and_resumed_is_the_same_trial(algorithm: str, tmp_path: Path) -> None:
    graph = mdpdsl.load("pendulum").graph
    settings = ExploreSettings(steps=4_000, algorithm=algorithm, gamma=0.95)
    seeds = trial_seeds(3, 0)
    whole = new_trial(graph, settings, trial_seeds(3, 0))
    continue_trial(whole, graph, lambda _: True, None)
    pieces = new_trial(graph, settings, seeds)
    for stop in (700, 1_900, 4_000):
        continue_trial(pieces, graph, lambda s, stop=stop: s.steps < stop, tmp_path)  # type: ignore[misc]
        pieces = load_trial(graph, settings, trial_seeds(3, 0), tmp_path)
    assert pieces.is_finished
    assert pieces.history == whole.history
    assert pieces.counts.count.tobytes() == whole.counts.count.tobytes()


def test_measures_are_the_papers() -> None:
    c, visits = np.array([0.5, 0.2, 0.0]), np.array([10, 40, 50])
    found = measure(100, visits, c, 2)
    assert found.worst == pytest.approx(0.5 * 100 / 10)
    assert found.average == pytest.approx((5 + 0.5 + 0) / 3)
    assert found.utility == pytest.approx(-(0.25 / 0.1 + 0.04 / 0.4))
    assert utility(visits / 100, c, 1) == pytest.approx(0.5 * np.log(0.1) + 0.2 * np.log(0.4))
    assert measure(100, np.array([0, 50, 50]), c, 2).worst is None


def test_the_true_error_is_the_distance_of_the_matrices() -> None:
    graph = mdpdsl.load("riverswim").graph
    (result,) = run_trials(graph, SETTINGS, seed=0, trials=1, jobs=1)
    from mdpdsl.estimate.empirical import estimated_graph

    estimate = estimated_graph(result.counts, graph).transition_matrix().toarray()
    truth = graph.transition_matrix().toarray()
    expected = ((estimate - truth) ** 2).sum(axis=1).mean()
    assert mean_squared_error(graph, result.counts) == pytest.approx(expected)


def test_the_error_of_a_pair_is_its_complexity_over_its_visits() -> None:
    """n E||P - P_hat||^2 = c/d, the paper's lemma, over many runs of a small ergodic chain."""
    graph = mdpdsl.load("weather").graph
    settings = ExploreSettings(steps=2_000, algorithm="random")
    results = run_trials(graph, settings, seed=0, trials=300, jobs=1)
    P = graph.transition_matrix().toarray()
    c = squared_l2_complexity(graph)
    scaled = np.zeros(graph.n_pairs)
    for result in results:
        visits = result.counts.visits
        estimate = np.zeros_like(P)
        pair = np.repeat(np.arange(graph.n_pairs), np.diff(result.counts.successor_start))
        estimate[pair, result.counts.successor] = result.counts.count / visits[pair]
        scaled += visits * ((estimate - P) ** 2).sum(axis=1) / len(results)
    # The relative standard error of a mean of 300 squared normals is about sqrt(2/300) = 8 %.
    assert scaled == pytest.approx(c, rel=0.3)


def test_counts_of_two_runs_add_up() -> None:
    graph = mdpdsl.load("riverswim").graph
    one, other = (r.counts for r in run_trials(graph, SETTINGS, seed=0, trials=2, jobs=1))
    both = merge(one, other)
    assert both.n_transitions == one.n_transitions + other.n_transitions
    assert np.array_equal(both.visits, one.visits + other.visits)


def test_a_summary_leaves_failed_trials_out() -> None:
    graph = mdpdsl.load("riverswim").graph
    settings = ExploreSettings(steps=400, algorithm="random")
    results = run_trials(graph, settings, seed=0, trials=6, jobs=1)
    summary = summarize(settings, results)
    good = [r.measures.worst for r in results if r.measures and r.measures.worst is not None]
    assert summary.failure_rate == 1 - len(good) / 6
    assert 0 < len(good) < 6
    assert summary.worst == pytest.approx(np.mean(good))


def test_checkpoints_are_logarithmic_and_end_at_the_last_step() -> None:
    times = checkpoints(100_000)
    assert times[0] == 1
    assert times[-1] == 100_000
    assert all(b > a for a, b in pairwise(times))
    assert checkpoints(1) == [1]


def test_pairs_that_cannot_be_visited_are_named_before_the_run() -> None:
    with pytest.raises(SettingsError, match="row = 3, col = 1"):
        require_explorable(mdpdsl.load("cliff_walking").graph)
    with pytest.raises(SettingsError, match="no dynamics"):
        require_explorable(mdpdsl.load("pendulum_unknown").graph)
    warning = require_explorable(ruin(3))
    assert warning is not None
    assert "communicating classes" in warning
    assert require_explorable(mdpdsl.load("pendulum").graph) is None


def test_planning_beats_chance_on_the_paper_s_pendulum() -> None:
    """The order of the paper's table at a tenth of its budget, four trials each."""
    graph = mdpdsl.load("pendulum").graph

    def average(settings: ExploreSettings) -> float:
        summary = summarize(settings, run_trials(graph, settings, seed=0, trials=4))
        return math.inf if summary.average is None else summary.average  # every trial failed

    steps = 30_000
    planned = average(ExploreSettings(steps=steps, kappa=1, gamma=0.95))
    myopic = average(ExploreSettings(steps=steps, kappa=1, horizon=1, gamma=0.95))
    entropy = average(ExploreSettings(steps=steps, algorithm="maxent", gamma=0.95))
    assert planned < myopic < entropy
