"""Ends in every format: what is written comes back, and means the same to other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from quantecon.markov import DiscreteDP

import mdpdsl
from mdpdsl.compile.stored import graph_model
from mdpdsl.formats.drn import to_drn
from mdpdsl.formats.explicit import explicit_texts, read_prism_files, write_explicit
from mdpdsl.formats.loops import TERMINAL, with_distinct_twins, with_loops, without_loops
from mdpdsl.formats.lp import planning_program
from mdpdsl.formats.mdp import model_text
from mdpdsl.formats.npz import from_npz, to_npz
from mdpdsl.formats.prism import to_prism
from mdpdsl.formats.quantecon import quantecon_arrays
from mdpdsl.graph.convert import from_networkx, from_scipy, to_networkx, to_scipy
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.interval_graph import Bounds
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.program import load_backend
from mdpdsl.solve.reachability import solve_reachability
from tests.formats.ended_graphs import best_values, ended_graphs, renamed
from tests.formats.storm_reads import (
    read_drn,
    read_interval_drn,
    read_interval_prism,
    read_prism,
    robust_bounds,
)
from tests.solve.storm import storm_values

#: The shipped models with ends; the text of cart_pole would take too long to read.
EPISODIC = [
    name
    for name in mdpdsl.shipped_models()
    if mdpdsl.load(name).checked.ends and name != "cart_pole"
]
TOLERANCE = 1e-6
PRECISION = 1e-8

#: Files are written into one folder, one after the other.
SAME_FOLDER = (HealthCheck.function_scoped_fixture,)


def mixed_lake() -> TransitionGraph:
    """Return three places in a row; in the middle one, half of the episodes end."""
    table = {
        0: {0: [(0.5, 1, 1.0, True), (0.5, 1, 0.0, False)]},
        1: {0: [(1.0, 2, 2.0, False)], 1: [(1.0, 0, 0.0, False)]},
        2: {0: [(1.0, 2, 0.0, True)]},
    }
    graph = mdpdsl.from_arrays(table, initial=0).graph
    assert graph.states.n_twins == 1
    return graph


def assert_same(found: TransitionGraph, expected: TransitionGraph) -> None:
    """Compare everything but names, and rewards by their expectation."""
    found = renamed(found, expected)
    np.testing.assert_array_equal(found.ends, expected.ends)
    for name in ("pair_start", "pair_action", "successor_start", "successor"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("probability", "reward", "initial"):
        numbers, others = getattr(found, name), getattr(expected, name)
        if others is None:
            assert numbers is None
        else:
            np.testing.assert_allclose(numbers, others, rtol=0, atol=1e-15)


@settings(deadline=None, max_examples=60)
@given(ended_graphs())
def test_npz_keeps_ends_and_twins(
    tmp_path_factory: pytest.TempPathFactory, graph: TransitionGraph
) -> None:
    path = tmp_path_factory.getbasetemp() / "ended.npz"
    to_npz(graph, path)
    found = from_npz(path)
    assert found.hash == graph.hash
    assert found.states.n_twins == graph.states.n_twins


@settings(deadline=None, max_examples=60)
@given(ended_graphs())
def test_explicit_files_come_back_with_the_same_ends(
    tmp_path_factory: pytest.TempPathFactory, graph: TransitionGraph
) -> None:
    starts = graph.initial > 0  # PRISM has sets of initial states
    graph = replace(graph, initial=starts / starts.sum(), labels={"goal": graph.initial > 0})
    path = tmp_path_factory.getbasetemp() / "ended.tra"
    write_explicit(graph, path)
    found = read_prism_files(path)
    assert_same(replace(found, pair_action=graph.pair_action), graph)
    assert set(found.labels) == {"goal"}
    for pair in range(graph.n_pairs):  # actions may be numbered otherwise
        names = [each.actions.labels[each.pair_action[pair]] for each in (found, graph)]
        assert names[0] == names[1]


@settings(deadline=None, max_examples=60)
@given(ended_graphs())
def test_the_text_of_a_model_builds_the_same_graph(graph: TransitionGraph) -> None:
    text = model_text(graph, "ended")
    found = mdpdsl.loads(text).graph
    assert_same(found, with_distinct_twins(graph))
    assert [on.tolist() for on in found.labels.values()] == [
        on.tolist() for on in graph.labels.values()
    ]


@settings(deadline=None, max_examples=25, suppress_health_check=SAME_FOLDER)
@given(ended_graphs())
def test_storm_finds_our_values_in_prism_and_drn(tmp_path: Path, graph: TransitionGraph) -> None:
    graph = replace(graph, labels={"goal": np.arange(graph.n_states) == graph.n_states - 1})
    absorbing, _ = absorb(graph)
    drn, prism = read_drn(tmp_path, to_drn(graph)), read_prism(tmp_path, to_prism(graph))
    assert (drn.nr_states, drn.nr_choices) == (absorbing.n_states, absorbing.n_pairs)
    assert (prism.nr_states, prism.nr_choices) == (absorbing.n_states, absorbing.n_pairs)
    ends = drn.labeling.get_states("end")
    assert [s in ends for s in range(graph.n_states)] == np.asarray(graph.ends).tolist()
    ours = solve_reachability(replace(absorbing, states=graph.states), "goal").values
    for model, order in ((drn, lambda x: x), (prism, np.sort)):
        theirs = storm_values(model, 'Pmax=? [F "goal"]', PRECISION)
        np.testing.assert_allclose(order(theirs), order(ours), rtol=0, atol=TOLERANCE)
    if np.any(np.asarray(absorbing.reward)):  # Storm has no rewards that are all 0
        rewards = drn.reward_models["reward"].state_action_rewards
        np.testing.assert_allclose(rewards, np.asarray(absorbing.reward), rtol=1e-15)


@settings(deadline=None, max_examples=40)
@given(ended_graphs())
def test_quantecon_finds_our_values(graph: TransitionGraph) -> None:
    arrays = quantecon_arrays(graph)
    problem = DiscreteDP(arrays.R, arrays.Q, 0.9, arrays.s_indices, arrays.a_indices)
    theirs = problem.solve(method="policy_iteration").v
    np.testing.assert_allclose(theirs, best_values(graph), rtol=0, atol=1e-8)


@settings(deadline=None, max_examples=40)
@given(ended_graphs())
def test_networks_and_matrices_give_back_the_same_graph(graph: TransitionGraph) -> None:
    assert from_networkx(to_networkx(graph)).hash == replace(graph, branch_reward=None).hash
    matrices = to_scipy(graph)
    for matrix in matrices.transitions:
        sums = np.asarray(matrix.sum(axis=1)).ravel()
        np.testing.assert_array_equal(sums[np.asarray(graph.ends)], 1.0)
    found = from_scipy(matrices.transitions, matrices.rewards, matrices.initial, ends=matrices.ends)
    assert_same(found, graph)


@pytest.mark.parametrize("name", EPISODIC)
def test_every_episodic_model_comes_back_from_its_text(name: str) -> None:
    graph = mdpdsl.load(name).graph
    found = mdpdsl.loads(model_text(graph, name)).graph
    np.testing.assert_array_equal(found.ends, graph.ends)
    if found.states.variables[0].name == graph.states.variables[0].name:
        assert found.hash == replace(graph, knowledge=None).hash


def test_our_names_give_way_to_those_of_a_model(tmp_path: Path) -> None:
    model = mdpdsl.loads(
        """mdp names  state ended in 0..2  action end, other  init ended = 0
        on end -> ended' = ended + 1  on other -> stay  end when ended == 2
        label end when ended == 1"""
    )
    looped, _ = with_loops(model.graph)
    assert looped.actions.labels == ("end", "other", "end_2")
    assert set(looped.labels) == {"end", "end_2"}
    text = to_prism(model.graph, "names")
    assert "[end_2] ended=2 -> 1:true;" in text
    assert read_prism(tmp_path, text).nr_states == 3
    write_explicit(model.graph, tmp_path / "names.tra")
    found = read_prism_files(tmp_path / "names.tra")
    assert_same(found, model.graph)
    assert set(found.labels) == {"end"}


def test_a_twin_differs_by_a_variable_of_its_own(tmp_path: Path) -> None:
    graph = mixed_lake()
    text = to_prism(graph)
    assert "ended : bool init false;" in text
    assert "// ended is true in ends that have the values of another state" in text
    assert '// episodes are over in the states with the label "end"' in text
    assert "state ended in bool" in model_text(graph, "mixed")
    states = explicit_texts(graph)[".sta"].splitlines()
    assert states == ["(ended,s)", "0:(false,0)", "1:(false,1)", "2:(false,2)", "3:(true,1)"]
    assert len(set(states)) == len(states)
    assert read_prism(tmp_path, text).nr_states == 4


def test_other_tools_ends_are_not_invented(tmp_path: Path) -> None:
    """An absorbing state with a label `end` is an end only with an action of that name."""
    (tmp_path / "x.tra").write_text("2 2 2\n0 0 1 1 go\n1 0 1 1 stay\n")
    (tmp_path / "x.lab").write_text('0="init" 1="deadlock" 2="end"\n0: 0\n1: 2\n')
    found = read_prism_files(tmp_path / "x.tra")
    assert found.ends is None
    assert list(found.labels) == ["end"]
    (tmp_path / "x.lab").write_text('0="init" 1="deadlock" 2="terminal"\n0: 0\n1: 2\n')
    found = read_prism_files(tmp_path / "x.tra")
    assert found.ends is not None
    assert found.ends.tolist() == [False, True]
    assert list(found.labels) == [TERMINAL]


def test_a_label_terminal_on_a_state_that_is_left_makes_no_end() -> None:
    graph = mdpdsl.load("riverswim").graph
    graph = replace(graph, labels={TERMINAL: np.ones(6, np.bool_)})
    assert without_loops(graph) is graph


def test_bounds_of_intervals_have_the_loops_too(tmp_path: Path) -> None:
    graph = mixed_lake()
    bounds = Bounds(graph.probability * 0.8, np.minimum(1, graph.probability * 1.1))
    drn = read_interval_drn(tmp_path, to_drn(graph, bounds=bounds))
    prism = read_interval_prism(tmp_path, to_prism(graph, bounds=bounds))
    assert "3 0 3 [1,1] end" in explicit_texts(graph, bounds)[".tra"]
    for model in (drn, prism):
        assert (model.nr_states, model.nr_choices) == (4, 5)
        # From the start, an episode ends in the middle with 0.4 to 0.55, and this is the twin.
        low, high = robust_bounds(model, 'Pmax=? [X "end"]')
        start = model.initial_states[0]
        assert (low[start], high[start]) == pytest.approx((0.45, 0.55), abs=1e-6)


def test_programs_are_about_the_flow_from_one_episode_to_the_next() -> None:
    """Two of three steps are in the first place, so each of the others' pairs has one in six."""
    program = planning_program(mixed_lake(), "interior")
    objective = load_backend("highs").solve(program).objective  # scaled by the number of pairs
    assert objective == pytest.approx(3 / 6)


