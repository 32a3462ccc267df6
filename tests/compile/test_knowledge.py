"""What a model file says of its rows: possible successors, known shares, laws."""

from __future__ import annotations

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.laws import at
from mdpdsl.compile.model import Model
from mdpdsl.compile.spreads import corners
from mdpdsl.diagnostics import Source
from mdpdsl.graph.knowledge import Knowledge, said_of, with_possible_rows
from mdpdsl.graph.transition_graph import TransitionGraph

WALK = """\
mdp walk
state x in 0..9
action right, wait, left, down
init x = 5
on right when x < 9 -> ?: x' = x + 1 | ?: stay | ?: x' = max(x - 1, 0)
on wait when x > 0 -> ?=0.7: stay | ?=0.3: x' = x - 1
on left when 1 < x < 9 -> 0.9: x' = x - 1 | ?: stay | ?: x' = x + 1
on down -> x' = max(x - 1, 0)
"""

SLIP = """\
mdp slip
unknown p in [0, 1] = 0.25
state x in 0..5
action go, rest, reset
init x = 0
on go when x < 5 -> 1 - p: x' = x + 1 | p*(x/5): x' = 0 | p*(1 - x/5): stay
on go otherwise -> stay
on rest -> 0.5: stay | 0.5: x' = 0
restart when x == 4
on reset -> x' = 0
"""


def said(graph: TransitionGraph, state: int, action: int) -> dict[int, tuple[float, bool]]:
    """Return the share and the openness of each possible successor of a pair."""
    known = graph.knowledge
    assert known is not None
    pair = graph.pair(state, action)
    row = slice(known.successor_start[pair], known.successor_start[pair + 1])
    shares = zip(known.share[row].tolist(), known.is_open[row].tolist(), strict=True)
    return dict(zip(known.successor[row].tolist(), shares, strict=True))


def knowledge(text: str, **options: object) -> Knowledge:
    found = mdpdsl.loads(text, **options).graph.knowledge  # type: ignore[arg-type]
    assert found is not None
    return found


def test_rows_say_where_they_may_lead_and_what_is_known_of_them() -> None:
    graph = mdpdsl.loads(WALK).graph
    assert said(graph, 5, 0) == {4: (0.0, True), 5: (0.0, True), 6: (0.0, True)}
    assert said(graph, 5, 2) == {4: (0.9, False), 5: (0.0, True), 6: (0.0, True)}
    assert said(graph, 5, 3) == {4: (1.0, False)}
    assert graph.to_learn.sum() == graph.n_pairs - 10


def test_branches_that_lead_to_one_state_are_joined() -> None:
    graph = mdpdsl.loads(WALK).graph
    known = graph.knowledge
    assert known is not None
    pair = graph.pair(0, 0)
    assert np.flatnonzero(known.is_joined).tolist() == [known.successor_start[pair]]
    assert said(graph, 0, 0) == {0: (0.0, True), 1: (0.0, True)}


def test_open_branches_share_what_is_left_before_any_data() -> None:
    graph = mdpdsl.loads(WALK).graph
    successors, probabilities = graph.row(graph.pair(5, 2))
    assert dict(zip(successors.tolist(), probabilities.tolist(), strict=True)) == pytest.approx(
        {4: 0.9, 5: 0.05, 6: 0.05}
    )
    known = graph.knowledge
    assert known is not None
    assert not known.has_truth
    sums = np.add.reduceat(known.placeholder, known.successor_start[:-1])
    assert sums == pytest.approx(np.ones(graph.n_pairs))


def test_a_model_says_what_it_lacks_to_be_simulated() -> None:
    assert mdpdsl.loads(WALK).missing == ("?",)
    assert mdpdsl.loads(SLIP).missing == ()
    without = SLIP.replace(" = 0.25", "")
    assert mdpdsl.loads(without).missing == ("p",)
    assert mdpdsl.loads(without, p=0.25).graph.hash == mdpdsl.loads(SLIP).graph.hash


def test_the_truth_of_a_law_is_that_of_a_parameter() -> None:
    graph = mdpdsl.loads(SLIP).graph
    plain = mdpdsl.loads(SLIP.replace("unknown p in [0, 1] = 0.25", "param p = 0.25")).graph
    assert plain.knowledge is None
    for name in ("pair_start", "pair_action", "successor_start", "successor", "probability"):
        assert np.array_equal(getattr(graph, name), getattr(plain, name))


