"""Confidence sets of whole models: how the risk is shared, what is possible, what is covered."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import comb, rel_entr, xlogy

import mdpdsl
from mdpdsl.estimate.confidence_sets import SUPPORTS, ConfidenceSets, confidence_sets
from mdpdsl.estimate.intervals import SETS, interval, unseen_upper
from mdpdsl.estimate.row_balls import mixture_regret, row_balls
from mdpdsl.explore.executor import trial_seeds
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.trial import continue_trial, new_trial
from mdpdsl.graph.counts import Counts, counts_from, no_counts
from mdpdsl.graph.row_sets import RowSets
from mdpdsl.graph.space import BoolArray
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.estimate.test_interval_model import drawn_counts
from tests.solve.small import small_graphs

OLD = Path(__file__).parents[1] / "golden" / "runs"

#: A row of three successors, one of two, and one that is certain.
ROWS = """\
mdp rows
state x in 0..4
action a
init x = 0
on a when x == 0 -> 0.5: x' = 1 | 0.3: x' = 2 | 0.2: stay
on a when x == 1 -> 0.9: x' = 2 | 0.1: stay
on a otherwise -> x' = 0
"""


def rows_graph() -> TransitionGraph:
    return mdpdsl.loads(ROWS, all_states=True).graph


def counted(*entries: tuple[int, int, int], n_pairs: int = 5) -> Counts:
    pairs, successors, counts = (np.array(column) for column in zip(*entries, strict=True))
    return counts_from(pairs, successors, counts, n_pairs)


def test_the_risk_is_divided_before_the_data_are_seen() -> None:
    graph, delta = rows_graph(), 0.2
    shares = {"all": 5 * 5, "seen": 5 * 6, "model": 3 + 2 + 1 + 1 + 1}
    for support, n_shares in shares.items():
        for counts in (no_counts(5), counted((0, 1, 9), (0, 2, 4)), counted((1, 2, 700))):
            found = confidence_sets(counts, graph, delta, support=support)
            assert found.intervals.entry_risk == pytest.approx(delta / n_shares)


def test_balls_have_the_radius_of_their_formula() -> None:
    visits = np.array([0, 1, 30, 10**6, 10**6])
    K, r = np.array([4, 4, 4, 4, 1]), 1e-3
    kl, l1 = row_balls("time-uniform", visits, K, -np.log(r))
    assert (kl[0], l1[0]) == (np.inf, 2)
    for place in (1, 2, 3):
        n = visits[place]
        bound = np.log(1 / r) + 3 * np.log(math.e * (1 + n / 3))
        assert n * kl[place] == pytest.approx(bound)
        assert l1[place] == pytest.approx(min(2.0, np.sqrt(2 * bound / n)))
    assert (kl[4], l1[4]) == (0, 0)
    one_look = row_balls("clopper-pearson", visits, K, -np.log(r))[1]
    assert one_look[2] == pytest.approx(np.sqrt(2 * np.log((2**4 - 2) / r) / 30))
    every_look = row_balls("weissman", visits, K, -np.log(r))[1]
    assert every_look[2] == pytest.approx(np.sqrt(2 * np.log((2**4 - 2) * 30 * 31 / r) / 30))
    assert row_balls("weissman", visits, K * 10**6, -np.log(r))[1].max() == 2


def test_rows_share_the_risk_equally_and_have_the_successors_of_the_support() -> None:
    graph, delta = rows_graph(), 0.1
    counts = counted((0, 1, 900), (0, 2, 100), (1, 2, 1_000))
    for support, K in (("seen", [5, 5]), ("all", [5, 5]), ("model", [3, 2])):
        found = confidence_sets(counts, graph, delta, support=support)
        possible = np.array([*K, 2, 2, 2])
        regret = mixture_regret(counts, possible)[:2] if support == "model" else None
        visits, exponent = np.array([1_000] * 2), np.log(5 / delta)
        kl, l1 = row_balls("time-uniform", visits, np.array(K), exponent, regret)
        assert found.kl[:2] == pytest.approx(kl)
        assert found.radius[:2] == pytest.approx(l1)


def test_the_price_of_mixing_is_that_of_an_integral() -> None:
    counts = counted((0, 1, 37), (0, 2, 13), (1, 2, 50))
    regret = mixture_regret(counts, np.full(5, 2))
    for pair, k in ((0, 37), (1, 0)):
        mixed, _ = quad(lambda p, k=k: p**k * (1 - p) ** (50 - k), 0, 1, epsabs=0)
        largest = xlogy(k, k / 50) + xlogy(50 - k, 1 - k / 50)
        assert regret[pair] == pytest.approx(largest - np.log(mixed), rel=1e-8)


def test_rows_with_many_possible_successors_pay_for_those_they_have() -> None:
    counts = counted((0, 1, 45), (0, 2, 5))
    few, many = (mixture_regret(counts, np.full(5, K))[0] for K in (3, 1_000))
    assert few < many < few + 3 * np.log(1_000)


def test_the_balls_of_known_successors_hold_at_every_look() -> None:
    P, n_missed, n_runs = np.array([0.6, 0.3, 0.1]), 0, 300
    generator = np.random.default_rng(5)
    looks = np.unique(np.logspace(0, 3, 40).astype(np.int64))
    for _ in range(n_runs):
        outcomes = generator.choice(3, size=1_000, p=P)
        for n in looks.tolist():
            seen = np.bincount(outcomes[:n], minlength=3)
            counts = counts_from(np.zeros(3, np.int64), np.arange(3), seen, 1)
            regret = mixture_regret(counts, np.array([3]))
            kl, _ = row_balls("time-uniform", np.array([n]), np.array([3]), -np.log(0.1), regret)
            if rel_entr(seen / n, P).sum() > kl[0]:
                n_missed += 1
                break
    assert n_missed <= 0.1 * n_runs


@pytest.mark.parametrize("kind", SETS)
def test_the_rest_of_a_row_is_one_of_all_sets_of_its_size(kind: str) -> None:
    graph, delta = rows_graph(), 0.1
    counts = counted((0, 1, 60), (0, 2, 40), (1, 2, 8))
    found = confidence_sets(counts, graph, delta, kind, "seen").intervals
    r = delta / (5 * 6)
    for pair, n, m in ((0, 100, 3), (1, 8, 4)):
        visits = np.array([n])
        single = float(unseen_upper(kind, visits, -np.log(r))[0])
        set_risk = r / (5 * comb(5, m))
        as_one = float(unseen_upper(kind, visits, -np.log(set_risk))[0])
        assert found.rest_upper[pair] == pytest.approx(min(1.0, m * single, as_one))
        assert found.unseen_upper[pair] == pytest.approx(min(single, found.rest_upper[pair]))
    assert found.rest_upper[2:].tolist() == [1, 1, 1]


def test_the_rest_of_a_row_is_bounded_where_most_of_it_is_still_unseen() -> None:
    """A uniform row of 1,000 successors, which K = seen + 1 misses after 20 visits every time."""
    S, rng = 1_000, np.random.default_rng(0)
    arrays = np.full((1, S, S), 1 / S)
    graph = mdpdsl.from_arrays(arrays).graph
    for n in (20, 200):
        for _ in range(20):
            seen = np.bincount(rng.integers(S, size=n), minlength=S)
            (states,) = np.nonzero(seen)
            counts = counts_from(np.zeros(len(states), np.int64), states, seen[states], S)
            found = confidence_sets(counts, graph, 0.1)
            truth = 1 - len(states) / S
            assert truth <= found.intervals.rest_upper[0] < 1
            assert not found.rows.outside_intervals(graph)[0]
            assert not found.rows.outside_balls(graph)[0]
            n_seen = len(states)  # the ball of K = seen + 1 successors, and the rest it allows
            mistaken = np.log(S / 0.1) + n_seen * np.log(math.e * (1 + n / n_seen))
            assert n > 20 or truth > -np.expm1(-mistaken / n)


def test_a_seen_bound_is_never_looser_than_one_for_each_state() -> None:
    graph = mdpdsl.load("pendulum").graph
    counts = drawn_counts(graph, 300, np.random.default_rng(2))
    seen = confidence_sets(counts, graph, 0.1).intervals
    each = confidence_sets(counts, graph, 0.1, support="all").intervals
    assert np.all(seen.rest_upper <= each.rest_upper * 1.001)
    assert np.median(seen.rest_upper) < 0.5 * np.median(each.rest_upper)


@pytest.mark.parametrize("kind", SETS)
@settings(deadline=None, max_examples=30)
@given(small_graphs(), st.integers(0, 300), st.integers(0, 2**32))
def test_every_support_contains_the_truth_and_the_estimate(
    kind: str, truth: TransitionGraph, visits: int, seed: int
) -> None:
    counts = drawn_counts(truth, visits, np.random.default_rng(seed))
    for support in SUPPORTS:
        rows = confidence_sets(counts, truth, 1e-6, kind, support).rows
        assert not rows.outside_intervals(truth).any()
        assert not rows.outside_balls(truth).any()
        assert np.all((rows.lower <= rows.estimate) | (visits == 0))
        assert np.all((rows.upper >= rows.estimate) & (rows.upper <= 1))
        if support == "model":
            assert not rows.others_upper.any()
            np.testing.assert_array_equal(rows.successor, truth.successor)


def brute_force(rows: RowSets, truth: TransitionGraph) -> tuple[BoolArray, BoolArray]:
    """Return which rows leave the intervals, and which leave the balls, one entry at a time."""
    P = truth.transition_matrix().toarray()
    beyond = np.zeros((2, truth.n_pairs), np.bool_)
    for pair in range(truth.n_pairs):
        entries = range(rows.successor_start[pair], rows.successor_start[pair + 1])
        estimate, rest = np.zeros(truth.n_states), P[pair].copy()
        for entry in entries:
            state = rows.successor[entry]
            chance = P[pair, state]
            beyond[0, pair] |= not rows.lower[entry] <= chance <= rows.upper[entry]
            estimate[state], rest[state] = rows.estimate[entry], 0
        beyond[0, pair] |= rest.max() > rows.other_upper[pair]
        beyond[0, pair] |= rest.sum() > rows.others_upper[pair]
        if estimate.any():
            with np.errstate(divide="ignore"):
                kl = sum(p * np.log(p / q) for p, q in zip(estimate, P[pair], strict=True) if p > 0)
            beyond[1, pair] = kl > rows.kl[pair] or abs(estimate - P[pair]).sum() > rows.l1[pair]
    return beyond[0], beyond[1]


@settings(deadline=None, max_examples=60)
@given(small_graphs(), small_graphs(), st.integers(1, 60), st.sampled_from(["seen", "all"]))
def test_rows_outside_of_the_sets_are_found(
    one: TransitionGraph, other: TransitionGraph, visits: int, support: str
) -> None:
    if one.n_states != other.n_states or one.n_pairs != other.n_pairs:
        other = one
    counts = drawn_counts(one, visits, np.random.default_rng(visits))
    rows = confidence_sets(counts, one, 0.9, support=support).rows
    intervals, balls = brute_force(rows, other)
    np.testing.assert_array_equal(rows.outside_intervals(other), intervals)
    np.testing.assert_array_equal(rows.outside_balls(other), balls)


def test_a_certain_successor_of_the_model_is_known_without_a_visit() -> None:
    found = confidence_sets(no_counts(5), rows_graph(), 0.1, support="model")
    assert found.radius.tolist() == [2, 2, 0, 0, 0]
    rows = found.rows
    assert rows.lower.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert rows.upper.tolist() == [1] * 8


@pytest.mark.parametrize("kind", SETS)
def test_nothing_is_assumed_of_a_row_that_contradicts_the_model(kind: str) -> None:
    graph, delta = rows_graph(), 0.1
    counts = counted((0, 1, 60), (1, 2, 30), (1, 4, 3), (2, 0, 50), (3, 0, 20), (3, 3, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = confidence_sets(counts, graph, delta, kind, "model")
        rows = found.rows
    assert counts.successor[found.contradictions].tolist() == [4, 3]
    assert (rows.others_upper > 0).tolist() == [False, True, False, True, False]
    # The certain row keeps its share of the risk, delta/8, and divides it among 6.
    low, high = interval(kind, np.array([20, 1]), np.array([21, 21]), -np.log(delta / 8 / 6))
    place = rows.successor_start[3]
    assert rows.lower[place : place + 2] == pytest.approx(low)
    assert rows.upper[place : place + 2] == pytest.approx(high)
    assert found.radius[2] == 0
    assert 0 < found.radius[3] <= 2
    # As without trust in the model: K is the number of states.
    same = confidence_sets(counts, graph, delta, kind, "seen")
    assert found.radius[[1, 3]] == pytest.approx(same.radius[[1, 3]])


def ever_missed(sets: list[ConfidenceSets], truth: TransitionGraph) -> tuple[bool, bool]:
    rows = [each.rows for each in sets]
    return (
        any(bool(each.outside_intervals(truth).any()) for each in rows),
        any(bool(each.outside_balls(truth).any()) for each in rows),
    )


@pytest.mark.parametrize("support", SUPPORTS)
def test_sets_hold_at_all_looks_at_an_explorer_together(support: str) -> None:
    """One miss of any row at any look counts against the run; 0.5 is where they are tight."""
    graph, delta, n_runs = mdpdsl.load("riverswim").graph, 0.5, 40
    chosen = ExploreSettings(steps=800, kappa=2, gamma=0.95)
    missed = np.zeros(2)
    for run in range(n_runs):
        trial = new_trial(graph, chosen, trial_seeds(11, run))
        looks = []
        for stop in (10, 40, 150, 400, 800):
            continue_trial(trial, graph, lambda s, stop=stop: s.steps < stop, None)  # type: ignore[misc]
            looks.append(confidence_sets(trial.counts, graph, delta, support=support))
        missed += ever_missed(looks, graph)
    assert np.all(missed / n_runs <= delta)


def test_the_coverage_test_detects_sets_that_are_too_small() -> None:
    """With the risk of a single entry for each of them, runs would miss."""
    graph = mdpdsl.load("riverswim").graph
    missed = 0
    for seed in range(20):
        counts = drawn_counts(graph, 50, np.random.default_rng(seed))
        missed += ever_missed([confidence_sets(counts, graph, 0.9999, "clopper-pearson")], graph)[0]
        narrow = confidence_sets(counts, graph, 0.5, "clopper-pearson", n_outcomes=2, n_rows=1)
        missed += ever_missed([narrow], graph)[0]
    assert missed > 5


def test_a_graph_that_the_data_changed_keeps_the_shares_of_before() -> None:
    graph = rows_graph()
    counts = counted((0, 1, 60), (0, 2, 40))
    found = confidence_sets(counts, graph, 0.1, n_outcomes=10, n_rows=8)
    assert found.intervals.entry_risk == pytest.approx(0.1 / (8 * 11))
    assert np.all(found.radius >= confidence_sets(counts, graph, 0.1).radius)


def test_estimates_of_version_1_open_and_say_what_they_are() -> None:
    found = mdpdsl.open_run(OLD / "estimated")
    assert isinstance(found, mdpdsl.Estimate)
    record = found.record()
    assert (record["sets"], record["support"], record["delta"]) == ("paper", "all", 0.1)
    assert "for rows with few successors only" in record["holds"]
    with np.load(OLD / "estimated" / "radii.npz") as file:
        np.testing.assert_array_equal(found.sets.radius, file["radius"])
    with np.load(OLD / "estimated" / "intervals.npz") as file:
        np.testing.assert_array_equal(found.sets.intervals.upper, file["upper"])
    live = mdpdsl.open_run(OLD / "live")
    assert live.sets is not None
    assert (live.sets.kind, live.sets.support) == ("paper", "all")
