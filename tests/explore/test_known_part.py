"""What counts know of a model, as a graph to plan on."""

import numpy as np
import pytest

import mdpdsl
from mdpdsl.explore.known_part import cell_distance, known_model, way_to_part
from mdpdsl.graph.space import IntArray, Product, StateSpace
from tests.explore.experiments import counted, simulated
from tests.graph.build import enum_variable, int_variable, real_variable

#: Two actions everywhere, and nothing said of what they do.
LINE = mdpdsl.loads("mdp line  state x in 0..4  action a, b  init x = 0").graph


def row(known_graph: mdpdsl.TransitionGraph, state: int, action: int) -> dict[int, float]:
    successors, probabilities = known_graph.row(known_graph.pair(state, action))
    return dict(zip(successors.tolist(), probabilities.tolist(), strict=True))


def test_rows_are_what_was_seen_or_the_nearest_guess() -> None:
    counts = counted(LINE, (0, 0, 0, 1), (0, 0, 1, 3), (1, 0, 2, 1), (1, 1, 0, 2), (2, 0, 3, 1))
    known = known_model(counts, LINE, np.inf)
    known.graph.validate()
    assert row(known.graph, 0, 0) == pytest.approx({0: 0.25, 1: 0.75})
    assert row(known.graph, 0, 1) == pytest.approx({0: 0.25, 1: 0.75})  # as the other action
    assert row(known.graph, 2, 1) == {3: 1.0}
    assert row(known.graph, 3, 0) == {0: 1.0}  # reached, never left: starts again
    assert row(known.graph, 4, 0) == {4: 1.0}  # never reached
    assert known.is_known.tolist() == [True, True, True, True, False]
    assert np.unique(LINE.pair_state[known.pairs]).tolist() == [0, 1, 2, 3]


def test_a_pair_never_seen_leads_where_the_others_of_its_state_lead_each_alike() -> None:
    graph = mdpdsl.loads("mdp three  state x in 0..2  action a, b, c").graph
    counts = counted(graph, (0, 0, 1, 90), (0, 1, 0, 1), (1, 0, 0, 90))
    known = known_model(counts, graph)
    assert row(known.graph, 0, 2) == pytest.approx({0: 0.5, 1: 0.5})


def test_one_long_run_does_not_start_again() -> None:
    graph = mdpdsl.load("riverswim").graph
    assert known_model(simulated(graph, 5_000), graph).episode_length == np.inf


def test_a_log_that_starts_again_shows_by_its_imbalance() -> None:
    graph = mdpdsl.loads(
        "mdp slide  state x in 0..5  action a, b  init x = 0 "
        "on any -> 0.5: x' = min(x + 1, 5) | 0.5: stay"
    ).graph
    counts = simulated(graph, 4_000, episode_length=40)
    known = known_model(counts, graph)
    assert known.episode_length == pytest.approx(40)
    assert known.graph.initial[0] == 1
    assert len(known.pairs) == graph.n_pairs
    assert row(known.graph, 5, 0) == pytest.approx({0: 1 / 40, 5: 39 / 40})
    # Without starts, a run ends where it cannot leave.
    assert graph.pair_state[known_model(counts, graph, np.inf).pairs].tolist() == [5, 5]


def test_given_episodes_start_as_the_model_says() -> None:
    counts = counted(LINE, (0, 0, 1, 1), (1, 0, 1, 9))
    known = known_model(counts, LINE, 10)
    assert row(known.graph, 1, 0) == pytest.approx({0: 0.1, 1: 0.9})


def test_outside_the_part_the_way_leads_there() -> None:
    counts = counted(
        LINE, (0, 0, 0, 5), (0, 1, 1, 1), (1, 0, 1, 5), (1, 1, 2, 2), (2, 0, 3, 9), (2, 1, 3, 9),
        (3, 0, 2, 9), (3, 1, 3, 9),
    )  # fmt: skip
    known = known_model(counts, LINE, np.inf)
    assert np.unique(LINE.pair_state[known.pairs]).tolist() == [2, 3]
    assert way_to_part(known).tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 0, 0]


def test_distance_is_counted_in_cells_round_the_end_and_by_member() -> None:
    product = Product(
        (
            int_variable("x", 4),
            real_variable("angle", 0, 1, 6, wraps=True),
            enum_variable("mode", "on", "off", "idle"),
        )
    )
    states = StateSpace(product, np.arange(product.size))
    is_known = np.zeros(product.size, np.bool_)
    is_known[[0, 40]] = True
    x, angle, mode = (product.cells(states.codes, i) for i in range(3))

    def to(known: int) -> IntArray:
        around = np.abs(angle - angle[known])
        there = np.abs(x - x[known]) + np.minimum(around, 6 - around) + (mode != mode[known])
        return np.asarray(there, dtype=np.int64)

    assert cell_distance(states, is_known) == pytest.approx(np.minimum(to(0), to(40)))
