"""Interval MDPs of runs: what they contain, and the bounds that Storm computes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.estimate.interval_model import (
    EPSILON,
    LEAST,
    interval_model,
    with_support,
    with_unknown,
)
from mdpdsl.estimate.intervals import joint_intervals
from mdpdsl.formats.drn import to_drn
from mdpdsl.formats.prism import to_prism
from mdpdsl.graph.counts import Counts, counts_from, no_counts
from mdpdsl.graph.interval_graph import IntervalGraph
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.reachability import solve_reachability
from tests.cli.run import quick, written
from tests.formats.storm_reads import read_interval_drn, read_interval_prism, robust_bounds, sizes
from tests.solve.small import small_graphs

DELTA = 0.1
N_RUNS = 100

#: Storm stops a value iteration early; here its values are off by at most this.
SLACK = 1e-6

#: A walk along four places with a trap beside it; the best probability of arriving is about 0.59.
WALK = """\
mdp walk
state pos in 0..4
action safe, bold
init pos = 0
on safe when pos < 3 -> 0.5: pos' = pos + 1 | 0.42: stay | 0.08: pos' = 4
on bold when pos < 3 -> 0.8: pos' = pos + 1 | 0.2: pos' = 4
on any otherwise -> stay
label goal when pos == 3
"""


def drawn_counts(graph: TransitionGraph, visits: int, rng: np.random.Generator) -> Counts:
    """Draw the same number of transitions of every pair."""
    drawn = [rng.multinomial(visits, graph.row(p)[1]) for p in range(graph.n_pairs)]
    counts = np.concatenate(drawn)
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
    seen = counts > 0
    return counts_from(
        pair[seen], graph.successor[seen].astype(np.int64), counts[seen], graph.n_pairs
    )


def contains(found: IntervalGraph, truth: TransitionGraph) -> bool:
    """Return whether the true rows, with unseen successors merged, lie within the bounds."""
    for pair in range(truth.n_pairs):
        start, end = found.graph.successor_start[pair : pair + 2]
        row = dict(zip(*(part.tolist() for part in truth.row(pair)), strict=True))
        for branch in range(start, end):
            target = int(found.graph.successor[branch])
            if target == truth.n_states:
                chance = sum(row.values())
            else:
                chance = row.pop(target, 0.0)
            low, high = found.bounds.lower[branch], found.bounds.upper[branch]
            # If nothing is left for `unknown`, it takes EPSILON from the others.
            if not low - 2 * EPSILON <= chance <= high + 2 * EPSILON:
                return False
    return True


@pytest.mark.parametrize("support", ["model", "all"])
def test_storms_robust_bounds_contain_the_truth_in_enough_runs(
    support: str, tmp_path: Path
) -> None:
    truth = mdpdsl.loads(WALK).graph
    value = float(solve_reachability(truth, "goal").values[0])
    rng = np.random.default_rng(7)
    n_inside, widths = 0, []
    for _ in range(N_RUNS):
        counts = drawn_counts(truth, 400, rng)
        found = joint_intervals(counts, truth.n_states, DELTA)
        if support == "model":
            intervals = with_support(truth, truth, counts, found)
        else:
            intervals = with_unknown(truth, counts, found)
        text = to_drn(intervals.graph, bounds=intervals.bounds)
        low, high = robust_bounds(read_interval_drn(tmp_path, text), 'Pmax=? [F "goal"]')
        n_inside += bool(low[0] - SLACK <= value <= high[0] + SLACK)
        widths.append(high[0] - low[0])
    assert n_inside >= (1 - DELTA) * N_RUNS
    assert 0.01 < np.mean(widths) < 0.6, "informative bounds"


@settings(deadline=None, max_examples=60)
@given(small_graphs(), st.integers(0, 200), st.integers(0, 2**32))
def test_both_supports_contain_the_truth_and_a_model_of_their_own(
    truth: TransitionGraph, visits: int, seed: int
) -> None:
    counts = drawn_counts(truth, visits, np.random.default_rng(seed))
    found = joint_intervals(counts, truth.n_states, 1e-6)
    for intervals in (
        with_support(truth, truth, counts, found),
        with_unknown(truth, counts, found),
    ):
        intervals.graph.validate()
        p, bounds = intervals.graph.probability, intervals.bounds
        assert np.all((bounds.lower > 0) & (bounds.upper <= 1))
        assert np.all((p >= bounds.lower - 1e-9) & (p <= bounds.upper + 1e-9))
        assert contains(intervals, truth)


def test_an_unvisited_pair_may_lead_anywhere() -> None:
    truth = mdpdsl.loads(WALK).graph
    counts = no_counts(truth.n_pairs)
    found = joint_intervals(counts, truth.n_states, DELTA)
    anything = with_unknown(truth, counts, found)
    S = truth.n_states
    assert anything.graph.row(0)[0].tolist() == [S]
    unknown = anything.graph.pair_start[S]
    assert anything.graph.row(unknown)[0].tolist() == [*range(S), S + 1]
    assert anything.graph.labels["unknown"].nonzero()[0].tolist() == [S]
    assert not anything.graph.labels["goal"][S:].any()
    within = with_support(truth, truth, counts, found)
    start, end = truth.successor_start[:2]
    assert within.bounds.lower[start:end].tolist() == [LEAST] * int(end - start)
    assert within.bounds.upper[start:end].tolist() == [1.0] * int(end - start)


def test_nature_may_stay_for_ever_if_nothing_else_was_seen(tmp_path: Path) -> None:
    """A state that was never left may be a trap: the minimal probability from there is 0."""
    truth = mdpdsl.loads(WALK).graph
    counts = drawn_counts(truth, 400, np.random.default_rng(1))
    found = with_unknown(truth, counts, joint_intervals(counts, truth.n_states, DELTA))
    text = to_drn(found.graph, bounds=found.bounds)
    low, high = robust_bounds(read_interval_drn(tmp_path, text), 'Pmax=? [F "goal"]')
    assert low[4] < SLACK
    assert high[4] > 1 - SLACK, "the data do not exclude it, either"


def test_prism_source_has_the_same_bounds_as_drn(tmp_path: Path) -> None:
    truth = mdpdsl.load("riverswim").graph
    counts = drawn_counts(truth, 300, np.random.default_rng(3))
    found = with_unknown(truth, counts, joint_intervals(counts, truth.n_states, DELTA))
    drn = read_interval_drn(tmp_path, to_drn(found.graph, bounds=found.bounds))
    prism = read_interval_prism(tmp_path, to_prism(found.graph, bounds=found.bounds))
    assert sizes(drn) == sizes(prism)
    for one, other in zip(
        robust_bounds(drn, 'Pmin=? [F "goal"]'),
        robust_bounds(prism, 'Pmin=? [F "goal"]'),
        strict=True,
    ):
        np.testing.assert_allclose(np.sort(one), np.sort(other), atol=SLACK)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an explored run and an estimate of a log, both of the walk."""
    folder = tmp_path_factory.mktemp("runs")
    model = written(folder, WALK)
    simulate = ("simulate", model, "--steps", "3000", "--episode-length", "10", "--quiet")
    assert quick(*simulate, "--out", folder / "log.csv").status == 0
    assert quick("estimate", model, folder / "log.csv", "--out", folder / "logged").status == 0
    explore = ("explore", model, "--steps", "500", "--jobs", "1", "--quiet")
    assert quick(*explore, "--out", folder / "explored", "--delta", "0.2").status in (0, 1)
    return folder


