"""The verb `solve`: questions by flags and by properties, their answers, and files of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import ModelError, SolveError
from mdpdsl.graph.objectives import Next
from mdpdsl.solve.solve_objective import solve_objective
from tests.cli.run import quick, written
from tests.solve.exhaustive import tiny_graph

MODEL = """\
mdp hurry
state x in 0..3
action safe, quick
init x = 0
on safe -> 0.5: x' = min(x + 1, 3) | 0.5: stay
on quick -> 0.4: x' = 3 | 0.6: x' = 0
label goal when x == 3
label middle when x == 1
reward : x
reward energy on safe : 1
reward energy on quick : 2
property soon = Pmax=? [ F<=8 "goal" ]
property cheap = R{"energy"}min=? [ F "goal" ]
property likely = Pmax>=0.9 [ F<=8 "goal" ]
property surely = P>=0.9 [ F "goal" ]
"""


@pytest.fixture(scope="module")
def hurry() -> mdpdsl.Model:
    return mdpdsl.loads(MODEL)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"reach": "goal"}, 'Pmax=? [ F "goal" ]'),
        ({"reach": "goal", "within": 8}, 'Pmax=? [ F<=8 "goal" ]'),
        ({"reach": "goal", "avoid": "middle"}, 'Pmax=? [ !"middle" U "goal" ]'),
        ({"total": "goal", "reward": "energy", "minimise": True}, 'R{"energy"}min=? [ F "goal" ]'),
        ({"horizon": 5, "reward": "energy"}, 'R{"energy"}max=? [ C<=5 ]'),
        ({"average": True}, "Rmax=? [ S ]"),
        ({"discount": 0.9}, "Rmax=? [ Cdiscount=0.9 ]"),
    ],
)
def test_flags_mean_a_property(hurry: mdpdsl.Model, flags: dict[str, Any], text: str) -> None:
    by_flags, by_text = mdpdsl.solve(hurry, **flags), mdpdsl.solve(hurry, text)
    assert by_flags.question.text == by_text.question.text == text
    assert by_flags.value == by_text.value
    record = by_flags.record()
    assert record["property"] == text
    assert record["lower"] <= record["value"] <= record["upper"]


def test_named_properties_and_thresholds(hurry: mdpdsl.Model) -> None:
    assert mdpdsl.solve(hurry, "soon").value == mdpdsl.solve(hurry, reach="goal", within=8).value
    assert mdpdsl.solve(hurry, "cheap").value == pytest.approx(5)
    assert mdpdsl.solve(hurry, "likely").holds is True
    assert mdpdsl.solve(hurry, "surely").holds is True
    assert mdpdsl.solve(hurry, 'Pmax>=0.999 [ F<=3 "goal" ]').holds is False
    assert mdpdsl.solve(hurry, "soon").holds is None


def test_what_always_holds_is_the_complement(hurry: mdpdsl.Model) -> None:
    stays = mdpdsl.solve(hurry, "Pmax=? [ G<=3 x < 3 ]")
    leaves = mdpdsl.solve(hurry, "Pmin=? [ F<=3 x = 3 ]")
    assert stays.value == pytest.approx(1 - leaves.value)
    assert stays.lower is not None
    assert stays.upper is not None
    assert stays.lower <= stays.value <= stays.upper


@pytest.mark.parametrize(
    ("asked", "flags", "message"),
    [
        (None, {"reach": "goal", "total": "goal"}, "ask for different things"),
        (None, {"within": 3}, "limits how a label is reached"),
        (None, {"reach": "goal", "reward": "energy"}, "a probability, not for a reward"),
        (None, {"reach": "gaol"}, "did you mean `goal`"),
        (None, {"discount": 1.0}, r"not in \[0, 1\)"),
        ("soon", {"minimise": True}, "leave out `minimise=`"),
    ],
)
def test_questions_that_contradict_themselves_are_refused(
    hurry: mdpdsl.Model, asked: str | None, flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(SolveError, match=message):
        mdpdsl.solve(hurry, asked, **flags)


def test_an_unknown_property_is_corrected(hurry: mdpdsl.Model) -> None:
    with pytest.raises(ModelError, match="did you mean `soon`"):
        mdpdsl.solve(hurry, "son")


def test_a_plan_depends_on_the_steps_left(hurry: mdpdsl.Model, tmp_path: Path) -> None:
    solution = mdpdsl.solve(hurry, "soon")
    assert solution.actions_with(1)[1] == "quick"
    assert solution.actions_with(8)[2] == "safe"
    lines = solution.save_policy(tmp_path / "plan.csv").read_text().splitlines()
    assert lines[:2] == ["steps_left,x,action", f"8,0,{solution.actions[0]}"]
    assert len(lines) == 1 + 8 * 4
    plan = json.loads(solution.save_policy(tmp_path / "plan.json").read_text())
    assert plan["rows"][-1][0] == 1
    with np.load(solution.save_policy(tmp_path / "plan.npz")) as file:
        assert file["plan"].shape == (8, 4)
    with pytest.raises(mdpdsl.FormatError, match="depends on the steps left"):
        mdpdsl.load_policy(tmp_path / "plan.csv", hurry.graph)


def test_a_file_of_properties_is_answered_in_order(tmp_path: Path) -> None:
    model = written(tmp_path, MODEL)
    props = tmp_path / "asked.props"
    props.write_text('const int k;\n"a": Pmax=? [ F<=k "goal" ];\nP>=1 [ F "goal" ];\n')
    found = quick("solve", model, "--props", props, "--set", "k=8", "--json").json()["properties"]
    assert [each["name"] for each in found] == ["a", None]
    assert found[0]["value"] == mdpdsl.solve(mdpdsl.loads(MODEL), "soon").value
    assert found[1]["holds"] is True
    outcome = quick("solve", model, "--props", props, "--set", "k=8")
    assert "yes: 1" in outcome.stdout
    assert quick("solve", model, "--props", props, "--property", "b", "--set", "k=8").status == 2
    refused = quick("solve", model, "--props", props, "--reach", "goal")
    assert "leave out --reach" in refused.stderr


def test_the_command_prints_bounds_and_answers(tmp_path: Path) -> None:
    model = written(tmp_path, MODEL)
    printed = quick("solve", model, "--property", "likely").stdout
    assert "task        Pmax>=0.9" in printed
    assert "holds       yes" in printed
    assert "certified" in printed
    worst = quick("solve", model, "--reach", "goal", "--avoid", "middle", "--within", "4")
    assert "within 4 steps, avoiding middle" in worst.stdout


def test_an_infinite_value_is_a_text_in_json(tmp_path: Path) -> None:
    text = MODEL.replace("on safe -> 0.5: x' = min(x + 1, 3) | 0.5: stay", "on safe -> stay")
    record = quick(
        "solve", written(tmp_path, text), "--total", "goal", "--reward", "energy", "--json"
    )
    assert record.json()["value"] == record.json()["lower"] == "inf"


def test_the_next_state_is_one_step_away() -> None:
    for number in range(50):
        rng = np.random.default_rng(number)
        graph = tiny_graph(rng)
        goal = rng.random(graph.n_states) < 0.4
        worth = graph.transition_matrix() @ goal.astype(float)
        for is_minimised, best in ((False, max), (True, min)):
            outcome = solve_objective(graph, Next(goal), is_minimised=is_minimised)
            for state in range(graph.n_states):
                pairs = range(graph.pair_start[state], graph.pair_start[state + 1])
                truth = best((worth[p] for p in pairs), default=float(goal[state]))
                assert outcome.lower[state] <= truth <= outcome.upper[state]
                assert outcome.upper[state] - outcome.lower[state] < 1e-12
