"""The likelihood of counts under laws, and the rows in which a law does not hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import mdpdsl
from mdpdsl.compile.family import Family
from mdpdsl.compile.model import Model
from mdpdsl.estimate.count_likelihood import CountLikelihood
from mdpdsl.estimate.parameter_estimate import parameter_estimate
from mdpdsl.estimate.parameter_fit import fit
from mdpdsl.estimate.row_fit import holm, row_misfit
from mdpdsl.graph.counts import Counts, counts_from, merge
from mdpdsl.graph.ends import settle
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph

SLIP = """
mdp slippery
unknown slip in [0, 0.5] = 0.2
state x in 0..4
action left, right
on left  -> 1 - slip: x' = max(x - 1, 0) | slip: stay
on right when x < 4 -> 1 - slip: x' = x + 1 | slip: x' = max(x - 1, 0)
on right otherwise -> stay
"""

CURVED = """
mdp curved
unknown p in [0.1, 0.9] = 0.4
unknown q in [0.1, 0.9] = 0.6
state x in 0..2
action a, b
init x = 0
on a -> p*q: x' = 1 | 1 - p*q: x' = 0
on b -> p^2: x' = 2 | q*(1 - p^2): x' = 1 | (1 - q)*(1 - p^2): x' = 0
"""

#: Rows of three outcomes with few visits: where chi-squared is far from the truth.
RARE = """
mdp rare
unknown u in [0, 0.2] = 0.01
state x in 0..39
state y in 0..2
action go
on go -> 1 - 3*u: y' = 0 | 2*u: y' = 1 | u: y' = 2
"""


def drawn(graph: TransitionGraph, n: int, seed: int) -> Counts:
    """Return counts of n transitions from random pairs."""
    generator = np.random.default_rng(seed)
    pairs = generator.integers(graph.n_pairs, size=n)
    total = np.cumsum(graph.probability)
    start = graph.successor_start[pairs]
    before = np.where(start > 0, total[start - 1], 0.0)
    branch = np.searchsorted(total, before + generator.random(n) * (1 - 1e-12), side="right")
    successor = graph.successor[np.minimum(branch, graph.successor_start[pairs + 1] - 1)]
    return counts_from(pairs, successor.astype(np.int64), np.ones(n, np.int64), graph.n_pairs)


def likelihood_of(model: Model, n: int, seed: int = 0) -> CountLikelihood:
    graph = model.graph
    return CountLikelihood(Family(model.checked, graph), drawn(graph, n, seed), graph)


def one_row(graph: TransitionGraph, pair: int, row: dict[int, int]) -> Counts:
    """Return counts of a single pair."""
    successors, counts = np.array(list(row)), np.array(list(row.values()))
    return counts_from(np.full(len(row), pair), successors, counts, graph.n_pairs)


def test_the_likelihood_is_that_of_the_rows() -> None:
    model = mdpdsl.loads(SLIP)
    graph, counts = model.graph, drawn(model.graph, 500, 0)
    likelihood = CountLikelihood(Family(model.checked, graph), counts, graph)
    known = graph.knowledge
    assert known is not None
    assert likelihood.n == counts.visits[known.is_law].sum() < 500
    for slip in (0.05, 0.2, 0.45):
        P = mdpdsl.loads(SLIP, slip=slip).graph.transition_matrix().toarray()
        exact = sum(
            int(counts.count[i]) * np.log(P[pair, counts.successor[i]])
            for pair in np.flatnonzero(known.is_law)
            for i in range(counts.successor_start[pair], counts.successor_start[pair + 1])
        )
        assert likelihood.value(np.array([slip])) == pytest.approx(exact)


@pytest.mark.parametrize("text", [SLIP, CURVED])
def test_derivatives_and_information_agree_with_differences(text: str) -> None:
    likelihood = likelihood_of(mdpdsl.loads(text), 200_000)
    theta = likelihood.low + 0.4 * (likelihood.high - likelihood.low)
    _, gradient = likelihood.value_and_gradient(theta)
    k = len(theta)
    for j, step in enumerate(1e-5 * np.eye(k)):
        change = likelihood.value(theta + step) - likelihood.value(theta - step)
        assert gradient[j] == pytest.approx(change / 2e-5, rel=1e-5, abs=1e-2)
    truth = np.array([0.2] if k == 1 else [0.4, 0.6])
    hessian = [
        (
            likelihood.value_and_gradient(truth + step)[1]
            - likelihood.value_and_gradient(truth - step)[1]
        )
        / 2e-5
        for step in 1e-5 * np.eye(k)
    ]
    assert likelihood.information(truth) == pytest.approx(-np.array(hessian), rel=0.03)


@pytest.mark.parametrize("text", [SLIP, CURVED])
def test_no_value_in_a_box_exceeds_its_bound(text: str) -> None:
    likelihood = likelihood_of(mdpdsl.loads(text), 2_000)
    assert likelihood.is_concave == (text == SLIP)
    generator, k = np.random.default_rng(0), len(likelihood.low)
    width = likelihood.high - likelihood.low
    for size in (1.0, 0.3, 0.03, 0.003):
        low = likelihood.low + width * (1 - size) * generator.random(k)
        high = low + width * size
        bound = likelihood.upper(low, high)
        values = [likelihood.value(low + (high - low) * u) for u in generator.random((100, k))]
        assert max(values) <= bound
        if size < 0.01:
            assert bound - max(values) < 3


def test_numbers_are_found_within_their_sets() -> None:
    likelihood = likelihood_of(mdpdsl.loads(CURVED), 5_000)
    found = parameter_estimate(likelihood, 0.1, most_boxes=32)
    assert found.is_proved
    assert found.boxes.contain(np.array([0.4, 0.6]))
    assert np.abs(found.value - [0.4, 0.6]) == pytest.approx(0, abs=4 * found.deviation.max())
    assert np.all(found.interval_low < found.profile_low)
    assert np.all(found.profile_high < found.interval_high)


def test_a_number_that_no_visited_row_reads_does_not_show() -> None:
    model = mdpdsl.loads(CURVED)
    graph = model.graph
    counts = one_row(graph, 0, {0: 70, 1: 30})
    found = fit(CountLikelihood(Family(model.checked, graph), counts, graph))
    assert found.flat[0].expression == "p*q"


def test_episodes_that_ended_are_transitions_to_the_state() -> None:
    model = mdpdsl.loads(SLIP)
    graph, n = model.graph, model.graph.n_states
    pairs, successors = np.array([2, 2, 2, 3]), np.array([0, n, 1, 2])
    counts = counts_from(pairs, successors, np.array([5, 2, 4, 9]), graph.n_pairs)
    settled = settle(graph, counts, starts=np.zeros(n, np.int64), says_ends=True)
    plain = counts_from(pairs, successors % n, np.array([5, 2, 4, 9]), graph.n_pairs)
    family = Family(model.checked, graph)
    here = CountLikelihood(family, settled.counts, settled.graph)
    there = CountLikelihood(family, plain, graph)
    assert here.n == there.n
    assert here.value(np.array([0.3])) == pytest.approx(there.value(np.array([0.3])))


def test_transitions_that_no_values_allow_leave_no_set() -> None:
    model = mdpdsl.loads(SLIP)
    graph = model.graph
    counts = merge(drawn(graph, 300, 0), one_row(graph, 4, {4: 2}))
    family = Family(model.checked, graph)
    likelihood = CountLikelihood(family, counts, graph)
    assert likelihood.n_impossible == 2
    found = parameter_estimate(likelihood, 0.1)
    assert found.is_empty
    assert found.notes[0] == "no value of `slip` in [0, 0.5] fits the data"
    assert 0 < found.value[0] < 0.5
    misfit = row_misfit(family, counts, graph, found.value)
    assert misfit.pairs.tolist() == [4]
    assert misfit.p_values[0] == 0
    assert misfit.sentences == ("left in x = 2 led to x = 4 (2 times), which the model excludes",)


def test_holm_rejects_until_the_first_that_passes() -> None:
    p = np.array([0.001, 0.02, 0.04, 0.009])
    assert holm(p, 0.05).tolist() == [True, True, True, True]
    assert holm(p, 0.03).tolist() == [True, False, False, True]
    assert holm(np.empty(0), 0.05).tolist() == []


def test_a_wrong_law_is_found_where_it_is_wrong() -> None:
    model = mdpdsl.loads(SLIP)
    graph = model.graph
    family = Family(model.checked, graph)
    counts = merge(drawn(graph, 2_000, 1), one_row(graph, 5, {3: 150, 1: 150}))
    theta = fit(CountLikelihood(family, counts, graph)).theta
    found = row_misfit(family, counts, graph, theta)
    assert found.is_found
    assert found.pairs[0] == 5
    assert found.sentences[0].startswith("right in x = 2: ")
    assert "visits led to x = 1, where the model expects" in found.sentences[0]
    assert found.n_tests == 8


def test_p_values_of_few_visits_are_those_of_the_binomial_law() -> None:
    """With two successors, the exact law of G is known."""
    model = mdpdsl.loads(SLIP)
    graph = model.graph
    family, theta = Family(model.checked, graph), np.array([0.1])
    n, k = 12, 5
    found = row_misfit(family, one_row(graph, 4, {2: k, 1: n - k}), graph, theta, level=0.05)
    counts = np.arange(n + 1)

    def statistic(k: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [
                np.where(c > 0, c * np.log(c / (n * p)), 0.0) for c, p in ((k, 0.1), (n - k, 0.9))
            ]
        return np.asarray(2 * (parts[0] + parts[1]))

    G = statistic(counts.astype(np.float64))
    exact = binom.pmf(counts, n, 0.1)[G[k] - 1e-9 <= G].sum()
    assert found.p_values[0] == pytest.approx(exact, rel=0.3)


def test_true_laws_raise_false_alarms_no_more_often_than_promised() -> None:
    """Rare successors and few visits: with chi-squared alone, most runs would raise one."""
    model = mdpdsl.loads(RARE)
    graph = model.graph
    assert graph.n_pairs == 120
    family, truth, level = Family(model.checked, graph), np.array([0.01]), 0.05
    alarms = sum(
        row_misfit(family, drawn(graph, 1_000, seed), graph, truth, level).is_found
        for seed in range(150)
    )
    assert alarms <= 2 * level * 150