def test_a_law_is_a_row_that_changes_with_the_numbers() -> None:
    graph = mdpdsl.loads(SLIP).graph
    known = graph.knowledge
    assert known is not None
    laws = {
        (int(graph.pair_state[p]), int(graph.pair_action[p])) for p in np.flatnonzero(known.is_law)
    }
    assert laws == {(0, 0), (1, 0), (2, 0), (3, 0)}
    assert said(graph, 0, 0) == {0: (0.0, True), 1: (0.0, True)}
    assert said(graph, 2, 0) == {0: (0.0, True), 2: (0.0, True), 3: (0.0, True)}
    assert said(graph, 1, 1) == {0: (0.5, False), 1: (0.5, False)}
    assert said(graph, 4, 0) == {0: (1.0, False)}


def test_states_are_those_that_some_values_reach() -> None:
    never = SLIP.replace("= 0.25", "= 1")
    assert mdpdsl.loads(never).graph.n_states == mdpdsl.loads(SLIP).graph.n_states == 5


def test_all_rows_are_learned_on_request() -> None:
    model = mdpdsl.loads(SLIP)
    graph = Model(model.source, learns_all=True).graph
    assert graph.to_learn.all()
    assert said(graph, 1, 1) == {0: (0.0, True), 1: (0.0, True)}


def test_windows_of_a_continuous_law_cover_every_value() -> None:
    text = """\
mdp drift
unknown push in [-1, 2] = 0.5
unknown sd in [0.05, 0.4] = 0.1
noise w ~ normal(0, sd)
state x in [0, 10] bins 20
state angle in [-pi, pi] wrap bins 8
action u in {-1, 0, 1}
init x = 5, angle = 0
x' = x + push*u + w
angle' = angle + push
noise v ~ uniform(-0.2, 0.3)
""".replace("angle' = angle + push", "angle' = angle + push + v")
    model = mdpdsl.loads(text)
    graph, known = model.graph, model.graph.knowledge
    assert known is not None
    assert known.is_law.all()
    possible = known.entry_pair * graph.n_states + known.successor
    for values in [*corners(model.checked.unknowns, 8), {"push": 0.3, "sd": 0.2}]:
        there = Model(Source(text, "drift.mdp"), values).graph
        pair = np.repeat(np.arange(there.n_pairs), np.diff(there.successor_start))
        assert np.isin(pair * graph.n_states + there.successor, possible).all()


def test_bound_numbers_reach_noise_and_rows() -> None:
    text = "mdp a\nunknown sd in [0, 1]\nnoise w ~ normal(0, sd)\nstate x in [0, 4] bins 4\n"
    model = mdpdsl.loads(f"{text}action go\nx' = x + w\n")
    assert at(model.checked, {"sd": 0.5}).noises[0].spread.b == 0.5
    assert at(model.checked, {"sd": 0.0}).noises[0].spread.family == "discrete"


def test_a_file_without_questions_says_its_successors() -> None:
    graph = mdpdsl.load("riverswim").graph
    found = said_of(graph)
    assert np.array_equal(found.successor, graph.successor)
    assert with_possible_rows(graph) is graph
    assert found.is_known.sum() == np.count_nonzero(np.diff(graph.successor_start) == 1)


def test_tables_may_have_open_cells() -> None:
    text = """\
mdp weather
state sky in {sunny, rainy, dull}
action walk
table walk {
          sunny rainy dull
  sunny   0.8   ?     ?
  rainy   ?=0.5 ?=0.5 0
  dull    0     1     0
}
"""
    graph = mdpdsl.loads(text).graph
    assert said(graph, 0, 0) == {0: (0.8, False), 1: (0.0, True), 2: (0.0, True)}
    assert said(graph, 1, 0) == {0: (0.0, True), 1: (0.0, True)}
    assert said(graph, 2, 0) == {1: (1.0, False)}


def test_the_continuous_system_runs_at_the_truth() -> None:
    source = """\
mdp cart
unknown gain in [0, 2] = 1.5
noise w ~ normal(0, 0.01)
state x in [-1, 1] bins 5
action u in {-1, 1}
init x = 0
x' = 0.5*x + 0.2*gain*u + w
"""
    truth = source.replace("unknown gain in [0, 2] = 1.5", "param gain = 1.5")
    logs = [
        mdpdsl.simulate(mdpdsl.loads(text), steps=50, seed=3, simulate="continuous").table()
        for text in (source, truth)
    ]
    assert logs[0].equals(logs[1])


def test_truths_need_not_sum_to_one_at_other_values_of_the_numbers() -> None:
    line = "on go when x < 5 -> p: x' = 0 | ?=0.25: stay | ?=0.5: x' = x + 1\n"
    text = SLIP.replace("on go when", f"{line}# on go when", 1)
    assert not [d for d in Model.diagnosed(Source(text, "slip.mdp")) if d.is_error]
    off = SLIP.replace("on go when", f"{line.replace('=0.5', '=0.6')}# on go when", 1)
    assert [d.code for d in Model.diagnosed(Source(off, "slip.mdp")) if d.is_error] == ["E501"]
