"""Figures of pairs against the paper's measures and a dense computation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.report.figures.pair_figures import pair_figures, worst_pairs


def test_the_largest_loss_is_l_worst_and_its_mean_l_avg(made: dict[str, Path]) -> None:
    for index in range(3):
        run = mdpdsl.open_run(made["explore"] / f"trial-{index:03d}")
        losses = pair_figures(run)["loss"].values
        assert losses.max() == pytest.approx(run.figures.worst)
        assert losses.mean() == pytest.approx(run.figures.average)


def test_errors_are_those_of_dense_rows(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["single"])
    truth = run.graph.transition_matrix().toarray()
    found = run.estimate.transition_matrix().toarray()
    expected = ((truth - found) ** 2).sum(axis=1)
    assert pair_figures(run)["error"].values == pytest.approx(expected, abs=1e-12)


def test_errors_of_a_replay_are_relative_to_the_whole_log(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["replay"] / "trial-000")
    whole = mdpdsl.open_run(made["estimate"])
    log = whole.estimate.transition_matrix().toarray()
    found = run.estimate.transition_matrix().toarray()
    expected = ((log - found) ** 2).sum(axis=1)
    errors = pair_figures(run)["error"].values
    seen = run.counts.visits > 0
    assert seen.any()
    assert errors[seen] == pytest.approx(expected[seen], abs=1e-12)
    assert np.isinf(errors[~seen & (whole.counts.visits > 0)]).all()


def test_without_the_true_model_the_error_is_the_expected_one(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["estimate"])
    figures = pair_figures(run)
    seen = run.counts.visits > 0
    c, T = run.reference.complexity, run.counts.visits
    assert figures["error"].values[seen] == pytest.approx(c[seen] / T[seen])
    assert "the true model is unknown" in figures["error"].note
    assert len(figures["radius"].values) == run.graph.n_pairs


def test_worst_pairs_descend_and_start_with_unvisited_ones(made: dict[str, Path]) -> None:
    for name in ("explore", "single", "estimate", "replay", "live"):
        run = mdpdsl.open_run(made[name])
        losses = pair_figures(run)["loss"].values
        order = losses[worst_pairs(run, 1000)]
        assert len(order)
        assert (order > 0).all()
        assert np.all(np.diff(order[np.isfinite(order)]) <= 0)
        assert not np.isinf(order[np.isfinite(order).argmax() :]).any() or np.isinf(order).all()
