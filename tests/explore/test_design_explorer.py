"""Exploring for unknown numbers: near the certified optimum, simulated, replayed and by hand."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import SettingsError
from mdpdsl.explore.algorithms.design_parts import design_parts, shortest_way
from mdpdsl.explore.algorithms.designed_law import SeenLaw, guess, law_of
from mdpdsl.explore.executor import run_trials
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.explore.trial import continue_trial, new_trial
from mdpdsl.graph.counts import Counts, no_counts
from mdpdsl.graph.ends import settle
from mdpdsl.graph.space import FloatArray
from mdpdsl.programs.design import optimal_design, random_design, range_weights
from tests.explore.experiments import simulated
from tests.explore.laws import COINS, DOOR, LABORATORY, LEDGE, RIVER, law_model
from tests.graph.build import graph_from_rows

#: How much worse than the certified optimum a run may be.
NEAR = 1.2


def settings_for(steps: int, **chosen: object) -> ExploreSettings:
    return settings_from({"purpose": "parameters", "steps": steps}, chosen)


def truth_of(model: Model) -> FloatArray:
    return np.array([each.assumed for each in model.checked.unknowns])


def visits_of(model: Model, steps: int, seed: int, **chosen: object) -> FloatArray:
    settings = settings_for(steps, **chosen)
    seeds = np.random.SeedSequence(seed)
    trial = new_trial(model.graph, settings, seeds, family=law_of(model))
    continue_trial(trial, model.graph, lambda found: True, None)
    return trial.explorer.visits.astype(np.float64)


def test_the_purpose_chooses_the_algorithm_unless_one_is_given() -> None:
    assert settings_for(10).algorithm == "tracking"
    assert settings_for(10, algorithm="random").algorithm == "random"
    assert settings_from({}).algorithm == "kappa-dp"
    with pytest.raises(SettingsError, match="purpose"):
        settings_from({"purpose": "fun"})
    with pytest.raises(SettingsError, match="criterion"):
        settings_for(10, criterion="e")
    with pytest.raises(SettingsError, match="`mix=` is about unknown numbers"):
        settings_from({"mix": 3})


JOINT = """\
mdp joint
unknown a in [0, 1] = 0.3
unknown b in [0, 1] = 0.6
state x in 0..9
action left, right, toss
init x = 0
on left -> x' = max(x - 1, 0)
on right -> x' = min(x + 1, 9)
on toss when x == 0 -> (a + b)/2: x' = 1 | 1 - (a + b)/2: stay
on toss when x == 9 -> a*b: x' = 8 | 1 - a*b: stay
"""
NARROW = """\
mdp narrow
unknown a in [0.49, 0.51] = 0.5
unknown b in [0, 1] = 0.3
state x in 0..9
action left, right, toss
init x = 0
on left -> x' = max(x - 1, 0)
on right -> x' = min(x + 1, 9)
on toss when x == 0 -> b: x' = 1 | 1 - b: stay
on toss when x == 9 -> a: x' = 8 | 1 - a: stay
"""


@pytest.mark.parametrize(
    ("text", "steps"), [(JOINT, 3_000), (NARROW, 10_000)], ids=["joint", "narrow"]
)
def test_places_that_show_little_by_themselves_are_visited(text: str, steps: int) -> None:
    run = mdpdsl.explore(mdpdsl.loads(text), purpose="parameters", steps=steps, seed=3, jobs=1)
    assert run.design_ratio is not None
    assert 1 <= run.design_ratio <= NEAR


def test_a_run_that_misses_a_number_is_saved_and_says_so(tmp_path: Path) -> None:
    model = mdpdsl.loads(NARROW)
    run = mdpdsl.explore(
        model, purpose="parameters", algorithm="random", steps=5, out=tmp_path / "run"
    )
    assert run.record()["design_ratio"] is None
    assert run.design_text == "the visits do not show all numbers"
    assert mdpdsl.open_run(tmp_path / "run").record()["design_ratio"] is None


def test_rows_of_unknown_probabilities_are_part_of_the_ratio() -> None:
    model = law_model(DOOR)
    run = mdpdsl.explore(model, purpose="parameters", steps=4_000, seed=2, jobs=1, mix=3)
    assert run.design_ratio is not None
    assert 0.95 <= run.design_ratio <= NEAR


@pytest.mark.parametrize("text", [RIVER, COINS, LABORATORY], ids=["river", "coins", "laboratory"])
def test_runs_come_near_the_optimum_where_random_actions_do_not(text: str) -> None:
    model, steps = law_model(text), 4_000
    family, theta = law_of(model), truth_of(model)
    assert family is not None
    F, W = family.information(theta), range_weights(family.low, family.high)
    best = optimal_design(model.graph, F, family.names, W, steps_left=steps)
    random = random_design(model.graph, F, family.names, W, steps_left=steps)
    assert random.objective >= 4 * best.objective
    for seed in range(4):
        M = np.tensordot(visits_of(model, steps, seed), F, axes=1)
        assert np.sum(W * np.diag(np.linalg.inv(M))) <= NEAR * best.objective


def test_episodes_that_end_are_part_of_the_design() -> None:
    model = law_model(LEDGE)
    family, theta = law_of(model), truth_of(model)
    assert family is not None
    F, W = family.information(theta), range_weights(family.low, family.high)
    best = optimal_design(model.graph, F, family.names, W, criterion="d", steps_left=3_000)
    M = np.tensordot(visits_of(model, 3_000, 1, criterion="d"), F, axes=1)
    assert -np.linalg.slogdet(M)[1] / 2 <= best.objective + np.log(NEAR)


def test_rows_of_unknown_probabilities_are_visited_as_well() -> None:
    model = law_model(DOOR)
    knock = model.graph.pair(0, model.graph.actions.labels.index("knock"))
    assert visits_of(model, 1_500, 0)[knock] > 200
    assert visits_of(model, 1_500, 0, mix=0.0)[knock] < 150


def test_an_explorer_of_a_loop_of_ones_own_learns_the_numbers() -> None:
    model = law_model(RIVER)
    graph, rng = model.graph, np.random.default_rng(1)
    explorer = Explorer(model, purpose="parameters", steps=1_500, seed=0)
    state = 0
    for _ in range(1_500):
        action = explorer.act(state)
        successors, probabilities = graph.row(graph.pair(state, action))
        following = int(rng.choice(successors, p=probabilities))
        explorer.observe(state, action, following)
        state = following
    assert explorer.episodes is not None
    last = explorer.episodes.records[-1]
    assert last.stage == "design"  # type: ignore[union-attr]
    assert last.theta["swim"] == pytest.approx(0.35, abs=0.1)  # type: ignore[union-attr]
    assert last.theta["last"] == pytest.approx(0.6, abs=0.15)  # type: ignore[union-attr]


def test_an_explorer_needs_unknown_numbers_and_their_family() -> None:
    with pytest.raises(SettingsError, match="no unknown numbers"):
        Explorer(mdpdsl.load("riverswim"), purpose="parameters")
    with pytest.raises(SettingsError, match="no unknown numbers"):
        Explorer(law_model(RIVER).graph, purpose="parameters")
    with pytest.raises(SettingsError, match="no unknown numbers"):
        mdpdsl.explore(mdpdsl.load("riverswim"), purpose="parameters", steps=10)


def test_a_stopped_run_that_is_resumed_is_the_same_run(tmp_path: Path) -> None:
    model, settings = law_model(LABORATORY), settings_for(900)
    family, seeds = law_of(model), np.random.SeedSequence
    whole = new_trial(model.graph, settings, seeds(5), family=family)
    continue_trial(whole, model.graph, lambda found: True, None)
    stopped = new_trial(model.graph, settings, seeds(5), family=family)
    continue_trial(stopped, model.graph, lambda found: found.steps < 300, tmp_path)
    assert 0 < stopped.done < 900
    resumed = new_trial(model.graph, settings, seeds(5), family=family)
    resumed.restore(tmp_path)
    continue_trial(resumed, model.graph, lambda found: True, None)
    assert np.array_equal(whole.explorer.visits, resumed.explorer.visits)


def test_trials_are_the_same_in_one_process_and_in_two() -> None:
    model, settings = law_model(DOOR), settings_for(300)
    family = law_of(model)
    assert pickle.loads(pickle.dumps(family)).names == ("slip",)
    found = [
        run_trials(model.graph, settings, seed=3, trials=2, jobs=jobs, family=family)
        for jobs in (1, 2)
    ]
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one.counts.visits, other.counts.visits)


def test_a_replayed_log_answers_the_same_explorer() -> None:
    model = law_model(LEDGE)
    log = mdpdsl.simulate(model, steps=2_000, seed=1)
    run = mdpdsl.explore(model, log=log.table(), purpose="parameters")
    assert run.trials[0].counts.visits.sum() > 100


class Bank:
    """The river as a live system, of which the model does not say that it ends at the bank."""

    def __init__(self) -> None:
        self.graph, self.generator = law_model(RIVER).graph, np.random.default_rng(2)
        self.x = 0

    def reset(self) -> dict[str, Any]:
        self.x = 1
        return {"x": self.x}

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], bool, bool]:
        successors, chances = self.graph.row(
            self.graph.pair(self.x, int(action["action"] == "right"))
        )
        self.x = int(self.generator.choice(successors, p=chances))
        return {"x": self.x}, self.x == 0, False


def test_a_live_system_may_end_where_the_model_does_not() -> None:
    model = mdpdsl.loads(RIVER.replace(" = 0.35", "").replace(" = 0.6", "", 1))
    assert not model.graph.has_truth
    run = mdpdsl.explore(model, system=Bank(), purpose="parameters", steps=1_200)
    visits = run.trials[0].counts.visits
    assert visits.sum() == 1_200
    assert visits[run.graph.pair(7, 1)] > 200  # the far end, which random actions never see


def test_the_truth_in_the_file_is_not_seen() -> None:
    model = law_model(DOOR)
    other = mdpdsl.loads(
        DOOR.replace("?=0.3", "?=0.8").replace("?=0.7", "?=0.2").replace("= 0.1", "= 0.4")
    )
    counts = simulated(model.graph, 400)
    for theta in ([0.1], [0.3]):
        rows = [
            SeenLaw(law_of(each), each.graph, counts).rows(np.array(theta)).toarray()  # type: ignore[arg-type]
            for each in (model, other)
        ]
        assert np.array_equal(*rows)
    first = [Explorer(each, purpose="parameters", steps=100, seed=0) for each in (model, other)]
    assert first[0].act(0) == first[1].act(0)
    assert np.array_equal(first[0].memory.policy, first[1].memory.policy)


def test_before_any_data_numbers_are_at_the_centres_of_their_ranges() -> None:
    model = law_model(RIVER)
    family = law_of(model)
    assert family is not None
    nothing = SeenLaw(family, model.graph, no_counts(model.graph.n_pairs))
    found = guess(nothing.likelihood, None)
    assert found.theta == pytest.approx([0.5, 0.5])
    assert np.all(found.points >= family.low)
    assert np.all(found.points <= family.high)


def test_an_outcome_that_few_visits_did_not_show_is_not_taken_to_be_impossible() -> None:
    model = law_model(COINS)
    family, graph = law_of(model), model.graph
    assert family is not None
    toss = graph.pair(0, graph.actions.labels.index("toss"))
    start = np.zeros(graph.n_pairs + 1, np.int64)
    start[toss + 1 :] = 1
    seen = SeenLaw(family, graph, Counts(start, np.array([0]), np.array([5])))
    found = guess(seen.likelihood, None)
    assert 0.01 < found.theta[0] < 0.2  # none of five
    assert found.theta[1] == pytest.approx(0.5)


def test_ends_that_data_show_divide_the_arrivals_of_the_law() -> None:
    model = law_model(RIVER)
    family, graph = law_of(model), model.graph
    assert family is not None
    right = graph.actions.labels.index("right")
    pair = graph.pair(0, right)
    start = np.zeros(graph.n_pairs + 1, np.int64)
    start[pair + 1 :] = 2
    S = graph.n_states
    open_form = Counts(start, np.array([1, S + 1]), np.array([30, 10]))  # state 1 ended 10 times
    settled = settle(graph, open_form, np.zeros(S, np.int64))
    seen = SeenLaw(family, settled.graph, settled.counts)
    row = seen.rows(np.array([0.4, 0.5])).toarray()[pair]
    assert row[0] == pytest.approx(0.6)
    assert row[1] == pytest.approx(0.3)
    assert row[S] == pytest.approx(0.1)
    assert seen.likelihood.n == 40


def test_places_that_a_design_hardly_leaves_are_parts() -> None:
    # Two pairs of states, with a corridor of one state between them.
    rows = [
        {0: {1: 1.0}},
        {0: {0: 1.0}, 1: {2: 1.0}},
        {0: {1: 1.0}, 1: {3: 1.0}},
        {0: {4: 1.0}, 1: {2: 1.0}},
        {0: {3: 1.0}},
    ]
    graph = graph_from_rows(rows)
    rare = 1e-6
    d = np.array([0.25, 0.25, rare, rare, rare, 0.25, rare, 0.25])
    number = design_parts(graph, d / d.sum(), 1_000, np.zeros(len(d)))
    assert number[0] == number[1] != number[3] == number[4]
    often = np.array([0.2, 0.2, 0.02, 0.02, 0.02, 0.2, 0.02, 0.2])
    assert len(set(design_parts(graph, often / often.sum(), 10_000, often).tolist())) == 1
    way = shortest_way(graph, number == number[4], np.ones(graph.n_pairs, np.bool_))
    assert graph.pair_action[way[:3]].tolist() == [0, 1, 1]
