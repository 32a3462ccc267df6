"""What robust answers claim: no more than what holds for the policy that they return."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mdpdsl
from mdpdsl.estimate.interval_model import interval_model
from mdpdsl.graph.objectives import Until
from mdpdsl.solve.policy_value import guaranteed_values
from mdpdsl.solve.robust_answer import outward_text
from mdpdsl.solve.solution import SolveStatus
from tests.solve.families import Boxes

CROSSING = """\
mdp crossing
{declared}
state x in 0..3
action a, b
init x = 0
on any when x == 0 -> {often}: x' = 1 | {seldom}: x' = 3
on a when x == 1 -> 0.6: x' = 2 | 0.4: x' = 3
on b when x == 1 -> ?: x' = 2 | ?: x' = 3
end when x >= 2
label goal when x == 2
"""
SHARED = {"declared": "unknown slip in [0, 0.5]", "often": "slip", "seldom": "1 - slip"}
OPEN = {"declared": "", "often": "?", "seldom": "?"}


def robust(given: Any, **asked: Any) -> mdpdsl.RobustSolution:
    found = mdpdsl.solve(given, robust=True, **asked)
    assert isinstance(found, mdpdsl.RobustSolution)
    return found


def steps(rows: list[tuple[int, str, int]]) -> pa.Table:
    """Return a log with an episode for each step."""
    return pa.table(
        {
            "episode": [n for n in range(len(rows)) for _ in range(2)],
            "x": [x for before, _, after in rows for x in (before, after)],
            "action": [each for _, action, _ in rows for each in (action, None)],
        }
    )


@pytest.mark.parametrize("words", [SHARED, OPEN], ids=["number", "open"])
@pytest.mark.parametrize(
    "asked", [{"reach": "goal"}, {"reach": "goal", "within": 4}], ids=["until", "within"]
)
def test_values_are_those_of_the_policy_printed_if_nothing_is_guaranteed(
    words: dict[str, str], asked: dict[str, Any]
) -> None:
    model = mdpdsl.loads(CROSSING.format(**words))
    data = steps([(1, "b", 2)] * 20)
    found = robust(mdpdsl.estimate(model, data), **asked)
    assert found.guaranteed == 0.0 < found.possible
    objective = found.question.objective
    assert isinstance(objective, Until)
    own = guaranteed_values(
        found.model.graph,
        objective,
        found.rows,
        found.outcome,
        1.0,
        tolerance=1e-9,
        floor=1.0,
        watch=lambda iterations, bound: True,
    )
    assert np.all(found.values <= own + 1e-6)


# What the answer says

FITTED = """\
mdp steps
unknown p in [0.1, 0.3]
state x in 0..2
action go, stop
init x = 0
on go -> p: x' = min(x + 1, 2) | 1 - p: x' = 0
on stop -> stay
label goal when x == 2
"""


@pytest.fixture(scope="module")
def fitted() -> mdpdsl.Estimate:
    return mdpdsl.estimate(mdpdsl.loads(FITTED), steps([(0, "go", 1)] * 5 + [(0, "go", 0)] * 15))


def with_numbers(found: mdpdsl.RobustSolution, **changes: Any) -> mdpdsl.RobustSolution:
    assert found.set_model.numbers is not None
    numbers = replace(found.set_model.numbers, **changes)
    return replace(found, set_model=replace(found.set_model, numbers=numbers))


def test_a_set_that_is_not_proved_is_not_called_certain(fitted: mdpdsl.Estimate) -> None:
    found = robust(fitted, reach="goal", within=3)
    assert found.record()["proved"] is True
    assert "without proof" not in found.sentence + found.sets_text
    unproved = with_numbers(found, is_proved=False)
    clause = "the set of p is computed numerically, without proof"
    assert f"But {clause}." in unproved.sentence
    assert unproved.sets_text.endswith(clause)
    assert unproved.record()["proved"] is False


def test_whether_numbers_are_proved_is_read_from_the_estimate(
    fitted: mdpdsl.Estimate, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = fitted.numbers
    assert numbers is not None
    parameters = replace(numbers.parameters, is_proved=False)
    monkeypatch.setitem(vars(fitted), "numbers", replace(numbers, parameters=parameters))
    sets = fitted.as_sets()
    assert sets.numbers is not None
    assert not sets.numbers.is_proved
    clause = "the set of p is computed numerically, without proof"
    assert clause in interval_model(fitted).notes


def test_a_guarantee_is_claimed_for_the_numbers_that_boxes_cover(
    fitted: mdpdsl.Estimate,
) -> None:
    found = robust(fitted, reach="goal", within=3)
    assert "for every p in [0.1" in found.sentence
    boxes = Boxes(np.array([[0.1], [0.25]]), np.array([[0.15], [0.3]]))
    apart = with_numbers(found, boxes=boxes)
    assert "for every p that the data allow (p in [0.10, 0.30])" in apart.sentence


def test_an_empty_set_of_numbers_is_said() -> None:
    data = steps([(0, "go", 2)])
    with pytest.warns(mdpdsl.MdpdslWarning):
        empty = mdpdsl.estimate(mdpdsl.loads(FITTED), data)
    assert empty.numbers is not None
    assert empty.numbers.parameters.is_empty
    found = robust(empty, reach="goal", within=3)
    assert "no values of p fit the data" in found.sentence
    assert found.record()["unfitted"] == ["p"]
    assert found.record()["misfit"] >= 1
    assert found.warning in interval_model(empty).notes


def test_an_infinite_maximum_is_that_of_one_policy(fitted: mdpdsl.Estimate) -> None:
    found = robust(fitted, reach="goal", within=3)
    endless: dict[str, Any] = {"values": np.full(3, np.inf), "value": np.inf}
    sides = replace(found.outcome, **endless), replace(found.best, **endless)
    infinite = replace(found, outcome=sides[0], best=sides[1])
    assert "this policy has an infinite expected reward" in infinite.sentence
    least = replace(infinite, question=replace(found.question, is_minimised=True))
    assert "every policy has an infinite expected reward" in least.sentence


def test_printed_bounds_are_rounded_outwards() -> None:
    assert outward_text(0.12345678, True) == "0.123456"
    assert outward_text(0.12345612, False) == "0.123457"
    assert outward_text(-0.12345612, True) == "-0.123457"
    assert outward_text(0.25, True) == outward_text(0.25, False) == "0.25"
    assert outward_text(0.9999999, True) == "0.999999"
    assert outward_text(123456789.0, False) == "1.23457e+08"
    assert outward_text(np.inf, False) == "inf"
    for value in np.random.default_rng(1).normal(size=200) * 10.0 ** np.arange(-100, 100):
        low, high = (float(outward_text(value, is_lower)) for is_lower in (True, False))
        assert low <= value <= high
        assert high - low <= 1.1e-5 * abs(value)


def test_a_search_that_was_stopped_does_not_blame_the_data(fitted: mdpdsl.Estimate) -> None:
    found = robust(fitted, reach="goal", within=3)
    outcome = replace(found.outcome, value=0.0, status=SolveStatus.STOPPED)
    stopped = replace(found, outcome=outcome)
    assert "stopped before anything was proved" in stopped.sentence
    assert "guarantee nothing yet" not in stopped.sentence
    assert (
        "guarantee nothing yet"
        in replace(found, outcome=replace(outcome, status=found.best.status)).sentence
    )
