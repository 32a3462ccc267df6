"""Policies as arrays and as tables that are read by names."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.formats.policy_files import SUFFIXES, PolicyError, load_policy, save_policy
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.build import courier
from tests.solve.small import small_graphs

#: Tables have all digits; reading them normalises.
EXACT = 1e-15


def some_policy(graph: TransitionGraph, seed: int = 0, zeros: float = 0.3) -> Policy:
    """Return a random policy in which some pairs are never taken."""
    rng = np.random.default_rng(seed)
    weights = rng.random(graph.n_pairs) * (rng.random(graph.n_pairs) > zeros)
    weights[graph.pair_start[:-1]] += 0.1
    sums = np.add.reduceat(weights, graph.pair_start[:-1])
    return Policy("some", graph.hash, weights / np.repeat(sums, np.diff(graph.pair_start)))


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=20, deadline=None)
@given(small_graphs(), st.integers(0, 100))
def test_a_policy_survives_its_file(
    suffix: str, tmp_path_factory: pytest.TempPathFactory, graph: TransitionGraph, seed: int
) -> None:
    path = tmp_path_factory.mktemp("policy") / f"p{suffix}"
    policy = some_policy(graph, seed)
    save_policy(policy, graph, path)
    loaded = load_policy(path, graph)
    np.testing.assert_allclose(loaded.probability, policy.probability, rtol=0, atol=EXACT)
    assert loaded.hash == graph.hash


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ["pendulum", "taxi", "two_machines", "inventory", "thermostat"])
def test_variables_of_every_kind_survive_a_file(name: str, suffix: str, tmp_path: Path) -> None:
    graph = mdpdsl.load(name).graph
    path = tmp_path / f"p{suffix}"
    policy = some_policy(graph)
    save_policy(policy, graph, path)
    loaded = load_policy(path, graph).probability
    np.testing.assert_allclose(loaded, policy.probability, rtol=0, atol=EXACT)


def test_a_table_names_states_and_actions_and_is_read_in_any_order(tmp_path: Path) -> None:
    graph = courier()  # integers and a bool
    policy = some_policy(graph)
    path = tmp_path / "p.csv"
    save_policy(policy, graph, path)
    with path.open(newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["place", "tank", "parcel", "action", "probability"]
    assert {line[2] for line in lines[1:]} == {"true", "false"}
    assert {line[3] for line in lines[1:]} == {"ahead", "back", "refill"}
    rest = [line[::-1] for line in lines[1:]]
    random.Random(0).shuffle(rest)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([lines[0][::-1], *rest])
    loaded = load_policy(path, graph).probability
    np.testing.assert_allclose(loaded, policy.probability, rtol=0, atol=EXACT)


def test_a_deterministic_policy_has_one_line_per_state(tmp_path: Path) -> None:
    graph = mdpdsl.load("riverswim").graph
    choice = np.array([0, 3, 5, 6, 9, 11])
    policy = Policy.deterministic("riverswim", graph, choice)
    np.testing.assert_array_equal(policy.choice(graph), choice)
    save_policy(policy, graph, tmp_path / "p.csv")
    expected = "pos,action,probability\n0,left,1.0\n1,right,1.0\n2,right,1.0\n3,left,1.0\n"
    assert (tmp_path / "p.csv").read_text() == expected + "4,right,1.0\n5,right,1.0\n"


GOOD = "pos,action,probability\n0,left,1\n1,left,1\n2,left,1\n3,left,1\n4,left,1\n5,left,1\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("5,left,1", "6,left,1", r"line 7: `6`: not a value of pos in 0\.\.5"),
        ("5,left,1", "x,left,1", "line 7: pos must be a number, not `x`"),
        ("5,left,1", "5,up,1", "line 7: `up`: not a value of action in {left, right}"),
        ("5,left,1", "5,left", "line 7: 2 values, not 3"),
        ("5,left,1", "5,left,much", "line 7: probability must be a number, not `much`"),
        ("5,left,1", "5,left,-1", "negative"),
        ("5,left,1", "5,left,nan", "not a number"),
        ("5,left,1", "5,left,0.9", "pos = 5 has probabilities that sum to 0.9"),
        ("5,left,1\n", "", "pos = 5 has no line"),
        ("5,left,1", "4,left,1", "the pair is listed twice"),
        ("pos,", "place,", "has the columns place, action, probability; this model's"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    graph = mdpdsl.load("riverswim").graph
    path = tmp_path / "p.csv"
    path.write_text(GOOD)
    assert load_policy(path, graph).probability.sum() == 6
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(PolicyError, match=message):
        load_policy(path, graph)


def test_an_action_where_it_is_not_available_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    inventory = mdpdsl.load("inventory").graph  # orders are limited by the room left
    save_policy(some_policy(inventory), inventory, path)
    path.write_text(path.read_text() + "3,3,0.5\n")
    with pytest.raises(PolicyError, match="not available in this state"):
        load_policy(path, inventory)


def test_a_policy_for_all_states_fits_a_model_of_some_of_them(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    rooms = mdpdsl.load("four_rooms").graph  # walls are not states
    policy = some_policy(rooms)
    save_policy(policy, rooms, path)
    header, *lines = path.read_text().splitlines()
    wall = "5,5,0,1"
    path.write_text("\n".join([header, wall, *lines, wall]) + "\n")
    assert load_policy(path, rooms).probability == pytest.approx(policy.probability)
    path.write_text("\n".join([header, wall]) + "\n")
    with pytest.raises(PolicyError, match="no such state"):
        load_policy(path, rooms)


def test_a_value_outside_a_real_variable_is_refused_and_one_inside_is_its_cell(
    tmp_path: Path,
) -> None:
    graph = mdpdsl.load("fishery").graph
    path = tmp_path / "p.csv"
    save_policy(some_policy(graph), graph, path)
    lines = path.read_text().splitlines()
    centre, rest = lines[1].split(",", 1)
    moved = "\n".join([lines[0], f"{float(centre) + 0.01},{rest}", *lines[2:]])
    path.write_text(moved)
    np.testing.assert_allclose(
        load_policy(path, graph).probability, some_policy(graph).probability, atol=EXACT
    )
    path.write_text("\n".join([lines[0], f"99,{rest}", *lines[2:]]))
    with pytest.raises(PolicyError, match="line 2: `99`"):
        load_policy(path, graph)


def test_arrays_of_another_model_are_refused_unless_the_spaces_fit(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    graph = mdpdsl.load("riverswim").graph
    save_policy(some_policy(graph), graph, path)
    with pytest.raises(PolicyError, match="another model"):
        load_policy(path, mdpdsl.load("riverswim", n=7).graph)
    slower = mdpdsl.load("riverswim", drift=0.1).graph
    assert slower.hash != graph.hash
    loaded = load_policy(path, slower)
    assert loaded.hash == slower.hash
    np.testing.assert_array_equal(loaded.probability, some_policy(graph).probability)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.npz", b"nonsense", "not a policy written by mdpdsl"),
        ("p.json", b"{", "not a policy written by mdpdsl"),
        ("p.json", json.dumps({"kind": "values"}).encode(), "contains `values`, not a policy"),
        ("p.csv", b"\xff\xfe\x00", "not a table"),
        ("p.csv", b"", "has the columns"),
        ("p.txt", b"", "must end in .npz, .csv, .json"),
    ],
)
def test_a_file_of_another_kind_is_refused(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PolicyError, match=message):
        load_policy(tmp_path / name, mdpdsl.load("riverswim").graph)


def test_a_graph_is_not_a_policy_and_a_missing_file_is_an_error(tmp_path: Path) -> None:
    from mdpdsl.formats.npz import to_npz

    graph = mdpdsl.load("riverswim").graph
    to_npz(graph, tmp_path / "graph.npz")
    with pytest.raises(PolicyError, match="not a policy"):
        load_policy(tmp_path / "graph.npz", graph)
    with pytest.raises(PolicyError, match="No such file"):
        load_policy(tmp_path / "none.csv", graph)
