"""Complexities against simulated estimates, and confidence sets against the truth."""

import numpy as np
import pytest

import mdpdsl
from mdpdsl.estimate.confidence import complexity_upper_bound, l1_radius
from mdpdsl.estimate.empirical import estimated_complexity, estimated_graph
from mdpdsl.explore.executor import trial_seeds
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.trial import continue_trial, new_trial
from mdpdsl.graph.complexity import RATES, complexity
from mdpdsl.graph.space import FloatArray

ROW = np.array([0.5, 0.3, 0.15, 0.05])


def one_row() -> mdpdsl.TransitionGraph:
    branches = " | ".join(f"{p}: x' = {i}" for i, p in enumerate(ROW))
    return mdpdsl.loads(f"mdp row  state x in 0..3  action a  on a -> {branches}").graph


def distances(P: FloatArray, P_hat: FloatArray) -> dict[str, FloatArray]:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(P_hat > 0, P_hat * np.log(P_hat / P), 0.0)
    return {
        "squared-l2": ((P - P_hat) ** 2).sum(axis=1),
        "l1": np.abs(P - P_hat).sum(axis=1),
        "kl": logs.sum(axis=1),
        "hellinger": 0.5 * ((np.sqrt(P) - np.sqrt(P_hat)) ** 2).sum(axis=1),
    }


@pytest.mark.parametrize("distance", ["squared-l2", "l1", "kl", "hellinger"])
def test_the_expected_distance_is_the_complexity_over_visits(distance: str) -> None:
    T = 4_000
    draws = np.random.default_rng(0).multinomial(T, ROW, size=20_000) / T
    mean = distances(ROW, draws)[distance].mean()
    c = complexity(one_row(), distance)[0]
    assert mean * T ** RATES[distance] == pytest.approx(c, rel=0.05)


def test_the_root_is_the_root() -> None:
    graph = one_row()
    assert complexity(graph, "root-l2") ** 2 == pytest.approx(complexity(graph))
    with pytest.raises(ValueError, match="unknown distance"):
        complexity(graph, "l3")


def test_confidence_sets_contain_the_truth_as_often_as_promised() -> None:
    """Over whole runs: one miss of any pair at any checkpoint counts against the run."""
    graph = mdpdsl.load("riverswim").graph
    delta, n_runs = 0.2, 60
    settings = ExploreSettings(steps=1_500, kappa=2, gamma=0.95, delta=delta)
    P, c = graph.transition_matrix().toarray(), complexity(graph)
    missed = 0
    for run in range(n_runs):
        trial = new_trial(graph, settings, trial_seeds(9, run))
        is_missed = False
        for stop in (50, 200, 600, 1_500):
            continue_trial(trial, graph, lambda s, stop=stop: s.steps < stop, None)  # type: ignore[misc]
            counts, t = trial.counts, trial.done
            visits = counts.visits
            estimate = estimated_graph(counts, graph).transition_matrix().toarray()
            off = np.abs(estimate - P).sum(axis=1)
            radius = l1_radius(visits, graph.n_states, t, delta, "weissman")
            c_hat = estimated_complexity(counts)
            upper = complexity_upper_bound(c_hat, visits, graph.n_states, t, delta)
            is_missed |= bool((off > radius).any() or (c > upper + 1e-12).any())
        missed += is_missed
    assert missed / n_runs <= delta


def test_radii_shrink_with_visits_and_the_true_bound_is_the_larger() -> None:
    visits = np.array([0, 10, 1_000, 100_000])
    paper = l1_radius(visits, 20, 1_000, 0.1)
    true = l1_radius(visits, 20, 1_000, 0.1, "weissman")
    assert paper[0] == true[0] == 2
    assert (np.diff(paper) <= 0).all()
    assert (true >= paper).all()
    assert paper[3] == pytest.approx(np.sqrt(2 * np.log(np.pi**2 / 3 * 4 * 1e6 / 0.1) / 1e5))


def test_the_coverage_test_detects_a_radius_that_is_too_small() -> None:
    """The coverage test can fail: a tenth of the radius misses almost always."""
    graph = mdpdsl.load("riverswim").graph
    settings = ExploreSettings(steps=1_500, kappa=2, gamma=0.95)
    trial = new_trial(graph, settings, trial_seeds(9, 0))
    continue_trial(trial, graph, lambda _: True, None)
    estimate = estimated_graph(trial.counts, graph).transition_matrix().toarray()
    off = np.abs(estimate - graph.transition_matrix().toarray()).sum(axis=1)
    radius = l1_radius(trial.counts.visits, graph.n_states, trial.done, 0.1, "weissman")
    assert (off > radius / 20).any()
