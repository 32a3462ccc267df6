"""Interval MDPs of runs: what they contain, and the bounds that Storm computes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.estimate.confidence_sets import SUPPORTS, confidence_sets
from mdpdsl.estimate.interval_model import EPSILON, LEAST, interval_graph, interval_model
from mdpdsl.estimate.intervals import SETS
from mdpdsl.formats.drn import to_drn
from mdpdsl.formats.prism import to_prism
from mdpdsl.graph.counts import Counts, counts_from, no_counts
from mdpdsl.graph.ends import settle
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


def intervals_of(
    truth: TransitionGraph, counts: Counts, support: str, delta: float = DELTA
) -> IntervalGraph:
    return interval_graph(truth, confidence_sets(counts, truth, delta, support=support).rows)


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


@pytest.mark.parametrize("support", SUPPORTS)
def test_storms_robust_bounds_contain_the_truth_in_enough_runs(
    support: str, tmp_path: Path
) -> None:
    truth = mdpdsl.loads(WALK).graph
    value = float(solve_reachability(truth, "goal").values[0])
    rng = np.random.default_rng(7)
    n_inside, widths = 0, []
    for _ in range(N_RUNS):
        counts = drawn_counts(truth, 800, rng)
        intervals = intervals_of(truth, counts, support)
        text = to_drn(intervals.graph, bounds=intervals.bounds)
        low, high = robust_bounds(read_interval_drn(tmp_path, text), 'Pmax=? [F "goal"]')
        n_inside += bool(low[0] - SLACK <= value <= high[0] + SLACK)
        widths.append(high[0] - low[0])
    assert n_inside >= (1 - DELTA) * N_RUNS
    assert 0.01 < np.mean(widths) < 0.6, "informative bounds"


@settings(deadline=None, max_examples=60)
@given(small_graphs(), st.integers(0, 200), st.integers(0, 2**32))
def test_all_supports_contain_the_truth_and_a_model_of_their_own(
    truth: TransitionGraph, visits: int, seed: int
) -> None:
    counts = drawn_counts(truth, visits, np.random.default_rng(seed))
    for support in SUPPORTS:
        intervals = intervals_of(truth, counts, support, 1e-6)
        intervals.graph.validate()
        p, bounds = intervals.graph.probability, intervals.bounds
        assert np.all((bounds.lower > 0) & (bounds.upper <= 1))
        assert np.all((p >= bounds.lower - 1e-9) & (p <= bounds.upper + 1e-9))
        assert contains(intervals, truth)


def test_an_unvisited_pair_may_lead_anywhere() -> None:
    truth = mdpdsl.loads(WALK).graph
    counts = no_counts(truth.n_pairs)
    anything = intervals_of(truth, counts, "seen")
    S = truth.n_states
    assert anything.graph.row(0)[0].tolist() == [S]
    unknown = anything.graph.pair_start[S]
    assert anything.graph.row(unknown)[0].tolist() == [*range(S), S + 1]
    assert anything.graph.labels["unknown"].nonzero()[0].tolist() == [S]
    assert not anything.graph.labels["goal"][S:].any()
    within = intervals_of(truth, counts, "model")
    start, end = truth.successor_start[:2]
    assert within.bounds.lower[start:end].tolist() == [LEAST] * int(end - start)
    assert within.bounds.upper[start:end].tolist() == [1.0] * int(end - start)


def test_nature_may_stay_for_ever_if_nothing_else_was_seen(tmp_path: Path) -> None:
    """A state that was never left may be a trap: the minimal probability from there is 0."""
    truth = mdpdsl.loads(WALK).graph
    counts = drawn_counts(truth, 400, np.random.default_rng(1))
    found = intervals_of(truth, counts, "seen")
    text = to_drn(found.graph, bounds=found.bounds)
    low, high = robust_bounds(read_interval_drn(tmp_path, text), 'Pmax=? [F "goal"]')
    assert low[4] < SLACK
    assert high[4] > 1 - SLACK, "the data do not exclude it, either"


def test_prism_source_has_the_same_bounds_as_drn(tmp_path: Path) -> None:
    truth = mdpdsl.load("riverswim").graph
    counts = drawn_counts(truth, 300, np.random.default_rng(3))
    found = intervals_of(truth, counts, "seen")
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
    assert (explored.support, logged.support) == ("model", "seen")
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
    assert interval_model(mdpdsl.open_run(tmp_path / "run")).support == "seen"


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("support", SUPPORTS)
def test_an_estimate_is_exported_with_its_own_sets_and_says_so(
    kind: str, support: str, tmp_path: Path
) -> None:
    model = mdpdsl.loads(WALK)
    log = mdpdsl.simulate(model, steps=600, episode_length=10, seed=2)
    found = mdpdsl.estimate(model, log, sets=kind, support=support, delta=0.2)
    done = mdpdsl.export(found, tmp_path / "m.drn", intervals=True)
    record = done.record()
    assert (record["sets"], record["support"], record["delta"]) == (kind, support, 0.2)
    text = (tmp_path / "m.drn").read_text()
    assert f"// sets: {kind}, delta = 0.2, support {support}: " in text
    assert f"// they hold {record['holds']}" in text
    assert ("one look" in text) == (kind == "clopper-pearson")
    assert ("`unknown`" in text) == (support != "model")
    low, high = robust_bounds(read_interval_drn(tmp_path, text), 'Pmax=? [F "goal"]')
    value = float(solve_reachability(model.graph, "goal").values[0])
    assert low[0] - SLACK <= value <= high[0] + SLACK


def test_an_estimate_that_contradicts_its_model_is_exported_with_unknown_successors(
    tmp_path: Path,
) -> None:
    log = mdpdsl.simulate(mdpdsl.loads(WALK), steps=600, episode_length=10, seed=2)
    wrong = mdpdsl.loads(WALK.replace("0.8: pos' = pos + 1 | 0.2: pos' = 4", "pos' = pos + 1"))
    with pytest.warns(mdpdsl.MdpdslWarning, match="impossible in the model"):
        found = mdpdsl.estimate(wrong, log, support="model")
    mdpdsl.export(found, tmp_path / "m.drn", intervals=True)
    text = (tmp_path / "m.drn").read_text()
    assert "contradict the model: there, any state may follow" in text
    assert "unknown" in interval_model(found).intervals.graph.labels


def test_version_1_intervals_are_exported_as_those_for_one_look(tmp_path: Path) -> None:
    old = Path(__file__).parents[1] / "golden" / "runs" / "estimated"
    done = mdpdsl.export(old, tmp_path / "m.drn", intervals=True)
    assert (done.record()["sets"], done.record()["support"]) == ("clopper-pearson", "all")
    assert "// they hold for one look" in (tmp_path / "m.drn").read_text()


#: The walk, with episodes that end at the goal and in the trap.
ENDING = WALK.replace("on any otherwise -> stay", "end when pos >= 3")


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("to", ["drn", "prism"])
def test_ends_are_exported_as_states_that_are_never_left(
    support: str, to: str, tmp_path: Path
) -> None:
    model = mdpdsl.loads(ENDING)
    log = mdpdsl.simulate(model, steps=3_000, seed=5)
    found = mdpdsl.estimate(model, log, support=support)
    assert found.graph.n_pairs == 6
    mdpdsl.export(found, tmp_path / "m", to=to, intervals=True)
    text = (tmp_path / "m").read_text()
    read = read_interval_drn if to == "drn" else read_interval_prism
    low, high = robust_bounds(read(tmp_path, text), 'Pmax=? [F "goal"]')
    value = float(solve_reachability(mdpdsl.loads(WALK).graph, "goal").values[0])
    assert 0.2 < low[0] <= value <= high[0] < 0.95


def test_a_twin_has_another_name_than_its_state() -> None:
    graph = mdpdsl.loads(ENDING, all_states=True).graph
    starts = np.array([0, 1])
    arrivals = counts_from(np.array([0, 1, 0]), np.array([1, 5 + 1, 5 + 3]), np.full(3, 9), 6)
    settled = settle(graph, arrivals, np.bincount(starts, minlength=5))
    assert settled.graph.states.n_twins == 1
    rows = confidence_sets(settled.counts, settled.graph, DELTA).rows
    found = interval_graph(settled.graph, rows).absorbing()
    found.graph.validate()
    knowledge = found.graph.states.variables[0]
    assert knowledge.members == ("known", "ended", "unknown", "lost")
    cells = found.graph.states.cells(knowledge.name).tolist()
    assert cells == [0, 0, 0, 0, 0, 1, 2, 3]


def test_a_branch_that_the_numbers_may_rule_out_may_never_follow(tmp_path: Path) -> None:
    text = """\
mdp slippery
unknown slip in [0, 0.5] = 0.0
state x in 0..2
action go
init x = 0
on go when x == 0 -> 1 - slip: stay | slip: x' = 1
on go when x == 1 -> 1 - slip: x' = 0 | slip: x' = 2
end when x == 2
label goal when x == 2
"""
    model = mdpdsl.loads(text)
    found = interval_model(mdpdsl.estimate(model, mdpdsl.simulate(model, steps=50, seed=1)))
    drn = to_drn(found.intervals.graph, bounds=found.intervals.bounds)
    low, high = robust_bounds(read_interval_drn(tmp_path, drn), 'Pmin=? [F "goal"]')
    assert low[0] < 1e-5, "slip = 0 is in the set"
    assert high[0] > 1 - 1e-5
    assert found.pairs_vanishing == 2
    assert any("may have successors with probability 0" in note for note in found.notes)