def test_a_policy_has_no_lines_for_ends(tmp_path: Path) -> None:
    graph = mixed_lake()
    probability = np.ones(graph.n_pairs)
    probability[graph.pair_state == 1] = 0.5
    policy = Policy("mixed", graph.hash, probability)
    for suffix in (".csv", ".json", ".npz"):
        path = tmp_path / f"policy{suffix}"
        mdpdsl.save_policy(policy, graph, path)
        found = mdpdsl.load_policy(path, graph)
        np.testing.assert_array_equal(found.probability, probability)


@pytest.mark.parametrize(
    "suffix", [".prism", ".tra", ".drn", ".json", ".quantecon.npz", ".npz", ".dot", ".lp", ".mps"]
)
def test_every_format_takes_ends_and_twins(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"mixed{suffix}"
    done = mdpdsl.export(graph_model(mixed_lake(), "mixed"), path)
    assert all(each.exists() for each in done.paths)
    if suffix == ".dot":
        text = path.read_text("utf-8")
        assert '"1 (end)\\n' in text
        assert text.count("peripheries=2") == 2
    if suffix in (".tra", ".json", ".npz"):
        found = mdpdsl.load(path).graph
        assert found.initial @ best_values(found) == pytest.approx(0.5 + 0.9 * 0.5 * 2)
