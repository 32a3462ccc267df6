"""The verb `solve` with `robust=`: what is guaranteed, what is possible, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mdpdsl
from mdpdsl.diagnostics import ModelError, SettingsError, SolveError
from mdpdsl.solve.robust_answer import MOST_PAIRS

#: How far a value of the estimate may be from its optimum.
TOLERANCE = 2e-6

MODEL = """\
mdp hurry
state x in 0..4
action safe, quick
init x = 0
end when x == 3 or x == 4
on safe -> 0.6: x' = min(x + 1, 3) | 0.39: stay | 0.01: x' = 4
on quick -> 0.5: x' = 3 | 0.45: x' = 0 | 0.05: x' = 4
label goal when x == 3
label lost when x == 4
label middle when x == 1
label over when x >= 3
reward : x
reward energy on safe : 1
reward energy on quick : 2
property soon = Pmax=? [ F<=8 "goal" ]
"""

FLAGS: tuple[dict[str, Any], ...] = (
    {"reach": "goal"},
    {"reach": "lost", "minimise": True},
    {"reach": "goal", "avoid": "middle"},
    {"reach": "goal", "within": 4},
    {"total": "over"},
    {"total": "over", "reward": "energy", "minimise": True},
    {"horizon": 6},
    {"horizon": 6, "reward": "energy", "minimise": True},
    {"average": True},
    {"discount": 0.9},
    {"discount": 0.9, "reward": "energy", "minimise": True},
)
TEXTS = (
    "soon",
    "Pmax=? [ G<=4 x < 4 ]",
    "Pmin=? [ G<=4 x < 4 ]",
    'Pmax=? [ G !"lost" ]',
    "Pmax=? [ X x = 1 ]",
    'Pmin=? [ F<=4 "lost" ]',
    'P>=0.5 [ F "goal" ]',
    'R{"energy"}min=? [ F x >= 3 ]',
)
QUESTIONS: tuple[dict[str, Any], ...] = (*FLAGS, *({"property": text} for text in TEXTS))

every_question = pytest.mark.parametrize("asked", QUESTIONS, ids=str)


@pytest.fixture(scope="module")
def model() -> mdpdsl.Model:
    return mdpdsl.loads(MODEL)


@pytest.fixture(scope="module")
def estimate(model: mdpdsl.Model) -> mdpdsl.Estimate:
    return mdpdsl.estimate(model, mdpdsl.simulate(model, steps=4_000, seed=1))


@pytest.fixture(scope="module")
def lake() -> mdpdsl.Estimate:
    model = mdpdsl.load("frozen_lake")
    return mdpdsl.estimate(model, mdpdsl.simulate(model, steps=20_000, seed=1))


def robust(given: Any, **asked: Any) -> mdpdsl.RobustSolution:
    found = mdpdsl.solve(given, robust=True, **asked)
    assert isinstance(found, mdpdsl.RobustSolution)
    assert found.is_optimal
    return found


def check_order(found: mdpdsl.RobustSolution, *values: float) -> None:
    """Check that values are between what is guaranteed and what is possible."""
    sign = -1 if found.minimise else 1
    for value in values:
        assert sign * found.guaranteed <= sign * value + TOLERANCE
        assert sign * value <= sign * found.possible + TOLERANCE
    assert found.lower == min(found.guaranteed, found.possible)
    assert found.upper == max(found.guaranteed, found.possible)
    assert found.value == found.guaranteed


@every_question
@pytest.mark.parametrize("support", ["seen", "model"])
@pytest.mark.parametrize("shape", ["intervals", "l1", "kl"])
def test_the_estimate_and_the_truth_are_between_guaranteed_and_possible(
    model: mdpdsl.Model, estimate: mdpdsl.Estimate, asked: dict[str, Any], support: str, shape: str
) -> None:
    found = robust(estimate, support=support, shape=shape, **asked)
    best = mdpdsl.solve(estimate, **asked).value
    check_order(found, found.estimate, best, mdpdsl.solve(model, **asked).value)
    sign = -1 if found.minimise else 1
    assert sign * found.estimate <= sign * best + TOLERANCE


@every_question
def test_a_smaller_risk_never_guarantees_more(
    estimate: mdpdsl.Estimate, asked: dict[str, Any]
) -> None:
    careful, bold = (robust(estimate, delta=delta, **asked) for delta in (0.01, 0.3))
    sign = -1 if bold.minimise else 1
    assert (careful.delta, bold.delta) == (0.01, 0.3)
    assert sign * careful.guaranteed <= sign * bold.guaranteed + TOLERANCE
    assert sign * careful.possible >= sign * bold.possible - TOLERANCE


@every_question
def test_knowing_the_successors_never_guarantees_less(
    estimate: mdpdsl.Estimate, asked: dict[str, Any]
) -> None:
    blind, knowing = (robust(estimate, support=support, **asked) for support in ("seen", "model"))
    sign = -1 if blind.minimise else 1
    assert sign * blind.guaranteed <= sign * knowing.guaranteed + TOLERANCE
    assert sign * blind.possible >= sign * knowing.possible - TOLERANCE


@every_question
def test_the_record_is_plain_json(estimate: mdpdsl.Estimate, asked: dict[str, Any]) -> None:
    found = robust(estimate, **asked)
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["guaranteed"] == record["value"] == found.guaranteed
    assert record["possible"] == found.possible
    assert record["estimate"] == found.estimate
    assert (record["delta"], record["sets"], record["bound_of"]) == (0.1, "time-uniform", "sets")
    assert (record["support"], record["shape"]) == ("seen", "intervals")
    assert record["sentence"] == found.sentence
    assert len(record["pairs_to_visit"]) == len(found.pairs_to_visit)


@every_question
def test_more_data_are_asked_for_where_the_policy_goes(
    estimate: mdpdsl.Estimate, asked: dict[str, Any]
) -> None:
    found = robust(estimate, **asked)
    pairs = found.pairs_to_visit
    assert 1 <= len(pairs) <= MOST_PAIRS
    assert set(pairs) <= set(found.outcome.choice.tolist())
    gains = found.gains[pairs]
    assert np.all(gains > 0)
    assert np.all(np.diff(gains) <= 0)
    assert len(found.pair_lines) == len(pairs)


def test_only_the_first_step_matters_to_the_next_state(estimate: mdpdsl.Estimate) -> None:
    found = robust(estimate, property="Pmax=? [ X x = 1 ]")
    assert found.pair_lines == [f"safe in x = 0 ({found.set_model.visits[0]:,} visits)"]


@pytest.mark.parametrize("asked", [{"discount": 0.9}, {"horizon": 5}, {"average": True}], ids=str)
def test_a_reward_that_depends_on_the_next_state_is_bounded_from_both_sides(
    asked: dict[str, Any],
) -> None:
    model = mdpdsl.load("inventory")
    assert model.graph.branch_reward is not None
    stock = mdpdsl.estimate(model, mdpdsl.simulate(model, steps=20_000, seed=1))
    truth, best = mdpdsl.solve(model, **asked).value, mdpdsl.solve(stock, **asked).value
    blind, knowing = (robust(stock, support=support, **asked) for support in ("seen", "model"))
    for found in (blind, knowing):
        check_order(found, found.estimate, best, truth)
        assert found.guaranteed > 0.7 * truth
        assert found.pairs_to_visit
    assert blind.guaranteed <= knowing.guaranteed + TOLERANCE


@pytest.mark.parametrize("asked", [{"discount": 0.9}, {"horizon": 20}, {"reach": "goal"}], ids=str)
def test_a_reward_on_arrival_is_bounded_from_both_sides(
    lake: mdpdsl.Estimate, asked: dict[str, Any]
) -> None:
    blind, knowing = (robust(lake, support=support, **asked) for support in ("seen", "model"))
    truth = mdpdsl.solve(mdpdsl.load("frozen_lake"), **asked).value
    for found in (blind, knowing):
        check_order(found, found.estimate, truth)
    assert knowing.guaranteed > 0
    assert blind.guaranteed <= knowing.guaranteed <= knowing.possible <= blind.possible


def test_the_reward_on_arrival_in_a_goal_is_the_probability_of_reaching_it(
    lake: mdpdsl.Estimate,
) -> None:
    earned, reached = robust(lake, horizon=20), robust(lake, reach="goal", within=20)
    assert earned.guaranteed == pytest.approx(reached.guaranteed, abs=TOLERANCE)
    assert earned.possible == pytest.approx(reached.possible, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('Pmax>=0.6 [ F<=8 "goal" ]', True),
        ('Pmax>=0.9 [ F<=8 "goal" ]', None),
        ('Pmax>=0.9999 [ F "goal" ]', False),
        ('P>=0.5 [ F "goal" ]', True),
        ('P<0.001 [ F "lost" ]', False),
        ('Pmin<=0.2 [ F "lost" ]', True),
        ('Pmin<=0.01 [ F "lost" ]', None),
        ("Pmax>0.8 [ G<=4 x < 4 ]", True),
        ('R{"energy"}min<=5 [ F "over" ]', True),
        ('R{"energy"}min<=1 [ F "over" ]', False),
    ],
)
def test_a_threshold_is_decided_only_if_every_allowed_model_agrees(
    estimate: mdpdsl.Estimate, text: str, holds: bool | None
) -> None:
    found = robust(estimate, property=text)
    assert found.holds is holds
    assert found.record()["holds"] is holds


def test_a_complement_has_the_values_of_what_it_denies(estimate: mdpdsl.Estimate) -> None:
    stays = robust(estimate, property='Pmax=? [ G !"lost" ]')
    leaves = robust(estimate, reach="lost", minimise=True)
    assert stays.guaranteed == pytest.approx(1 - leaves.guaranteed, abs=TOLERANCE)
    assert stays.possible == pytest.approx(1 - leaves.possible, abs=TOLERANCE)
    assert stays.estimate == pytest.approx(1 - leaves.estimate, abs=TOLERANCE)
    assert stays.actions == leaves.actions
    assert stays.values == pytest.approx(1 - leaves.values, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            {"reach": "goal"},
            "With 90 % confidence this policy reaches goal with probability at least 0.836; no "
            "policy can do better than 0.999. More data on this pair would close the gap fastest.",
        ),
        (
            {"reach": "goal", "avoid": "middle", "within": 4, "delta": 0.05},
            "With 95 % confidence this policy reaches goal within 4 steps without middle with "
            "probability at least 0.788; no policy can do better than 0.929. More data on this "
            "pair would close the gap fastest.",
        ),
        (
            {"reach": "lost", "minimise": True},
            "With 90 % confidence this policy reaches lost with probability at most 0.164; no "
            "policy can do better than 0.00185. More data on this pair would close the gap "
            "fastest.",
        ),
        (
            {"property": "Pmax=? [ G<=4 x < 4 ]"},
            "With 90 % confidence this policy satisfies G<=4 x < 4 with probability at least "
            "0.863; no policy can do better than 0.999. More data on these 2 pairs would close "
            "the gap fastest.",
        ),
        (
            {"horizon": 6},
            "With 90 % confidence this policy has an expected reward of at least 3.29 in 6 steps; "
            "no policy can do better than 4.95. More data on these 2 pairs would close the gap "
            "fastest.",
        ),
        (
            {"total": "over", "reward": "energy", "minimise": True},
            "With 90 % confidence this policy has an expected reward of at most 4.01 (energy) "
            "until over; no policy can do better than 3.16. More data on this pair would close "
            "the gap fastest.",
        ),
        (
            {"discount": 0.9, "delta": 0.001},
            "With 99.9 % confidence this policy has an expected reward of at least 2.7, "
            "discounted by 0.9; no policy can do better than 5.5. More data on these 2 pairs "
            "would close the gap fastest.",
        ),
        (
            {"property": 'R{"energy"}min=? [ F "goal" ]'},
            "With 90 % confidence every policy has an infinite expected reward (energy) until "
            '"goal".',
        ),
    ],
    ids=str,
)
def test_the_answer_in_words(
    estimate: mdpdsl.Estimate, asked: dict[str, Any], sentence: str
) -> None:
    assert robust(estimate, **asked).sentence == sentence


def test_one_step_guarantees_nothing(model: mdpdsl.Model) -> None:
    little = mdpdsl.estimate(model, pa.table({"x": [0, 0], "action": ["quick", None]}))
    found = robust(little, reach="goal")
    assert (found.guaranteed, found.possible) == (0.0, 1.0)
    assert found.sentence.startswith(
        "The data guarantee nothing yet. With 90 % confidence no policy can do better than 1. More "
    )
    assert found.rests_on_unseen == 0  # what was never visited is in the sets
    assert found.pairs_to_visit
    spent = robust(little, total="over", reward="energy", minimise=True)
    assert spent.guaranteed == np.inf
    assert spent.sentence.startswith("The data guarantee nothing yet.")
    assert json.loads(json.dumps(spent.record(), allow_nan=False))["guaranteed"] == "inf"


def test_a_pair_that_was_never_visited_promises_nothing_and_may_do_anything(
    model: mdpdsl.Model,
) -> None:
    log = mdpdsl.simulate(model, steps=6_000, seed=2).to_pandas()
    runs = log.groupby("episode").filter(lambda rows: not (rows["action"] == "safe").any())
    found = robust(mdpdsl.estimate(model, runs), reach="goal")
    assert (found.set_model.visits == 0).any()
    assert found.actions[0] == "quick"
    assert 0.5 < found.guaranteed < found.possible
    assert found.possible == pytest.approx(1, abs=TOLERANCE)
    assert found.optimistic_policy.probability[found.model.graph.pair(0, 0)] == 1  # safe


def test_runs_of_an_explorer_are_data_too(model: mdpdsl.Model, tmp_path: Path) -> None:
    run = mdpdsl.explore(model, steps=3_000, trials=2, seed=1, algorithm="random")
    found = robust(run, reach="goal")
    assert found.set_model.support == "model"  # of a simulated system the model is right
    check_order(found, found.estimate, mdpdsl.solve(model, reach="goal").value)
    assert robust(run, reach="goal", support="seen").guaranteed <= found.guaranteed + TOLERANCE
    run.save(tmp_path / "run")
    again = robust(mdpdsl.open_run(tmp_path / "run"), reach="goal")
    assert again.guaranteed == found.guaranteed
    assert again.pairs_to_visit == found.pairs_to_visit


def test_the_policy_keeps_its_promise_in_the_true_model(
    model: mdpdsl.Model, estimate: mdpdsl.Estimate
) -> None:
    found = robust(estimate, reach="goal")
    log = mdpdsl.simulate(model, steps=20_000, seed=3, policy=found.policy).to_pandas()
    last = log.groupby("episode")["x"].last()
    assert (last[last >= 3] == 3).mean() > found.guaranteed


def test_a_policy_for_a_number_of_steps_is_saved_with_them(
    estimate: mdpdsl.Estimate, tmp_path: Path
) -> None:
    found = robust(estimate, reach="goal", within=4)
    path = found.save_policy(tmp_path / "policy.csv")
    assert path.read_text().startswith("steps_left,x,action")
    found = robust(estimate, reach="goal")
    assert found.save_policy(tmp_path / "plain.csv").read_text().startswith("x,action")
    assert len(found.to_pandas()) == 5
    assert repr(found).startswith("<RobustSolution of hurry, maximal probability of reaching goal")


def test_every_property_of_a_file_is_answered(estimate: mdpdsl.Estimate, tmp_path: Path) -> None:
    (tmp_path / "all.props").write_text('"win": Pmax=? [ F "goal" ]; R{"energy"}min=? [ C<=6 ]')
    found = mdpdsl.solve_file(estimate, tmp_path / "all.props", robust=True, delta=0.05)
    assert [type(one) for one in found] == [mdpdsl.RobustSolution] * 2
    assert found[0].value == robust(estimate, reach="goal", delta=0.05).guaranteed
    assert [one.record()["delta"] for one in found] == [0.05, 0.05]


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"robust": True, "shape": "l2"}, SettingsError, "expected intervals, l1, kl"),
        ({"robust": True, "support": "some"}, SettingsError, "expected seen, all or model"),
        ({"robust": True, "delta": 1.0}, SettingsError, "between 0 and 1, not 1.0"),
        ({"robust": True, "method": "vi"}, SolveError, "leave out `method=`"),
        ({"robust": True, "backend": "highs"}, SolveError, "and `backend=`"),
        ({"robust": True, "reach": "gaol"}, SolveError, "goal"),
        ({"delta": 0.1}, SettingsError, "`delta=` is about sets of rows; give `robust=`, too"),
        ({"support": "all"}, SettingsError, "`support=` is about sets of rows"),
        ({"shape": "kl"}, SettingsError, "`shape=` is about sets of rows"),
    ],
    ids=str,
)
def test_mistakes_say_what_to_do(
    estimate: mdpdsl.Estimate, asked: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        mdpdsl.solve(estimate, **({"discount": 0.9} if "reach" not in asked else {}) | asked)


def test_a_model_without_data_is_refused(model: mdpdsl.Model) -> None:
    with pytest.raises(SettingsError, match="`robust=` needs data: an estimate"):
        mdpdsl.solve(model, reach="goal", robust=True)


def test_the_successors_of_a_model_without_dynamics_are_unknown() -> None:
    draft = mdpdsl.loads("mdp bare\nstate x in 0..1\naction go\ninit x = 0\n")
    bare = mdpdsl.estimate(draft, pa.table({"x": [0, 1, 0, 1], "action": ["go"] * 4}))
    assert robust(bare, property="Pmax=? [ F x = 1 ]").possible == pytest.approx(1)
    with pytest.raises(ModelError, match="no dynamics"):
        mdpdsl.solve(bare, "Pmax=? [ F x = 1 ]", robust=True, support="model")


@pytest.mark.parametrize("steps", [500, 600, 700, 800, 900])
def test_small_guarantees_are_found_soon(steps: int) -> None:
    # Values of 1e-6 and less: equations are less exact than sweeps there, and must not undo them.
    run = mdpdsl.explore(mdpdsl.load("frozen_lake"), steps=steps, seed=0)
    found = mdpdsl.solve(run, 'Pmax=? [ F "goal" ]', robust=True, time_limit=20)
    assert found.status in ("optimal", "precision limit")
    assert isinstance(found, mdpdsl.RobustSolution)
    assert 0 <= found.guaranteed <= found.estimate <= found.possible