def test_the_support_depends_on_the_origin_of_the_data(runs: Path) -> None:
    explored = interval_model(mdpdsl.open_run(runs / "explored"))
    logged = interval_model(mdpdsl.open_run(runs / "logged"))
    assert (explored.support, logged.support) == ("model", "all")
    assert (round(explored.delta, 9), round(logged.delta, 9)) == (0.2, 0.1)
    assert "unknown" in logged.intervals.graph.labels
    trusting = interval_model(mdpdsl.open_run(runs / "logged"), support="model")
    assert trusting.intervals.graph.n_states == 5


def test_stored_intervals_and_those_of_the_counts_are_the_same(runs: Path) -> None:
    place = mdpdsl.open_run(runs / "logged")
    stored, computed = interval_model(place), interval_model(place, delta=0.1)
    for end in ("lower", "upper"):
        one, other = (getattr(m.intervals.bounds, end) for m in (stored, computed))
        np.testing.assert_array_equal(one, other)
    wider = interval_model(place, delta=0.001)
    assert np.all(wider.intervals.bounds.upper >= stored.intervals.bounds.upper)


def test_stored_intervals_are_what_is_exported(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "logged", tmp_path / "run")
    path = tmp_path / "run" / "intervals.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **{**arrays, "upper": np.minimum(1.0, arrays["upper"] + 0.01)})
    wider = interval_model(mdpdsl.open_run(tmp_path / "run")).intervals.bounds.upper
    assert np.any(wider > interval_model(mdpdsl.open_run(runs / "logged")).intervals.bounds.upper)


def test_data_that_contradict_the_model_are_named(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "logged", tmp_path / "run")
    model = tmp_path / "run" / "model.mdp"
    model.write_text(WALK.replace("0.8: pos' = pos + 1 | 0.2: pos' = 4", "pos' = pos + 1"))
    with pytest.raises(mdpdsl.ModelError, match="bold in pos = 0 led to pos = 4,"):
        interval_model(mdpdsl.open_run(tmp_path / "run"), support="model")


def test_a_model_without_dynamics_has_no_support_of_its_own(tmp_path: Path) -> None:
    model = written(tmp_path, "mdp spaces state x in 0..2 action a init x = 0")
    log = written(tmp_path, "x,action\n0,a\n1,a\n2,a\n0,a\n", "log.csv")
    quick("estimate", model, log, "--out", tmp_path / "run")
    with pytest.raises(mdpdsl.ModelError, match="no dynamics"):
        interval_model(mdpdsl.open_run(tmp_path / "run"), support="model")
    assert interval_model(mdpdsl.open_run(tmp_path / "run")).support == "all"
