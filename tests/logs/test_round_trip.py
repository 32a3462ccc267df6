"""From a model to a log and back: what is estimated holds the truth."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.estimate.confidence_sets import confidence_sets
from mdpdsl.explore.executor import run_trials
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph


def command(*arguments: str, cwd: Path) -> dict[str, object]:
    line = [sys.executable, "-m", "mdpdsl", *arguments, "--json"]
    done = subprocess.run(line, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record: dict[str, object] = json.loads(done.stdout)
    return record


def dense(graph: TransitionGraph) -> FloatArray:
    P: FloatArray = graph.transition_matrix().toarray()
    return P


def bounds(intervals: Any, n_states: int) -> tuple[FloatArray, FloatArray]:
    """Write all intervals out, those of successors never seen as well."""
    unseen, successor = intervals["unseen_upper"], intervals["successor"]
    n_pairs = len(unseen)
    pairs = np.repeat(np.arange(n_pairs), np.diff(intervals["successor_start"]))
    lower = np.zeros((n_pairs, n_states))
    upper = np.repeat(unseen[:, None], n_states, axis=1)
    lower[pairs, successor], upper[pairs, successor] = intervals["lower"], intervals["upper"]
    return lower, upper


@pytest.mark.parametrize("name", ["riverswim", "pendulum"])
def test_the_truth_lies_in_the_confidence_sets_of_a_simulated_log(
    name: str, tmp_path: Path
) -> None:
    command("simulate", name, "--steps", "1_000_000", "--out", "log.parquet", cwd=tmp_path)
    record = command(
        "estimate", name, "log.parquet", "--sets", "weissman", "--out", "run", cwd=tmp_path
    )
    assert record["transitions"] == 1_000_000
    assert record["rejected"] == {}
    truth = mdpdsl.load(name).graph
    P = dense(truth)
    estimate = dense(mdpdsl.load(tmp_path / "run").graph)
    with np.load(tmp_path / "run" / "radii.npz") as radii:
        assert np.all(np.abs(estimate - P).sum(axis=1) <= radii["radius"] + 1e-12)
        assert radii["radius"].mean() < 1  # they say something
    with np.load(tmp_path / "run" / "intervals.npz") as saved:
        lower, upper = bounds(saved, truth.n_states)
    assert np.all((lower <= P) & (upper >= P))
    assert np.mean(upper - lower) < 0.2


def test_intervals_of_trajectories_hold_together_as_often_as_they_say() -> None:
    graph = mdpdsl.load("riverswim").graph
    delta, n_trials = 0.1, 400
    settings = ExploreSettings(algorithm="random", steps=3_000)
    missed = 0
    for result in run_trials(graph, settings, seed=1, trials=n_trials, jobs=1):
        found = confidence_sets(result.counts, graph, delta)
        missed += bool(found.rows.outside_intervals(graph).any())
    assert missed / n_trials <= delta
