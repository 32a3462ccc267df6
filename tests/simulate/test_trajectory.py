"""Trajectories have the probabilities of model and policy, and episodes of the requested length."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import mdpdsl
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.drawing import running_sums
from mdpdsl.simulate.failures import SimulationError
from mdpdsl.simulate.trajectory import Chunk, Schedule, draw_trajectory, uniform_policy
from tests.graph.build import graph_from_rows
from tests.graph.test_ends import CORRIDOR

#: The probability of a false alarm, if the seed were not fixed.
SIGNIFICANCE = 1e-6
MODELS = ["riverswim", "pendulum", "inventory", "gambler", "weather"]


def drawn(
    graph: TransitionGraph,
    schedule: Schedule,
    policy: FloatArray | None = None,
    seed: int = 0,
    chunk_rows: int = 1 << 20,
) -> Chunk:
    """Return a whole trajectory as one chunk."""
    generator = np.random.default_rng(seed)
    return joined(
        list(draw_trajectory(graph, schedule, generator, policy=policy, chunk_rows=chunk_rows))
    )


def joined(chunks: list[Chunk]) -> Chunk:
    raw = [chunk.values for chunk in chunks if chunk.values is not None]
    last = chunks[-1]
    return Chunk(
        state=np.concatenate([chunk.state for chunk in chunks]),
        pair=np.concatenate([chunk.pair for chunk in chunks]),
        episode=np.concatenate([chunk.episode for chunk in chunks]),
        time=np.concatenate([chunk.time for chunk in chunks]),
        values=np.concatenate(raw) if raw else None,
        next_state=last.next_state,
        next_values=last.next_values,
        steps_done=last.steps_done,
        episodes_done=last.episodes_done,
        is_next_last=last.is_next_last,
    )


def p_value(observed: IntArray, expected: FloatArray, group: IntArray) -> float:
    """Return the p-value of counts against their expectations within each group.

    Entries of which fewer than 5 are expected are left out; a group then loses no degree.
    """
    tested = expected >= 5
    statistic = float(((observed - expected)[tested] ** 2 / expected[tested]).sum())
    degrees = int(tested.sum()) - sum(
        bool(tested[group == g].all()) for g in np.unique(group[tested])
    )
    return float(chi2.sf(statistic, max(degrees, 1)))


def successor_p_value(graph: TransitionGraph, found: Chunk) -> float:
    before = np.flatnonzero(found.has_pair)
    keys = found.pair[before] * graph.n_states + found.state[before + 1]
    branch_pair = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
    branch_keys = branch_pair * graph.n_states + graph.successor
    place = np.searchsorted(branch_keys, keys)
    assert np.array_equal(branch_keys[place], keys), "a successor that the graph does not have"
    visits = np.bincount(found.pair[before], minlength=graph.n_pairs)
    observed = np.bincount(place, minlength=graph.n_branches)
    return p_value(observed, visits[branch_pair] * graph.probability, branch_pair)


def choice_p_value(graph: TransitionGraph, found: Chunk, policy: FloatArray) -> float:
    pairs = found.pair[found.has_pair]
    assert np.array_equal(graph.pair_state[pairs], found.state[found.has_pair])
    observed = np.bincount(pairs, minlength=graph.n_pairs)
    assert np.all(observed[policy == 0] == 0)
    visits = np.bincount(found.state[found.has_pair], minlength=graph.n_states)
    return p_value(observed, visits[graph.pair_state] * policy, graph.pair_state.astype(np.int64))


def random_policy(graph: TransitionGraph) -> FloatArray:
    """Return a policy with various probabilities, some of them 0."""
    generator = np.random.default_rng(5)
    weights = generator.random(graph.n_pairs) * (generator.random(graph.n_pairs) < 0.8)
    acting = np.diff(graph.pair_start) > 0  # ends have no pairs
    weights[graph.pair_start[:-1][acting]] += 0.1
    return np.asarray(weights / np.bincount(graph.pair_state, weights)[graph.pair_state])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("is_uniform", [True, False])
def test_successors_and_actions_have_their_probabilities(name: str, is_uniform: bool) -> None:
    graph = mdpdsl.load(name).graph
    policy = uniform_policy(graph) if is_uniform else random_policy(graph)
    found = drawn(graph, Schedule(200_000, 50), None if is_uniform else policy)
    assert successor_p_value(graph, found) > SIGNIFICANCE
    assert choice_p_value(graph, found, policy) > SIGNIFICANCE


def test_the_test_of_frequencies_detects_wrong_ones() -> None:
    graph = mdpdsl.load("riverswim").graph
    found = drawn(mdpdsl.load("riverswim", drift=0.06).graph, Schedule(200_000, 50))
    assert successor_p_value(graph, found) < SIGNIFICANCE
    other = np.where(graph.pair_action == 0, 0.49, 0.51)
    assert choice_p_value(graph, found, other) < SIGNIFICANCE


def test_starts_have_the_initial_distribution() -> None:
    rows = [{0: {s: 1.0}} for s in range(4)]
    initial = np.array([0.1, 0.0, 0.6, 0.3])
    found = drawn(graph_from_rows(rows, initial=initial), Schedule(50_000, 1))
    starts = np.bincount(found.state[found.time == 0], minlength=4)
    assert starts.sum() == 50_000
    assert starts[1] == 0
    assert p_value(starts, 50_000 * initial, np.zeros(4, np.int64)) > SIGNIFICANCE


@given(st.integers(1, 60), st.one_of(st.none(), st.integers(1, 70)), st.integers(1, 90))
def test_episodes_have_the_requested_length(
    n_steps: int, length: int | None, chunk_rows: int
) -> None:
    graph = mdpdsl.load("weather").graph
    schedule = Schedule(n_steps, length)
    found = drawn(graph, schedule, chunk_rows=chunk_rows)
    expected = []
    episode, left = 0, n_steps
    while left > 0:
        here = min(left, length or left)
        expected += [(episode, time, time < here) for time in range(here + 1)]
        episode, left = episode + 1, left - here
    rows = zip(found.episode, found.time, found.has_pair, strict=True)
    assert [(int(e), int(t), bool(p)) for e, t, p in rows] == expected
    assert (schedule.n_rows, schedule.n_episodes) == (len(expected), episode)
    assert (found.steps_done, found.next_state) == (n_steps, -1)


@pytest.mark.parametrize("simulate", ["model", "continuous"])
def test_the_size_of_chunks_makes_no_difference(simulate: str) -> None:
    model = mdpdsl.load("pendulum")
    system = model.system if simulate == "continuous" else None

    def found(chunk_rows: int, seed: int = 3) -> list[Chunk]:
        generator = np.random.default_rng(seed)
        schedule = Schedule(3_000, 70)
        return list(
            draw_trajectory(model.graph, schedule, generator, system=system, chunk_rows=chunk_rows)
        )

    whole, pieces, other = found(10_000), found(71), found(10_000, seed=4)
    assert (len(whole), len(pieces)) == (1, 43)
    together = joined(pieces)
    for name in ("state", "pair", "episode", "time"):
        assert np.array_equal(getattr(whole[0], name), getattr(together, name))
    assert not np.array_equal(whole[0].pair, other[0].pair)
    if system is not None:
        assert whole[0].values is not None
        assert together.values is not None
        assert np.array_equal(whole[0].values, together.values)
    for before, after in pairwise(found(50)):
        assert before.next_state == (after.state[0] if before.has_pair[-1] else -1)
        if system is not None and before.has_pair[-1]:
            assert before.next_values is not None
            assert after.values is not None
            assert np.array_equal(before.next_values, after.values[0])


def test_a_continuous_system_is_seen_by_its_cells() -> None:
    model = mdpdsl.load("pendulum")
    generator = np.random.default_rng(0)
    chunks = draw_trajectory(model.graph, Schedule(5_000, 90), generator, system=model.system)
    found = joined(list(chunks))
    assert found.values is not None
    for position, variable in enumerate(model.graph.states.variables):
        cells = variable.indices(found.values[:, position])
        assert np.array_equal(cells, model.graph.states.cells(variable.name)[found.state])
    starts = found.values[found.time == 0]
    assert len(np.unique(starts, axis=0)) == 1, "the pendulum starts at one point"


def test_a_system_that_fails_says_at_which_step() -> None:
    model = mdpdsl.loads(
        "mdp m state x in [0, 4] bins 4 action a init x = 0.5 x' = x + 1/(3.5 - x) * 0 + 1 "
        "discretize uniform points 2"
    )
    chunks = draw_trajectory(
        model.graph, Schedule(10), np.random.default_rng(0), system=model.system
    )
    with pytest.raises(SimulationError, match="step 4: x' has no value: division by zero"):
        list(chunks)


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1e-9, 0.1, 0.3, 1.0]), min_size=1, max_size=6).filter(any),
        min_size=1,
        max_size=6,
    )
)
def test_running_sums_end_with_the_last_possible_entry(weights: list[list[float]]) -> None:
    rows = [np.array(row) / sum(row) for row in weights]
    start = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    cumulative = running_sums(start, np.concatenate(rows))
    for row, first in zip(rows, start[:-1], strict=True):
        found = cumulative[first : first + len(row)]
        assert np.allclose(found, np.cumsum(row), atol=1e-12)
        assert found[np.flatnonzero(row)[-1]] == 1.0
        shares = np.diff(found, prepend=0.0)
        assert np.all(shares[row == 0] == 0)


def test_an_unknown_model_has_no_trajectories() -> None:
    graph = mdpdsl.load("pendulum_unknown").graph
    with pytest.raises(ValueError, match="without dynamics"):
        next(draw_trajectory(graph, Schedule(1), np.random.default_rng(0)))
    with pytest.raises(ValueError, match="at least one step"):
        Schedule(0)


@pytest.mark.parametrize("chunk_rows", [1, 7, 1 << 20])
@pytest.mark.parametrize("length", [None, 3])
def test_an_episode_ends_in_an_end_or_is_cut(chunk_rows: int, length: int | None) -> None:
    graph = mdpdsl.loads(CORRIDOR).graph
    assert graph.ends is not None
    whole = drawn(graph, Schedule(500, length), seed=3, chunk_rows=chunk_rows)
    assert np.count_nonzero(whole.pair >= 0) == whole.steps_done == 500
    assert len(whole.state) == 500 + whole.episodes_done
    last = np.flatnonzero(whole.pair < 0)
    is_end = graph.ends[whole.state]
    assert is_end[last].any()
    assert not is_end[whole.pair >= 0].any()
    # An episode that did not end was cut at its length, or is the last one.
    cut = last[~is_end[last]][:-1] if not is_end[last[-1]] else last[~is_end[last]]
    assert length is not None or len(cut) == 0
    assert (whole.time[cut] == (length or 0)).all()
    starts = np.append(0, last[:-1] + 1)
    assert (whole.time[starts] == 0).all()
    assert (graph.initial[whole.state[starts]] > 0).all()
    one = drawn(graph, Schedule(500, length), seed=3)
    assert one.state.tolist() == whole.state.tolist()


@pytest.mark.parametrize("block", ["", "log { x = x  x' = next_x }"])
def test_logs_say_how_episodes_ended(block: str) -> None:
    model = mdpdsl.loads(CORRIDOR + block)
    log = mdpdsl.simulate(model, steps=300, episode_length=4, seed=1)
    rows = log.table().to_pylist()
    assert log.record()["rows"] == len(rows)
    ended = 0
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        shown = row["next_x"] if block else row["x"]
        is_last = following is None or following["episode"] != row["episode"]
        assert row["terminated"] == (shown in (0, 4))
        assert row["truncated"] == (is_last and shown not in (0, 4))
        ended += row["terminated"]
    assert 0 < ended < log.episodes == rows[-1]["episode"] + 1
    found = mdpdsl.estimate(model, log)
    assert found.transitions == 300
    assert found.rejected == {}
