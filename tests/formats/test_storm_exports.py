"""Storm reads our files: the same sizes, and the same probabilities as `solve`."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import stormpy
from hypothesis import given, settings

import mdpdsl
from mdpdsl.formats.drn import to_drn
from mdpdsl.formats.explicit import explicit_texts
from mdpdsl.formats.prism import to_prism
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.restrict import restrict
from mdpdsl.graph.space import FloatArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.reachability import solve_reachability
from tests.formats.storm_reads import read_drn, read_prism, sizes
from tests.graph.build import graph_from_rows
from tests.solve.small import small_graphs
from tests.solve.storm import storm_values

MODELS = [name for name in mdpdsl.shipped_models() if name != "pendulum_unknown"]

#: The error of Storm's values and of ours is at most this.
PRECISION = 1e-8
TOLERANCE = 1e-6

#: Storm takes many seconds to read longer sources; cart_pole and mountain_car are beyond.
MOST_IN_PRISM = 20_000


def with_label(graph: TransitionGraph) -> tuple[TransitionGraph, str]:
    """Return a graph that has a label, its own first one if it has any."""
    for label in graph.labels:
        return graph, label
    last = np.arange(graph.n_states) == graph.n_states - 1
    return replace(graph, labels={"last": last}), "last"


def our_sizes(graph: TransitionGraph) -> tuple[int, int, int]:
    """Return the numbers of states, choices and transitions; ends have a loop in these files."""
    n_ends = 0 if graph.ends is None else int(graph.ends.sum())
    return graph.n_states, graph.n_pairs + n_ends, graph.n_branches + n_ends


def our_chances(graph: TransitionGraph, label: str, is_minimised: bool) -> FloatArray:
    graph, _ = absorb(graph)
    return solve_reachability(graph, label, is_minimised=is_minimised, tolerance=PRECISION).values


@pytest.mark.parametrize("name", MODELS)
def test_storm_reads_every_shipped_model_and_agrees_with_solve(name: str, tmp_path: Path) -> None:
    graph, label = with_label(mdpdsl.load(name).graph)
    reached = restrict(graph, reachable_states(graph))  # as a PRISM builder finds them
    from_drn = read_drn(tmp_path, to_drn(graph, name))
    assert sizes(from_drn) == our_sizes(graph)
    from_prism = None
    if graph.n_branches <= MOST_IN_PRISM:
        from_prism = read_prism(tmp_path, to_prism(graph, name))
        assert sizes(from_prism) == our_sizes(reached)
    for direction, is_minimised in (("max", False), ("min", True)):
        formula = f'P{direction}=? [F "{label}"]'
        ours = our_chances(graph, label, is_minimised)
        np.testing.assert_allclose(
            storm_values(from_drn, formula, PRECISION), ours, rtol=0, atol=TOLERANCE
        )
        if from_prism is None:
            continue
        # A builder numbers states in its own order.
        theirs = np.sort(storm_values(from_prism, formula, PRECISION))
        ours = np.sort(ours[reachable_states(graph)])
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=TOLERANCE)


@settings(deadline=None, max_examples=30)
@given(small_graphs())
def test_any_graph_is_the_same_to_storm_in_prism_and_drn(
    tmp_path_factory: pytest.TempPathFactory, graph: TransitionGraph
) -> None:
    graph = restrict(graph, reachable_states(graph))
    if not graph.labels["goal"].any():  # DRN cannot represent a label without states
        graph = replace(graph, labels={"goal": graph.initial > 0})
    folder = tmp_path_factory.getbasetemp()
    prism, drn = read_prism(folder, to_prism(graph)), read_drn(folder, to_drn(graph))
    assert sizes(prism) == sizes(drn) == our_sizes(graph)
    formula = 'Pmax=? [F "goal"]'
    theirs, ours = (storm_values(model, formula, PRECISION) for model in (prism, drn))
    np.testing.assert_allclose(np.sort(theirs), np.sort(ours), atol=TOLERANCE)


@pytest.mark.parametrize("name", ["riverswim", "frozen_lake", "inventory", "taxi"])
def test_rewards_and_actions_are_the_models_own(name: str, tmp_path: Path) -> None:
    graph = mdpdsl.load(name).graph
    drn = read_drn(tmp_path, to_drn(graph))
    rewards = drn.reward_models["reward"].state_action_rewards
    np.testing.assert_allclose(rewards, np.asarray(absorb(graph)[0].reward), rtol=1e-15)
    prism = read_prism(tmp_path, to_prism(graph))
    theirs = np.sort(prism.reward_models["reward"].state_action_rewards)
    reached = absorb(restrict(graph, reachable_states(graph)))[0]  # as a builder finds them
    np.testing.assert_allclose(theirs, np.sort(np.asarray(reached.reward)), rtol=1e-15)


@pytest.mark.parametrize("name", ["riverswim", "two_machines", "gambler", "frozen_lake"])
def test_explicit_files_have_the_same_probabilities(name: str, tmp_path: Path) -> None:
    """Storm has its own dialect: another first line, and labels by name."""
    graph = mdpdsl.load(name).graph
    texts = explicit_texts(graph)
    first, *transitions = texts[".tra"].splitlines()
    assert first == " ".join(map(str, our_sizes(graph)))
    plain = [line.rsplit(" ", 1)[0] for line in transitions]
    (tmp_path / "x.tra").write_text("\n".join(["mdp", *plain]) + "\n")
    header, *rows = texts[".lab"].splitlines()
    names = dict(re.findall(r'(\d+)="(\w+)"', header))
    lines = ["#DECLARATION", " ".join(names.values()), "#END"]
    for row in rows:
        state, numbers = row.split(":")
        lines.append(" ".join([state, *(names[number] for number in numbers.split())]))
    (tmp_path / "x.lab").write_text("\n".join(lines) + "\n")
    model = stormpy.build_model_from_explicit(tmp_path / "x.tra", tmp_path / "x.lab")
    assert sizes(model) == our_sizes(graph)
    label = next(iter(graph.labels))
    theirs = storm_values(model, f'Pmax=? [F "{label}"]', PRECISION)
    np.testing.assert_allclose(theirs, our_chances(graph, label, False), atol=TOLERANCE)


def test_the_choices_of_a_state_are_numbered_without_gaps() -> None:
    graph = graph_from_rows([{1: {0: 1.0}}, {0: {1: 1.0}, 2: {0: 1.0}}])
    choices: dict[str, list[int]] = {}
    for line in explicit_texts(graph)[".tra"].splitlines()[1:]:
        state, choice, *_ = line.split()
        choices.setdefault(state, []).append(int(choice))
    for state, found in choices.items():
        n_choices = graph.pair_start[int(state) + 1] - graph.pair_start[int(state)]
        assert sorted(set(found)) == list(range(n_choices))


def test_names_that_prism_does_not_allow_are_changed_and_listed(tmp_path: Path) -> None:
    model = mdpdsl.loads(
        """mdp système state F in {rate, größe} state x in {-1.5, 2} state b in bool
        action module, pow init F = rate, x = 2, b = false
        on module when F == rate -> 0.5: F' = größe, b' = true | 0.5: x' = -1.5
        on module otherwise -> stay  on pow -> stay
        label deadlock when b  label other when F == größe and x == 2"""
    )
    text = to_prism(model.graph, model.name)
    assert "// action `module` is module_2" in text
    assert "index into -1.5, 2" in text
    built = read_prism(tmp_path, text)
    assert sizes(built) == our_sizes(model.graph)
    assert {"deadlock_2", "other", "init", "deadlock"} == set(built.labeling.get_labels())
    np.testing.assert_allclose(
        np.sort(storm_values(built, 'Pmax=? [F "deadlock_2"]', PRECISION)),
        np.sort(our_chances(model.graph, "deadlock", False)),
        atol=TOLERANCE,
    )


def test_boxes_may_cover_missing_states(tmp_path: Path) -> None:
    """In a product with holes, a guard may cover values that are never reached."""
    graph = mdpdsl.load("four_rooms").graph
    assert graph.n_states < graph.states.product.size
    assert sizes(read_prism(tmp_path, to_prism(graph))) == our_sizes(graph)


def test_several_starts_are_all_initial(tmp_path: Path) -> None:
    graph = mdpdsl.load("riverswim").graph
    start = np.array([0.25, 0, 0.75, 0, 0, 0])
    several = replace(graph, initial=start)
    text = to_prism(several)
    assert "probabilities of initial states are lost" in text
    for model in (read_prism(tmp_path, text), read_drn(tmp_path, to_drn(several))):
        assert len(model.initial_states) == 2


@pytest.mark.parametrize("write", [to_prism, to_drn, explicit_texts])
def test_a_model_without_dynamics_is_refused(write: object) -> None:
    assert callable(write)
    with pytest.raises(ValueError, match="dynamics of this model are unknown"):
        write(mdpdsl.load("pendulum_unknown").graph)


def test_a_large_model_falls_back_to_boxes_without_looking_at_all_states(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(import_module("mdpdsl.formats.rules"), "MOST_LOOKED_AT", 0)
    graph = mdpdsl.load("four_rooms").graph
    assert sizes(read_prism(tmp_path, to_prism(graph))) == our_sizes(graph)


def test_one_variable_of_one_value_is_written(tmp_path: Path) -> None:
    graph = mdpdsl.load("riverswim").graph
    one = Variable("only", "int", 1, low=7)
    states = StateSpace(Product((one, *graph.states.variables)), graph.states.codes)
    text = to_prism(replace(graph, states=states))
    assert "only : [7..7] init 7" in text
    assert sizes(read_prism(tmp_path, text)) == our_sizes(graph)
